"""Read the changes of the worktree against the index or a commit, as `git diff` shows them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from app.git.blobs import MOST_FILES, BlobPair, TreeEntry, checked_out_files, file_mode, parse_raw_diff
from app.git.borrowed_repository import BorrowedRepository
from app.git.run_git import GitFailed
from app.proposals.files.filesystem import PosixFilesystem
from app.sandbox.captured_changes import Leaf, PathChange
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace

INDEX = "the index"
_OWN_FILTERS = ("unspecified", "unset", "")


@dataclass(frozen=True, slots=True)
class WorktreeChanges:
    """Changes of the worktree."""

    changes: tuple[PathChange, ...]
    """From what git has to what is on disk."""
    left_out: tuple[str, ...]
    """What can't be proposed, each with the reason: `big.bin: larger than 20 MB`."""
    against: str
    """The index, or the commit as it was named and its id."""


def changes_on_disk(workspace: Workspace, paths: Collection[str] = (), against: str = "") -> WorktreeChanges:
    """Return what differs on disk, with the untracked files that are not ignored.

    Args:
        workspace: Where to look.
        paths: Files and folders to which it is limited; none for all of the workspace.
        against: A commit; empty for the index.

    Raises:
        GitFailed: git refused, there is no repository, or no such commit.
        UnsafePath: one of the paths is not in the workspace.
    """
    with BorrowedRepository(workspace.root) as borrowed:
        commit = borrowed.resolve(against) if against else ""
        if against and not commit:
            raise GitFailed(f"There is no commit {against} here; `git log` lists those that there are.")
        lead = f"{borrowed.folder}/" if borrowed.folder else ""
        named = [workspace.locate(path) for path in paths] or ["."]
        within = ["--", *(f"{lead}{'' if path == '.' else path}" or "." for path in named)]
        found = {each.path: each for each in parse_raw_diff(_differing(borrowed, commit, within))}
        new = _untracked(borrowed, within)
        strangers = [path for path in new if not path.endswith("/")]
        if len(found) + len(strangers) > MOST_FILES:
            raise GitFailed(f"{len(found) + len(strangers):,} files are changed or new; name a path.")
        for path in strangers:
            found[path] = BlobPair(path, found[path].before if path in found else None, TreeEntry(path, "", ""))
        changes, left_out = _compared(borrowed, workspace, lead, found.values())
        left_out += [f"{path.removeprefix(lead)[:-1]}: another repository" for path in new if path.endswith("/")]
    name = f"{against} ({commit[:7]})" if commit and not commit.startswith(against) else commit[:7]
    return WorktreeChanges(tuple(changes), tuple(left_out), name or INDEX)


def _differing(borrowed: BorrowedRepository, commit: str, within: Sequence[str]) -> bytes:
    """Return what git considers changed by the times and sizes of files; submodules are not entered."""
    options = ("--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=all")
    if commit:
        return borrowed.query("diff-index", *options, commit, *within)
    return borrowed.query("diff-files", *options, *within)


def _untracked(borrowed: BorrowedRepository, within: Sequence[str]) -> list[str]:
    """Files that git neither has nor ignores; of another repository just its folder, with a slash at its end."""
    said = borrowed.query("ls-files", "--others", "--exclude-standard", "-z", *within)
    return [path for path in said.decode("utf-8", "surrogateescape").split("\0") if path]


def _compared(
    borrowed: BorrowedRepository, workspace: Workspace, lead: str, found: Iterable[BlobPair]
) -> tuple[list[PathChange], list[str]]:
    """The content of both sides of each, where they differ."""
    limit = workspace.read_limit
    disk = PosixFilesystem(workspace.root, limit)
    left_out: list[str] = []
    kept: list[tuple[str, BlobPair, Leaf | None]] = []
    filtered = _filtered(borrowed, [each.path for each in found])
    for pair in found:
        path = pair.path.removeprefix(lead)
        if any(entry is not None and entry.is_submodule for entry in (pair.before, pair.after)):
            left_out.append(f"{path}: a commit of another repository")
            continue
        if filter_name := filtered.get(pair.path):
            left_out.append(f"{path}: git keeps another form of it (filter={filter_name})")
            continue
        try:
            workspace.check_entry(path)
            file = disk.read(path)
        except WorkspaceError as error:
            left_out.append(f"{path}: {error}")
            continue
        except OSError as error:
            left_out.append(f"{path}: {(error.strerror or 'unreadable').lower()}")
            continue
        kept.append((path, pair, None if file is None else Leaf(file.data, file.version.mode)))
    disk.close()
    contents = checked_out_files(borrowed, [pair.before for _, pair, _ in kept if pair.before], limit)
    changes: list[PathChange] = []
    for path, pair, after in kept:
        before = None
        if pair.before is not None:
            if pair.before not in contents:
                left_out.append(f"{path}: what git has of it is larger than {limit:,} bytes")
                continue
            mode = file_mode(pair.before, None if after is None or after.is_link else after.mode)
            if borrowed.setting("core.filemode").lower() == "false" and after and not pair.before.is_link:
                mode = after.mode
            before = Leaf(contents[pair.before].data, mode)
        if before != after:
            changes.append(PathChange(path, before, after))
    return changes, left_out


def _filtered(borrowed: BorrowedRepository, paths: Sequence[str]) -> dict[str, str]:
    """Return the paths whose content git stores through a filter program, each with the filter's name."""
    data = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    said = borrowed.query("check-attr", "-z", "--stdin", "filter", data=data).decode("utf-8", "surrogateescape")
    words = said.split("\0")
    return {path: value for path, value in zip(words[::3], words[2::3], strict=False) if value not in _OWN_FILTERS}
