"""The conversation as the demo model sees it: turns of the user, each with the steps taken since.

The server keeps nothing between requests; all that the model knows is in the request's messages.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Any

from app.demo.words import WORDS

_SYSTEM = ("system", "developer")
EDIT_TOOLS = frozenset({"edit_file", "write_file", "delete_file", "rename_file", "apply_patch"})

_STAGED = re.compile(r'"status":\s*"staged"|^\W*staged\b', re.IGNORECASE)
_PROPOSAL = re.compile(r"\bP\d+\b")
_VOID = re.compile(
    r"^\W*(?:Aborted|Not run|Refused|No result|The program ended|The user (?:has not|did not) answer)\b",
    re.IGNORECASE,
)
_NOTES = {fact: re.compile(pattern, re.IGNORECASE | re.DOTALL) for fact, pattern in WORDS["notes"].items()}
_PLACEHOLDER = re.compile(r"\([^()]{1,60}\)")
"""What a client puts between a tool result and the user's words, for servers that insist: "(stopped here)"."""


@dataclass(slots=True)
class Call:
    """A tool call with its result."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str = ""
    """Empty if it never ran, or ended before it had one."""

    @property
    def staged(self) -> bool:
        """Whether this was an edit that the client took."""
        return self.name in EDIT_TOOLS and bool(_STAGED.search(self.result))


@dataclass(slots=True)
class Step:
    """One response: its text and its calls."""

    text: str
    calls: list[Call]


@dataclass(slots=True)
class Turn:
    """What the user said, what the program said just before, and the steps that followed."""

    text: str = ""
    notes: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    images: int = 0
    """How many came with what the user said."""

    @property
    def calls(self) -> list[Call]:
        """All calls of the turn, in order."""
        return [call for step in self.steps for call in step.calls]

    @property
    def edits(self) -> list[Call]:
        """The edit calls of the turn, in order."""
        return [call for call in self.calls if call.name in EDIT_TOOLS]

    @property
    def staged(self) -> list[Call]:
        """The edits of this turn that became part of a proposal."""
        return [call for call in self.calls if call.staged]

    def told(self, fact: str) -> bool:
        """Whether one of the notes tells this: a key of `notes` in words.toml."""
        return any(_NOTES[fact].search(note) for note in self.notes)

    @property
    def answers(self) -> list[str]:
        """The user's answers to the questions that were asked in this turn."""
        return [call.result for call in self.calls if call.name == "ask_user" and call.result]


def read_history(messages: Sequence[dict[str, Any]]) -> tuple[Turn, ...]:
    """The turns of a conversation, at least one; the last is the one to go on with.

    Raises LookupError, TypeError or ValueError if the messages are not in the form of the Chat Completions API.
    """
    turns, notes, calls = [Turn()], list[str](), dict[str, Call]()
    for message in dropwhile(lambda one: one["role"] in _SYSTEM, messages):
        text = content_text(message.get("content"))
        match message["role"]:
            case "system" | "developer":
                notes.append(text)
            case "user" if turns[-1].calls and notes and _NOTES["call_denied"].search(notes[-1]):
                # Said of a call, while the turn goes on.
                turns[-1].calls[-1].result += f"\n\n{text}"
                notes.clear()
            case "user":
                turn = _with_notes(turns, notes, by_user=True)
                turn.text = "\n\n".join(filter(None, (turn.text, text)))
                turn.images += _count_images(message.get("content"))
            case "assistant" if (made := message.get("tool_calls")) or not _PLACEHOLDER.fullmatch(text):
                step = Step(text, [_call(call) for call in made or ()])
                calls.update((call.id, call) for call in step.calls)
                _with_notes(turns, notes).steps.append(step)
            case "tool":
                calls[message["tool_call_id"]].result = "" if _VOID.search(text) else text
    _with_notes(turns, notes)
    return tuple(turns)


def _with_notes(turns: list[Turn], notes: list[str], *, by_user: bool = False) -> Turn:
    """The turn that goes on behind `notes`: the last one, or a new one that they, or the user, open."""
    turn = turns[-1]
    if turn.steps and (by_user or any(map(is_decision, notes)) or (notes and not turn.steps[-1].calls)):
        turns.append(turn := Turn())
    if not turn.steps:
        turn.notes += notes
    notes.clear()
    return turn


def content_text(content: Any) -> str:
    """The text of a message's content, its parts joined."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part["text"] for part in content if part["type"] != "image_url")


def _count_images(content: Any) -> int:
    return sum(part["type"] == "image_url" for part in content) if isinstance(content, list) else 0


def is_decision(note: str) -> bool:
    """Whether the program tells with `note` what the user decided."""
    return bool(_NOTES["denied"].search(note) or _NOTES["approved"].search(note))


def proposals_named(texts: Sequence[str]) -> list[str]:
    """Ids of the proposals that `texts` name, each once."""
    return list(dict.fromkeys(found for text in texts for found in _PROPOSAL.findall(text)))


def _call(call: dict[str, Any]) -> Call:
    arguments = json.loads(call["function"]["arguments"])
    if not isinstance(arguments, dict):
        raise ValueError("The arguments of a tool call must be a JSON object, as text.")
    return Call(call["id"], call["function"]["name"], arguments)
