"""Chat completions: one list of messages, in which the profile says what goes where."""

from collections.abc import Sequence
from typing import Any

from app.llm.capabilities.profile import Profile
from app.llm.wires.items import OPAQUE_BLOCKS, CallWithResult, Echo, Item, ModelTurn, SystemText, UserText

_OWN_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", OPAQUE_BLOCKS})
"""What no extra field of a response may overwrite, or that is another wire's."""


def messages(items: Sequence[Item], profile: Profile) -> list[dict[str, Any]]:
    """The value of `messages`."""
    written: list[dict[str, Any]] = []
    for item in items:
        match item:
            case SystemText():
                role = "developer" if profile.developer_role else "system"
                written.append({"role": role, "content": item.whole()})
            case UserText(text=text):
                written.append({"role": "user", "content": text})
            case ModelTurn(calls=()):
                echo = _echoed(item.echo, profile, calls=False)
                written.append({"role": "assistant", "content": item.text, **echo})
            case ModelTurn():
                written.append(_with_calls(item, profile))
                written += [_result(call, profile) for call in item.calls]
    return written


def _with_calls(turn: ModelTurn, profile: Profile) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    if turn.text or profile.empty_content == "empty":
        message["content"] = turn.text
    elif profile.empty_content == "null":
        message["content"] = None
    message |= _echoed(turn.echo, profile, calls=True)
    with_extras = profile.call_extras_echo and turn.echo.same_model
    message["tool_calls"] = [
        {
            **(call.extras if with_extras else {}),
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in turn.calls
    ]
    return message


def _result(call: CallWithResult, profile: Profile) -> dict[str, Any]:
    message = {"role": "tool", "tool_call_id": call.id, "content": call.result}
    if profile.tool_name_on_result:
        message["name"] = call.name
    return message


def _echoed(echo: Echo, profile: Profile, *, calls: bool) -> dict[str, Any]:
    """Reasoning as the endpoint wants it back."""
    if profile.reasoning_echo == "never":
        return {}
    extras = echo.extras if echo.same_model else {}
    echoed = {key: value for key, value in extras.items() if key not in _OWN_FIELDS}
    if profile.reasoning_echo == "required_on_calls":
        if calls:
            echoed["reasoning_content"] = echo.reasoning if echo.same_model else ""
    elif echo.same_model and echo.reasoning and not echoed:
        echoed["reasoning_content"] = echo.reasoning
    return echoed
