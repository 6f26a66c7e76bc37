"""From the events of one response to what each adds to it, or to what is wrong with it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app.llm.failures.errors import AttemptFailed
from app.llm.failures.failures import FailureReader
from app.llm.failures.server_words import parse_body
from app.llm.response.assembly import ResponseAssembly
from app.llm.response.deltas import Delta, Deltas
from app.llm.response.limits import TooLarge
from app.llm.response.sse import ServerEvent
from app.llm.wires.chunks import mapping
from app.llm.wires.wire import Decoder


class Reading:
    """Reads one response into its assembly."""

    def __init__(self, assembly: ResponseAssembly, decoder: Decoder, reader: FailureReader) -> None:
        """`decoder` is the wire's, `reader` knows what failures mean."""
        self._assembly = assembly
        self._decoder = decoder
        self._reader = reader

    @property
    def finished(self) -> bool:
        """The model's part of the response is over, whatever else the connection does."""
        return self._assembly.finish_reason not in (None, "error")

    def take(self, events: Iterable[ServerEvent]) -> Iterator[Delta]:
        """What some events add; at last raises `AttemptFailed` if one says that there will be no response."""
        return self._fed(map(self._chunk, events))

    def take_unframed(self, text: str) -> Iterator[Delta]:
        """As `take`, of a body that was no event stream: a completion, an error, or something else altogether."""
        return self._fed(self._whole(text))

    def _fed(self, chunks: Iterable[Mapping[str, Any]]) -> Iterator[Delta]:
        deltas = Deltas()
        failed: AttemptFailed | None = None
        try:
            for chunk in chunks:
                self._assembly.feed(chunk, deltas)
                if not self.finished and (error := _error_in(chunk)) is not None:
                    failed = AttemptFailed(self._reader.in_stream(error))
                    break
        except AttemptFailed as failure:
            failed = failure
        except TooLarge as endless:
            failed = AttemptFailed(self._reader.too_large(endless))
        yield from deltas.take()
        if failed is not None:
            raise failed

    def _chunk(self, event: ServerEvent) -> Mapping[str, Any]:
        body = parse_body(event.data)
        if event.name == "error":
            raise AttemptFailed(self._reader.in_stream(body))
        if not isinstance(body, dict):
            raise AttemptFailed(self._reader.broken("contains something that is no JSON object", event.data))
        chunk = self._decoder.read(body)
        if event.damaged and _has_call(chunk):
            # U+FFFD may stand in a text that people read, but not in what a tool would write.
            raise AttemptFailed(self._reader.broken("has a tool call that is damaged"))
        return chunk

    def _whole(self, text: str) -> Iterator[Mapping[str, Any]]:
        if not text.strip():
            return
        body = parse_body(text)
        if isinstance(body, list) and body and isinstance(body[0], dict):
            body = body[0]
        if isinstance(body, dict):
            yield self._decoder.whole(body)
        elif self._assembly.empty:
            raise AttemptFailed(self._reader.not_a_stream(text))


def _has_call(chunk: Mapping[str, Any]) -> bool:
    choices = chunk.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and any("tool_calls" in mapping(choice.get(part)) for part in ("delta", "message"))
        for choice in choices
    )


def _error_in(chunk: Mapping[str, Any]) -> Any:
    """The error that a chunk carries, in any of the shapes in use, or None."""
    if chunk.get("error"):
        return chunk
    if "choices" in chunk:
        choices = chunk["choices"]
        first = choices[0] if isinstance(choices, list) and choices else None
        # OpenRouter: an error inside the choice.
        return first if isinstance(first, dict) and first.get("error") else None
    if chunk.get("object") == "error" or chunk.get("type") == "error" or "detail" in chunk:
        return chunk
    return chunk if isinstance(chunk.get("message"), str) and ("code" in chunk or "status" in chunk) else None
