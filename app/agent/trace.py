"""Trace of the program's decisions in a turn and of request timings.

The ladder's moves are events in the log. `--debug FILE` writes them as JSON lines, in the order of the log.
"""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import fields

from app.agent.ladder import (
    ChosenNextAction,
    CompactContext,
    EndTurn,
    NextActionInputs,
    RunToolCalls,
    SendClosingRequest,
    SendRequest,
    WaitForAnswer,
)
from app.agent.updates import ChatTemplateCheckFinished, EventRecorded, PhaseChanged, SessionPhase, Update
from app.conversation.events import (
    AssistantMessage,
    ContentPruned,
    Event,
    HistoryCompacted,
    NextActionChosen,
    RequestFailed,
    RequestSent,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

_MAX_NAME_CHARACTERS = 40
"""Maximum number of characters of a finish reason (chosen by the server) or a tool name (chosen by the model)."""


def make_next_action_event(state: NextActionInputs, move: ChosenNextAction) -> NextActionChosen:
    """Return the log event that records a decision of the ladder and the state on which it is based."""
    match move.action:
        case EndTurn(stopped=stopped):
            move_text = f"stop: {stopped}"
        case WaitForAnswer():
            move_text = "wait for the user"
        case SendClosingRequest(kind=kind):
            move_text = f"closing request: {kind}"
        case CompactContext():
            move_text = "make room"
        case RunToolCalls():
            move_text = "run calls"
        case SendRequest(nudge=nudge):
            move_text = f"request: {nudge}" if nudge else "request"
    facts = {
        field.name: value[:_MAX_NAME_CHARACTERS] if isinstance(value, str) else value
        for field in fields(state)
        if not field.name.endswith("_message") and (value := getattr(state, field.name))
    }
    return NextActionChosen(rung=move.rung, move=move_text, facts=facts)


class TraceFileWriter:
    """Subscriber that writes a session's ladder moves, requests, calls and timings as JSON lines, without texts."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._names: dict[str, str] = {}
        """Names of the called tools by call uid."""
        self._sent_at = 0.0
        self._first_piece_seen = False

    def __call__(self, update: Update) -> None:
        match update:
            case EventRecorded(event=RequestSent()):
                self._sent_at, self._first_piece_seen = time.monotonic(), False
            case PhaseChanged(phase=SessionPhase.STREAMING) if not self._first_piece_seen:
                self._first_piece_seen = True
                self._write("first_piece", time.time(), {"after": round(time.monotonic() - self._sent_at, 3)})
            case PhaseChanged(phase=SessionPhase.RETRYING, until=until):
                self._write("retry", time.time(), {"in": round(max(0.0, until - time.monotonic()), 3)})
            case ChatTemplateCheckFinished():
                self._write("template", time.time(), {"server": update.server, "mid_system": update.placement})
        if isinstance(update, EventRecorded) and (facts := self._facts(update.event)) is not None:
            self._write(update.event.type, update.event.time, facts)

    def close(self) -> None:
        """Write all buffered lines and close the file."""
        with suppress(OSError):
            self._file.close()

    def _facts(self, event: Event) -> dict[str, Any] | None:
        """Return the facts of an event without any text of the conversation; None if the event is not traced."""
        match event:
            case NextActionChosen():
                return {"rung": event.rung, "move": event.move, "facts": event.facts}
            case AssistantMessage():
                self._names = {call.uid: call.name[:_MAX_NAME_CHARACTERS] for call in event.calls}
                return {
                    "state": event.state,
                    "finish_reason": (event.finish_reason or "")[:_MAX_NAME_CHARACTERS],
                    "calls": list(self._names.values()),
                    "duration": round(event.duration, 3),
                    "usage": event.usage and event.usage.model_dump(exclude_defaults=True),
                }
            case ToolStarted(call=call):
                return {"call": call, "tool": self._names.get(call, "")}
            case ToolResult(call=call):
                timing = {"duration": round(event.duration, 3), "waited": round(event.waited, 3)}
                return {"call": call, "tool": self._names.get(call, ""), "outcome": event.outcome, **timing}
        if (names := _TRACED_FIELDS.get(type(event))) is None:
            return None
        return {name: getattr(event, name) for name in names}

    def _write(self, kind: str, at: float, facts: dict[str, Any]) -> None:
        # Ignore errors such as a full disk: tracing must not stop the session.
        with suppress(OSError, ValueError):
            self._file.write(json.dumps({"time": round(at, 3), "type": kind, **facts}) + "\n")


_TRACED_FIELDS: dict[type[Event], tuple[str, ...]] = {
    RequestSent: ("closing", "messages", "estimated_tokens"),
    RequestFailed: ("kind",),
    TurnStarted: ("cause",),
    TurnEnded: ("stopped",),
    HistoryCompacted: ("method", "tokens_before", "tokens_after"),
    ContentPruned: ("tokens_before", "tokens_after"),
}
"""Fields that are written for the other event types."""
