"""The events of Anthropic's messages, read as chunks of chat completions."""

import json
from collections.abc import Mapping
from typing import Any

from app.llm.wires.chunks import OpaqueBlocks, call_delta, chunk, count, listed, mapping, usage_fields

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}
"""Reasons to stop, as chat completions calls them; the others go by their own names."""


class AnthropicDecoder:
    """For one response."""

    def __init__(self) -> None:
        self._opaque = OpaqueBlocks("anthropic")
        self._usage: dict[str, int] = {}
        self._cost: Any = None
        """As some who offer this wire say it."""
        self._block: dict[str, Any] = {}
        """The block that is being written."""
        self._thought: list[str] = []
        """Its thinking so far."""
        self._written = False
        """Some of its arguments have come."""
        self._calls = -1
        """Number of the latest call."""

    def read(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """What one event adds."""
        match event.get("type"):
            case "message_start":
                message = mapping(event.get("message"))
                self._count(message)
                return chunk(model=message.get("model"))
            case "content_block_start":
                return self._begin(mapping(event.get("content_block")))
            case "content_block_delta":
                return self._delta(mapping(event.get("delta")))
            case "content_block_stop":
                return self._end()
            case "message_delta":
                self._count(event)
                return self._finish(mapping(event.get("delta")).get("stop_reason"))
            case "message":
                return self.whole(event)
            case "error":
                return {"error": event.get("error") or dict(event)}
        # A ping, the end, something new; or no event of this protocol, such as an error in another form.
        return {} if "type" in event else event

    def whole(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """A message that was not streamed."""
        if document.get("type") != "message":
            return self.read(document)
        delta: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
        for block in listed(document.get("content")):
            for piece in (self._begin(mapping(block)), self._end()):
                for name, value in mapping(piece.get("choices", [{}])[0].get("delta")).items():
                    delta[name] = delta[name] + value if name in delta else value
        self._count(document)
        ended = self._finish(document.get("stop_reason"))
        ended["choices"][0]["delta"] = delta
        return {**ended, "model": document.get("model")}

    def _begin(self, block: Mapping[str, Any]) -> dict[str, Any]:
        self._block = dict(block)
        self._written = False
        match block.get("type"):
            case "text":
                return self._text(block.get("text"))
            case "thinking":
                self._thought = [str(block.get("thinking") or "")]
                return chunk({"reasoning_content": self._thought[0]})
            case "tool_use":
                self._calls += 1
                self._opaque.call()
                return chunk(
                    call_delta(self._calls, identity=str(block.get("id") or ""), name=str(block.get("name") or ""))
                )
        return {}

    def _delta(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        match delta.get("type"):
            case "text_delta":
                return self._text(delta.get("text"))
            case "thinking_delta":
                thought = str(delta.get("thinking") or "")
                self._thought.append(thought)
                return chunk({"reasoning_content": thought})
            case "signature_delta":
                signature = str(delta.get("signature") or "")
                self._block["signature"] = str(self._block.get("signature") or "") + signature
            case "input_json_delta":
                piece = str(delta.get("partial_json") or "")
                self._written = self._written or bool(piece)
                return chunk(call_delta(max(self._calls, 0), arguments=piece))
        return {}

    def _end(self) -> dict[str, Any]:
        block, self._block = self._block, {}
        match block.get("type"):
            case "tool_use" if not self._written and block.get("input"):
                # Some servers send the arguments at once, with the beginning of the block.
                return chunk(call_delta(self._calls, arguments=json.dumps(block["input"], ensure_ascii=False)))
            case "thinking" if block.get("signature"):
                kept = {"thinking": "".join(self._thought), "signature": block["signature"]}
                return chunk(self._opaque.delta({"type": "thinking", **kept}))
            case "redacted_thinking" if block.get("data"):
                return chunk(self._opaque.delta({"type": "redacted_thinking", "data": block["data"]}))
        return {}

    def _text(self, text: Any) -> dict[str, Any]:
        if not isinstance(text, str) or not text:
            return {}
        self._opaque.text()
        return chunk({"content": text})

    def _finish(self, reason: Any) -> dict[str, Any]:
        known = _FINISH.get(reason, reason) if isinstance(reason, str) else ""
        written = self._usage.get("cache_creation_input_tokens", 0)
        read = self._usage.get("cache_read_input_tokens", 0)
        prompt = self._usage.get("input_tokens", 0) + written + read
        output = self._usage.get("output_tokens", 0)
        return chunk(finish=known, usage=usage_fields(prompt, output, read, written=written, cost=self._cost))

    def _count(self, holder: Mapping[str, Any]) -> None:
        """Counts so far; the later ones are totals too, and may leave out what has not changed."""
        usage = mapping(holder.get("usage"))
        self._cost = usage.get("cost", self._cost)
        for name, value in usage.items():
            if name.endswith("_tokens") and (number := count(value)):
                self._usage[name] = number
