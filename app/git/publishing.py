"""A proposal as a commit on top of HEAD, made without a look at the user's index or a change to any file."""

from collections.abc import Iterable, Sequence

from app.git.blobs import Entry, git_mode, leaves
from app.git.borrowed import Borrowed
from app.git.running import GitFailed
from app.proposals.rebase import merged_bytes
from app.proposals.text.document import Document
from app.sandbox.changes import Change, Leaf


def commit_changes(borrowed: Borrowed, changes: Sequence[Change], message: str, limit: int) -> str:
    """The id of a commit, in our own repository, that makes these changes to HEAD.

    Args:
        borrowed: The workspace's repository.
        changes: Each path as the proposal found it and as it makes it.
        message: Of the commit.
        limit: Bytes of the largest file.

    Raises:
        GitFailed: HEAD has other text in the same places, or git would not make it.
    """
    head = borrowed.resolve("HEAD")
    if not head:
        raise GitFailed("There is no commit yet that the proposal could be put on; make a first one.")
    index = borrowed.own / "made"
    borrowed.ask("read-tree", head, index=index)
    there = _at_head(borrowed, head, changes, limit)
    lines: list[str] = []
    for change in changes:
        path = f"{borrowed.folder}/{change.path}" if borrowed.folder else change.path
        leaf = _on_head(change, there.get(path))
        if leaf is None:
            lines.insert(0, f"0 {'0' * len(head)}\t{path}\0")
        else:
            lines.append(f"{git_mode(leaf.mode, link=leaf.is_link)} {_blob(borrowed, path, leaf)}\t{path}\0")
    data = "".join(lines).encode("utf-8", "surrogateescape")
    borrowed.ask("update-index", "--replace", "-z", "--index-info", data=data, index=index)
    tree = borrowed.ask("write-tree", index=index).decode().strip()
    if tree == borrowed.resolve("HEAD", "tree"):
        raise GitFailed("HEAD has all of this already; there is nothing to push.")
    said = borrowed.write("commit-tree", tree, "-p", head, "-F", "-", data=message.encode("utf-8", "replace"))
    return said.decode().strip()


def _at_head(borrowed: Borrowed, head: str, changes: Iterable[Change], limit: int) -> dict[str, Leaf]:
    """What HEAD has at the paths, as it would be on disk."""
    lead = f"{borrowed.folder}/" if borrowed.folder else ""
    paths = [f"{lead}{change.path}" for change in changes]
    said = borrowed.ask("ls-tree", "-z", "--full-tree", head, "--", *paths).decode("utf-8", "surrogateescape")
    entries = []
    for line in said.split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        mode, kind, blob = facts.split()
        if kind == "blob":
            entries.append(Entry(path, mode, blob))
    found = leaves(borrowed, entries, limit)
    return {entry.path: leaf for entry, leaf in found.items()}


def _on_head(change: Change, there: Leaf | None) -> Leaf | None:
    """What the change makes of what HEAD has.

    Raises:
        GitFailed: it was made of something else, and does not fit.
    """
    before, after = change.before, change.after
    if _same(there, before) or _same(there, after):
        return after
    apart = GitFailed(
        f"{change.path} is changed in the same places, or not there, since the last commit; commit that first, or "
        "decide on what the proposal builds on."
    )
    if there is None or before is None or after is None or any(leaf.is_link for leaf in (there, before, after)):
        raise apart
    if any(Document(leaf.data).binary for leaf in (there, before, after)):
        raise apart
    merged, how = merged_bytes(before.data, there.data, after.data)
    if how.conflicts:
        raise apart
    return Leaf(merged, there.mode if before.mode == after.mode else after.mode)


def _same(one: Leaf | None, other: Leaf | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.data == other.data and one.is_link == other.is_link


def _blob(borrowed: Borrowed, path: str, leaf: Leaf) -> str:
    """The id of the content as git keeps it: line endings and encoding as they are set to."""
    how = ("--no-filters",) if leaf.is_link else ("--path", path)
    return borrowed.ask("hash-object", "-w", "--stdin", *how, data=leaf.data).decode().strip()
