"""Read the changes of commits and of the worktree, and create a commit.

The changes of a merge commit are its differences from the result of git's own merge of its parents.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct, field

from app.git.blobs import (
    SUBMODULE_MODE,
    TreeDiffEntry,
    TreeEntry,
    checkout_mode,
    parse_raw_diff,
    read_checkout_contents,
    to_git_mode,
)
from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.run_git import GitFailed
from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.stack.rebase import merge_bytes
from app.proposals.text.document import Document
from app.proposals.values.proposal_errors import MAX_PROPOSAL_FILES
from app.sandbox.captured_changes import FileOrLink, PathChange
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace


def create_unreferenced_commit(
    borrowed: ObjectBorrowingRepository, changes: Sequence[PathChange], message: str, limit: int
) -> str:
    """Create a commit with these changes on top of HEAD in the temporary repository; return its id.

    Args:
        changes: Each path with its content before and after the proposal.

    Raises:
        GitFailed: HEAD has other text in the same places or all changes already, or git refuses the commit.
    """
    head = borrowed.resolve_object_id("HEAD")
    if not head:
        raise GitFailed("There is no commit yet on which the proposal could be based; make one first.")
    index = borrowed.own / "made"
    borrowed.run_query("read-tree", head, index=index)
    head_files = _read_files_at_head(borrowed, head, changes, limit)
    lines: list[str] = []
    for change in changes:
        path = f"{borrowed.path_prefix}{change.path}"
        leaf = _apply_to_head(change, head_files.get(path))
        if leaf is None:
            lines.insert(0, f"0 {'0' * len(head)}\t{path}\0")
        else:
            lines.append(f"{to_git_mode(leaf.mode, link=leaf.is_link)} {_write_blob(borrowed, path, leaf)}\t{path}\0")
    data = "".join(lines).encode("utf-8", "surrogateescape")
    borrowed.run_query("update-index", "--replace", "-z", "--index-info", data=data, index=index)
    tree = borrowed.run_query("write-tree", index=index).decode().strip()
    if tree == borrowed.resolve_object_id("HEAD", "tree"):
        raise GitFailed("HEAD has all of this already; there is nothing to push.")
    output = borrowed.write_object(
        "commit-tree", tree, "-p", head, "-F", "-", data=message.encode("utf-8", "replace")
    )
    return output.decode().strip()


def _read_files_at_head(
    borrowed: ObjectBorrowingRepository, head: str, changes: Iterable[PathChange], limit: int
) -> dict[str, FileOrLink]:
    """Return the files of HEAD at the changed paths, as a checkout would write them."""
    prefix = borrowed.path_prefix
    paths = [f"{prefix}{change.path}" for change in changes]
    output = borrowed.run_query("ls-tree", "-z", "--full-tree", head, "--", *paths).decode("utf-8", "surrogateescape")
    entries = []
    for line in output.split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        mode, kind, blob = facts.split()
        if kind == "blob":
            entries.append(TreeEntry(path, mode, blob))
    contents = read_checkout_contents(borrowed, entries, limit)
    return {entry.path: leaf for entry, leaf in contents.items()}


def _apply_to_head(change: PathChange, head_file: FileOrLink | None) -> FileOrLink | None:
    """Return the file of HEAD with the change applied; None if the change deletes it.

    Raises:
        GitFailed: HEAD's version and the change cannot be merged.
    """
    before, after = change.before, change.after
    if _is_same_content(head_file, before) or _is_same_content(head_file, after):
        return after
    conflict_error = GitFailed(
        f"{change.path} is changed in the same places, or not there, since the last commit; commit that first, or "
        "decide on what the proposal builds on."
    )
    if (
        head_file is None
        or before is None
        or after is None
        or any(leaf.is_link for leaf in (head_file, before, after))
    ):
        raise conflict_error
    if any(Document(leaf.data).is_binary for leaf in (head_file, before, after)):
        raise conflict_error
    merged, merge_result = merge_bytes(before.data, head_file.data, after.data)
    if merge_result.conflicts:
        raise conflict_error
    return FileOrLink(merged, head_file.mode if before.mode == after.mode else after.mode)


def _is_same_content(first: FileOrLink | None, second: FileOrLink | None) -> bool:
    if first is None or second is None:
        return first is second
    return first.data == second.data and first.is_link == second.is_link


def _write_blob(borrowed: ObjectBorrowingRepository, path: str, leaf: FileOrLink) -> str:
    """Write the content as a blob, with git's conversion of line endings and encoding; return its id."""
    options = ("--no-filters",) if leaf.is_link else ("--path", path)
    return borrowed.run_query("hash-object", "-w", "--stdin", *options, data=leaf.data).decode().strip()


_MAX_COMMITS = 10_000
_BRANCH_PREFIXES = ("refs/heads/", "refs/remotes/")


class CommitRange(Struct, frozen=True):
    """A range of commits, compared from `base` to `tip`."""

    base: str
    """The id of a commit or a tree."""
    tip: str
    name: str
    """As the user named it."""


class CommitRangeChanges(Struct, frozen=True):
    """The changes of a commit range, with its authors and subject."""

    changes: tuple[PathChange, ...]
    left_out: tuple[str, ...]
    """Paths that cannot be proposed, each with the reason."""
    subject: str
    """Subject of the latest commit."""
    authors: tuple[str, ...]
    """Authors of all commits, each once, the latest first."""
    count: int
    """Number of commits."""
    picked: CommitRange


def resolve_commit_range(borrowed: ObjectBorrowingRepository, name: str) -> CommitRange | None:
    """Return the range that a name means: `A..B`, `A...B`, the commits of a branch that HEAD lacks, or one commit.

    A name of any other commit is the range of this one commit. None if a commit does not exist.
    """
    for dots in ("...", ".."):
        first, between, last = name.partition(dots)
        if between:
            ends = [borrowed.resolve_object_id(end or "HEAD") for end in (first, last)]
            if not all(ends):
                return None
            return CommitRange(
                _find_merge_base(borrowed, ends[0], ends[1], name) if dots == "..." else ends[0], ends[1], name
            )
    commit = borrowed.resolve_object_id(name)
    if not commit:
        return None
    if borrowed.full_reference_name(name).startswith(_BRANCH_PREFIXES) and name != "HEAD":
        return branch_range(borrowed, commit, name)
    return single_commit_range(borrowed, commit, name)


def branch_range(borrowed: ObjectBorrowingRepository, tip: str, name: str, onto: str = "HEAD") -> CommitRange:
    """Return the range from the merge base with `onto` to the tip of a branch.

    Raises:
        GitFailed: `onto` does not exist, or they have no commit in common.
    """
    head = borrowed.resolve_object_id(onto)
    if not head:
        raise GitFailed(f"There is no commit {onto} here that {name} could be compared with.")
    return CommitRange(_find_merge_base(borrowed, head, tip, name), tip, name)


def single_commit_range(borrowed: ObjectBorrowingRepository, commit: str, name: str) -> CommitRange:
    """Return the range of one commit against its first parent, or against the empty tree."""
    ids = borrowed.run_query("rev-list", "--parents", "--max-count=1", commit).decode().split()
    return CommitRange(ids[1] if len(ids) > 1 else _empty_tree_id(borrowed), commit, name)


def read_range_changes(
    borrowed: ObjectBorrowingRepository, commit_range: CommitRange, workspace: Workspace
) -> CommitRangeChanges:
    """Return the changes between two commits, limited to the workspace's folder.

    Raises:
        GitFailed: the changes exceed a limit, or an object is missing.
    """
    prefix = borrowed.path_prefix
    pathspec = ("--", prefix) if prefix else ()
    options = ("-r", "--raw", "-z", "--no-renames", "--no-abbrev")
    pairs = parse_raw_diff(borrowed.run_query("diff-tree", *options, commit_range.base, commit_range.tip, *pathspec))
    contents = read_checkout_contents(
        borrowed, [entry for pair in pairs for entry in (pair.before, pair.after) if entry], workspace.read_limit
    )
    changes: list[PathChange] = []
    left_out: list[str] = []
    for pair in pairs:
        path = pair.path.removeprefix(prefix)
        try:
            workspace.check_folder_entry(path)
        except WorkspaceError as error:
            left_out.append(f"{path}: {error}")
            continue
        sides = [entry for entry in (pair.before, pair.after) if entry is not None]
        if any(entry.is_submodule for entry in sides):
            left_out.append(f"{path}: a commit of another repository")
        elif any(entry not in contents for entry in sides):
            left_out.append(f"{path}: larger than {workspace.read_limit:,} bytes")
        else:
            changes.append(PathChange(path, _make_leaf(contents, pair.before), _make_leaf(contents, pair.after)))
    subject, authors, count = _read_log(borrowed, commit_range)
    return CommitRangeChanges(tuple(changes), tuple(left_out), subject, authors, count, commit_range)


def _make_leaf(contents: dict[TreeEntry, FileOrLink], entry: TreeEntry | None) -> FileOrLink | None:
    return None if entry is None else FileOrLink(contents[entry].data, checkout_mode(entry))


def _read_log(borrowed: ObjectBorrowingRepository, picked: CommitRange) -> tuple[str, tuple[str, ...], int]:
    """Return the subject of the tip, the authors, and the number of commits."""
    exclusion = () if picked.base == _empty_tree_id(borrowed) else (f"^{picked.base}",)
    limit = ("--max-count=1",) if not exclusion else (f"--max-count={_MAX_COMMITS}",)
    output = borrowed.run_query("log", "--format=%an%x00%s%x00", *limit, picked.tip, *exclusion, "--")
    parts = output.decode("utf-8", "replace").split("\0")
    authors: Sequence[str] = [name.strip() for name in parts[:-1:2]]
    subject = parts[1] if len(parts) > 1 else ""
    return subject, tuple(dict.fromkeys(filter(None, authors))), len(authors)


def _find_merge_base(borrowed: ObjectBorrowingRepository, first: str, second: str, name: str) -> str:
    """Return the merge base of two commits."""
    try:
        output = borrowed.run_query("merge-base", first, second)
    except GitFailed as error:
        raise GitFailed(f"{name} has no commit in common with what is here.") from error
    return output.decode().split()[0]


def _empty_tree_id(borrowed: ObjectBorrowingRepository) -> str:
    """Return the id of the empty tree."""
    return borrowed.run_query("hash-object", "-t", "tree", "--stdin").decode().strip()


INDEX = "the index"
_NO_FILTERS = ("unspecified", "unset", "")


class WorktreeChanges(Struct, frozen=True):
    """The changes of the worktree, each from git's version to the file on disk."""

    changes: tuple[PathChange, ...]
    left_out: tuple[str, ...]
    """Paths that cannot be proposed, each with the reason: `big.bin: larger than 20 MB`."""
    against: str
    """`INDEX`, or the name and the id of the commit."""


def read_worktree_changes(workspace: Workspace, paths: Collection[str] = (), against: str = "") -> WorktreeChanges:
    """Return the differences on disk, including untracked files that are not ignored.

    Args:
        paths: Files and folders to compare; empty for the whole workspace.
        against: The commit to compare with; empty for the index.

    Raises:
        GitFailed: git fails, or there is no repository or no commit `against`.
        UnsafePath: one of the paths is not in the workspace.
    """
    with ObjectBorrowingRepository(workspace.root) as borrowed:
        commit = borrowed.resolve_object_id(against) if against else ""
        if against and not commit:
            is_unborn = against == "HEAD" or not borrowed.resolve_object_id("HEAD")
            advice = "leave out --against to compare with the index" if is_unborn else "`git log` lists the commits"
            raise GitFailed(f"There is no commit {against} here; {advice}.")
        prefix = borrowed.path_prefix
        normalized = [workspace.normalize_path(path) for path in paths] or ["."]
        pathspec = ["--", *(f"{prefix}{'' if path == '.' else path}" or "." for path in normalized)]
        pairs = {pair.path: pair for pair in parse_raw_diff(_read_tracked_diff(borrowed, commit, pathspec))}
        untracked = _list_untracked(borrowed, pathspec)
        untracked_files = [path for path in untracked if not path.endswith("/")]
        if len(pairs) + len(untracked_files) > MAX_PROPOSAL_FILES:
            raise GitFailed(f"{len(pairs) + len(untracked_files):,} files are changed or new; name a path.")
        if not pairs and not untracked:
            for path in normalized:
                if not os.path.lexists(workspace.root / path):
                    raise GitFailed(f"There is no {path} here, on disk or in git.")
        for path in untracked_files:
            pairs[path] = TreeDiffEntry(path, pairs[path].before if path in pairs else None, TreeEntry(path, "", ""))
        changes, left_out = _compare_with_disk(borrowed, workspace, prefix, pairs.values())
        left_out += [
            f"{path.removeprefix(prefix)[:-1]}: another repository" for path in untracked if path.endswith("/")
        ]
        left_out += [
            f"{path.removeprefix(prefix)}: another repository, with changes in it"
            for path in _list_changed_submodules(borrowed, pathspec)
            if path not in pairs
        ]
    name = f"{against} ({commit[:7]})" if commit and not commit.startswith(against) else commit[:7]
    return WorktreeChanges(tuple(changes), tuple(left_out), name or INDEX)


def _read_tracked_diff(borrowed: ObjectBorrowingRepository, commit: str, pathspec: Sequence[str]) -> bytes:
    """Return git's raw diff of tracked files; of a submodule only the commit is compared."""
    options = ("--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=dirty")
    command = ("diff-index", *options, commit) if commit else ("diff-files", *options)
    raw = borrowed.run_query(*command, *pathspec)
    if raw:
        # Files with another time stamp but the same content are listed, too: have git compare their contents.
        index = borrowed.copy_index()
        borrowed.run_query("update-index", "-q", "--unmerged", "--ignore-submodules", "--refresh", index=index)
        raw = borrowed.run_query(*command, *pathspec, index=index)
    return raw


def _list_changed_submodules(borrowed: ObjectBorrowingRepository, pathspec: Sequence[str]) -> Iterator[str]:
    """Yield the submodules in which files differ from HEAD; git itself would run programs of their settings."""
    entries = borrowed.run_query("ls-files", "--stage", "-z", *pathspec).decode("utf-8", "surrogateescape")
    for path in (entry.partition("\t")[2] for entry in entries.split("\0") if entry.startswith(SUBMODULE_MODE)):
        with suppress(GitFailed), ObjectBorrowingRepository(borrowed.top / path) as module:
            head, everything = module.resolve_object_id("HEAD"), ["--"]
            # The folder of a submodule that is not checked out lies in the outer repository.
            if module.top != borrowed.top and (
                _read_tracked_diff(module, head, everything)
                or _list_untracked(module, everything)
                or any(_list_changed_submodules(module, everything))
            ):
                yield path


def _list_untracked(borrowed: ObjectBorrowingRepository, pathspec: Sequence[str]) -> list[str]:
    """Return the untracked files that are not ignored; of a nested repository only its folder, with a trailing
    slash.
    """
    output = borrowed.run_query("ls-files", "--others", "--exclude-standard", "-z", *pathspec)
    return [path for path in output.decode("utf-8", "surrogateescape").split("\0") if path]


def _compare_with_disk(
    borrowed: ObjectBorrowingRepository, workspace: Workspace, prefix: str, pairs: Iterable[TreeDiffEntry]
) -> tuple[list[PathChange], list[str]]:
    """Return the changes with the content of both sides, and the paths that are left out, each with the reason."""
    limit = workspace.read_limit
    left_out: list[str] = []
    comparable: list[tuple[str, TreeDiffEntry, FileOrLink | None]] = []
    filter_by_path = _find_filters(borrowed, [pair.path for pair in pairs])
    disk = PosixFilesystem(workspace.root, limit)
    for pair in pairs:
        path = pair.path.removeprefix(prefix)
        if any(entry is not None and entry.is_submodule for entry in (pair.before, pair.after)):
            left_out.append(f"{path}: a commit of another repository")
            continue
        if filter_name := filter_by_path.get(pair.path):
            left_out.append(f"{path}: git stores another form of it (filter={filter_name})")
            continue
        try:
            workspace.check_folder_entry(path)
            file = disk.read(path)
        except WorkspaceError as error:
            left_out.append(f"{path}: {error}")
            continue
        except OSError as error:
            left_out.append(f"{path}: {(error.strerror or 'unreadable').lower()}")
            continue
        comparable.append((path, pair, None if file is None else FileOrLink(file.data, file.version.mode)))
    disk.close()
    contents = read_checkout_contents(borrowed, [pair.before for _, pair, _ in comparable if pair.before], limit)
    changes: list[PathChange] = []
    for path, pair, after in comparable:
        before = None
        if pair.before is not None:
            if pair.before not in contents:
                left_out.append(f"{path}: git's version is larger than {limit:,} bytes")
                continue
            mode = checkout_mode(pair.before, None if after is None or after.is_link else after.mode)
            if borrowed.setting("core.filemode").lower() == "false" and after and not pair.before.is_link:
                mode = after.mode
            before = FileOrLink(contents[pair.before].data, mode)
        if before != after:
            changes.append(PathChange(path, before, after))
    return changes, left_out


def _find_filters(borrowed: ObjectBorrowingRepository, paths: Sequence[str]) -> dict[str, str]:
    """Return the paths whose content git stores through a filter program, each with the filter's name."""
    data = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    said = borrowed.run_query("check-attr", "-z", "--stdin", "filter", data=data).decode("utf-8", "surrogateescape")
    words = said.split("\0")
    return {path: value for path, value in zip(words[::3], words[2::3], strict=False) if value not in _NO_FILTERS}


_FORM = "%H%x00%P%x00%(trailers:keyonly,separator=%x20)%x00%an <%ae>%x00%ae%x00%s"
_FIELDS = 6
_ID_DIGITS = 7
"""Digits of a commit's id in messages."""
_MAX_FILES = 1_000_000
_MAX_PARENTS = 66
"""Maximum parents of one merge: the most in the repository of Linux."""
_COMMITS_PER_PROCESS = 1_000
"""Commits whose changes one git process reads."""
_RAW_DIFF_OPTIONS = ("-r", "--raw", "-z", "--no-renames")


class CommitWithChanges(Struct):
    """A commit with its author, trailers, and the changes that need a review."""

    name: str
    parents: Sequence[str]
    trailers: Sequence[str]
    """Keys of the trailers in its message."""
    author: str
    """`NAME <EMAIL>`, as in the commit."""
    email: str
    subject: str
    changes: Sequence[TreeDiffEntry] = field(default=())
    """Changes that need a review; a path with merge conflicts occurs once for each parent that is compared."""


def read_commits(borrowed: ObjectBorrowingRepository, base: str, tip: str) -> list[CommitWithChanges]:
    """Return the commits that `tip` has and `base` has not, oldest first, with their changes.

    Args:
        borrowed: The repository, opened without its work tree.
        base: A commit; empty for the whole history of `tip`.
        tip: A commit.

    Raises:
        GitFailed: a commit's parents are missing (shallow clone), or the repository cannot be read.
    """
    ends = (tip, *([f"^{base}"] if base else []))
    parts = borrowed.run_query("log", "-z", "--reverse", f"--format={_FORM}", *ends).decode(
        "utf-8", "surrogateescape"
    )
    values = parts.removesuffix("\0").split("\0") if parts else []
    commits = [
        CommitWithChanges(name, parents.split(), trailers.split(" "), author, email, subject)
        for name, parents, trailers, author, email, subject in zip(
            *(values[at::_FIELDS] for at in range(_FIELDS)), strict=False
        )
    ]
    # Text in a commit could break the parsing: compare with the ids that rev-list prints.
    if {commit.name for commit in commits} != set(borrowed.run_query("rev-list", *ends).decode().split()):
        raise GitFailed("The commits of this range cannot be told apart; nothing was verified.")
    if shallow := borrowed.shallow_commits & {commit.name for commit in commits}:
        raise GitFailed(
            f"The clone is shallow: the parent of {min(shallow)[:_ID_DIGITS]} is missing; `git fetch --unshallow`."
        )
    non_merges = [commit for commit in commits if len(commit.parents) < 2]
    for start in range(0, len(non_merges), _COMMITS_PER_PROCESS):
        _read_changes(borrowed, non_merges[start : start + _COMMITS_PER_PROCESS])
    earlier_parents = {parent for commit in commits for parent in commit.parents} - {
        commit.name for commit in commits
    }
    for commit in commits:
        if len(commit.parents) > 1:
            commit.changes = list(_find_merge_changes(borrowed, commit, earlier_parents))
    return commits


def diff_trees(borrowed: ObjectBorrowingRepository, before: str, after: str) -> list[TreeDiffEntry]:
    """Return the differences between two commits or trees, file by file; raises GitFailed."""
    return parse_raw_diff(borrowed.run_query("diff-tree", *_RAW_DIFF_OPTIONS, before, after), _MAX_FILES)


def _read_changes(borrowed: ObjectBorrowingRepository, commits: Sequence[CommitWithChanges]) -> None:
    """Set the changes of commits that are not merges."""
    request = "".join(f"{commit.name}\n" for commit in commits).encode()
    parts = borrowed.run_query("diff-tree", "--stdin", "--root", "--always", *_RAW_DIFF_OPTIONS, data=request).split(
        b"\0"
    )
    at = 0
    for commit in commits:
        if parts[at].decode() != commit.name:
            raise GitFailed(f"Git does not say what {commit.name[:_ID_DIGITS]} changes; nothing was verified.")
        start = at = at + 1
        while parts[at].startswith(b":"):
            at += 2
        commit.changes = parse_raw_diff(b"\0".join(parts[start:at]), _MAX_FILES)


def _find_merge_changes(
    borrowed: ObjectBorrowingRepository, commit: CommitWithChanges, earlier_parents: set[str]
) -> Iterator[TreeDiffEntry]:
    """Yield the differences of a merge from the result of git's own merge of its parents.

    For paths with conflicts, yield the differences from each parent that precedes the range, or from every parent if
    none does: the review then shows all earlier content that the merge removes.
    """
    tree, conflicts = _merge_parents(borrowed, commit)
    for pair in diff_trees(borrowed, tree, commit.name):
        if pair.path not in conflicts:
            yield pair
    if conflicts:
        for parent in (
            dict.fromkeys(parent for parent in commit.parents if parent in earlier_parents) or commit.parents
        ):
            for pair in diff_trees(borrowed, parent, commit.name):
                if pair.path in conflicts:
                    yield pair


def _merge_parents(borrowed: ObjectBorrowingRepository, commit: CommitWithChanges) -> tuple[str, set[str]]:
    """Merge the parents of a merge commit with git, one after the other; return the tree and the conflicting
    paths.
    """
    if len(commit.parents) > _MAX_PARENTS:
        raise GitFailed(f"The merge {commit.name[:_ID_DIGITS]} has more than {_MAX_PARENTS} parents.")
    merged, *others = commit.parents
    tree, conflicts = "", set[str]()
    # Output format: https://git-scm.com/docs/git-merge-tree#OUTPUT; exit code 1 means conflicts.
    command = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", "--allow-unrelated-histories")
    for other in others:
        try:
            output = borrowed.run_query(*command, merged, other, max_exit_code=1)
        except GitFailed as error:
            raise GitFailed(
                f"Git cannot merge the parents of {commit.name[:_ID_DIGITS]}; that needs git 2.38. {error}"
            ) from error
        tree, *paths = output.decode("utf-8", "surrogateescape").split("\0")
        tree = tree.strip()
        conflicts |= set(paths)
        if other is not others[-1]:
            merged = _write_merge_commit(borrowed, tree, merged, other)
    return tree, conflicts


def _write_merge_commit(borrowed: ObjectBorrowingRepository, tree: str, *parents: str) -> str:
    """Write a merge commit into the temporary repository, for the merge with the next parent; return its id."""
    identity = "- <-> 0 +0000"
    lines = (
        f"tree {tree}",
        *(f"parent {parent}" for parent in parents),
        f"author {identity}",
        f"committer {identity}",
        "",
        "",
    )
    return (
        borrowed.run_query("hash-object", "-t", "commit", "-w", "--stdin", data="\n".join(lines).encode())
        .decode()
        .strip()
    )
