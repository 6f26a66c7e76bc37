"""Which of the files that a command has changed were moved: content that is gone here and came up there."""

from collections import Counter
from collections.abc import Sequence

from app.proposals.text.document import Document
from app.sandbox.changes import Change

_COMPARED = 200
"""Files on either side that are compared for what they share; of more, only what is equal counts as moved."""
_LARGEST = 200_000
"""Bytes of a file that is compared so."""
_ALIKE = 0.5
"""The share of lines by which a file counts as moved and edited, as in git."""


def moves(changes: Sequence[Change]) -> dict[str, str]:
    """New path to old path of the files that were moved, edited or not."""
    gone = {each.path: each.before.data for each in changes if each.before and not each.after}
    come = {each.path: each.after.data for each in changes if each.after and not each.before}
    links = {each.path for each in changes for leaf in (each.before, each.after) if leaf and leaf.is_link}
    found: dict[str, str] = {}
    by_content: dict[bytes, list[str]] = {}
    for path, data in gone.items():
        if data and path not in links:
            by_content.setdefault(data, []).append(path)
    for path, data in come.items():
        if path not in links and (sources := by_content.get(data)):
            source = min(sources, key=lambda each: (_name(each) != _name(path), each))
            sources.remove(source)
            found[path] = source
    moved = {*found, *found.values(), *links}
    left = [(path, data) for path, data in gone.items() if path not in moved and _comparable(data)]
    new = [(path, data) for path, data in come.items() if path not in moved and _comparable(data)]
    if left and new and max(len(left), len(new)) <= _COMPARED:
        found |= _edited(left, new)
    return found


def _edited(gone: Sequence[tuple[str, bytes]], come: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    lines = {path: Counter(data.splitlines()) for path, data in (*gone, *come)}
    ranked = sorted(
        (
            (-share, _name(old) != _name(new), new, old)
            for new, _ in come
            for old, _ in gone
            if (share := _share(lines[old], lines[new])) >= _ALIKE
        )
    )
    found: dict[str, str] = {}
    taken: set[str] = set()
    for _, _, new, old in ranked:
        if new not in found and old not in taken:
            found[new] = old
            taken.add(old)
    return found


def _share(one: Counter[bytes], other: Counter[bytes]) -> float:
    return (one & other).total() / max(one.total(), other.total(), 1)


def _comparable(data: bytes) -> bool:
    return 0 < len(data) <= _LARGEST and not Document(data).binary


def _name(path: str) -> str:
    return path.rpartition("/")[2]
