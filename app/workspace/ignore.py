"""What the user doesn't want looked at: `.gitignore`, `.ignore` and `.signoffignore`, folder by folder like git.

The rules are those of git (gitignore, "PATTERN FORMAT"): the last match in a file wins, a file nearer to the path
wins over one farther up, and nothing below an ignored folder comes back. So a walk never enters an ignored folder.
In one folder `.signoffignore` wins over `.ignore`, and that over `.gitignore`. Plain names and endings, which most
patterns are, are looked up; the others are matched many at a time. That is what makes a walk of 100,000 files quick.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path

from app.workspace.git import repository
from app.workspace.path_rules import LONGEST_PATH, UnsafePath, WorkspaceClosed, check_name
from app.workspace.reading import read_file
from app.workspace.wildmatch import Rule, expression, parse

IGNORE_FILES = (".signoffignore", ".ignore", ".gitignore")
"""Names of ignore files, the strongest first."""

_LARGEST = 1024 * 1024
"""Bytes of an ignore file that are read."""
_BATCH = 100
"""Patterns that are compiled to one expression."""


class _Patterns:
    """Patterns of one sign that are all matched with the same text: with names, or with paths."""

    __slots__ = ("_batches", "_endings", "_literals")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._literals: set[str] = set()
        self._batches: list[str | re.Pattern[str]] = []
        endings: list[str] = []
        expressions: list[str] = []
        for rule in rules:
            if rule.literal:
                self._literals.add(rule.text)
            elif rule.ending:
                endings.append(rule.ending)
            elif (translated := expression(rule)) is not None:
                expressions.append(translated)
        self._endings = tuple(endings)
        for start in range(0, len(expressions), _BATCH):
            self._batches.append("|".join(expressions[start : start + _BATCH]))

    def match(self, text: str) -> bool:
        """Whether any of them does."""
        if text in self._literals or (self._endings and text.endswith(self._endings)):
            return True
        for at, batch in enumerate(self._batches):
            if isinstance(batch, str):
                # Compiled when first needed: there may be very many, and whoever waits may leave meanwhile.
                batch = self._batches[at] = re.compile(batch, re.DOTALL)
            if batch.fullmatch(text):
                return True
        return False


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring patterns of one sign."""

    ignores: bool
    names: _Patterns | None
    paths: _Patterns | None
    folder_names: _Patterns | None
    """For folders only, as are `folder_paths`."""
    folder_paths: _Patterns | None

    def match(self, path: str, name: str, is_folder: bool) -> bool:
        """Whether any pattern does."""
        if (self.names and self.names.match(name)) or (self.paths and self.paths.match(path)):
            return True
        if not is_folder:
            return False
        return bool(
            (self.folder_names and self.folder_names.match(name))
            or (self.folder_paths and self.folder_paths.match(path))
        )


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of one ignore file, and where they count from."""

    runs: tuple[_Run, ...]
    """Last in the file first."""
    cut: int = 0
    """Characters of a workspace path that lie before the ignore file's folder."""
    lead: str = ""
    """For an ignore file above the workspace: the path from there to the root, with a slash at its end."""

    def verdict(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Whether the patterns ignore the path (True), take it back (False) or don't mention it (None)."""
        path = self.lead + path[self.cut :]
        for run in self.runs:
            if run.match(path, name, is_folder):
                return run.ignores
        return None


Rules = tuple[IgnoreFile, ...]
"""The ignore files that hold in a folder, the strongest first."""


def ignored(rules: Rules, path: str, name: str, is_folder: bool) -> bool:
    """Whether the entry itself is ignored, its parents not looked at."""
    for file in rules:
        verdict = file.verdict(path, name, is_folder)
        if verdict is not None:
            return verdict
    return False


def rules_above(root: Path, names: Collection[str] = IGNORE_FILES) -> Rules:
    """What holds from outside: ignore files between the repository's top and the workspace, `.git/info/exclude`."""
    found = repository(root)
    if found is None:
        return ()
    rules: Rules = ()
    exclude = _load(found.shared / "info" / "exclude")
    below = root.relative_to(found.top).parts
    if exclude:
        rules = (IgnoreFile(exclude, lead="".join(f"{part}/" for part in below)),)
    for depth in range(len(below)):
        lead = "".join(f"{part}/" for part in below[depth:])
        rules = _rules_of(found.top.joinpath(*below[:depth]), 0, lead, names) + rules
    return rules


def rules_in(root: Path, folder: str, names: Collection[str] = IGNORE_FILES) -> Rules:
    """The rules that hold in a folder of the workspace; `folder` is empty for the root, `names` says whose count."""
    rules = _rules_of(root, 0, names=names) + rules_above(root, names)
    parts = folder.split("/") if folder else []
    for depth in range(len(parts)):
        path = "/".join(parts[: depth + 1])
        rules = _rules_of(root / path, len(path) + 1, names=names) + rules
    return rules


def rules_of_file(path: Path) -> Rules:
    """The rules of one file of patterns that count from the root."""
    patterns = _load(path)
    return (IgnoreFile(patterns),) if patterns else ()


def walk(
    root: Path,
    under: str,
    readable_link: Callable[[str], bool],
    forbidden: Callable[[str], bool],
    ended: Callable[[], bool],
    closed: Callable[[], bool],
    *,
    folders: bool = False,
) -> Iterator[str]:
    """Paths of all files below a folder that no rule ignores, sorted.

    Args:
        root: The workspace.
        under: The folder to start in, links resolved; empty for the root.
        readable_link: Says of a link's path whether it leads to a file that may be read.
        forbidden: Says of a path whether it is off limits.
        ended: Asked at every entry; the walk ends where it is once it says so.
        closed: The same, with WorkspaceClosed.
        folders: Give the folders in place of the files.
    """
    above = rules_in(root, under.rpartition("/")[0]) if under else rules_above(root)
    scan = _Scan(root, readable_link, forbidden, ended, closed)
    stack = [scan.entries(under, above)]
    while stack:
        for path, rules in stack[-1]:
            if ended():
                return
            if (rules is not None) is folders:
                yield path
            if rules is not None:
                stack.append(scan.entries(path, rules))
                break
        else:
            stack.pop()


@dataclass(frozen=True, slots=True)
class _Scan:
    """Reads one folder at a time."""

    root: Path
    readable_link: Callable[[str], bool]
    forbidden: Callable[[str], bool]
    ended: Callable[[], bool]
    closed: Callable[[], bool]

    def entries(self, folder: str, above: Rules) -> Iterator[tuple[str, Rules | None]]:
        """Files, with None, and sub-folders, with the rules that hold around them, in the order of full paths."""
        prefix = f"{folder}/" if folder else ""
        try:
            with os.scandir(self.root / folder) as scan:
                there = list(scan)
        except OSError:
            return iter(())
        own = {entry.name for entry in there if entry.name in IGNORE_FILES}
        rules = _rules_of(self.root / folder, len(prefix), names=own) + above if own else above
        found: list[tuple[str, str, Rules | None]] = []
        for entry in there:
            if self.closed():
                raise WorkspaceClosed("The workspace is closed.")
            if self.ended():
                return iter(())
            name = entry.name
            if not _nameable(name):
                continue
            path = prefix + name
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                if ignored(rules, path, name, is_folder) or self.forbidden(path):
                    continue
                if is_folder:
                    found.append((f"{name}/", path, rules))
                elif entry.is_file(follow_symlinks=False) or (entry.is_symlink() and self.readable_link(path)):
                    found.append((name, path, None))
            except OSError:
                continue
        found.sort(key=itemgetter(0))
        return iter([(path, below) for _, path, below in found])


def _nameable(name: str) -> bool:
    """Whether `Workspace.locate` takes the name."""
    if name.isascii() and name.isprintable() and name[0] != "." and "\\" not in name and "~" not in name:
        return True
    try:
        check_name(name)
    except UnsafePath:
        return False
    return True


def _rules_of(folder: Path, cut: int, lead: str = "", names: Collection[str] = IGNORE_FILES) -> Rules:
    """The ignore files right in a folder, as far as they are among `names`."""
    files = []
    for name in IGNORE_FILES:
        if name in names and (runs := _load(folder / name)):
            files.append(IgnoreFile(runs, cut, lead))
    return tuple(files)


def _load(path: Path) -> tuple[_Run, ...]:
    return compile_patterns(patterns_in(path))


def patterns_in(path: Path) -> str:
    """The text of an ignore file; a link or anything odd counts as empty, as in git."""
    try:
        content, _ = read_file(path, _LARGEST, head=True)
    except OSError:
        return ""
    return content.decode("utf-8-sig", "surrogateescape")


@lru_cache(maxsize=256)
def compile_patterns(text: str) -> tuple[_Run, ...]:
    """What the text of an ignore file says, last first; patterns that git would discard are left out."""
    rules = [rule for line in text.split("\n") if (rule := parse(line)) and len(rule.text) <= LONGEST_PATH]
    runs = [_run(ignores, list(same)) for ignores, same in groupby(rules, key=attrgetter("ignores"))]
    return tuple(reversed(runs))


def _run(ignores: bool, rules: Sequence[Rule]) -> _Run:
    def those(*, anchored: bool, folders_only: bool) -> _Patterns | None:
        found = [rule for rule in rules if (rule.anchored, rule.folders_only) == (anchored, folders_only)]
        return _Patterns(found) if found else None

    return _Run(
        ignores,
        names=those(anchored=False, folders_only=False),
        paths=those(anchored=True, folders_only=False),
        folder_names=those(anchored=False, folders_only=True),
        folder_paths=those(anchored=True, folders_only=True),
    )
