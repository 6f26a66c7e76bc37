"""What the model is about: the request that still counts, the feedback on it, and what came of it so far."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    start = len(turns) - 1
    while start > 0 and _continues(turns[start]):
        start -= 1
    thread = turns[start:]
    text, intent = thread[0].text, read_intent(thread[0].text)
    feedback: list[str] = []
    for turn in thread:
        if turn.denied and turn.text and turn is not thread[0]:
            feedback.append(turn.text)
        for answer in turn.answers:
            chosen = read_intent(answer)
            if intent.kind is Kind.VAGUE:
                # The answer says what the vague request meant; what it was about still stands.
                text, intent = answer, replace(chosen, paths=chosen.paths or intent.paths)
            else:
                feedback.append(answer)
    return Task(intent, text, tuple(feedback), thread)


def _continues(turn: Turn) -> bool:
    """Whether `turn` goes on with what was asked before: feedback on a denial, a decision alone, or "continue"."""
    if not turn.text or turn.brings_feedback:
        return True
    kind = read_intent(turn.text).kind
    return kind is Kind.CONTINUE or (turn.denied and kind is Kind.SEARCH)
