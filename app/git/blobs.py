"""Read git objects as the files that a checkout would write."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.run_git import GitFailed
from app.proposals.files.filesystem import default_file_mode
from app.proposals.values.proposal_errors import MAX_PROPOSAL_FILES
from app.proposals.values.record_entries import git_blob_id
from app.sandbox.captured_changes import LINK_MODE, FileOrLink

_MAX_BYTES = 256 << 20
"""Bytes of all files of one proposal."""
_LINK_MODE, SUBMODULE_MODE, _EXECUTABLE_MODE = "120000", "160000", "100755"


class TreeEntry(Struct, frozen=True):
    """An entry of a git tree or index."""

    path: str
    """Relative to the top of the repository."""
    mode: str
    """As git writes it: `100644`."""
    blob: str

    @property
    def is_link(self) -> bool:
        """Return whether it is a symbolic link."""
        return self.mode == _LINK_MODE

    @property
    def is_submodule(self) -> bool:
        """Return whether it is a submodule."""
        return self.mode == SUBMODULE_MODE


class TreeDiffEntry(Struct, frozen=True):
    """A path in the diff of two trees, with its entry before and after; None where it does not exist."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


def parse_raw_diff(raw: bytes, max_files: int = MAX_PROPOSAL_FILES) -> list[TreeDiffEntry]:
    """Parse the output of `git diff-tree --raw -z --no-renames` (or `diff-index`, `diff-files`).

    Raises:
        GitFailed: there are more than `max_files` files.
    """
    parts = raw.decode("utf-8", "surrogateescape").split("\0")
    entries: list[TreeDiffEntry] = []
    for facts, path in zip(parts[::2], parts[1::2], strict=False):
        old_mode, new_mode, old, new, _ = facts.removeprefix(":").split(" ")
        # Git lists an unmerged path twice: first as unmerged, without a version to compare with.
        entries.append(TreeDiffEntry(path, _make_entry(path, old_mode, old), _make_entry(path, new_mode, new)))
    if len(entries) > max_files:
        raise GitFailed(f"{len(entries):,} files are changed, and the maximum is {max_files:,}; name a path.")
    return entries


def read_checkout_contents(
    borrowed: ObjectBorrowingRepository, entries: Iterable[TreeEntry], max_file_bytes: int
) -> dict[TreeEntry, FileOrLink]:
    """Return each file or link with the bytes that `git checkout` would write: line endings and encoding converted.

    Args:
        max_file_bytes: Maximum bytes of one file; larger files are omitted.

    Raises:
        GitFailed: an object is missing, or the files together exceed `_MAX_BYTES`.
    """
    wanted = [entry for entry in entries if not entry.is_submodule]
    sizes = _read_blob_sizes(borrowed, {entry.blob for entry in wanted})
    small = [entry for entry in wanted if sizes[entry.blob] <= max_file_bytes]
    if (total := sum(sizes[entry.blob] for entry in small)) > _MAX_BYTES:
        raise GitFailed(f"The files have {total:,} bytes together; name a path, or fewer commits.")
    plain = [entry for entry in small if entry.is_link or "\n" in entry.path]
    contents = dict(_read_contents(borrowed, ("cat-file", "--batch"), plain, lambda entry: entry.blob))
    converted = [entry for entry in small if entry not in contents]
    with_filters = ("cat-file", "--batch", "--filters")
    contents |= _read_contents(borrowed, with_filters, converted, lambda entry: f"{entry.blob} {entry.path}")
    return contents


def checkout_mode(entry: TreeEntry, existing_mode: int | None = None) -> int:
    """Return the permission bits of a checked out file: `existing_mode`, with the executable bit that git stores."""
    if entry.is_link:
        return LINK_MODE
    mode = default_file_mode() if existing_mode is None else existing_mode
    if bool(mode & 0o100) == (entry.mode == _EXECUTABLE_MODE):
        return mode
    return mode | (mode & 0o444) >> 2 if entry.mode == _EXECUTABLE_MODE else mode & ~0o111


def convert_to_git_blob_id_and_bytes(
    borrowed: ObjectBorrowingRepository, path: str, leaf: FileOrLink
) -> tuple[str, bytes]:
    """Return the id and the bytes of the blob that git stores for a file on disk: line endings converted.

    Args:
        path: Relative to the top of the repository.
        leaf: The file or link on disk.
    """
    if leaf.is_link or b"\r\n" not in leaf.data:
        return git_blob_id(leaf.data, borrowed.object_format), leaf.data
    name = borrowed.run_query("hash-object", "-w", "--stdin", "--path", path, data=leaf.data).decode().strip()
    return name, borrowed.read_blobs([name])[name]


def to_git_mode(mode: int, *, link: bool) -> str:
    """Return git's mode for these permission bits, such as `100755`."""
    return _LINK_MODE if link else _EXECUTABLE_MODE if mode & 0o100 else "100644"


def _make_entry(path: str, mode: str, blob: str) -> TreeEntry | None:
    return None if not mode.strip("0") else TreeEntry(path, mode, blob)


def _read_blob_sizes(borrowed: ObjectBorrowingRepository, blobs: set[str]) -> Mapping[str, int]:
    names = sorted(blobs)
    request = "\n".join((*names, "")).encode()
    output = borrowed.run_query("cat-file", "--batch-check=%(objectsize)", data=request) if names else b""
    sizes: dict[str, int] = {}
    for blob, words in zip(names, output.decode().splitlines(), strict=True):
        if not words.isdecimal():
            raise GitFailed(f"The object {blob[:12]} is missing here: `git fetch --refetch --no-filter`.")
        sizes[blob] = int(words)
    return sizes


def _read_contents(
    borrowed: ObjectBorrowingRepository,
    command: Sequence[str],
    entries: Sequence[TreeEntry],
    format_request: Callable[[TreeEntry], str],
) -> Iterable[tuple[TreeEntry, FileOrLink]]:
    # `cat-file --filters` prints the size before the conversion, which cannot find the end of a file in the output.
    # So ask for a random name after each file: git's answer `NAME missing` marks the end of the file.
    end_marker = secrets.token_hex(16)
    request = "".join(f"{format_request(entry)}\n{end_marker}\n" for entry in entries).encode(
        "utf-8", "surrogateescape"
    )
    output = borrowed.run_query(*command, data=request) if entries else b""
    end_of_file = f"\n{end_marker} missing\n".encode()
    contents: list[tuple[TreeEntry, FileOrLink]] = []
    position = 0
    for entry in entries:
        start = output.find(b"\n", position) + 1
        end = output.find(end_of_file, start)
        if not start or end < 0 or output[position:start].endswith(b" missing\n"):
            raise GitFailed(f"The object {entry.blob[:12]} of {entry.path} is gone; try again.")
        contents.append((entry, FileOrLink(output[start:end], checkout_mode(entry))))
        position = end + len(end_of_file)
    return contents
