"""Renames a word in every file where it occurs, and finds a different way to do it when the first was denied."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from app.demo.proposing import Variant
from app.demo.words import ticked

_PROSE = (".md", ".rst", ".txt", ".toml")
_NEW_NAME = re.compile(r"`([A-Za-z_]\w*)`|\b(?:call|name)(?:d|ed)? it\s+[\"']?([A-Za-z_]\w*)", re.IGNORECASE)
_LEAVE = re.compile(r"\b(?:not|leave|without|except|skip|don't touch)\b[^.\n]*", re.IGNORECASE)
_ONLY = re.compile(r"\bonly\b", re.IGNORECASE)


def renamings(old: str, new: str, sources: Mapping[str, str], feedback: Sequence[str]) -> Iterator[Variant]:
    """Ways to rename a word in `sources`, best first: what the feedback asks for, then without what is prose."""
    leave: set[str] = set()
    for words in feedback:
        names = [name for groups in _NEW_NAME.findall(words) for name in groups if name not in ("", old)]
        new = names[0] if names else new
        named = {path for path in sources if PurePosixPath(path).name in words}
        if _ONLY.search(words):
            leave |= set(sources) - named if named else set()
        elif found := _LEAVE.search(words):
            leave |= named | {path for path in sources if "test" in path and "test" in found[0]}
    word = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)")
    after = {path: word.sub(lambda _: new, text) for path, text in sources.items()}
    for left in (leave, leave | {path for path in sources if path.endswith(_PROSE)}):
        told = f" It leaves out {ticked(sorted(left))}." if left else ""
        taken = {path: text for path, text in after.items() if path not in left}
        yield Variant(f"`{old}` becomes `{new}`.{told}", taken, f"Rename {old} to {new}")
