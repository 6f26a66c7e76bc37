"""The conversation as the demo model sees it: turns of the user, each with the steps taken since.

The server keeps nothing between requests; all that the model knows is in the request's messages.
"""

import json
import re
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from app.demo.requests import ChatRequest, content_text

_SYSTEM = ("system", "developer")
EDIT_TOOLS = frozenset({"edit_file", "write_file", "delete_file", "rename_file", "apply_patch"})

_STAGED = re.compile(r'"status":\s*"staged"|^\W*staged\b', re.IGNORECASE)
_PROPOSAL = re.compile(r"\bP\d+\b")
_DENIED = re.compile(
    r"^The user (?:denied|rejected)\b|^(?:Proposal )?P\d+ (?:was |is )?(?:denied|rejected)\b", re.IGNORECASE
)
_APPROVED = re.compile(r"^The user approved\b|^(?:Proposal )?P\d+ (?:was |is )?(?:approved|applied)\b", re.IGNORECASE)
_OWN_WORDS = re.compile(r"\b(?:own words|feedback)\b", re.IGNORECASE)
_ASK_FIRST = re.compile(r"\bdo not propose\b.*\bask the user\b", re.IGNORECASE | re.DOTALL)
_VOID = re.compile(
    r"^\W*(?:Aborted|Not run|Refused|No result|The program ended|The user (?:has not|did not) answer)\b",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"\([^()]{1,60}\)")
"""What a client puts between a tool result and the user's words, for servers that insist: "(stopped here)"."""


@dataclass(slots=True)
class Call:
    """A tool call with its result."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str = ""

    @property
    def void(self) -> bool:
        """Whether it never ran, or ended before it had a result."""
        return bool(_VOID.search(self.result))

    @property
    def staged(self) -> bool:
        """Whether this was an edit that the client took."""
        return self.name in EDIT_TOOLS and bool(_STAGED.search(self.result))


@dataclass(slots=True)
class Step:
    """One response: its text and its calls."""

    text: str
    calls: list[Call] = field(default_factory=list)


@dataclass(slots=True)
class Turn:
    """What the user said, what the program said beside it, and the steps that followed."""

    text: str = ""
    notes: list[str] = field(default_factory=list)
    """System messages before the first step."""
    steps: list[Step] = field(default_factory=list)
    later_notes: list[str] = field(default_factory=list)
    """System messages after a step."""

    @property
    def calls(self) -> list[Call]:
        """All calls of the turn, in order."""
        return [call for step in self.steps for call in step.calls]

    @property
    def edits(self) -> list[Call]:
        """The edit calls of the turn, in order."""
        return [call for call in self.calls if call.name in EDIT_TOOLS]

    @property
    def staged(self) -> bool:
        """Whether an edit of this turn became part of a proposal."""
        return any(call.staged for call in self.calls)

    @property
    def denied(self) -> bool:
        """Whether the program's notes at its head say that a proposal was denied."""
        return any(_DENIED.search(note) for note in self.notes)

    @property
    def brings_feedback(self) -> bool:
        """Whether what the user says in it is about a denied proposal, for sure."""
        return self.denied and any(_OWN_WORDS.search(note) for note in self.notes)

    @property
    def told_to_ask(self) -> bool:
        """Whether the program told the model to ask rather than to propose again."""
        return any(_ASK_FIRST.search(note) for note in self.notes)

    @property
    def approved(self) -> bool:
        """Whether they say that a proposal was approved."""
        return not self.denied and any(_APPROVED.search(note) for note in self.notes)

    @property
    def decided_proposals(self) -> list[str]:
        """Ids of the proposals that the notes at its head name, each once."""
        return list(dict.fromkeys(found for note in self.notes for found in _PROPOSAL.findall(note)))

    @property
    def staged_proposals(self) -> list[str]:
        """Ids of the proposals that its edits became, each once."""
        found = (_PROPOSAL.search(call.result) for call in self.calls if call.staged)
        return list(dict.fromkeys(match[0] for match in found if match))

    @property
    def answers(self) -> list[str]:
        """The user's answers to the questions that were asked in this turn."""
        return [call.result for call in self.calls if call.name == "ask_user" and not call.void]

    @property
    def unfinished(self) -> bool:
        """Whether the model was cut off before it had said all."""
        last = self.steps[-1] if self.steps else None
        return last is None or bool(last.calls) or "interrupted" in last.text[-60:]


@dataclass(frozen=True, slots=True)
class History:
    """A whole conversation."""

    turns: tuple[Turn, ...]
    """At least one; the last is the one to go on with."""

    @property
    def current(self) -> Turn:
        """The turn to go on with."""
        return self.turns[-1]


def read_history(request: ChatRequest) -> History:
    """The conversation in `request`, whose messages have passed the check of their order."""
    messages = [{**message, "content": content_text(message.get("content"))} for message in request["messages"]]
    first = next((at for at, message in enumerate(messages) if message["role"] not in _SYSTEM), len(messages))
    turns = [Turn()]
    for position, message in enumerate(messages[first:], start=first):
        turn, text = turns[-1], message["content"]
        match message["role"]:
            case "user":
                if turn.steps:
                    turn = Turn(notes=_taken_notes(turn, messages[:position]))
                    turns.append(turn)
                turn.text = "\n\n".join(filter(None, (turn.text, text)))
            case "system" | "developer":
                if turn.steps and (not turn.steps[-1].calls or is_decision(text)):
                    turns.append(Turn(notes=[text]))
                else:
                    (turn.later_notes if turn.steps else turn.notes).append(text)
            case "assistant" if (calls := message.get("tool_calls")) or not _PLACEHOLDER.fullmatch(text):
                turn.steps.append(Step(text, [_call(call) for call in calls or ()]))
            case "tool":
                next(call for call in turn.steps[-1].calls if call.id == message["tool_call_id"]).result = text
    return History(tuple(turns))


def is_decision(note: str) -> bool:
    """Whether the program tells with `note` what the user decided."""
    return bool(_DENIED.search(note) or _APPROVED.search(note))


def _taken_notes(previous: Turn, before: list[dict[str, Any]]) -> list[str]:
    """The notes directly before a user's message; they belong to the turn that it opens."""
    notes = [message["content"] for message in takewhile(lambda one: one["role"] in _SYSTEM, reversed(before))][::-1]
    if notes:
        del previous.later_notes[-len(notes) :]
    return notes


def _call(call: dict[str, Any]) -> Call:
    return Call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
