"""What a commit, or a range of them, changes."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.git.blobs import Entry, leaves, mode_of, pairs
from app.git.borrowed import Borrowed
from app.git.running import GitFailed
from app.sandbox.changes import Change, Leaf

_MOST_COMMITS = 10_000
_BRANCHES = ("refs/heads/", "refs/remotes/")


@dataclass(frozen=True, slots=True)
class Picked:
    """Two commits, and what lies between."""

    base: str
    """The id of a commit or a tree."""
    tip: str
    name: str
    """As the user named it."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What commits come to."""

    changes: tuple[Change, ...]
    left_out: tuple[str, ...]
    """What can't be proposed, each with the reason."""
    subject: str
    """Of the latest commit."""
    authors: tuple[str, ...]
    """Of all of them, each once, the latest first."""
    count: int
    """How many commits."""
    picked: Picked


def pick(borrowed: Borrowed, name: str) -> Picked | None:
    """What a name means: `A..B` and `A...B` as in `git diff`, a branch all that it has and HEAD has not, and anything
    else one commit. None if there is nothing of that name here."""
    for dots in ("...", ".."):
        first, between, last = name.partition(dots)
        if between:
            ends = [borrowed.resolve(each or "HEAD") for each in (first, last)]
            if not all(ends):
                return None
            return Picked(_fork(borrowed, ends[0], ends[1], name) if dots == "..." else ends[0], ends[1], name)
    commit = borrowed.resolve(name)
    if not commit:
        return None
    if borrowed.full_name(name).startswith(_BRANCHES) and name != "HEAD":
        return branch(borrowed, commit, name)
    return single(borrowed, commit, name)


def branch(borrowed: Borrowed, tip: str, name: str) -> Picked:
    """All that a branch has and HEAD has not.

    Raises:
        GitFailed: they have no commit in common.
    """
    head = borrowed.resolve("HEAD")
    if not head:
        raise GitFailed(f"There is no commit here yet that {name} could be compared with.")
    return Picked(_fork(borrowed, head, tip, name), tip, name)


def single(borrowed: Borrowed, commit: str, name: str) -> Picked:
    """One commit against its first parent, or against nothing."""
    said = borrowed.ask("rev-list", "--parents", "--max-count=1", commit).decode().split()
    return Picked(said[1] if len(said) > 1 else _empty_tree(borrowed), commit, name)


def committed(borrowed: Borrowed, picked: Picked, limit: int) -> Committed:
    """What lies between two commits, in the folder of the workspace.

    Raises:
        GitFailed: it is too much, or an object is missing.
    """
    lead = f"{borrowed.folder}/" if borrowed.folder else ""
    within = ("--", lead) if lead else ()
    options = ("-r", "--raw", "-z", "--no-renames", "--no-abbrev")
    found = pairs(borrowed.ask("diff-tree", *options, picked.base, picked.tip, *within))
    contents = leaves(borrowed, [entry for pair in found for entry in (pair.before, pair.after) if entry], limit)
    changes: list[Change] = []
    left_out: list[str] = []
    for pair in found:
        path = pair.path.removeprefix(lead)
        sides = [entry for entry in (pair.before, pair.after) if entry is not None]
        if any(entry.is_module for entry in sides):
            left_out.append(f"{path}: a commit of another repository")
        elif any(entry not in contents for entry in sides):
            left_out.append(f"{path}: larger than {limit:,} bytes")
        else:
            changes.append(Change(path, _leaf(contents, pair.before), _leaf(contents, pair.after)))
    subject, authors, count = _told(borrowed, picked)
    return Committed(tuple(changes), tuple(left_out), subject, authors, count, picked)


def _leaf(contents: dict[Entry, Leaf], entry: Entry | None) -> Leaf | None:
    return None if entry is None else Leaf(contents[entry].data, mode_of(entry))


def _told(borrowed: Borrowed, picked: Picked) -> tuple[str, tuple[str, ...], int]:
    """The subject of the tip, the authors, and how many commits there are."""
    since = () if picked.base == _empty_tree(borrowed) else (f"^{picked.base}",)
    one = ("--max-count=1",) if not since else (f"--max-count={_MOST_COMMITS}",)
    said = borrowed.ask("log", "--format=%an%x00%s%x00", *one, picked.tip, *since, "--")
    parts = said.decode("utf-8", "replace").split("\0")
    authors: Sequence[str] = [each.strip() for each in parts[:-1:2]]
    subject = parts[1] if len(parts) > 1 else ""
    return subject, tuple(dict.fromkeys(filter(None, authors))), len(authors)


def _fork(borrowed: Borrowed, one: str, other: str, name: str) -> str:
    """Where two commits part."""
    try:
        said = borrowed.ask("merge-base", one, other)
    except GitFailed as error:
        raise GitFailed(f"{name} has no commit in common with what is here.") from error
    return said.decode().split()[0]


def _empty_tree(borrowed: Borrowed) -> str:
    """The id of a tree without files."""
    return borrowed.ask("hash-object", "-t", "tree", "--stdin").decode().strip()
