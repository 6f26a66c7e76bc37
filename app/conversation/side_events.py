"""Side questions as events: what the user asks about a hunk, and the answer. The model never gets them again.

A thread is what was asked about one hunk of one proposal, in whichever session: the next question there goes out with
those before it. No payload of the session's own conversation has any of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from app.conversation.event_base import Audience, EventBase, Source
from app.llm.types import Usage


class Place(NamedTuple):
    """What a thread is about."""

    proposal: str
    path: str
    hunk: str = ""
    """`Hunk.id`; empty for the file as a whole."""


class SideQuestion(EventBase):
    """The user asked something about a hunk, aside from the conversation."""

    type: Literal["side_question"] = "side_question"
    source: Literal[Source.USER] = Source.USER
    audience: Literal[Audience.USER] = Audience.USER
    uid: str
    """The same in the copy that a fork has."""
    proposal: str
    path: str
    hunk: str = ""
    number: int = 0
    """Of the hunk, as the user knows it; 0 where there is none, or none any more."""
    picked: str = ""
    """The lines that the user picked, with their `+`, `-` or space; empty for all of the hunk."""
    text: str

    @property
    def place(self) -> Place:
        """Its thread."""
        return Place(self.proposal, self.path, self.hunk)

    @property
    def subject(self) -> str:
        """What it is about, in words: `hunk 2 of P7 in a.py`."""
        hunk = f"hunk {self.number} of " if self.number else ""
        return f"{'lines of ' if self.picked else ''}{hunk}{self.proposal} in {self.path}"


class SideAnswer(EventBase):
    """What came of a side question."""

    type: Literal["side_answer"] = "side_answer"
    source: Literal[Source.MODEL] = Source.MODEL
    audience: Literal[Audience.USER] = Audience.USER
    question: str
    """`SideQuestion.uid`."""
    proposal: str
    text: str = ""
    state: Literal["complete", "interrupted", "truncated", "failed"] = "complete"
    note: str = ""
    """A line of the program: what went wrong and how to ask again, or what was ignored."""
    usage: Usage | None = None
    model: str = ""
    duration: float = 0.0
    """Seconds from the request to the end of the stream."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question with its answer, as far as there is one."""

    question: SideQuestion
    answer: SideAnswer | None = None

    @property
    def answered(self) -> str:
        """What the model said; empty if nothing."""
        return self.answer.text.strip() if self.answer is not None else ""


def place_of(events: Iterable[EventBase], number: int) -> Place | None:
    """What the side question or its answer with this id is about; None where the id is another event's."""
    places: dict[str, Place] = {}
    for event in events:
        match event:
            case SideQuestion():
                places[event.uid] = event.place
                if event.id == number:
                    return event.place
            case SideAnswer() if event.id == number:
                return places.get(event.question)
    return None


def exchanges(events: Iterable[EventBase]) -> tuple[Exchange, ...]:
    """The side questions among events with their answers, in the order in which they were asked, each once."""
    asked: dict[str, Exchange] = {}
    for event in events:
        match event:
            case SideQuestion() if event.uid not in asked:
                asked[event.uid] = Exchange(event)
            case SideAnswer() if event.question in asked and asked[event.question].answer is None:
                asked[event.question] = Exchange(asked[event.question].question, event)
    return tuple(asked.values())
