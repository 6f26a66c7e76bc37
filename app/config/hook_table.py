"""The `[[hook]]` tables of the configuration: commands that are told of events.

Kept apart: the configuration parses it, and what runs hooks takes it.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

HookEventName = Literal["staged", "decided", "turn_ended", "question"]


class Hook(BaseModel):
    """One command, and what it is told of."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    on: HookEventName
    """A proposal was staged, whoever made it; the user decided; control is back with the user; the model asks."""
    run: str = Field(min_length=1)
    """For `sh`, in the workspace; the event is on its standard input, as one JSON document."""
    seconds: float = Field(default=30, gt=0, le=600)
    """Its time limit."""
