"""OpenAI's Responses, https://developers.openai.com/api/reference/resources/responses, without state on the server.

The server stores nothing, so each request contains everything, including the encrypted reasoning from the server.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload
from app.llm.wires.wire import (
    AttachedImage,
    CallWithResult,
    Item,
    ModelTurn,
    OpaqueBlockDeltaBuilder,
    ResponseToChatDecoder,
    SystemItem,
    UserItem,
    Wire,
    WireMessages,
    list_or_empty,
    make_call_delta,
    make_chat_chunk,
    make_tool_fields,
    make_usage,
    mapping_or_empty,
    parse_token_count,
)

_FINISH_REASONS = {"max_output_tokens": "length", "max_tokens": "length"}
"""Reasons for an incomplete response, mapped to the names of chat completions; others keep their names."""


class ResponsesApiToChatDecoder:
    """Decodes one response of the Responses API to chat completion chunks; data sent twice is skipped."""

    def __init__(self) -> None:
        self._opaque = OpaqueBlockDeltaBuilder("responses")
        self._text_places: set[Any] = set()
        """Output indexes of the messages whose text was received."""
        self._calls: list[_OpenedCall] = []

    def read_event(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the chunk of one event."""
        place = event.get("output_index")
        place = place if isinstance(place, int) else None
        match event.get("type"):
            case str() as kind if kind.startswith("response.function_call_arguments."):
                return make_chat_chunk(self._make_arguments_delta(place, event))
            case str() as kind if kind.endswith(".delta"):
                return self._make_delta_chunk(kind, place, event.get("delta"))
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return make_chat_chunk({"reasoning_content": "\n\n"})
            case "response.output_item.added" if mapping_or_empty(event.get("item")).get("type") == "function_call":
                return make_chat_chunk(self._open_call(place, event["item"]))
            case "response.output_item.done":
                return make_chat_chunk(self._make_item_delta(place, mapping_or_empty(event.get("item"))))
            case "response.created":
                return make_chat_chunk(model=mapping_or_empty(event.get("response")).get("model"))
            case "response.completed" | "response.incomplete" | "response.failed":
                return self._make_last_chunk(mapping_or_empty(event.get("response")))
        return self.read_document(event)

    def read_document(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the chunk of a response that was not streamed."""
        if document.get("object") == "response" and "output" in document:
            return self._make_last_chunk(document)
        if document.get("type") == "error":
            return {"error": document.get("error") or dict(document)}
        # An unknown event; or not an event of this protocol, for example another error format.
        return {} if "type" in document else document

    def _make_delta_chunk(self, kind: str, place: Any, piece: Any) -> dict[str, Any]:
        if not isinstance(piece, str) or not piece:
            return {}
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                return make_chat_chunk(self._make_text_delta(place, piece))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return make_chat_chunk({"reasoning_content": piece})
        return {}

    def _make_text_delta(self, place: Any, text: str) -> dict[str, Any]:
        is_next_message = bool(self._text_places) and place not in self._text_places
        self._text_places.add(place)
        self._opaque.note_text()
        return {"content": f"\n\n{text}" if is_next_message else text}

    def _open_call(self, place: Any, item: Mapping[str, Any]) -> dict[str, Any]:
        call = _OpenedCall(len(self._calls), place, str(item.get("call_id") or ""), str(item.get("id") or ""))
        self._calls.append(call)
        self._opaque.note_call()
        name = str(item.get("name") or "")
        return make_call_delta(call.number, call_id=call.call_id or call.item_id, name=name)

    def _find_call(self, place: Any, call_id: Any, item_id: Any) -> "_OpenedCall | None":
        """Return the latest call that this may be about: some servers send no output index (llama.cpp) or the same
        for all calls, others another item id with each event."""
        ids = {str(one) for one in (call_id, item_id) if one}
        for call in reversed(self._calls):
            if place is None:
                found = not ids or not ids.isdisjoint((call.call_id, call.item_id))
            else:
                found = place == call.place and (not call_id or call.call_id in ("", str(call_id)))
            if found:
                return call
        return None

    def _make_arguments_delta(self, place: Any, event: Mapping[str, Any]) -> dict[str, Any]:
        call = self._find_call(place, None, event.get("item_id"))
        piece = event.get("delta")
        if call is None or not isinstance(piece, str) or not piece:
            return self._add_missing_arguments(call, event)
        call.has_arguments = True
        return make_call_delta(call.number, arguments=piece)

    def _add_missing_arguments(self, call: "_OpenedCall | None", holder: Mapping[str, Any]) -> dict[str, Any]:
        """Return the delta with the complete arguments of a call, unless its arguments were received before."""
        if call is None or call.has_arguments or not holder.get("arguments"):
            return {}
        call.has_arguments = True
        return make_call_delta(call.number, arguments=holder["arguments"])

    def _make_item_delta(self, place: Any, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the delta of a completed item."""
        match item.get("type"):
            case "function_call":
                call, opened = self._find_call(place, item.get("call_id"), item.get("id")), {}
                if call is None:
                    opened, call = self._open_call(place, item), self._calls[-1]
                more = self._add_missing_arguments(call, item)
                return {"tool_calls": [*opened.get("tool_calls", ()), *more.get("tool_calls", ())]}
            case "message":
                return self._make_message_delta(place, item)
            case "reasoning" if item.get("encrypted_content"):
                kept = {name: item[name] for name in ("type", "id", "encrypted_content") if name in item}
                return self._opaque.make_delta({**kept, "summary": item.get("summary") or []}, self._opaque.position)
        return {}

    def _make_message_delta(self, place: Any, item: Mapping[str, Any]) -> dict[str, Any]:
        delta: dict[str, Any] = {}
        if place not in self._text_places:
            parts = map(mapping_or_empty, list_or_empty(item.get("content")))
            text = "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
            if text:
                delta = self._make_text_delta(place, text)
        if item.get("phase"):
            delta |= self._opaque.make_delta({"type": "message", "phase": item["phase"]}, self._opaque.position)
        return delta

    def _make_last_chunk(self, response: Mapping[str, Any]) -> dict[str, Any]:
        """Return the last chunk, with the data that no event has sent, for servers that do not stream."""
        if response.get("status") == "failed" or response.get("error"):
            return {"error": response.get("error") or {"message": "The response failed."}}
        delta: dict[str, Any] = {}
        has_calls, is_empty = bool(self._calls), not (self._calls or self._text_places)
        for place, item in enumerate(map(mapping_or_empty, list_or_empty(response.get("output")))):
            if is_empty or (not has_calls and item.get("type") == "function_call"):
                for name, value in self._make_item_delta(place, item).items():
                    delta[name] = delta[name] + value if name in delta else value
        usage = mapping_or_empty(response.get("usage"))
        cached = parse_token_count(mapping_or_empty(usage.get("input_tokens_details")).get("cached_tokens"))
        return make_chat_chunk(
            delta,
            finish_reason=self._find_finish_reason(response),
            model=response.get("model"),
            usage=make_usage(
                parse_token_count(usage.get("input_tokens")),
                parse_token_count(usage.get("output_tokens")),
                cached,
                cost=usage.get("cost"),
            ),
        )

    def _find_finish_reason(self, response: Mapping[str, Any]) -> str:
        if response.get("status") == "incomplete":
            reason = str(mapping_or_empty(response.get("incomplete_details")).get("reason") or "length")
            return _FINISH_REASONS.get(reason, reason)
        return "tool_calls" if self._calls else "stop"


class _OpenedCall(Struct):
    """A call that was received, at least its beginning."""

    number: int
    place: Any
    """Its output index; None if the server sends none."""
    call_id: str
    item_id: str
    has_arguments: bool = False


_MIN_OUTPUT_LIMIT = 16
"""Smallest limit in tokens that the API accepts."""


class ResponsesWire(Wire):
    """The Responses API of OpenAI's newer models."""

    name = "responses"
    title = "Responses"

    def adapt_profile(self, profile: EndpointProfile) -> EndpointProfile:
        """Return the profile for this wire: calls are separate items, so template rules for calls don't apply."""
        tool_id = "max64" if profile.tool_id == "any" else profile.tool_id
        return profile.model_copy(update={"single_call_turns": False, "bridge_tool_user": False, "tool_id": tool_id})

    def make_writer(self, profile: EndpointProfile) -> "_ResponsesWriter":
        return _ResponsesWriter(profile, [])

    def make_body(self, model: str, profile: EndpointProfile, payload: Payload) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": model, "stream": True, "store": False}
        if profile.opaque_echo:
            fields["include"] = ["reasoning.encrypted_content"]
        if payload.max_tokens is not None:
            fields["max_output_tokens"] = max(payload.max_tokens, _MIN_OUTPUT_LIMIT)
        if payload.system:
            fields["instructions"] = payload.system
        fields["input"] = payload.messages
        return fields | make_tool_fields(profile, payload, [_make_tool(tool) for tool in payload.tools])

    def make_effort_fields(self, effort: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"reasoning": {"effort": effort}}

    def request_path(self, base_url: str, resource: Literal["answer", "models"] = "answer") -> str:
        return "/models" if resource == "models" else "/responses"

    def make_decoder(self) -> ResponseToChatDecoder:
        return ResponsesApiToChatDecoder()


class _ResponsesWriter(Struct):
    profile: EndpointProfile
    messages: list[dict[str, Any]]
    opening: SystemItem | None = None
    """The system text before all other items; it becomes the instructions if no other text is given for them."""
    has_items: bool = False

    def add(self, item: Item) -> None:
        match item:
            case SystemItem():
                self.opening = self.opening if self.has_items else item
                role = "developer" if self.profile.developer_role else "system"
                self.messages.append({"role": role, "content": item.full_text()})
            case UserItem():
                self.messages.append({"role": "user", "content": _make_user_content(item)})
            case ModelTurn():
                self.messages += _make_turn_items(item, self.profile)
        self.has_items = True

    def fork(self) -> "_ResponsesWriter":
        return _ResponsesWriter(self.profile, [*self.messages], self.opening, self.has_items)

    def finish(self, first: SystemItem | None = None) -> WireMessages:
        if first is None and self.opening is not None:
            return WireMessages(self.messages[1:], self.opening.full_text())
        return WireMessages(self.messages, first.full_text() if first else "")


def _make_user_content(item: UserItem) -> str | list[dict[str, Any]]:
    if not item.attachments:
        return item.text
    return [*map(_make_image, item.attachments), *([{"type": "input_text", "text": item.text}] if item.text else [])]


def _make_image(image: AttachedImage) -> dict[str, Any]:
    return {"type": "input_image", "image_url": image.data_url, "detail": "auto"}


def _make_turn_items(turn: ModelTurn, profile: EndpointProfile) -> list[dict[str, Any]]:
    """Return reasoning, text, calls and results; reasoning is sent only directly before the item that followed it."""
    opaque = turn.echo.blocks_for("responses") if profile.opaque_echo else {}
    reasoning = {at: [block for block in blocks if block.get("type") == "reasoning"] for at, blocks in opaque.items()}
    written = list(reasoning.get(0, ()))
    if turn.text.strip():
        # The text of several messages is sent as one: it is the final answer if the last message was.
        phases = [{"phase": block["phase"]} for blocks in opaque.values() for block in blocks if "phase" in block]
        written.append({"role": "assistant", "content": turn.text, **(phases[-1] if phases else {})})
    elif not turn.calls:
        return []
    for number, call in enumerate(turn.calls, start=1):
        written += [*reasoning.get(number, ()), _make_call(call)]
    return written + [_make_result(call) for call in turn.calls]


def _make_call(call: CallWithResult) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _make_result(call: CallWithResult) -> dict[str, Any]:
    output: Any = call.result
    if call.attachments:
        output = [{"type": "input_text", "text": call.result}, *map(_make_image, call.attachments)]
    return {"type": "function_call_output", "call_id": call.id, "output": output}


def _make_tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    # Without strict mode, the API's default, because that requires schemas in which every field is required.
    return {
        "type": "function",
        "name": function["name"],
        "description": function.get("description", ""),
        "parameters": function.get("parameters") or {"type": "object", "properties": {}},
        "strict": bool(function.get("strict", False)),
    }
