"""What the user doesn't want looked at: `.gitignore`, `.ignore` and `.signoffignore`, folder by folder like git.

The rules are those of git (gitignore, "PATTERN FORMAT"): the last match in a file wins, a file nearer to the path
wins over one farther up, and nothing below an ignored folder comes back. So a walk never enters an ignored folder.
In one folder `.signoffignore` wins over `.ignore`, and that over `.gitignore`. Patterns are translated by pathspec;
one file's patterns become one regular expression, which is what makes a walk of 100,000 files quick.
"""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from app.workspace.git import repository
from app.workspace.path_rules import UnsafePath, check_name

IGNORE_FILES = (".signoffignore", ".ignore", ".gitignore")
"""Names of ignore files, the strongest first."""

_LARGEST = 1024 * 1024
"""Bytes of an ignore file that are read."""
_ANY_FOLDER = "^(?:.+/)?"
"""How a pattern without a slash begins once translated: in any folder."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring patterns of one sign, as one expression each for bare names and for paths."""

    ignores: bool
    names: re.Pattern[str] | None
    paths: re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of one ignore file, and where they count from."""

    runs: tuple[_Run, ...]
    """Last in the file first."""
    cut: int = 0
    """Characters of a workspace path that lie before the ignore file's folder."""
    lead: str = ""
    """For an ignore file above the workspace: the path from there to the root, with a slash at its end."""

    def verdict(self, path: str, name: str, slash: str) -> bool | None:
        """Whether the patterns ignore the path (True), take it back (False) or don't mention it (None)."""
        for run in self.runs:
            if run.names is not None and run.names.fullmatch(name + slash):
                return run.ignores
            if run.paths is not None and run.paths.fullmatch(self.lead + path[self.cut :] + slash):
                return run.ignores
        return None


Rules = tuple[IgnoreFile, ...]
"""The ignore files that hold in a folder, the strongest first."""


def ignored(rules: Rules, path: str, name: str, is_folder: bool) -> bool:
    """Whether the entry itself is ignored, its parents not looked at."""
    slash = "/" if is_folder else ""
    for file in rules:
        verdict = file.verdict(path, name, slash)
        if verdict is not None:
            return verdict
    return False


def rules_above(root: Path) -> Rules:
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
        rules = _rules_of(found.top.joinpath(*below[:depth]), 0, lead) + rules
    return rules


def rules_in(root: Path, folder: str) -> Rules:
    """The rules that hold in a folder of the workspace; `folder` is empty for the root."""
    rules = _rules_of(root, 0) + rules_above(root)
    names = folder.split("/") if folder else []
    for depth in range(len(names)):
        path = "/".join(names[: depth + 1])
        rules = _rules_of(root / path, len(path) + 1) + rules
    return rules


def walk(
    root: Path, under: str, readable_link: Callable[[str], bool], forbidden: Callable[[str], bool]
) -> Iterator[str]:
    """Paths of all files below a folder that no rule ignores, sorted.

    Args:
        root: The workspace.
        under: The folder to start in, links resolved; empty for the root.
        readable_link: Says of a link's path whether it leads to a file that may be read.
        forbidden: Says of a path whether it is off limits.
    """
    above = rules_in(root, under.rpartition("/")[0]) if under else rules_above(root)
    scan = _Scan(root, readable_link, forbidden)
    stack = [scan.entries(under, above)]
    while stack:
        for path, rules in stack[-1]:
            if rules is None:
                yield path
            else:
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
    """Read and translate an ignore file; a link or anything odd counts as empty, as in git."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ()
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ()
        content = os.read(descriptor, _LARGEST)
    except OSError:
        return ()
    finally:
        os.close(descriptor)
    return compile_patterns(content.decode("utf-8-sig", "surrogateescape"))


@lru_cache(maxsize=256)
def compile_patterns(text: str) -> tuple[_Run, ...]:
    """Translate the text of an ignore file; patterns that git would discard are left out."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    runs: list[_Run] = []
    names: list[str] = []
    paths: list[str] = []
    sign: bool | None = None

    def close() -> None:
        if sign is not None:
            runs.append(_Run(sign, _any_of(names), _any_of(paths)))
        names.clear()
        paths.clear()

    for line in text.split("\n"):
        try:
            translated, ignores = GitIgnoreSpecPattern.pattern_to_regex(line)
        except ValueError:
            continue
        if translated is None or ignores is None:
            continue
        if ignores != sign:
            close()
            sign = ignores
        # pathspec's expressions also match what lies below a path; here each entry is tried whole, by itself.
        expression = re.sub(r"\(\?P<\w+>", "(?:", translated)
        pattern = line.strip()
        if not expression.startswith("^"):
            expression = f"^.*{expression}"
        if pattern.endswith("/**") and expression.endswith("/"):
            expression += ".+"
        elif pattern.endswith("/**/") and set(pattern.strip("!/").split("/")) != {"**"}:
            expression += ".+/"
        if expression.startswith(_ANY_FOLDER) and "/" not in pattern.removesuffix("/"):
            names.append("^" + expression.removeprefix(_ANY_FOLDER))
        else:
            paths.append(expression)
    close()
    return tuple(reversed(runs))


def _any_of(expressions: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(expressions), re.DOTALL) if expressions else None
