"""What the user wants, told by the words of the request."""

import re
from dataclasses import dataclass

from app.demo.words import PATH, WORDS

_NAME = r"[`'\"“‘]?(?P<{}>[\w./@-]*\w)[`'\"”’]?(?:\(\))?"
_RENAME = re.compile(
    r"\b(?:rename|move)\s+(?:the\s+)?(?:(?:function|class|constant|variable|method|module|file|name)\s+)?"
    rf"{_NAME.format('old')}\s+(?:to|into|as|->|→)\s+{_NAME.format('new')}",
    re.IGNORECASE,
)
_DELETE = re.compile(rf"\b(?:delete|remove)\s+(?:the\s+)?(?:file\s+)?{_NAME.format('path')}", re.IGNORECASE)
_KINDS = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in WORDS["intents"].items()}


@dataclass(frozen=True, slots=True)
class Intent:
    """A skill and what to use it on."""

    kind: str
    """A key of `intents` in words.toml, or "rename", "move", "delete"; "search" where no other fits."""
    paths: tuple[str, ...] = ()
    """Files that the request names."""
    old: str = ""
    new: str = ""
    """For a rename or a move: from what to what."""


def read_intent(text: str) -> Intent:
    """The skill that `text` asks for."""
    paths = tuple(dict.fromkeys(PATH.findall(text)))
    if renamed := _RENAME.search(text):
        kind = "move" if PATH.fullmatch(renamed["old"]) else "rename"
        return Intent(kind, paths, renamed["old"], renamed["new"])
    if (deleted := _DELETE.search(text)) and PATH.fullmatch(deleted["path"]):
        return Intent("delete", (deleted["path"],))
    return Intent(next((kind for kind, pattern in _KINDS.items() if pattern.search(text)), "search"), paths)
