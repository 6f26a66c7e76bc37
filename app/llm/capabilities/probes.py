"""The tiny requests of an examination."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from app.llm.capabilities.profile import Profile
from app.llm.client import ModelClient
from app.llm.failures.errors import RequestError
from app.llm.types import Completed, Payload, TextDelta
from app.llm.wires.items import CallWithResult, Echo, Item, ModelTurn, SystemText, UserText
from app.llm.wires.marking import tagged
from app.llm.wires.registry import wire_of

_ANSWER_TOKENS = 256
"""Enough for a model that reasons before it says one word."""
WORD = "heron"
"""What a model says that has read `SAY_IT`."""
CALL_IT = "Call the tool `report` with the word 'ok'. Do not answer with text, only call the tool."
"""Tempts a model to call a tool."""
SAY_IT = f"From now on, answer every message with the single word {WORD} and nothing else."
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "report",
        "description": "Reports a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}
_FIRST = "You are taking part in a short technical check. Follow instructions exactly."


@dataclass(slots=True)
class Answer:
    """What one probe came to."""

    completed: Completed | None = None
    failed: RequestError | None = None
    pieces: int = 0

    @property
    def text(self) -> str:
        """What the model said."""
        return self.completed.text if self.completed else ""

    @property
    def called(self) -> bool:
        """It called a tool."""
        return bool(self.completed and self.completed.calls)


async def ask(client: ModelClient, build: Callable[[Profile], Payload]) -> Answer:
    """Make one request; a failure is part of the answer."""
    answer = Answer()
    try:
        async with aclosing(client.stream(build)) as updates:
            async for update in updates:
                match update:
                    case TextDelta():
                        answer.pieces += 1
                    case Completed():
                        answer.completed = update
    except RequestError as failed:
        answer.failed = failed
    return answer


def request(profile: Profile, text: str, *, tools: bool = False, none: bool = False) -> Payload:
    """One user message, with or without a tool to call, and with or without leave to call it."""
    items = _opened(profile, _FIRST, text)
    return _payload(profile, items, [_TOOL] if tools else [], none=none)


def after_a_call(profile: Profile, instruction: str) -> Payload:
    """A tool exchange, and after it an instruction where the profile wants it."""
    call = CallWithResult(
        id="abcdef123" if profile.tool_id == "alnum9" else "call_1",
        name="report",
        arguments='{"word": "ok"}',
        result="reported",
        # Google's documented stand-in for the signature of a call that Gemini did not make.
        extras={"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}},
    )
    told = "Report the word ok."
    exchange: list[Item] = [ModelTurn("ok"), UserText(told)]
    if profile.tools_supported:
        exchange = [ModelTurn("", (call,), Echo(same_model=True))]
    match profile.mid_system:
        case "inline":
            items = [*_opened(profile, _FIRST, told), *exchange, SystemText(instruction)]
        case "fold_first":
            items = [*_opened(profile, f"{_FIRST}\n\n{instruction}", told), *exchange]
        case _:
            items = [*_opened(profile, _FIRST, told), *exchange, ModelTurn("Done."), UserText(tagged(instruction))]
    return _payload(profile, items, [_TOOL] if profile.tools_supported else [], none=True)


def _opened(profile: Profile, system: str, user: str) -> list[Item]:
    if profile.mid_system == "fold_user":
        return [UserText(f"<system>{system}</system>\n\n{user}")]
    return [SystemText(system), UserText(user)]


def _payload(profile: Profile, items: list[Item], tools: list[dict[str, Any]], *, none: bool) -> Payload:
    wire = wire_of(profile)
    messages, system = wire.written(items, wire.fitted(profile))
    return Payload(messages, tools, "none" if none and tools else None, _ANSWER_TOKENS, system)
