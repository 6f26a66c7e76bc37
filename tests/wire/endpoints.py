"""Ten kinds of endpoint that the gate has to survive, as the test server plays them.

A `Behaviour` stands between the scripted model and the wire: `validators` may refuse a request, `instead` replaces
the answer to every closing request, and `shape` turns what the model would say into what this endpoint lets out.
A model on an obedient endpoint says `STAGED` where it was going to call a tool under `tool_choice: "none"`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.copies import replace
from tests.oracles.reading import forbids_calls
from tests.wire.replies import CUT, STALL, Reply, Turn, chunk, error, stream
from tests.wire.strict import no_tool_choice, system_first

STAGED = "I have staged the edit; please review it."


def obedient(turn: Turn, body: dict[str, Any]) -> Turn:
    """Under "none", and without tools, no call goes out."""
    if turn.calls and (forbids_calls(body) or not body.get("tools")):
        return replace(turn, calls=(), text=turn.text or STAGED)
    return turn


def disobedient(turn: Turn, body: dict[str, Any]) -> Turn:
    """`tool_choice` is not looked at; without tools there is nothing to call."""
    return turn if body.get("tools") else obedient(turn, body)


def leaking(turn: Turn, body: dict[str, Any]) -> Turn:
    """Under "none" the call is not parsed by the server and comes out as text."""
    if not turn.calls or not forbids_calls(body):
        return turn
    leaked = "".join(
        f"<tool_call>\n{json.dumps({'name': call.name, 'arguments': call.arguments})}\n</tool_call>"
        for call in turn.calls
    )
    return replace(turn, calls=(), text=turn.text + leaked)


def failing(turn: Turn, body: dict[str, Any]) -> Turn | Reply:
    """Under "none" a call is an error of the server's own (Groq)."""
    if turn.calls and forbids_calls(body):
        return error(400, "Tool choice is none, but model called a tool", code="tool_use_failed")
    return turn


@dataclass(frozen=True)
class Behaviour:
    name: str
    shape: Callable[[Turn, dict[str, Any]], Turn | Reply] = obedient
    validators: tuple[Callable[[dict[str, Any]], Reply | None], ...] = ()
    instead: Reply | None = None
    """What every request with `tool_choice: "none"` gets."""


OBEYS = Behaviour("obeys")
IGNORES_TOOL_CHOICE = Behaviour("ignores tool_choice", disobedient)
REJECTS_TOOL_CHOICE = Behaviour("rejects tool_choice", disobedient, (no_tool_choice,))
REJECTS_MID_SYSTEM_400 = Behaviour("rejects mid system with 400", validators=(system_first(400),))
REJECTS_MID_SYSTEM_500 = Behaviour("rejects mid system with 500", validators=(system_first(500),))
HOISTS = Behaviour("hoists system messages")
"""The system messages reach the model, but at the front; to the wire it looks like `OBEYS`, and a model function
can call `hoisted(request.messages)` to see what the model sees."""
LEAKS_CALLS = Behaviour("leaks calls as text", leaking)
CLOSING_429 = Behaviour("fails the closing request with 429", instead=error(429, "Rate limit reached", code="429"))
CLOSING_CUT = Behaviour("cuts the closing stream", instead=stream(chunk("I have st"), CUT))
CLOSING_SILENT = Behaviour("is silent on the closing request", instead=stream(STALL))

FAILS_CALLS = Behaviour("fails on calls under none", failing)

ENDPOINTS = (
    OBEYS,
    IGNORES_TOOL_CHOICE,
    REJECTS_TOOL_CHOICE,
    REJECTS_MID_SYSTEM_400,
    REJECTS_MID_SYSTEM_500,
    HOISTS,
    LEAKS_CALLS,
    CLOSING_429,
    CLOSING_CUT,
    CLOSING_SILENT,
)


def hoisted(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages as a server sees them that joins all system messages at the front."""
    system = [message for message in messages if message["role"] in ("system", "developer")]
    rest = [message for message in messages if message["role"] not in ("system", "developer")]
    return [{"role": "system", "content": "\n\n".join(str(message["content"]) for message in system)}, *rest]
