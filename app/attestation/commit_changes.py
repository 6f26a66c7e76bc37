"""Read the commits of a range and what each changes itself: a merge, what git would not have made of its parents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.git.blobs import BlobPair, parse_raw_diff
from app.git.borrowed_repository import BorrowedRepository
from app.git.run_git import GitFailed

_FORM = "%H%x00%P%x00%(trailers:keyonly,separator=%x20)%x00%an <%ae>%x00%ae%x00%s"
_FIELDS = 6
_SHOWN = 7
"""Digits of a commit's id."""
_MOST_FILES = 1_000_000
_MOST_PARENTS = 66
"""Of one merge; the most that Linux has."""
_AT_ONCE = 1_000
"""Commits whose changes are read by one process."""
_RAW = ("-r", "--raw", "-z", "--no-renames")


@dataclass(slots=True)
class RangeCommit:
    """A commit of the range that is verified."""

    name: str
    parents: Sequence[str]
    trailers: Sequence[str]
    """The keys of the trailers of its message."""
    author: str
    """`NAME <EMAIL>`, as the commit says."""
    email: str
    subject: str
    changes: Sequence[BlobPair] = field(default=())
    """What needs a review; a path on which a merge had conflicts comes once for each parent to compare with."""


def read_commits(borrowed: BorrowedRepository, base: str, tip: str) -> list[RangeCommit]:
    """Return the commits that `tip` has and `base` has not, oldest first, with their changes.

    Args:
        borrowed: The repository, opened without its work tree.
        base: A commit, or empty for all that led to `tip`.
        tip: A commit.

    Raises:
        GitFailed: the clone is shallow there, or the repository cannot be read.
    """
    ends = (tip, *([f"^{base}"] if base else []))
    parts = borrowed.run_query("log", "-z", "--reverse", f"--format={_FORM}", *ends).decode(
        "utf-8", "surrogateescape"
    )
    values = parts.removesuffix("\0").split("\0") if parts else []
    commits = [
        RangeCommit(name, parents.split(), trailers.split(" "), author, email, subject)
        for name, parents, trailers, author, email, subject in zip(
            *(values[at::_FIELDS] for at in range(_FIELDS)), strict=False
        )
    ]
    # What anybody wrote into a commit must not make one of them vanish.
    if {commit.name for commit in commits} != set(borrowed.run_query("rev-list", *ends).decode().split()):
        raise GitFailed("The commits of this range cannot be told apart; nothing was verified.")
    if cut := borrowed.shallow_commits & {commit.name for commit in commits}:
        raise GitFailed(
            f"The clone is shallow: what {min(cut)[:_SHOWN]} started from is missing; `git fetch --unshallow`."
        )
    plain = [commit for commit in commits if len(commit.parents) < 2]
    for start in range(0, len(plain), _AT_ONCE):
        _read_changes(borrowed, plain[start : start + _AT_ONCE])
    landed = {parent for commit in commits for parent in commit.parents} - {commit.name for commit in commits}
    for commit in commits:
        if len(commit.parents) > 1:
            commit.changes = list(_changes_of_merge(borrowed, commit, landed))
    return commits


def diff_trees(borrowed: BorrowedRepository, before: str, after: str) -> list[BlobPair]:
    """Return the differences between two commits or trees, file by file; raises GitFailed."""
    return parse_raw_diff(borrowed.run_query("diff-tree", *_RAW, before, after), _MOST_FILES)


def _read_changes(borrowed: BorrowedRepository, commits: Sequence[RangeCommit]) -> None:
    """Read the changes of commits that are no merges."""
    asked = "".join(f"{commit.name}\n" for commit in commits).encode()
    parts = borrowed.run_query("diff-tree", "--stdin", "--root", "--always", *_RAW, data=asked).split(b"\0")
    at = 0
    for commit in commits:
        if parts[at].decode() != commit.name:
            raise GitFailed(f"Git does not say what {commit.name[:_SHOWN]} changes; nothing was verified.")
        start = at = at + 1
        while parts[at].startswith(b":"):
            at += 2
        commit.changes = parse_raw_diff(b"\0".join(parts[start:at]), _MOST_FILES)


def _changes_of_merge(borrowed: BorrowedRepository, commit: RangeCommit, landed: set[str]) -> Iterator[BlobPair]:
    """Yield the changes of a merge that git would not have made of its parents.

    Where they conflict, that is what it makes of the parents that were there before the range, so that nothing of
    these is lost without a review; or of all, if none was.
    """
    tree, conflicts = _merged_tree(borrowed, commit)
    for pair in diff_trees(borrowed, tree, commit.name):
        if pair.path not in conflicts:
            yield pair
    if conflicts:
        for parent in dict.fromkeys(one for one in commit.parents if one in landed) or commit.parents:
            for pair in diff_trees(borrowed, parent, commit.name):
                if pair.path in conflicts:
                    yield pair


def _merged_tree(borrowed: BorrowedRepository, commit: RangeCommit) -> tuple[str, set[str]]:
    """Return git's own merge of the parents of a merge commit, one after the other, and the conflicting paths."""
    if len(commit.parents) > _MOST_PARENTS:
        raise GitFailed(f"The merge {commit.name[:_SHOWN]} has more than {_MOST_PARENTS} parents.")
    merged, *others = commit.parents
    tree, conflicts = "", set[str]()
    # What it prints: https://git-scm.com/docs/git-merge-tree#OUTPUT; with 1 it ends if there are conflicts.
    words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", "--allow-unrelated-histories")
    for other in others:
        try:
            said = borrowed.run_query(*words, merged, other, max_exit_code=1)
        except GitFailed as error:
            raise GitFailed(
                f"What git makes of the parents of {commit.name[:_SHOWN]} is unknown; that needs git 2.38. {error}"
            ) from error
        tree, *paths = said.decode("utf-8", "surrogateescape").split("\0")
        tree = tree.strip()
        conflicts |= set(paths)
        if other is not others[-1]:
            merged = _merge_commit(borrowed, tree, merged, other)
    return tree, conflicts


def _merge_commit(borrowed: BorrowedRepository, tree: str, *parents: str) -> str:
    """Return a commit of the temporary repository, with which a next parent can be merged."""
    nobody = "- <-> 0 +0000"
    lines = (f"tree {tree}", *(f"parent {one}" for one in parents), f"author {nobody}", f"committer {nobody}", "", "")
    return (
        borrowed.run_query("hash-object", "-t", "commit", "-w", "--stdin", data="\n".join(lines).encode())
        .decode()
        .strip()
    )
