"""OpenAI's Responses, https://developers.openai.com/api/reference/resources/responses, without state on the server.

Nothing is stored there, so everything is sent each time: the reasoning too, encrypted, as the server gave it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.llm.capabilities.profile import Profile
from app.llm.types import Payload
from app.llm.wires.items import Attachment, CallWithResult, Item, ModelTurn, SystemText, UserText
from app.llm.wires.responses_stream import ResponsesDecoder
from app.llm.wires.wire import Decoder, Written, tool_fields, write

_SMALLEST_LIMIT = 16
"""Tokens; a response cannot be limited to fewer."""


class ResponsesWire:
    """What OpenAI's newer models speak, some of them nothing else."""

    name: Literal["responses"] = "responses"
    title = "Responses"

    def fitted(self, profile: Profile) -> Profile:
        """Calls are items of their own here, so no template's rules about messages with calls apply."""
        tool_id = "max64" if profile.tool_id == "any" else profile.tool_id
        return profile.model_copy(update={"single_call_turns": False, "bridge_tool_user": False, "tool_id": tool_id})

    def written(self, items: Sequence[Item], profile: Profile) -> Written:
        """The instructions, and the input items."""
        return write(self.writer(profile), items)

    def writer(self, profile: Profile) -> "_Writer":
        """Each item becomes input items."""
        return _Writer(profile, [])

    def body(self, model: str, profile: Profile, payload: Payload) -> dict[str, Any]:
        """The body of the request."""
        fields: dict[str, Any] = {"model": model, "stream": True, "store": False}
        if profile.opaque_echo:
            fields["include"] = ["reasoning.encrypted_content"]
        if payload.max_tokens is not None:
            fields["max_output_tokens"] = max(payload.max_tokens, _SMALLEST_LIMIT)
        if payload.system:
            fields["instructions"] = payload.system
        fields["input"] = payload.messages
        return fields | tool_fields(profile, payload, [_tool(tool) for tool in payload.tools])

    def effort(self, effort: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """One of the settings of reasoning."""
        return {"reasoning": {"effort": effort}}

    def path(self, base_url: str, resource: Literal["answer", "models"] = "answer") -> str:
        """Below the base URL, which ends before it."""
        return "/models" if resource == "models" else "/responses"

    def headers(self, key: str) -> dict[str, str]:
        """None: the key is a bearer token."""
        return {}

    def decoder(self) -> Decoder:
        """For one response."""
        return ResponsesDecoder()


@dataclass(slots=True)
class _Writer:
    profile: Profile
    messages: list[dict[str, Any]]
    opening: SystemText | None = None
    """What the program says before all others: the instructions, if nothing else is."""
    begun: bool = False

    def add(self, item: Item) -> None:
        match item:
            case SystemText():
                self.opening = self.opening if self.begun else item
                role = "developer" if self.profile.developer_role else "system"
                self.messages.append({"role": role, "content": item.whole()})
            case UserText():
                self.messages.append({"role": "user", "content": _spoken(item)})
            case ModelTurn():
                self.messages += _turn(item, self.profile)
        self.begun = True

    def copy(self) -> "_Writer":
        return _Writer(self.profile, [*self.messages], self.opening, self.begun)

    def end(self, first: SystemText | None = None) -> Written:
        if first is None and self.opening is not None:
            return Written(self.messages[1:], self.opening.whole())
        return Written(self.messages, first.whole() if first else "")


def _spoken(item: UserText) -> str | list[dict[str, Any]]:
    if not item.attachments:
        return item.text
    return [*map(_image, item.attachments), *([{"type": "input_text", "text": item.text}] if item.text else [])]


def _image(image: Attachment) -> dict[str, Any]:
    return {"type": "input_image", "image_url": image.url, "detail": "auto"}


def _turn(turn: ModelTurn, profile: Profile) -> list[dict[str, Any]]:
    """Reasoning, text, calls and results; reasoning is taken only with what it led to right after it."""
    opaque = turn.echo.blocks("responses") if profile.opaque_echo else {}
    reasoning = {at: [block for block in blocks if block.get("type") == "reasoning"] for at, blocks in opaque.items()}
    written = list(reasoning.get(0, ()))
    if turn.text.strip():
        phase = next((block["phase"] for blocks in opaque.values() for block in blocks if "phase" in block), None)
        written.append({"role": "assistant", "content": turn.text, **({"phase": phase} if phase else {})})
    elif not turn.calls:
        return []
    for number, call in enumerate(turn.calls, start=1):
        written += [*reasoning.get(number, ()), _call(call)]
    return written + [_result(call) for call in turn.calls]


def _call(call: CallWithResult) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _result(call: CallWithResult) -> dict[str, Any]:
    output: Any = call.result
    if call.attachments:
        output = [{"type": "input_text", "text": call.result}, *map(_image, call.attachments)]
    return {"type": "function_call_output", "call_id": call.id, "output": output}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    # Not strict: that is the default here, and it demands schemas in which every field is required.
    return {
        "type": "function",
        "name": function["name"],
        "description": function.get("description", ""),
        "parameters": function.get("parameters") or {"type": "object", "properties": {}},
        "strict": bool(function.get("strict", False)),
    }
