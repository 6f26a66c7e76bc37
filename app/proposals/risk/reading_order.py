"""Order of the files in a review: those with the gravest reasons first."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from app.proposals.risk.edited_file import EditedFile, LiteralPattern, is_prose, is_test, test_subject
from app.proposals.values.attention_reason import Reason, ReasonKind

_Item = TypeVar("_Item")
_GRAVITY = {kind: 1 << (len(ReasonKind) - number) for number, kind in enumerate(ReasonKind)}
"""One reason weighs more than all that come after it."""

_DEFINITION = LiteralPattern(
    r"\b(?:def|class|function|func|fn|struct|enum|trait|interface|type|const|record|module)\s+(?:\([^)]{0,80}\)\s*)?"
    r"([A-Za-z_]\w{2,})|^([A-Z][A-Z0-9_]{2,})\s*=|^\s*export\s+(?:default\s+)?(?:let|var)\s+(\w{3,})",
    (
        *("def", "class", "func", "fn", "struct", "enum", "trait", "interface", "type", "const", "record"),
        "module",
    ),
    ("=", "export"),
)
_WORD = re.compile(r"[A-Za-z_]\w{2,}")
_MOST = 2_000_000
"""Characters of added text, at most, in which uses are looked for."""


def order_by_need(files: Sequence[EditedFile], reasons: Sequence[Reason]) -> tuple[str, ...]:
    """Return the paths in the order in which they should be read.

    First the files with reasons, the gravest first; then definitions before what uses them, each test behind what
    it tests, and prose; at last lock files and what is generated. Files that are alike stand by path.
    """
    gravity: dict[str, int] = {}
    last: set[str] = set()
    for reason in reasons:
        if reason.kind.is_risk:
            gravity[reason.path] = gravity.get(reason.path, 0) | _GRAVITY[reason.kind]
        else:
            last.add(reason.path)
    followed = {path: number for number, path in enumerate(_to_follow(files))}
    return tuple(sorted(followed, key=lambda path: (-gravity.get(path, 0), path in last, followed[path])))


def sort_by_path(items: Sequence[_Item], paths: Sequence[str], order: Sequence[str]) -> list[_Item]:
    """Return items, each with its path, in an order of paths; items that it does not name stay behind."""
    place = {path: number for number, path in enumerate(order)}
    ranked = sorted(range(len(items)), key=lambda number: place.get(paths[number], len(place)))
    return [items[number] for number in ranked]


def _to_follow(files: Sequence[EditedFile]) -> Iterable[str]:
    """The paths so that a reader knows what is used before its use."""
    paths = sorted(file.path for file in files)
    prose = [path for path in paths if is_prose(path)]
    tests = [path for path in paths if is_test(path) and not is_prose(path)]
    others = {*prose, *tests}
    tests_of: dict[str, list[str]] = {}
    for path in tests:
        tests_of.setdefault(test_subject(path), []).append(path)
    for path in _definitions_first([path for path in paths if path not in others], files):
        yield path
        yield from tests_of.pop(test_subject(path), ())
    yield from _definitions_first(sorted(path for rest in tests_of.values() for path in rest), files)
    yield from prose


def _definitions_first(paths: Sequence[str], files: Sequence[EditedFile]) -> list[str]:
    """The paths so that a file that defines a name stands before those that use it; in a circle the first by path."""
    wanted = set(paths)
    among = [file for file in files if file.path in wanted]
    if len(among) < 2 or sum(len(file.added_text) for file in among) > _MOST:
        return list(paths)
    needs = _needs(among)
    placed = {path: None for path in paths if not needs[path]} if not any(needs.values()) else {}
    open_paths = [path for path in paths if path not in placed]
    while open_paths:
        ready = next((path for path in open_paths if needs[path].keys() <= placed.keys()), None)
        if ready is None:
            # The one of a circle that needs the least of the others.
            ready = min(open_paths, key=lambda path: sum(needs[path][other] for other in needs[path].keys() - placed))
        open_paths.remove(ready)
        placed[ready] = None
    return list(placed)


def _needs(files: Sequence[EditedFile]) -> Mapping[str, Mapping[str, int]]:
    """For each path the others whose new names it uses, and how many of them."""
    homes: dict[str, set[str]] = {}
    for file in files:
        for line in file.added:
            for found in _DEFINITION.finditer(line.text):
                homes.setdefault(next(name for name in found.groups() if name), set()).add(file.path)
    home = {name: paths.pop() for name, paths in homes.items() if len(paths) == 1}
    needs: dict[str, dict[str, int]] = {file.path: {} for file in files}
    for file in files:
        for name in home.keys() & set(_WORD.findall(file.added_text)):
            if home[name] != file.path:
                needs[file.path][home[name]] = needs[file.path].get(home[name], 0) + 1
    return needs
