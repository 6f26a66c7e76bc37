"""Call ids and names as they go on the wire: the server's own where they are usable, else derived ones.

A derived id is a hash of the call's own uid, so that it is the same in every request.
"""

import hashlib
import re
import string
from typing import Literal

from app.conversation.events import ToolCall

_ALPHABET = string.ascii_letters + string.digits
_NINE = re.compile(r"[A-Za-z0-9]{9}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


class WireIds:
    """Hands out an id per call, in the order of the log; never the same one twice."""

    def __init__(self, rule: Literal["any", "alnum9", "max64"]) -> None:
        self._rule = rule
        self._taken: set[str] = set()

    def assign(self, call: ToolCall) -> str:
        """The id for this call; each call is assigned once."""
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
        match self._rule:
            case "alnum9":
                # What Mistral's validators accept.
                return _NINE.fullmatch(wire_id) is not None
            case "max64":
                return len(wire_id) <= 64
        return True

    def _derived(self, uid: str, attempt: int) -> str:
        digest = hashlib.sha256(f"{uid}\0{attempt}".encode("utf-8", "replace")).digest()
        if self._rule == "alnum9":
            return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:9])
        return f"call_{digest[:12].hex()}"


def wire_name(name: str) -> str:
    """A tool name that a strict server takes back; a model can invent any."""
    if _NAME.fullmatch(name):
        return name
    return _NOT_IN_NAME.sub("_", name)[:64] or "unknown"
