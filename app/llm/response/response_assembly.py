"""Assemble a response from the chunks of a stream, tolerating the differences between servers."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from app.llm.response import bounded_stream
from app.llm.response.bounded_stream import ResponseTooLarge, is_json_object, parse_json
from app.llm.response.text_filters import CallMarkupCutter, SurrogateJoiner, ThinkSplitter
from app.llm.values.requests_and_updates import (
    CallProgress,
    ReasoningDelta,
    ReceivedToolCall,
    ResponseCompleted,
    TextDelta,
    TokenUsage,
)
from app.llm.wires.wire import OPAQUE_BLOCKS, list_or_empty, mapping_or_empty, parse_token_count

MAX_EXCERPT_CHARACTERS = 60
"""Maximum number of characters of the arguments that an error message quotes around the error."""


_JSON_TYPES = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
"""Names of types for error messages; any other value is null."""


def parse_call_arguments(raw: str) -> tuple[dict[str, Any] | None, str]:
    """Return the arguments as an object and an empty string, or None and a message that says what is wrong.

    Empty text and `null` become an empty object; an object that was encoded twice is decoded twice. Incomplete
    arguments, and arguments with text after them, are an error: nothing is guessed or completed.
    """
    if raw.strip() in ("", "null"):
        return {}, ""
    try:
        # Not strict: an unescaped line break in a string is unambiguous.
        value = parse_json(raw, strict=False)
        if isinstance(value, str):
            value = parse_json(value, strict=False) if value.strip() else {}
    except json.JSONDecodeError as fault:
        return None, _describe_fault(fault)
    except (ValueError, RecursionError) as fault:
        return None, f"The arguments are not usable JSON: {fault}."
    if not isinstance(value, Mapping):
        return None, f"The arguments must be a JSON object, not {_JSON_TYPES.get(type(value), 'null')}."
    if not _is_encodable(value):
        return None, "The arguments contain half of a surrogate pair, which is not a character."
    return dict(value), ""


def _describe_fault(fault: json.JSONDecodeError) -> str:
    if fault.msg == "Extra data":
        junk = fault.doc[fault.pos : fault.pos + MAX_EXCERPT_CHARACTERS]
        return f"The arguments are not one JSON object: it ends at character {fault.pos}, and {junk!r} follows."
    before = fault.doc[max(0, fault.pos - MAX_EXCERPT_CHARACTERS) : fault.pos]
    if fault.pos >= len(fault.doc.rstrip()) or fault.msg.startswith("Unterminated"):
        return f"The arguments are not complete JSON: they break off after {fault.doc[-MAX_EXCERPT_CHARACTERS:]!r}."
    return f"The arguments are not valid JSON: {fault.msg} at character {fault.pos}, after {before!r}."


def _is_encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


class _PartialCall(Struct, eq=False):
    """A tool call that is being received."""

    position: int
    id: str = ""
    index: int | None = None
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    characters: int = 0
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Return whether the arguments are a complete object; only text that ends with `}` is parsed."""
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith("}") and is_json_object("".join(self.pieces))


class ToolCallsAssembly:
    """Assembles the tool calls of one response from its deltas.

    The rules follow the deltas of real servers; no protocol documents them:
    - an empty string counts as missing;
    - a known id takes precedence over the index; a new id starts a new call, even if its index is already in use;
    - a complete call after a complete call with the same id is a new one, unless both are identical;
    - without an id, the index selects the latest call with that index; without both, the latest call continues;
    - a delta with a name starts a new call if the current call has a name and complete arguments;
    - calls keep the order in which they were first seen, whatever their indexes;
    - a name may arrive in pieces, complete with each delta, or both; arguments are always appended.

    Args:
        tool_names: Names of the offered tools; they help to join names that arrive in pieces.
    """

    def __init__(self, tool_names: Iterable[str] = ()) -> None:
        self.characters = 0
        """Characters of all calls so far, including ids, names and opaque fields."""
        self._tool_names = frozenset(tool_names)
        self._partial_calls: list[_PartialCall] = []

    def __bool__(self) -> bool:
        return bool(self._partial_calls)

    def feed(self, delta: Mapping[str, Any]) -> CallProgress | None:
        """Add one element of `delta.tool_calls`; return its call's progress, or None. Raises ResponseTooLarge."""
        function = mapping_or_empty(delta.get("function"))
        name = function.get("name") or delta.get("name")
        name = name if isinstance(name, str) else ""
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            # Some servers send an object instead of its JSON.
            arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
        identity = str(delta.get("id") or "")
        index = _parse_index(delta.get("index"))
        extra = delta.get("extra_content")
        if not (identity or name or arguments or extra) and (index is None or not self._partial_calls):
            return None
        call = self._find_or_open_call(identity, index, name, arguments)
        if name:
            call.name = self._join_name(call, name)
            self.characters += len(name)
        if arguments and not (identity and name and call.pieces == [arguments] and call.complete):
            call.pieces.append(arguments)
            call.characters += len(arguments)
            self.characters += len(arguments)
            if call.characters > bounded_stream.MAX_CALL_CHARACTERS:
                raise ResponseTooLarge("a tool call", bounded_stream.MAX_CALL_CHARACTERS, "characters")
        if isinstance(extra, dict):
            self.characters += len(json.dumps(extra))
            call.extras.setdefault("extra_content", {}).update(extra)
        return CallProgress(call.position, call.name, call.characters)

    def calls(self) -> tuple[ReceivedToolCall, ...]:
        """Return the calls received so far, in the order of their first deltas."""
        return tuple(_make_received_call(call) for call in self._partial_calls)

    def _find_or_open_call(self, identity: str, index: int | None, name: str, arguments: str) -> _PartialCall:
        if not identity:
            call = self._find_by_index(index)
            return self._open_call("", index) if call is None or _starts_new_call(call, name, arguments) else call
        known = next((call for call in reversed(self._partial_calls) if call.id == identity), None)
        if known is None:
            anonymous = self._find_by_index(index)
            if anonymous is None or anonymous.id or (name and anonymous.name):
                return self._open_call(identity, index)
            anonymous.id = identity
            return anonymous
        # The same id starts a new call if name and index differ, or if the call before is complete.
        if name and index is not None and known.index not in (None, index):
            return self._open_call(identity, index)
        again = known.pieces == [arguments]
        if index is None and known.index is None and not again and _starts_new_call(known, name, arguments):
            return self._open_call(identity, index)
        return known

    def _find_by_index(self, index: int | None) -> _PartialCall | None:
        if index is None:
            return self._partial_calls[-1] if self._partial_calls else None
        return next((call for call in reversed(self._partial_calls) if call.index == index), None)

    def _open_call(self, identity: str, index: int | None) -> _PartialCall:
        if len(self._partial_calls) == bounded_stream.MAX_CALLS:
            raise ResponseTooLarge("a batch", bounded_stream.MAX_CALLS, "tool calls")
        self.characters += len(identity)
        call = _PartialCall(len(self._partial_calls), identity, index)
        self._partial_calls.append(call)
        return call

    def _join_name(self, call: _PartialCall, name: str) -> str:
        """Return the name of a call after another delta with the name or a piece of it."""
        if not call.name:
            return name
        if call.name in self._tool_names or call.characters:
            return call.name
        # Either the longer full name, or the next piece.
        return name if name.startswith(call.name) or name in self._tool_names else call.name + name


def _parse_index(value: Any) -> int | None:
    """Return an index, which some servers send as text; None for any other value."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) else None


def _starts_new_call(call: _PartialCall, name: str, arguments: str) -> bool:
    if not name or not call.name:
        return False
    repeated = name == call.name and not arguments
    return not repeated and call.complete


def _make_received_call(call: _PartialCall) -> ReceivedToolCall:
    joiner = SurrogateJoiner()
    raw = joiner.feed("".join(call.pieces)) + joiner.finish()
    arguments, invalid = parse_call_arguments(raw)
    if not call.name:
        arguments, invalid = None, "The call has no tool name."
    return ReceivedToolCall(
        wire_id=call.id, name=call.name, arguments=arguments, raw_arguments=raw, invalid=invalid, extras=call.extras
    )


Delta = TextDelta | ReasoningDelta | CallProgress


class DeltaCoalescer:
    """Merges the deltas of a stream: joins neighbouring texts, and keeps only the latest progress of each call."""

    def __init__(self) -> None:
        self._deltas: list[Delta] = []
        self._delta_class: type[TextDelta | ReasoningDelta] = TextDelta
        self._pieces: list[str] = []
        """Pieces of the current text, for a delta of `_delta_class`."""
        self._calls: dict[int, CallProgress] = {}
        """Latest progress of the current calls, by index."""

    def add_piece(self, kind: type[TextDelta | ReasoningDelta], piece: str) -> None:
        """Add a piece of the answer or of the reasoning."""
        if self._delta_class is not kind or self._calls:
            self._finish_delta()
            self._delta_class = kind
        self._pieces.append(piece)

    def add_call(self, progress: CallProgress) -> None:
        """Add the progress of a call."""
        if self._pieces:
            self._finish_delta()
        self._calls[progress.index] = progress

    def pop_all(self) -> list[Delta]:
        """Return everything in order, and clear the collector."""
        self._finish_delta()
        whole, self._deltas = self._deltas, []
        return whole

    def _finish_delta(self) -> None:
        if self._pieces:
            self._deltas.append(self._delta_class("".join(self._pieces)))
            self._pieces = []
        self._deltas += self._calls.values()
        self._calls = {}


INCOMPLETE_REASONS = frozenset(
    {"length", "max_tokens", "model_length", "content_filter", "error", "model_context_window_exceeded", "sensitive"}
)
"""Finish reasons of an incomplete response, whose calls must not run; some servers write them in capitals."""

_ECHOED_LISTS = ("reasoning_details", "thinking_blocks", OPAQUE_BLOCKS)
_MERGED_TEXTS = ("text", "summary", "thinking")
_MAX_REASON_CHARACTERS = 100
"""Maximum number of characters of a finish reason."""
_MAX_DOLLARS = 1_000_000
"""Largest plausible cost of one response."""


class ResponseAssembly:
    """Assembles one response: feed it every chunk (parsed JSON), then call `flush` and `complete`.

    Args:
        tool_names: Names of the offered tools; they help to join names that arrive in pieces.
        closing: Hide calls that the server sends as text.
    """

    def __init__(self, tool_names: Iterable[str] = (), *, closing: bool = False) -> None:
        self.finish_reason: str | None = None
        self.usage: TokenUsage | None = None
        self.model = ""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls = ToolCallsAssembly(tool_names)
        self._extras: dict[str, Any] = {}
        self._size = 0
        """Characters received so far except those of calls, whether they were passed on or not."""
        self._text_joiner = SurrogateJoiner()
        self._reasoning_joiner = SurrogateJoiner()
        self._think_splitter = ThinkSplitter()
        self._call_hider = CallMarkupCutter() if closing else None

    @property
    def text(self) -> str:
        """The text so far: exactly the concatenation of all `TextDelta`s."""
        return "".join(self._text)

    @property
    def is_empty(self) -> bool:
        """Return whether neither text nor reasoning nor a call was received."""
        return not (self._text or self._reasoning or self._calls)

    def feed(self, chunk: Mapping[str, Any], deltas: DeltaCoalescer) -> None:
        """Add the contents of one chunk to `deltas`; unknown fields are ignored. Raises ResponseTooLarge."""
        if isinstance(name := chunk.get("model"), str) and name:
            self.model = name
        self._update_usage(chunk)
        for choice in list_or_empty(chunk.get("choices")):
            if isinstance(choice, dict) and choice.get("index") in (None, 0, "", "0"):
                self._feed_choice(choice, whole=chunk.get("object") == "chat.completion", deltas=deltas)
        if self._size + self._calls.characters > bounded_stream.MAX_RESPONSE_CHARACTERS:
            raise ResponseTooLarge("a response", bounded_stream.MAX_RESPONSE_CHARACTERS, "characters")

    def flush(self) -> list[Delta]:
        """Return text that was held back as a possible start of a tag; call it after the last chunk."""
        text, reasoning = self._think_splitter.feed(self._text_joiner.finish())
        late_text, late_reasoning = self._think_splitter.finish()
        deltas = DeltaCoalescer()
        self._emit_reasoning(reasoning + late_reasoning + self._reasoning_joiner.finish(), deltas)
        self._emit_text(text + late_text, deltas)
        if self._call_hider and (held := self._call_hider.finish()):
            self._text.append(held)
            deltas.add_piece(TextDelta, held)
        return deltas.pop_all()

    def complete(self, *, ended: bool) -> ResponseCompleted:
        """Return the response; `ended` says whether the server ended the stream intentionally."""
        return ResponseCompleted(
            text=self.text,
            reasoning="".join(self._reasoning),
            calls=self.calls(),
            finish_reason=self.finish_reason,
            truncated=not ended or self.finish_reason in INCOMPLETE_REASONS,
            usage=self.usage,
            model=self.model,
            extras=dict(self._extras),
        )

    def calls(self) -> tuple[ReceivedToolCall, ...]:
        """Return the calls received so far."""
        return self._calls.calls()

    def _feed_choice(self, choice: Mapping[str, Any], *, whole: bool, deltas: DeltaCoalescer) -> None:
        delta, message = choice.get("delta"), choice.get("message")
        if isinstance(delta, dict) and delta:
            self._feed_delta(delta, deltas)
        elif isinstance(message, dict):
            self._feed_delta(self._find_new_part(message, whole=whole or bool(choice.get("finish_reason"))), deltas)
        self._update_usage(choice)
        reason = choice.get("finish_reason") or mapping_or_empty(delta).get("finish_reason")
        if not isinstance(reason, str) or not reason:
            return
        # The first reason counts, unless a later one says that the response is incomplete.
        if (known := reason.lower()) in INCOMPLETE_REASONS:
            self.finish_reason = known
        elif self.finish_reason is None:
            self.finish_reason = reason[:_MAX_REASON_CHARACTERS]

    def _find_new_part(self, message: Mapping[str, Any], *, whole: bool) -> Mapping[str, Any]:
        """Return the new part of a `message`, which in the last chunk may repeat the whole streamed response."""
        if not whole or self.is_empty:
            return message
        rest = {key: value for key, value in message.items() if key not in ("content", "tool_calls")}
        rest = {} if self._reasoning else rest
        content = message.get("content")
        if isinstance(content, str) and not content.startswith(self.text):
            rest["content"] = content
        elif isinstance(content, str):
            rest["content"] = content[len(self.text) :]
        if not self._calls:
            rest["tool_calls"] = message.get("tool_calls")
        return rest

    def _feed_delta(self, delta: Mapping[str, Any], deltas: DeltaCoalescer) -> None:
        # If a server sends both fields, they have the same content.
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        self._feed_reasoning(thought, deltas)
        self._feed_content(delta.get("content"), deltas)
        if isinstance(refusal := delta.get("refusal"), str):
            self._feed_content(refusal, deltas)
        calls = delta.get("tool_calls")
        for call in [calls] if isinstance(calls, dict) else list_or_empty(calls):
            if isinstance(call, dict):
                self._feed_call(call, deltas)
        if isinstance(legacy := delta.get("function_call"), dict):
            self._feed_call({"function": legacy}, deltas)
        for key in _ECHOED_LISTS:
            if isinstance(items := delta.get(key), list):
                self._size += len(json.dumps(items))
                _append_opaque_parts(self._extras.setdefault(key, []), items)
        if isinstance(extra := delta.get("extra_content"), dict):
            self._size += len(json.dumps(extra))
            self._extras.setdefault("extra_content", {}).update(extra)

    def _feed_content(self, content: Any, deltas: DeltaCoalescer) -> None:
        match content:
            case str():
                self._size += len(content)
                text, reasoning = self._think_splitter.feed(self._text_joiner.feed(content))
                self._emit_reasoning(reasoning, deltas)
                self._emit_text(text, deltas)
            case list():
                for part in content:
                    self._feed_part(part, deltas)

    def _feed_part(self, part: Any, deltas: DeltaCoalescer) -> None:
        """Add one element of a content list; Mistral's thinking is a list inside a list."""
        if isinstance(part, str):
            self._feed_content(part, deltas)
        elif isinstance(part, dict):
            if "thinking" in part:
                thoughts = part["thinking"]
                for thought in thoughts if isinstance(thoughts, list) else [thoughts]:
                    self._feed_reasoning(thought.get("text") if isinstance(thought, dict) else thought, deltas)
            elif isinstance(text := part.get("text") or part.get("refusal"), str):
                self._feed_content(text, deltas)

    def _feed_reasoning(self, text: Any, deltas: DeltaCoalescer) -> None:
        if isinstance(text, str):
            self._size += len(text)
            self._emit_reasoning(self._reasoning_joiner.feed(text), deltas)

    def _emit_text(self, text: str, deltas: DeltaCoalescer) -> None:
        if self._call_hider:
            text = self._call_hider.feed(text)
        if text:
            self._text.append(text)
            deltas.add_piece(TextDelta, text)

    def _emit_reasoning(self, text: str, deltas: DeltaCoalescer) -> None:
        if text:
            self._reasoning.append(text)
            deltas.add_piece(ReasoningDelta, text)

    def _feed_call(self, delta: Mapping[str, Any], deltas: DeltaCoalescer) -> None:
        if (progress := self._calls.feed(delta)) is not None:
            deltas.add_call(progress)

    def _update_usage(self, holder: Mapping[str, Any]) -> None:
        if (holder.get("usage") or "x_groq" in holder) and (usage := read_usage(holder)) is not None:
            self.usage = usage


def _append_opaque_parts(items: list[Any], more: Iterable[Any]) -> None:
    """Append opaque reasoning parts; join a part to the last one if it continues it (same type and index)."""
    for part in more:
        last = items[-1] if items else None
        if isinstance(part, dict) and isinstance(last, dict) and _is_continuation(last, part):
            for key, value in part.items():
                if key in _MERGED_TEXTS and isinstance(value, str) and isinstance(last.get(key), str):
                    last[key] += value
                elif value is not None:
                    last[key] = value
        else:
            items.append(dict(part) if isinstance(part, dict) else json.loads(json.dumps(part)))


def _is_continuation(last: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    same = all(last.get(key) == part.get(key) for key in ("type", "index"))
    return same and "data" not in part and "data" not in last and not last.get("signature")


def read_usage(chunk_or_choice: Mapping[str, Any]) -> TokenUsage | None:
    """Return the usage in a chunk or a choice; None if there is none.

    Groq puts it under `x_groq`, Moonshot into the choice; DeepSeek has its own name for cached tokens; OpenRouter
    adds the cost in US dollars.
    """
    usage = mapping_or_empty(chunk_or_choice.get("usage")) or mapping_or_empty(
        mapping_or_empty(chunk_or_choice.get("x_groq")).get("usage")
    )
    prompt = parse_token_count(usage.get("prompt_tokens")) or parse_token_count(usage.get("input_tokens"))
    completion = parse_token_count(usage.get("completion_tokens")) or parse_token_count(usage.get("output_tokens"))
    if not prompt and not completion:
        return None
    details = mapping_or_empty(usage.get("prompt_tokens_details"))
    cached = (
        parse_token_count(details.get("cached_tokens"))
        or parse_token_count(usage.get("prompt_cache_hit_tokens"))
        or parse_token_count(usage.get("cached_tokens"))
    )
    return TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        cache_write_tokens=parse_token_count(details.get("cache_write_tokens")),
        cost=_parse_dollars(usage.get("cost")),
    )


def _parse_dollars(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < _MAX_DOLLARS else None
