"""Reviews in git's notes: kept by content, so that amend, rebase, squash and cherry-pick don't lose them.

`refs/notes/signoff-reviews` has an envelope as the note of its own blob id; and below the digests of the versions
that a review leads from and to, and below those of its hunks, the ids of the envelopes, one per line. So two
people's notes merge with git's strategy `cat_sort_uniq`, and a verifier reads only what its commits need.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from app.attestation.statement import (
    Envelope,
    ReviewedFile,
    ReviewPredicate,
    SignedReview,
    StatementError,
    read_envelope,
    version_digest,
)
from app.git.borrowed_repository import BorrowedRepository
from app.git.run_git import GitFailed
from app.proposals.values.record_entries import blob_id

REVIEWS = "refs/notes/signoff-reviews"
FETCHED = "refs/notes/*/signoff-reviews"
"""Those of remotes, as `signoff notes --install` has git fetch them."""
_LARGEST = 16 << 20
"""Bytes of a note that is read."""
_MOST = 100_000
"""Envelopes that are read for one question."""
_MOST_BYTES = 256 << 20
"""Bytes of the notes that are read for one question."""
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class StatementNotes:
    """Reads the reviews of a repository, each note once.

    Args:
        borrowed: The repository.
        more: References or commits of other notes that are read, too.

    Raises:
        GitFailed: One of them does not exist.
    """

    def __init__(self, borrowed: BorrowedRepository, more: Sequence[str] = ()) -> None:
        self._borrowed = borrowed
        self._bytes = 0
        names = [*borrowed.references(REVIEWS, FETCHED), *more]
        self._tips = [borrowed.resolve(name) for name in names]
        if not all(self._tips):
            raise GitFailed(f"There are no notes {names[self._tips.index('')]} here.")
        self._looked_up: set[str] = set()
        self._by_path: dict[str, list[tuple[str, SignedReview, ReviewedFile]]] = {}
        self.envelopes: dict[str, tuple[Envelope, ReviewPredicate]] = {}
        """What was found, by id."""
        self.unreadable: dict[str, str] = {}
        """Envelopes that were named and cannot be read, with the reason."""

    def look_up_versions(self, versions: Iterable[tuple[str, str]]) -> None:
        """Read the envelopes about files, each a path with a blob. Raises as `look_up` does."""
        self.look_up(version_digest(path, blob, self._borrowed.hash_name) for path, blob in versions if blob)

    def look_up(self, keys: Iterable[str]) -> None:
        """Read the envelopes that stand below digests.

        Raises:
            GitFailed: a note is too large, or git cannot read it.
        """
        wanted = set(keys) - self._looked_up
        self._looked_up |= wanted
        named = {
            line
            for note in self.read(wanted).values()
            for line in note.decode("ascii", "replace").split()
            if _ID.fullmatch(line) and line not in self.envelopes and line not in self.unreadable
        }
        if len(named) + len(self.envelopes) > _MOST:
            raise GitFailed(f"{REVIEWS} names more than {_MOST:,} reviews for these commits; nothing was verified.")
        self._read_envelopes(named)

    def read_all(self) -> None:
        """Read every envelope. Raises as `look_up` does."""
        named = set()
        for tip in self._tips:
            for line in self._borrowed.query("ls-tree", "-r", "-z", tip).decode("ascii", "replace").split("\0")[:-1]:
                facts, _, path = line.partition("\t")
                if facts.split()[2] == path.replace("/", ""):
                    named.add(facts.split()[2])
        if len(named) > _MOST:
            raise GitFailed(f"{REVIEWS} has more than {_MOST:,} reviews; nothing was verified.")
        self._read_envelopes(named)

    def _read_envelopes(self, named: Iterable[str]) -> None:
        # An envelope is found by its own id: whatever a merge of notes has made of the note that keeps it.
        texts = self._contents({name: name for name in named})
        for name in sorted(named):
            try:
                if (text := texts.get(name)) is None:
                    raise StatementError("it is missing")
                if blob_id(text, self._borrowed.hash_name) != name:
                    raise StatementError("it is another than its name says")
                envelope, predicate = read_envelope(text)
                self.envelopes[name] = envelope, predicate
                for review in predicate.reviews:
                    for file in review.files:
                        self._by_path.setdefault(file.path, []).append((name, review, file))
            except StatementError as error:
                self.unreadable[name] = str(error)

    def reviews_of(self, path: str) -> Sequence[tuple[str, SignedReview, ReviewedFile]]:
        """Return what was found about a path, each with the id of its envelope."""
        return self._by_path.get(path, ())

    def read(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Return the notes of these ids, however far git has spread them over folders."""
        forms = {
            f"{tip}:{form}": key
            for key in keys
            for tip in self._tips
            for form in (key, f"{key[:2]}/{key[2:]}", f"{key[:2]}/{key[2:4]}/{key[4:]}")
        }
        return self._contents(forms)

    def _contents(self, names: Mapping[str, str]) -> dict[str, bytes]:
        """Return the blobs that git knows by names, below what each stands for, joined; raises GitFailed."""
        if not names:
            return {}
        asked = "".join(f"{name}\n" for name in names).encode()
        said = self._borrowed.query("cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", data=asked)
        found: dict[str, dict[str, None]] = {}
        sizes: dict[str, int] = {}
        for key, line in zip(names.values(), said.decode("utf-8", "replace").splitlines(), strict=True):
            blob, kind, size = line.rsplit(" ", 2) if line.count(" ") > 1 else ("", "", "")
            if kind == "blob":
                found.setdefault(key, {})[blob] = None
                sizes[blob] = int(size)
        if (largest := max(sizes.values(), default=0)) > _LARGEST:
            raise GitFailed(f"A note in {REVIEWS} has {largest:,} bytes; the most is {_LARGEST:,}.")
        self._bytes += sum(sizes.values())
        if self._bytes > _MOST_BYTES:
            raise GitFailed(f"The notes about these commits have more than {_MOST_BYTES:,} bytes; none was verified.")
        contents = self._borrowed.blobs(sorted(sizes))
        return {key: b"\n".join(contents[blob] for blob in blobs) for key, blobs in found.items()}


def join_fetched(borrowed: BorrowedRepository) -> None:
    """Take what was fetched of others' notes into one's own, so that these can be pushed; raises GitFailed."""
    for fetched in borrowed.references(FETCHED):
        borrowed.merge_notes(REVIEWS, fetched)


def add_reviews(borrowed: BorrowedRepository, envelope: bytes) -> str:
    """Write an envelope to the notes, with what was fetched of others; return its id.

    Raises:
        GitFailed: git cannot write the notes.
    """
    _, predicate = read_envelope(envelope)
    name = blob_id(envelope, borrowed.hash_name)
    files = [file for review in predicate.reviews for file in review.files]
    versions = {(file.path, blob) for file in files for blob in (file.base, file.result) if blob}
    keys = {version_digest(path, blob, borrowed.hash_name) for path, blob in versions}
    keys |= {digest for file in files for hunk in file.hunks for digest in (hunk.before, hunk.after)}
    join_fetched(borrowed)
    notes = StatementNotes(borrowed)
    before = notes.read(keys)
    changed = {
        f"{key[:2]}/{key[2:]}": b"".join(
            b"%s\n" % line for line in sorted({*before.get(key, b"").split(), name.encode()})
        )
        for key in keys
    }
    borrowed.write_files(REVIEWS, {**changed, f"{name[:2]}/{name[2:]}": envelope}, "Add reviews")
    return name
