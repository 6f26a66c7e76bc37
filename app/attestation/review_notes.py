"""Reviews in git's notes: stored by content, so that they survive amend, rebase, squash and cherry-pick.

In `refs/notes/signoff-reviews` an envelope is the note of its own blob id. The ids of envelopes, one per line, are
the notes of digests: of the versions before and after a review, and of its hunks. This layout lets git's strategy
`cat_sort_uniq` merge the notes of two people, and a verifier reads only the notes of its commits. `GitNotesSetup`
configures a repository to fetch, push and write the notes.
"""

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from app.attestation.signed_statement import (
    Envelope,
    ReviewedFile,
    ReviewPredicate,
    SignedApproval,
    UnreadableStatement,
    file_version_note_id,
    read_envelope,
)
from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.remotes import remote_names
from app.git.run_git import GitFailed, run_git
from app.proposals.values.record_entries import git_blob_id
from app.workspace.reading import read_regular_file

REVIEWS = "refs/notes/signoff-reviews"
FETCHED = "refs/notes/*/signoff-reviews"
"""Notes of remotes, with the names under which `signoff notes --install` lets git fetch them."""
_MAX_NOTE_BYTES = 16 << 20
"""Maximum size of a note in bytes."""
_MAX_ENVELOPES = 100_000
"""Maximum number of envelopes that one reader reads."""
_MAX_BYTES = 256 << 20
"""Maximum total size in bytes of the notes that one reader reads."""
_MAX_LISTED_BY_PATH = 500
"""Below this number of notes, only parts of the tree are listed, not all of it."""
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class ReviewNoteReader:
    """Reads the reviews of a repository, each note once.

    Args:
        more: References or commits of other notes to read.

    Raises:
        GitFailed: One of them does not exist.
    """

    def __init__(self, borrowed: ObjectBorrowingRepository, more: Sequence[str] = ()) -> None:
        self._borrowed = borrowed
        self._bytes = 0
        names = [*borrowed.list_references(REVIEWS, FETCHED), *more]
        self._tips = [borrowed.resolve_object_id(name) for name in names]
        if not all(self._tips):
            raise GitFailed(f"There are no notes {names[self._tips.index('')]} here.")
        self._looked_up: set[str] = set()
        self._by_path: dict[str, list[tuple[str, SignedApproval, ReviewedFile]]] = {}
        self.envelopes: dict[str, tuple[Envelope, ReviewPredicate]] = {}
        """The envelopes that were read, by id."""
        self.unreadable: dict[str, str] = {}
        """Envelopes that are named but can't be read, with the reason."""

    def read_envelopes_of_versions(self, versions: Iterable[tuple[str, str]]) -> None:
        """Read the envelopes about file versions, each a path and a blob. Raises like `read_envelopes_of_digests`."""
        self.read_envelopes_of_digests(
            file_version_note_id(path, blob, self._borrowed.object_format) for path, blob in versions if blob
        )

    def read_envelopes_of_digests(self, keys: Iterable[str]) -> None:
        """Read the envelopes that are named in the notes of these digests.

        Raises:
            GitFailed: There are too many envelopes, a note is too large, or git can't read it.
        """
        wanted = set(keys) - self._looked_up
        self._looked_up |= wanted
        named = {
            line
            for note in self.read_notes(wanted).values()
            for line in note.decode("ascii", "replace").split()
            if _OBJECT_ID.fullmatch(line) and line not in self.envelopes and line not in self.unreadable
        }
        if len(named) + len(self.envelopes) > _MAX_ENVELOPES:
            raise GitFailed(
                f"{REVIEWS} names more than {_MAX_ENVELOPES:,} reviews for these commits; nothing was verified."
            )
        self._read_envelopes(named)

    def read_all_envelopes(self) -> None:
        """Read every envelope. Raises like `read_envelopes_of_digests`."""
        named = {key for tip in self._tips for key, blob in self._list_note_entries(tip) if key == blob}
        if len(named) > _MAX_ENVELOPES:
            raise GitFailed(f"{REVIEWS} has more than {_MAX_ENVELOPES:,} reviews; nothing was verified.")
        self._read_envelopes(named)

    def _read_envelopes(self, named: Iterable[str]) -> None:
        # Read the blob with the envelope's id, because a merge may have changed the note that contains it.
        texts = self._read_blobs(names := sorted(named))
        for name in names:
            try:
                if (text := texts.get(name)) is None:
                    raise UnreadableStatement("it is missing")
                if git_blob_id(text, self._borrowed.object_format) != name:
                    raise UnreadableStatement("it is another than its name says")
                envelope, predicate = read_envelope(text)
                self.envelopes[name] = envelope, predicate
                for review in predicate.reviews:
                    for file in review.files:
                        self._by_path.setdefault(file.path, []).append((name, review, file))
            except UnreadableStatement as error:
                self.unreadable[name] = str(error)

    def reviews_of_path(self, path: str) -> Sequence[tuple[str, SignedApproval, ReviewedFile]]:
        """Return the reviews of a path that were read, each with the id of its envelope."""
        return self._by_path.get(path, ())

    def read_notes(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Return the notes of these ids; git may have spread them over subfolders."""
        wanted, found = set(keys), dict[str, dict[str, None]]()
        for tip in self._tips if wanted else ():
            for key, blob in self._list_note_entries(tip, wanted):
                found.setdefault(key, {})[blob] = None
        contents = self._read_blobs({blob for blobs in found.values() for blob in blobs})
        return {key: b"\n".join(contents.get(blob, b"") for blob in blobs) for key, blobs in found.items()}

    def _list_note_entries(self, tip: str, wanted: Collection[str] = ()) -> Iterator[tuple[str, str]]:
        """Yield the annotated ids, each with the blob of its note; all of them if `wanted` is empty."""
        # For many ids, reading the whole tree once is faster than separate lookups.
        paths = sorted({*wanted, *(f"{key[:2]}/" for key in wanted)}) if len(wanted) < _MAX_LISTED_BY_PATH else ()
        listed = self._borrowed.run_query("ls-tree", "-r", "-z", tip, "--", *paths).decode("ascii", "replace")
        for line in listed.split("\0")[:-1]:
            facts, _, path = line.partition("\t")
            key = path.replace("/", "")
            if not wanted or key in wanted:
                yield key, facts.rpartition(" ")[2]

    def _read_blobs(self, blobs: Collection[str]) -> Mapping[str, bytes]:
        """Return the contents of the available blobs. Raises GitFailed if they are too large."""
        if not blobs:
            return {}
        asked = "".join(f"{blob}\n" for blob in sorted(blobs)).encode()
        said = self._borrowed.run_query(
            "cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)", data=asked
        )
        facts = [line.split(" ") for line in said.decode("ascii", "replace").splitlines()]
        sizes = {name: int(size) for kind, size, name in (each for each in facts if each[0] == "blob")}
        if (largest := max(sizes.values(), default=0)) > _MAX_NOTE_BYTES:
            raise GitFailed(f"A note in {REVIEWS} has {largest:,} bytes; the most is {_MAX_NOTE_BYTES:,}.")
        self._bytes += sum(sizes.values())
        if self._bytes > _MAX_BYTES:
            raise GitFailed(f"The notes about these commits have more than {_MAX_BYTES:,} bytes; none was verified.")
        return self._borrowed.read_blobs(sorted(sizes))


def merge_fetched_notes(borrowed: ObjectBorrowingRepository) -> None:
    """Merge fetched notes of others into our own, so that ours can be pushed. Raises GitFailed."""
    for fetched in borrowed.list_references(FETCHED):
        borrowed.merge_notes(REVIEWS, fetched)


def merge_notes_and_add_envelope(borrowed: ObjectBorrowingRepository, envelope: bytes) -> str:
    """Merge fetched notes into our own, add an envelope, and return the id of its blob. Raises GitFailed."""
    _, predicate = read_envelope(envelope)
    name = git_blob_id(envelope, borrowed.object_format)
    files = [file for review in predicate.reviews for file in review.files]
    versions = {(file.path, blob) for file in files for blob in (file.base, file.result) if blob}
    keys = {file_version_note_id(path, blob, borrowed.object_format) for path, blob in versions}
    keys |= {digest for file in files for hunk in file.hunks for digest in hunk}
    merge_fetched_notes(borrowed)
    notes = ReviewNoteReader(borrowed)
    before = notes.read_notes(keys)
    changed = {
        f"{key[:2]}/{key[2:]}": b"".join(
            b"%s\n" % line for line in sorted({*before.get(key, b"").split(), name.encode()})
        )
        for key in keys
    }
    borrowed.commit_files_to_reference(REVIEWS, {**changed, f"{name[:2]}/{name[2:]}": envelope}, "Add reviews")
    return name


_HOOK_COMMAND = "signoff notes --if-reviewed"
_HOOK_TEXT = f"\n# Note and sign what was reviewed of this commit.\n{_HOOK_COMMAND} || true\n"
_MAX_GIT_FILE_BYTES = 1 << 20


class GitNotesSetupChange(Struct, frozen=True):
    """A change of git's configuration or of a hook that the exchange of review notes needs."""

    path: Path
    before: str
    after: str


class GitNotesSetup:
    """Finds and writes missing git settings and hooks for signed reviews; only `write_changes` changes files.

    Args:
        remote: The remote with which notes are exchanged; empty for none.

    Raises:
        GitFailed: There is no such remote.
    """

    def __init__(self, borrowed: ObjectBorrowingRepository, remote: str) -> None:
        if remote and remote not in remote_names(borrowed):
            raise GitFailed(f"There is no remote {remote} here.")
        self._environment = borrowed.environment
        # In a linked worktree its path has `..` in it.
        common_dir = borrowed.git_common_dir.resolve()
        self._config = common_dir / "config"
        wanted = [("notes.rewriteref", "refs/notes/signoff")]
        if remote:
            wanted.append((f"remote.{remote}.fetch", f"+{REVIEWS}:refs/notes/{remote}/signoff-reviews"))
            if f"remote.{remote}.push" not in borrowed.settings:
                # With a push setting git pushes only that, so add its default, too.
                wanted.append((f"remote.{remote}.push", "HEAD"))
            wanted.append((f"remote.{remote}.push", REVIEWS))
        self._settings = [(key, value) for key, value in wanted if value not in borrowed.settings.get(key, ())]
        folder = borrowed.setting("core.hookspath")
        hooks = borrowed.top / Path(folder).expanduser() if folder else common_dir / "hooks"
        self._hook = hooks / "post-commit"

    def missing_changes(self) -> list[GitNotesSetupChange]:
        """Return the files before and after the setup; empty if nothing is missing.

        Raises:
            GitFailed: A file can't be read, or the hook is not a shell script.
        """
        before = _read_text(self._config)
        with tempfile.TemporaryDirectory(prefix="signoff-git-") as folder:
            copy = Path(folder, "config")
            copy.write_text(before, encoding="utf-8", errors="surrogateescape")
            self._write_settings(copy)
            after = _read_text(copy)
        found = [GitNotesSetupChange(self._config, before, after)] if after != before else []
        hook = _read_text(self._hook)
        if _HOOK_COMMAND not in hook:
            if hook and not hook.startswith(("#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env sh", "#!/usr/bin/env bash")):
                raise GitFailed(f"{self._hook} is no shell script; have it run `{_HOOK_COMMAND}` yourself.")
            if hook and not os.access(self._hook, os.X_OK):
                raise GitFailed(f"{self._hook} is not executable, so git does not run it; allow that, or remove it.")
            # At the beginning, because the user's hook may end with `exit` or `exec`.
            first, _, rest = hook.partition("\n")
            text = f"{first or '#!/bin/sh'}\n{_HOOK_TEXT}{rest}"
            found.append(GitNotesSetupChange(self._hook, hook, text))
        return found

    def write_changes(self) -> None:
        """Make the changes. Raises GitFailed."""
        changes = {change.path: change.after for change in self.missing_changes()}
        try:
            if self._hook in changes:
                self._hook.parent.mkdir(parents=True, exist_ok=True)
                new = self._hook.with_name("post-commit.signoff")
                new.write_text(changes[self._hook], encoding="utf-8", errors="surrogateescape")
                new.chmod(0o755)
                new.replace(self._hook)
        except OSError as error:
            raise GitFailed(f"{error.filename} cannot be written ({error.strerror}).") from error
        if self._config in changes:
            self._write_settings(self._config)

    def _write_settings(self, file: Path) -> None:
        environment = {**self._environment, "LC_ALL": "C"}
        for key, value in self._settings:
            run_git(file.parent, ["config", "--file", str(file), "--add", key, value], environment)


def _read_text(path: Path) -> str:
    """Return the text of a file; empty if it does not exist. Raises GitFailed."""
    try:
        return read_regular_file(path, _MAX_GIT_FILE_BYTES)[0].decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise GitFailed(f"{path} cannot be read ({error.strerror}).") from error
