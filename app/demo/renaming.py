"""Renames a word in every file where it occurs, and finds a different way to do it when the first was denied."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

_PROSE = (".md", ".rst", ".txt", ".toml")
_QUOTED = re.compile(r"`([A-Za-z_]\w*)`")
_CALLED = re.compile(
    r"\b(?:call(?:ed)? it|name(?:d)? it|use|to|prefer|instead)\s*:?\s+[`'\"]?([A-Za-z_]\w*)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Renaming:
    """From what to what, and where."""

    old: str
    new: str
    leave: frozenset[str] = frozenset()
    """Files that stay as they are."""
    alias: bool = False
    """Keep the old name as an alias in the file that defines it."""

    def reasons(self) -> list[str]:
        """What sets this one apart, a sentence each."""
        told = []
        if self.leave:
            told.append("It leaves out " + ", ".join(f"`{path}`" for path in sorted(self.leave)) + ".")
        if self.alias:
            told.append(f"The old name `{self.old}` stays as an alias, so nothing outside breaks.")
        return told


def renamings(old: str, new: str, feedback: Sequence[str], paths: Sequence[str]) -> Iterator[Renaming]:
    """Ways to rename, best first: what the feedback asks for, then variations of it."""
    asked = Renaming(old, new)
    for words in feedback:
        asked = _follow(words, asked, paths)
    yield asked
    prose = frozenset(path for path in paths if path.endswith(_PROSE))
    if prose and len(prose) < len(paths):
        yield replace(asked, leave=asked.leave | prose)
    yield replace(asked, alias=True)
    yield replace(asked, alias=True, leave=asked.leave | prose)


def _follow(words: str, renaming: Renaming, paths: Sequence[str]) -> Renaming:
    """`renaming`, changed as one piece of feedback says."""
    lowered = words.lower()
    names = [name for name in (*_QUOTED.findall(words), *_CALLED.findall(words)) if name != renaming.old]
    names = [
        name for name in names if "_" in name or name != name.lower() or f"`{name}`" in words or _is_call(name, words)
    ]
    named = {path for path in paths if PurePosixPath(path).name in words}
    tests = {path for path in paths if "test" in path}
    leave = set(renaming.leave)
    if re.search(r"\b(?:not|leave|without|except|skip|don't touch)\b[^.\n]*\btests?\b", lowered):
        leave |= tests
    if re.search(r"\bonly\b", lowered):
        leave |= (set(paths) - named) if named else (tests if "code" in lowered else set())
    elif named and re.search(r"\b(?:not|leave|without|except|skip|don't touch)\b", lowered):
        leave |= named
    alias = renaming.alias or bool(re.search(r"\b(?:alias|compat\w*|keep the old|deprecat\w*|old name)\b", lowered))
    return Renaming(renaming.old, names[0] if names else renaming.new, frozenset(leave), alias)


def _is_call(name: str, words: str) -> bool:
    return bool(re.search(rf"\b(?:call|name)(?:d|ed)? it\s+{re.escape(name)}\b", words, re.IGNORECASE))


def renamed(sources: Mapping[str, str], renaming: Renaming) -> dict[str, str]:
    """The files that the renaming changes, with their new text."""
    word = re.compile(rf"(?<!\w){re.escape(renaming.old)}(?!\w)")
    after: dict[str, str] = {}
    for path, text in sources.items():
        if path in renaming.leave:
            continue
        changed = word.sub(lambda _: renaming.new, text)
        if renaming.alias and _defines(text, renaming.old):
            changed = changed.rstrip("\n") + f"\n\n\n{renaming.old} = {renaming.new}  # the name until now\n"
        if changed != text:
            after[path] = changed
    return after


def _defines(text: str, name: str) -> bool:
    return bool(
        re.search(rf"^(?:(?:async )?def |class ){re.escape(name)}\b|^{re.escape(name)}\b.* = ", text, re.MULTILINE)
    )
