"""The events of Responses, read as chunks of chat completions."""

from collections.abc import Mapping
from typing import Any

from app.llm.wires.chunks import OpaqueBlocks, call_delta, chunk, count, listed, mapping, usage_fields

_FINISH = {"max_output_tokens": "length", "max_tokens": "length"}
"""Why a response is incomplete, as chat completions calls it; the others go by their own names."""


class ResponsesDecoder:
    """For one response. What came in pieces is not taken again where an event repeats it whole."""

    def __init__(self) -> None:
        self._opaque = OpaqueBlocks("responses")
        self._texts: set[Any] = set()
        """Places of the messages of which text has come."""
        self._calls: dict[Any, int] = {}
        """Number of each call by its place."""
        self._argued: set[int] = set()
        """Numbers of the calls of which arguments have come."""

    def read(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """What one event adds."""
        place = event.get("output_index")
        place = place if isinstance(place, int) else None
        match event.get("type"):
            case str() as kind if kind.endswith(".delta"):
                return self._delta(kind, place, event.get("delta"))
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return chunk({"reasoning_content": "\n\n"})
            case "response.output_item.added" if mapping(event.get("item")).get("type") == "function_call":
                return chunk(self._open(place, event["item"]))
            case "response.output_item.done":
                return chunk(self._item(place, mapping(event.get("item"))))
            case "response.created":
                return chunk(model=mapping(event.get("response")).get("model"))
            case "response.completed" | "response.incomplete" | "response.failed":
                return self._over(mapping(event.get("response")))
            case "error":
                return {"error": event.get("error") or dict(event)}
        return self.whole(event)

    def whole(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """A response that was not streamed."""
        if document.get("object") == "response" and "output" in document:
            return self._over(document)
        # Something new; or nothing of this protocol, such as an error in another form.
        return {} if "type" in document else document

    def _delta(self, kind: str, place: Any, piece: Any) -> dict[str, Any]:
        if not isinstance(piece, str) or not piece:
            return {}
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                return self._text(place, piece)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return chunk({"reasoning_content": piece})
            case "response.function_call_arguments.delta" if place in self._calls:
                number = self._calls[place]
                self._argued.add(number)
                return chunk(call_delta(number, arguments=piece))
        return {}

    def _text(self, place: Any, text: str) -> dict[str, Any]:
        self._texts.add(place)
        self._opaque.text()
        return chunk({"content": text})

    def _open(self, place: Any, item: Mapping[str, Any]) -> dict[str, Any]:
        number = self._calls[place] = len(self._calls)
        self._opaque.call()
        identity = str(item.get("call_id") or item.get("id") or "")
        return call_delta(number, identity=identity, name=str(item.get("name") or ""))

    def _item(self, place: Any, item: Mapping[str, Any]) -> dict[str, Any]:
        """The delta for an item that is complete."""
        match item.get("type"):
            case "function_call":
                delta = {} if place in self._calls else self._open(place, item)
                number = self._calls[place]
                if number in self._argued or not item.get("arguments"):
                    return delta
                self._argued.add(number)
                more = call_delta(number, arguments=str(item["arguments"]))
                return {"tool_calls": [*delta.get("tool_calls", ()), *more["tool_calls"]]}
            case "message":
                return self._message(place, item)
            case "reasoning" if item.get("encrypted_content"):
                kept = {name: item[name] for name in ("type", "id", "encrypted_content") if name in item}
                return self._opaque.delta({**kept, "summary": item.get("summary") or []})
        return {}

    def _message(self, place: Any, item: Mapping[str, Any]) -> dict[str, Any]:
        delta: dict[str, Any] = {}
        if place not in self._texts:
            parts = [mapping(part) for part in listed(item.get("content")) if not isinstance(part, str)]
            text = "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
            if text:
                self._text(place, text)
                delta = {"content": text}
        if item.get("phase"):
            delta |= self._opaque.delta({"type": "message", "phase": item["phase"]})
        return delta

    def _over(self, response: Mapping[str, Any]) -> dict[str, Any]:
        """The end; with what no event has brought, where a server does not stream."""
        if response.get("status") == "failed" or response.get("error"):
            return {"error": response.get("error") or {"message": "The response failed."}}
        delta: dict[str, Any] = {}
        if not self._texts and not self._calls:
            for place, item in enumerate(listed(response.get("output"))):
                for name, value in self._item(place, mapping(item)).items():
                    delta[name] = delta[name] + value if name in delta else value
        usage = mapping(response.get("usage"))
        cached = count(mapping(usage.get("input_tokens_details")).get("cached_tokens"))
        return chunk(
            delta,
            finish=self._reason(response),
            model=response.get("model"),
            usage=usage_fields(
                count(usage.get("input_tokens")), count(usage.get("output_tokens")), cached, cost=usage.get("cost")
            ),
        )

    def _reason(self, response: Mapping[str, Any]) -> str:
        if response.get("status") == "incomplete":
            reason = str(mapping(response.get("incomplete_details")).get("reason") or "length")
            return _FINISH.get(reason, reason)
        return "tool_calls" if self._calls else "stop"
