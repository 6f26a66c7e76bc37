"""What the model is about: what the user asked for, the feedback on it, and what came of it so far."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from app.demo.conversation import EDIT_TOOLS, Call, Turn
from app.demo.findings import Findings
from app.demo.words import PATH, WORDS, NewCall

_NAME = r"[`'\"“‘]?(?P<{}>[\w./@-]*\w)[`'\"”’]?(?:\(\))?"
_RENAME = re.compile(
    r"\b(?:rename|move)\s+(?:the\s+)?(?:(?:function|class|constant|variable|method|module|file|name)\s+)?"
    rf"{_NAME.format('old')}\s+(?:to|into|as|->|→)\s+{_NAME.format('new')}",
    re.IGNORECASE,
)
_DELETE = re.compile(rf"\b(?:delete|remove)\s+(?:the\s+)?(?:file\s+)?{_NAME.format('path')}", re.IGNORECASE)
_KINDS = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in WORDS["intents"].items()}


@dataclass(frozen=True, slots=True)
class Intent:
    """A skill and what to use it on."""

    kind: str
    """A key of `intents` in words.toml, or "rename", "move", "delete"; "search" where no other fits."""
    paths: tuple[str, ...] = ()
    """Files that the request names."""
    old: str = ""
    new: str = ""
    """For a rename or a move: from what to what."""


def read_intent(text: str) -> Intent:
    """The skill that `text` asks for."""
    paths = tuple(dict.fromkeys(PATH.findall(text)))
    if renamed := _RENAME.search(text):
        kind = "move" if PATH.fullmatch(renamed["old"]) else "rename"
        return Intent(kind, paths, renamed["old"], renamed["new"])
    if (deleted := _DELETE.search(text)) and PATH.fullmatch(deleted["path"]):
        return Intent("delete", (deleted["path"],))
    return Intent(next((kind for kind, pattern in _KINDS.items() if pattern.search(text)), "search"), paths)


@dataclass(frozen=True)
class Task:
    """A request of the user with everything that has happened since, ready for a skill to take its next step."""

    intent: Intent
    text: str
    """The request in the user's words."""
    feedback: tuple[str, ...]
    """What the user said on each denied attempt, oldest first."""
    thread: tuple[Turn, ...]
    """The turns since the request; the last is the current one."""

    @property
    def turn(self) -> Turn:
        """The current turn."""
        return self.thread[-1]

    @cached_property
    def findings(self) -> Findings:
        """What was read in this turn; files may have changed since earlier ones."""
        return Findings(self.turn.calls)

    @cached_property
    def earlier_findings(self) -> Findings:
        """What was read since the request was made."""
        return Findings(call for turn in self.thread for call in turn.calls)

    @property
    def listed(self) -> list[str] | None:
        """The files of the workspace, if they have been listed since the request was made."""
        return self.earlier_findings.paths

    def is_new(self, calls: Sequence[NewCall]) -> bool:
        """Whether `calls` differ from what the first editing step of every turn proposed."""
        steps = ([_edits(step.calls) for step in turn.steps] for turn in self.thread)
        return _edits(calls) not in [next(filter(None, edits), set()) for edits in steps]


def _edits(calls: Sequence[Call | NewCall]) -> set[str]:
    """What the edits among `calls` do, without the words that describe it."""
    edits = [
        (call.name, {**call.arguments, "summary": "", "version": ""}) for call in calls if call.name in EDIT_TOOLS
    ]
    return {json.dumps(edit, sort_keys=True) for edit in edits}


def current_task(turns: Sequence[Turn]) -> Task:
    """The task to go on with."""
    start = len(turns) - 1
    while start > 0 and _continues(turns[start]):
        start -= 1
    thread = tuple(turns[start:])
    text, intent = thread[0].text, read_intent(thread[0].text)
    feedback: list[str] = []
    for turn in thread:
        if turn.told("denied") and turn.text and turn is not thread[0]:
            feedback.append(turn.text)
        for answer in turn.answers:
            if intent.kind == "vague":
                # The answer says what the vague request meant; what it was about still stands.
                chosen = read_intent(answer)
                text, intent = answer, replace(chosen, paths=chosen.paths or intent.paths)
            else:
                feedback.append(answer)
    return Task(intent, text, tuple(feedback), thread)


def _continues(turn: Turn) -> bool:
    """Whether `turn` goes on with what was asked before: feedback on a denial, a decision alone, or "continue"."""
    kind, denied = read_intent(turn.text).kind, turn.told("denied")
    return not turn.text or kind == "continue" or (denied and (kind == "search" or turn.told("own_words")))
