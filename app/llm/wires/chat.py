"""The chat completions protocol: one list of messages; the profile decides where each item goes."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload
from app.llm.wires.wire import (
    OPAQUE_BLOCKS,
    CallWithResult,
    Item,
    ModelTurn,
    OpaqueResponseBlocks,
    ResponseToChatDecoder,
    SystemItem,
    UserItem,
    Wire,
    WireMessages,
    make_tool_fields,
)

_OWN_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", OPAQUE_BLOCKS})
"""Fields that extra fields of a response must not overwrite, or that belong to another wire."""

SIGNATURE_PLACEHOLDER = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
"""Google's documented placeholder for the signature of a call that Gemini did not make."""


class ChatWire(Wire):
    """The chat completions API, which most servers implement with small differences."""

    name = "chat"
    title = "chat completions"

    def make_writer(self, profile: EndpointProfile) -> "_ChatWriter":
        return _ChatWriter(profile, [])

    def make_body(self, model: str, profile: EndpointProfile, payload: Payload) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": model, "messages": payload.messages, "stream": True}
        if profile.stream_usage:
            fields["stream_options"] = {"include_usage": True}
        if payload.max_tokens is not None:
            fields[profile.max_tokens_field] = payload.max_tokens
        return fields | make_tool_fields(profile, payload, payload.tools)

    def make_effort_fields(self, effort: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"reasoning_effort": effort}

    def request_path(self, base_url: str, resource: Literal["answer", "models"] = "answer") -> str:
        return "/models" if resource == "models" else "/chat/completions"

    def make_decoder(self) -> ResponseToChatDecoder:
        return _ChatDecoder()


class _ChatWriter(Struct):
    profile: EndpointProfile
    messages: list[dict[str, Any]]

    def add(self, item: Item) -> None:
        profile = self.profile
        match item:
            case SystemItem():
                self.messages.append(self._make_system_message(item))
            case UserItem():
                self.messages.append({"role": "user", "content": _make_user_content(item)})
            case ModelTurn(calls=()):
                echo = _make_echo_fields(item.echo, profile, calls=False)
                self.messages.append({"role": "assistant", "content": item.text, **echo})
            case ModelTurn():
                self.messages.append(_make_call_message(item, profile))
                self.messages += [_make_result(call, profile) for call in item.calls]

    def fork(self) -> "_ChatWriter":
        return _ChatWriter(self.profile, [*self.messages])

    def finish(self, first: SystemItem | None = None) -> WireMessages:
        return WireMessages([self._make_system_message(first), *self.messages] if first else self.messages)

    def _make_system_message(self, item: SystemItem) -> dict[str, Any]:
        return {"role": "developer" if self.profile.developer_role else "system", "content": item.full_text()}


class _ChatDecoder:
    def read_event(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        return event

    def read_document(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return document


def _make_user_content(item: UserItem) -> str | list[dict[str, Any]]:
    """Return a text without images as a string: many servers accept nothing else."""
    if not item.attachments:
        return item.text
    images = [{"type": "image_url", "image_url": {"url": image.data_url}} for image in item.attachments]
    return [*images, *([{"type": "text", "text": item.text}] if item.text else [])]


def _make_call_message(turn: ModelTurn, profile: EndpointProfile) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    text = turn.text if profile.text_beside_calls else ""
    if text or profile.empty_content == "empty":
        message["content"] = text
    elif profile.empty_content == "null":
        message["content"] = None
    message |= _make_echo_fields(turn.echo, profile, calls=True)
    foreign_extras = SIGNATURE_PLACEHOLDER if profile.placeholder_signatures else {}
    message["tool_calls"] = [
        {
            **((call.extras if turn.echo.same_model else foreign_extras) if profile.call_extras_echo else {}),
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in turn.calls
    ]
    return message


def _make_result(call: CallWithResult, profile: EndpointProfile) -> dict[str, Any]:
    message = {"role": "tool", "tool_call_id": call.id, "content": call.result}
    if profile.tool_name_on_result:
        message["name"] = call.name
    return message


def _make_echo_fields(echo: OpaqueResponseBlocks, profile: EndpointProfile, *, calls: bool) -> dict[str, Any]:
    """Return the fields for reasoning that the endpoint expects back."""
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
