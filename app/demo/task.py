"""What the model is about: the request that still counts, the feedback on it, and what came of it so far."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from app.demo.findings import Findings
from app.demo.history import EDIT_TOOLS, Call, History, Turn
from app.demo.intents import Intent, Kind, read_intent
from app.demo.reply import NewCall


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
        """Whether `calls` differ from every earlier attempt."""
        attempt = {_essence(call) for call in calls}
        return all(attempt != earlier for earlier in self._attempts)

    @cached_property
    def _attempts(self) -> list[set[str]]:
        """The edits of the first editing step of each turn."""
        steps = (
            next((step.calls for step in turn.steps if any(call.name in EDIT_TOOLS for call in step.calls)), [])
            for turn in self.thread
        )
        return [{_essence(call) for call in calls if call.name in EDIT_TOOLS} for calls in steps if calls]


def _essence(call: Call | NewCall) -> str:
    """What a call does, without the words that describe it."""
    arguments = {name: value for name, value in call.arguments.items() if name not in ("summary", "version")}
    return json.dumps([call.name, arguments], sort_keys=True)


def current_task(history: History) -> Task:
    """The task to go on with."""
    turns = history.turns
    last = len(turns) - 1
    feedback: list[str] = []
    start = last
    while start > 0 and _continues(turns[start]):
        if turns[start].denied and turns[start].text:
            feedback.insert(0, turns[start].text)
        start -= 1
    thread = turns[start:]
    asked = next((turn for turn in reversed(thread) if turn.answer), None)
    text = thread[0].text
    intent = read_intent(text)
    if asked is not None:
        chosen = read_intent(asked.answer)
        intent = Intent(chosen.kind, chosen.paths or intent.paths, chosen.old, chosen.new)
        text = asked.answer
    return Task(intent, text, tuple(feedback), thread)


def _continues(turn: Turn) -> bool:
    """Whether `turn` goes on with what was asked before: feedback on a denial, a decision, or "continue"."""
    return turn.denied or turn.approved or not turn.text or read_intent(turn.text).kind is Kind.CONTINUE
