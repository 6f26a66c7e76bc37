"""Identifies the exact content of a workspace; a check result belongs to one content.

In a git repository the id is that of the git tree that `git add -A && git write-tree` would write, without
conversions of file contents. Elsewhere it is a SHA-256 over all files that no ignore rule excludes.
"""

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.git.blobs import to_git_mode
from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.run_git import GitFailed
from app.proposals.values.record_entries import git_blob_id
from app.sandbox.captured_changes import FileOrLink, PendingFiles
from app.workspace.paths import Workspace
from app.workspace.reading import read_regular_file

_MAX_HASHED_BYTES = 64 << 20
"""Bytes; a larger file is identified by its size and times, not by its content."""
_SETTLED_SECONDS = 0.1
"""Seconds after a change from which on the file's times differ from those of the next change."""
_SHA1_DIGITS = 40

_StatKey = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class WorkspaceTreeSnapshot:
    """The git tree id, or hash, that identifies the content of a workspace, without files that git ignores."""

    commit: str
    """The commit that is checked out; empty outside a repository, and before the first commit."""
    id: str
    """The id of the git tree, or the SHA-256 of all files; 40 or 64 hexadecimal digits."""
    files: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """`MODE BLOB` by path from the top of the repository; empty for a removed file.

    In a repository, contains the files that differ from the commit; elsewhere, all files.
    """

    def paths_changed_since(self, earlier: "WorkspaceTreeSnapshot") -> list[str]:
        """Return the sorted paths whose content may differ from an earlier tree."""
        paths = self.files.keys() | earlier.files.keys()
        return sorted(path for path in paths if self.files.get(path) != earlier.files.get(path))


class WorkspaceTreeReader:
    """Reads the tree of a workspace; its methods block and may run on any thread."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._blobs: dict[tuple[Path, str], tuple[_StatKey, str]] = {}
        """Last stat fields and blob id of each file, by path and hash algorithm."""

    def read_trees(self, *layers: PendingFiles) -> list[WorkspaceTreeSnapshot]:
        """Return the tree of the workspace with each of these layers applied.

        Args:
            layers: Pending changes, by workspace path.

        Raises:
            OSError: The workspace can't be read.
        """
        try:
            with ObjectBorrowingRepository(self._workspace.root) as git:
                return self._read_with_git(git, layers)
        except GitFailed:
            return self._read_without_git(layers)

    def _read_with_git(
        self, git: ObjectBorrowingRepository, layers: Sequence[PendingFiles]
    ) -> list[WorkspaceTreeSnapshot]:
        commit = git.resolve_object_id("HEAD")
        algorithm = "sha256" if len(commit) > _SHA1_DIGITS else "sha1"
        base = commit or hashlib.new(algorithm, b"tree 0\0", usedforsecurity=False).hexdigest()
        compared = ("--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=all")
        # git then looks also at files with the flag skip-worktree that are on disk; `ls-files` writes the flag
        # assume-unchanged as a small letter.
        seen = ("-c", "core.sparseCheckout=true")
        changed = _split_at_nul(git.run_query(*seen, "diff-index", *compared, base))[1::2]
        flagged = [entry[2:] for entry in _split_at_nul(git.run_query("ls-files", "-v", "-z")) if entry[0].islower()]
        untracked = _split_at_nul(git.run_query("ls-files", "--others", "--exclude-standard", "-z"))
        # A path with a slash at its end is another repository.
        paths = {path for path in (*changed, *flagged, *untracked) if not path.endswith("/")}
        on_disk = {path: self._blob_on_disk(git.top / path, algorithm) for path in paths}
        lead = git.path_prefix
        index = git.own / "checked-index"
        git.run_query("read-tree", base, index=index)
        gone = f"0 {'0' * len(base)}"
        _update_index(git, index, on_disk, gone)
        trees = []
        for layer in layers:
            over = {f"{lead}{path}": _blob_of_pending(leaf, algorithm) for path, leaf in layer.items()}
            with_layer = index
            if over:
                with_layer = git.own / "checked-index-with-layer"
                shutil.copy(index, with_layer)
                _update_index(git, with_layer, over, gone)
            tree = git.run_query("write-tree", "--missing-ok", index=with_layer).decode().strip()
            trees.append(WorkspaceTreeSnapshot(commit, tree, on_disk | over))
        return trees

    def _read_without_git(self, layers: Sequence[PendingFiles]) -> list[WorkspaceTreeSnapshot]:
        root = self._workspace.root
        on_disk = {path: self._blob_on_disk(root / path, "sha1") for path in self._workspace.walk_files()}
        trees = []
        for layer in layers:
            files = on_disk | {path: _blob_of_pending(leaf, "sha1") for path, leaf in layer.items()}
            held = sorted(f"{path}\0{blob}\0" for path, blob in files.items() if blob)
            digest = hashlib.sha256("".join(held).encode("utf-8", "surrogateescape"))
            trees.append(WorkspaceTreeSnapshot("", digest.hexdigest(), files))
        return trees

    def _blob_on_disk(self, name: Path, algorithm: str) -> str:
        """Return `MODE BLOB` of a file or a link on disk; empty if there is none."""
        try:
            facts = name.lstat()
            if stat.S_ISLNK(facts.st_mode):
                return _blob_of_pending(FileOrLink(os.fsencode(name.readlink()), facts.st_mode), algorithm)
            if not stat.S_ISREG(facts.st_mode):
                return ""
            now = (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            before, blob = self._blobs.get((name, algorithm), (None, ""))
            if before != now:
                is_large = facts.st_size > _MAX_HASHED_BYTES
                blob = git_blob_id(
                    repr(now).encode() if is_large else read_regular_file(name, _MAX_HASHED_BYTES)[0], algorithm
                )
                if time.time() - facts.st_ctime > _SETTLED_SECONDS:
                    self._blobs[name, algorithm] = now, blob
        except OSError:
            return ""
        return f"{to_git_mode(facts.st_mode, link=False)} {blob}"


def _update_index(git: ObjectBorrowingRepository, index: Path, files: Mapping[str, str], gone: str) -> None:
    """Write files to an index without writing blobs; `gone` is the index entry that removes a file."""
    # Removals first: a file may have been replaced by a folder, or a folder by a file.
    by_kind = sorted(files.items(), key=lambda one: bool(one[1]))
    data = "".join(f"{blob or gone}\t{path}\0" for path, blob in by_kind).encode("utf-8", "surrogateescape")
    if data:
        git.run_query("update-index", "--add", "--replace", "-z", "--index-info", index=index, data=data)


def _blob_of_pending(leaf: FileOrLink | None, algorithm: str) -> str:
    if leaf is None:
        return ""
    return f"{to_git_mode(leaf.mode, link=leaf.is_link)} {git_blob_id(leaf.data, algorithm)}"


def _split_at_nul(said: bytes) -> list[str]:
    return [text for text in said.decode("utf-8", "surrogateescape").split("\0") if text]
