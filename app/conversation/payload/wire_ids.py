"""Call ids and names for the wire: the server's own where usable, else derived ones.

A derived id is a hash of the call's own uid, so that it is the same in every request.
"""

import hashlib
import json
import math
import re
import string
from copy import copy
from typing import Any

from app.conversation.events import ToolCall


def dump_arguments(arguments: dict[str, Any] | None) -> str:
    """A JSON object; `{}` for arguments that never were one."""
    if not arguments:
        return "{}"
    try:
        return replace_surrogates(json.dumps(arguments, ensure_ascii=False, allow_nan=False))
    except (ValueError, TypeError):
        return replace_surrogates(json.dumps(_plain(arguments, 0), ensure_ascii=False))
    except RecursionError:
        return "{}"


def replace_surrogates(text: str) -> str:
    """The text, with half surrogate pairs replaced, since UTF-8 cannot hold them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def _plain(value: Any, depth: int) -> Any:
    """Return a value that JSON can hold: NaN and infinities become null, foreign values their text, deep nests are
    cut."""
    if depth > 50:
        return None
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(key): _plain(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, depth + 1) for item in value]
    return str(value)


_ALPHABET = string.ascii_letters + string.digits
_REASONABLE = 64
"""Characters of an id where no server has named a limit: more than this is a 400 on many."""
_SIGNED = "__thought__"
"""Stands in ids in which LiteLLM has Gemini's thought signature travel: they mean something only whole."""
_NINE = re.compile(r"[A-Za-z0-9]{9}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


class WireIds:
    """Assigns an id to each call, in the order of the log; never the same one twice."""

    def __init__(self, rule: str) -> None:
        """`rule` is `Profile.tool_id`."""
        self._nine = rule == "alnum9"
        self._word = rule == "word64"
        self._longest = int(rule[3:]) if rule.startswith("max") else None
        self._taken: set[str] = set()

    def fork(self) -> "WireIds":
        """Return a copy that continues independently."""
        copied = copy(self)
        copied._taken = {*self._taken}
        return copied

    def assign_id(self, call: ToolCall) -> str:
        """Return the id for this call; each call is assigned once."""
        chosen = call.wire_id
        attempt = 0
        while not self._legal(chosen) or chosen in self._taken:
            chosen = self._derived(call.uid, attempt)
            attempt += 1
        self._taken.add(chosen)
        return chosen

    def _legal(self, wire_id: str) -> bool:
        if not wire_id.strip() or not wire_id.isprintable():
            return False
        if self._nine:
            # What Mistral's validators accept.
            return _NINE.fullmatch(wire_id) is not None
        if self._word:
            return _NAME.fullmatch(wire_id) is not None
        if self._longest is not None:
            return len(wire_id) <= self._longest
        return len(wire_id) <= _REASONABLE or _SIGNED in wire_id

    def _derived(self, uid: str, attempt: int) -> str:
        digest = hashlib.sha256(f"{uid}\0{attempt}".encode("utf-8", "replace")).digest()
        if self._nine:
            return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:9])
        identity = f"call_{digest[:12].hex()}"
        # The end differs, the beginning does not.
        return identity if self._longest is None else identity[-self._longest :]


def to_valid_tool_name(name: str) -> str:
    """Return a tool name that strict servers accept; a model can invent any."""
    return _NOT_IN_NAME.sub("_", name)[:64] or "unknown"
