"""Assemble tool calls from the deltas of a stream.

The rules, which no documented protocol covers but the deltas of real servers need:

- an empty string is as good as nothing;
- a known id wins over any index; a new id opens a new call, also where its index belongs to another one already;
- a whole call after a whole call is another one although its id is the same, unless it says the very same;
- without an id the index selects the latest call that has it; without either the latest call goes on;
- a delta that brings a name although its call has one and its arguments are whole opens a new call;
- calls keep the order in which they were first seen, not that of their indexes;
- a name may come in pieces, whole again with each delta, or both; arguments are always appended.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.llm.response import response_limits
from app.llm.response.response_limits import ResponseTooLarge, parse_json
from app.llm.response.text_filters import SurrogateJoiner
from app.llm.values.types import CallProgress, ReceivedCall

EXCERPT = 60
"""Characters of the arguments around the fault that the complaint quotes."""


def arguments_as_text(arguments: Any) -> str:
    """Return the arguments of one delta as text: a string as it is, None as nothing, anything else as JSON."""
    match arguments:
        case None:
            return ""
        case str():
            return arguments
        case _:
            return json.dumps(arguments, ensure_ascii=False)


def parse_arguments(raw: str) -> tuple[dict[str, Any] | None, str]:
    """Return the arguments as an object and an empty complaint, or None and what is wrong with them.

    Nothing at all and `null` are an object without fields, and an object that was encoded twice is decoded twice.
    Nothing is guessed or completed: what is cut off or followed by junk does not run.
    """
    if raw.strip() in ("", "null"):
        return {}, ""
    try:
        value = _decode(raw)
        if isinstance(value, str):
            value = _decode(value) if value.strip() else {}
    except json.JSONDecodeError as fault:
        return None, _complaint(fault)
    except (ValueError, RecursionError) as fault:
        return None, f"The arguments are not usable JSON: {fault}."
    if not isinstance(value, Mapping):
        return None, f"The arguments must be a JSON object, not {_kind(value)}."
    if not _is_encodable(value):
        return None, "The arguments contain half of a surrogate pair, which is not a character."
    return dict(value), ""


def is_complete(raw: str) -> bool:
    """Return whether the text so far is a complete JSON object."""
    try:
        return isinstance(_decode(raw), dict)
    except (ValueError, RecursionError):
        return False


def _decode(text: str) -> Any:
    # Not strict: a line break that stands unescaped in a string has only one possible meaning.
    return parse_json(text, strict=False)


def _complaint(fault: json.JSONDecodeError) -> str:
    if fault.msg == "Extra data":
        junk = fault.doc[fault.pos : fault.pos + EXCERPT]
        return f"The arguments are not one JSON object: it ends at character {fault.pos}, and {junk!r} follows."
    before = fault.doc[max(0, fault.pos - EXCERPT) : fault.pos]
    if fault.pos >= len(fault.doc.rstrip()) or fault.msg.startswith("Unterminated"):
        return f"The arguments are not complete JSON: they break off after {fault.doc[-EXCERPT:]!r}."
    return f"The arguments are not valid JSON: {fault.msg} at character {fault.pos}, after {before!r}."


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "an array"


def _is_encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(slots=True, eq=False)
class _Slot:
    """A tool call in the making."""

    position: int
    id: str = ""
    index: int | None = None
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    characters: int = 0
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Return whether the arguments are a whole object; only texts that end like one are parsed."""
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith("}") and is_complete("".join(self.pieces))


class CallAssembly:
    """The calls of one response.

    Args:
        tool_names: What the request offered; helps with names that come in pieces.
    """

    def __init__(self, tool_names: Iterable[str] = ()) -> None:
        self.characters = 0
        """Size of everything in the calls so far."""
        self._tool_names = frozenset(tool_names)
        self._slots: list[_Slot] = []

    def __bool__(self) -> bool:
        return bool(self._slots)

    def feed(self, delta: Mapping[str, Any]) -> CallProgress | None:
        """Add one element of `delta.tool_calls`; return None if it is empty.

        Raises:
            ResponseTooLarge: The arguments of one call, or the calls, go on without end.
        """
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        name = function.get("name") or delta.get("name")
        name = name if isinstance(name, str) else ""
        arguments = arguments_as_text(function.get("arguments"))
        identity = str(delta.get("id") or "")
        index = delta.get("index")
        index = index if isinstance(index, int) else None
        extra = delta.get("extra_content")
        if not (identity or name or arguments or extra) and (index is None or not self._slots):
            return None
        slot = self._slot(identity, index, name, arguments)
        if name:
            slot.name = self._joined_name(slot, name)
            self.characters += len(name)
        if arguments and not (identity and name and slot.pieces == [arguments] and slot.complete):
            slot.pieces.append(arguments)
            slot.characters += len(arguments)
            self.characters += len(arguments)
            if slot.characters > response_limits.CALL:
                raise ResponseTooLarge("a tool call", response_limits.CALL, "characters")
        if isinstance(extra, dict):
            self.characters += len(json.dumps(extra))
            slot.extras.setdefault("extra_content", {}).update(extra)
        return CallProgress(slot.position, slot.name, slot.characters)

    def calls(self) -> tuple[ReceivedCall, ...]:
        """Return the calls as they are, in the order of their first deltas."""
        return tuple(_received(slot) for slot in self._slots)

    def _slot(self, identity: str, index: int | None, name: str, arguments: str) -> _Slot:
        if not identity:
            slot = self._by_index(index)
            return self._open("", index) if slot is None or _opens_another(slot, name, arguments) else slot
        known = next((slot for slot in reversed(self._slots) if slot.id == identity), None)
        if known is None:
            anonymous = self._by_index(index)
            if anonymous is None or anonymous.id or (name and anonymous.name):
                return self._open(identity, index)
            anonymous.id = identity
            return anonymous
        # The same id for two calls: where both name and index say so, or where the one before is whole.
        if name and index is not None and known.index not in (None, index):
            return self._open(identity, index)
        again = known.pieces == [arguments]
        if index is None and known.index is None and not again and _opens_another(known, name, arguments):
            return self._open(identity, index)
        return known

    def _by_index(self, index: int | None) -> _Slot | None:
        if index is None:
            return self._slots[-1] if self._slots else None
        return next((slot for slot in reversed(self._slots) if slot.index == index), None)

    def _open(self, identity: str, index: int | None) -> _Slot:
        if len(self._slots) == response_limits.CALLS:
            raise ResponseTooLarge("a batch", response_limits.CALLS, "tool calls")
        self.characters += len(identity)
        slot = _Slot(len(self._slots), identity, index)
        self._slots.append(slot)
        return slot

    def _joined_name(self, slot: _Slot, name: str) -> str:
        """The name of a call after one more delta brought (a piece of) it."""
        if not slot.name:
            return name
        if slot.name in self._tool_names or slot.characters:
            return slot.name
        # Sent whole again but longer than before, or in pieces.
        return name if name.startswith(slot.name) or name in self._tool_names else slot.name + name


def _opens_another(slot: _Slot, name: str, arguments: str) -> bool:
    if not name or not slot.name:
        return False
    repeated = name == slot.name and not arguments
    return not repeated and slot.complete


def _received(slot: _Slot) -> ReceivedCall:
    joiner = SurrogateJoiner()
    raw = joiner.feed("".join(slot.pieces)) + joiner.finish()
    arguments, invalid = parse_arguments(raw)
    if not slot.name:
        arguments, invalid = None, "The call has no tool name."
    return ReceivedCall(
        wire_id=slot.id,
        name=slot.name,
        arguments=arguments,
        raw_arguments=raw,
        invalid=invalid,
        extras=slot.extras,
    )
