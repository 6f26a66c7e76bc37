"""Decode server-sent events from bytes, within size limits far above the responses of models.

A response that exceeds a limit is not read further, not stored and not retried: the server would send the same again.

Server-sent events follow the WHATWG HTML standard (https://html.spec.whatwg.org/, section 9.2). Also accepted is what
real servers send: comments and `retry:` as heartbeats, events without data, a byte order mark, a last event without
its blank line, an `error:` field, and bodies that are not an event stream (a JSON document, JSON lines, an HTML
page).
"""

import json
import re
from typing import Any, NamedTuple

from pydantic_core import from_json

MAX_DEPTH = 100
"""Maximum number of levels of nested objects and lists."""


def parse_json(text: str, *, strict: bool = True) -> Any:
    """Return the value of a JSON text that is not nested too deeply; `strict` as in `json.loads`.

    Raises ValueError or RecursionError.
    """
    value = _parse_value(text) if strict else json.loads(text, strict=False)
    # Each level has a bracket: with fewer brackets, no check is necessary.
    if text.count("{") + text.count("[") > MAX_DEPTH and is_deeper_than(MAX_DEPTH, value):
        raise ValueError("it is nested too deeply")
    return value


def _parse_value(text: str) -> Any:
    """Parse like `json.loads`, but four times as fast for the small objects of a streamed response."""
    try:
        return from_json(text, cache_strings="keys")
    except (ValueError, TypeError):
        # `from_json` rejects lone surrogates, which servers send, and has other error messages for invalid JSON.
        return json.loads(text)


def is_json_object(text: str) -> bool:
    """Return whether a text is one complete JSON object, not nested too deeply."""
    try:
        return isinstance(parse_json(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def is_deeper_than(levels: int, value: Any) -> bool:
    """Return whether lists and objects are nested more deeply than this number of levels."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return not levels or any(is_deeper_than(levels - 1, item) for item in inner)


MAX_ERROR_BYTES = 2**20
"""Maximum number of bytes of an error's body."""
MAX_LISTING_BYTES = 16 * 2**20
"""Maximum number of bytes of the list of models."""
MAX_RENDERED_BYTES = 2**20
"""Maximum number of bytes of an answer with a rendered prompt of a few hundred words, or its tokens."""
MAX_BODY_BYTES = 256 * 2**20
"""Maximum number of bytes of a streamed body including framing; it is not stored."""
MAX_EVENT_BYTES = 8 * 2**20
"""Maximum number of bytes of one event, one line, or data without an event: heartbeats, a page, a document."""
MAX_RESPONSE_CHARACTERS = 4 * 2**20
"""Maximum number of characters of text, reasoning, arguments and opaque fields together."""
MAX_CALL_CHARACTERS = 2 * 2**20
"""Maximum number of characters of the arguments of one call."""
MAX_CALLS = 512
"""Maximum number of tool calls of one response."""


class ResponseTooLarge(Exception):
    """A response exceeds a limit; the message names the part, e.g. `an event of more than 8 MiB`."""

    def __init__(self, what: str, limit: int, unit: str = "B") -> None:
        super().__init__(f"{what} of more than {_format_limit(limit, unit)}")


def _format_limit(limit: int, unit: str) -> str:
    if limit >= 2**20 and not limit % 2**20:
        return f"{limit // 2**20} Mi{unit}" if unit == "B" else f"{limit // 2**20} million {unit}"
    return f"{limit:,} {'bytes' if unit == 'B' else unit}"


_LINE_END = re.compile(rb"\r\n|\n|\r")
_FIELDS = ("data", "event", "id", "retry", "error")


class ServerSentEvent(NamedTuple):
    """A server-sent event with data; heartbeats have none and are skipped."""

    data: str
    name: str = ""
    """The `event:` field as sent, or `error` for data in an `error:` field."""
    damaged: bool = False
    """Some of its bytes were not UTF-8 and were replaced by U+FFFD."""


class ServerSentEventDecoder:
    """Incremental decoder; `feed` returns the events that the bytes complete, `finish` the rest at the end.

    After `finish`, it decodes the stream that continues this one; the limits apply to both together.
    """

    def __init__(self) -> None:
        self.last_event_id = ""
        """Id of the last complete event, with or without data."""
        self.retry_seconds: float | None = None
        """Seconds after which the server expects a client to continue an ended stream."""
        self._event_id = ""
        self._pending = bytearray()
        self._has_started = False
        self._is_after_return = False
        self._name = ""
        self._data: list[str] = []
        self._bytes_since_event = 0
        """Bytes since the last event, including heartbeats."""
        self._damaged = False
        self._unframed: list[str] = []
        self._unframed_characters = 0

    @property
    def unframed(self) -> str:
        """Return the text outside of event framing, for example an HTML page."""
        return "\n".join(self._unframed)

    def feed(self, piece: bytes) -> list[ServerSentEvent]:
        """Decode the next bytes; raise ResponseTooLarge if too many bytes arrive without completing an event."""
        self._bytes_since_event += len(piece)
        if self._bytes_since_event > MAX_EVENT_BYTES:
            raise ResponseTooLarge("a page" if self._unframed else "an event", MAX_EVENT_BYTES)
        if self._is_after_return and piece:
            piece = piece.removeprefix(b"\n")
            self._is_after_return = False
        *lines, rest = _LINE_END.split(piece) if b"\r" in piece else piece.split(b"\n")
        if lines:
            lines[0] = bytes(self._pending) + lines[0]
            self._pending.clear()
            # A return at the very end may be the first half of CRLF.
            self._is_after_return = piece.endswith(b"\r")
        events: list[ServerSentEvent] = []
        for line in lines:
            self._parse_line(line, events)
        self._pending += rest
        if events:
            self._bytes_since_event = len(rest)
        return events

    def finish(self) -> list[ServerSentEvent]:
        """Return the last events after the end of the body, even without their final blank line."""
        events: list[ServerSentEvent] = []
        if self._pending:
            line = bytes(self._pending)
            # A line that breaks off in the name of its field, such as `dat`, is no text.
            if not any(field.encode().startswith(line) for field in _FIELDS):
                self._parse_line(line, events)
            self._pending.clear()
        self._dispatch_event(events)
        self._event_id = self.last_event_id
        return events

    def _parse_line(self, raw: bytes, events: list[ServerSentEvent]) -> None:
        if not self._has_started:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
            self._has_started = True
        if not raw:
            self.last_event_id = self._event_id
            self._dispatch_event(events)
            return
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            line = raw.decode(errors="replace")
            self._damaged = True
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name and name not in _FIELDS:
            self._add_unframed(line, events)
        elif name == "event":
            self._name = value.removeprefix(" ")
        elif name == "id":
            self._event_id = value.removeprefix(" ")
        elif name == "retry" and (milliseconds := value.removeprefix(" ")).isdecimal() and len(milliseconds) < 10:
            self.retry_seconds = int(milliseconds) / 1000
        elif name == "error":
            self._dispatch_event(events)
            events.append(ServerSentEvent(value.removeprefix(" "), "error"))

    def _dispatch_event(self, events: list[ServerSentEvent]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else "\n".join(self._data)
            if data and not data.isspace():
                events.append(ServerSentEvent(data, self._name, self._damaged))
            self._data.clear()
        self._name = ""
        self._damaged = False

    def _add_unframed(self, line: str, events: list[ServerSentEvent]) -> None:
        if line.startswith("{") and not self._unframed and is_json_object(line):
            events.append(ServerSentEvent(line, damaged=self._damaged))
            self._damaged = False
        else:
            # The text is stored, so all of it counts, even with events in between.
            self._unframed_characters += len(line)
            if self._unframed_characters > MAX_EVENT_BYTES:
                raise ResponseTooLarge("a page", MAX_EVENT_BYTES)
            self._unframed.append(line)
