"""What all events of a session's log have: who said or did something, and who gets to know it."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Source(StrEnum):
    """Who said or did what an event records."""

    USER = "user"
    MODEL = "model"
    TOOL = "tool"
    PROGRAM = "program"


class Audience(StrEnum):
    """Who gets to know it: only a text that is for both goes into payloads."""

    USER = "user"
    BOTH = "both"
    """The user and the model."""
    NOBODY = "nobody"
    """It is in the log for whoever looks there: no payload and no transcript has it."""


class Record(BaseModel):
    """A frozen value inside an event; unknown fields are an error, so that a newer log is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class EventBase(Record):
    """What all events have."""

    id: int = 0
    """Position in the store, growing; 0 until the store has taken the event."""
    time: float = 0.0
    """Unix time in seconds; 0 until the store has taken the event."""
    source: Source
    audience: Audience

    @property
    def way(self) -> str:
        """From whom to whom, for the user's eyes: `signoff → model`. What goes to both is not said of the user."""
        return f"{_NAMES.get(self.source, self.source)} → {_NAMES.get(self.audience, self.audience)}"


_NAMES = {Source.PROGRAM: "signoff", Audience.USER: "you", Audience.BOTH: "model"}
