"""Port to the store of proposals, implemented in SQLite by `app.storage` and in memory by tests."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, Protocol

from pydantic import Field

from app.proposals.values.decision_facts import FrozenModel
from app.proposals.values.models import FileIdentity, FileOperation, Proposal


class JournalEntry(FrozenModel):
    """One path transition of an apply: from `before` to `after` (SHA-256 of the bytes, None for no file)."""

    path: str
    op: FileOperation
    new_path: str = ""
    """The new path of a rename; else empty."""
    before: str | None
    after: str | None
    before_mode: int | None = None
    after_mode: int | None = None
    temp: str = ""
    """Temporary name beside the path: of the prepared file at first, then of the replaced one."""
    found: FileIdentity | None = None
    """Identity of the file to replace."""
    made: FileIdentity | None = None
    """Identity of the prepared file; known once the record is prepared."""


class JournalRecord(FrozenModel):
    """One apply, undo or redo, written before the first byte of the workspace changes."""

    id: int = 0
    """0 until the store has assigned it."""
    proposal: str
    action: Literal["apply", "undo", "redo"]
    time: float
    entries: tuple[JournalEntry, ...]
    """In the order in which they are carried out."""
    made_folders: tuple[str, ...] = ()
    """Folders that did not exist before, parents first."""
    dropped_folders: tuple[str, ...] = ()
    """Folders to remove once they are empty, children first."""
    folder_modes: dict[str, int] = Field(default_factory=dict)
    """Permission bits of folders, now or when they were removed: with these they are created again."""
    prepared: bool = True
    """Whether all new contents are on disk under their temporary names; no path is changed before that."""
    state: Literal["open", "done", "rolled_back", "blocked"] = "open"
    after_proposal: str
    """The proposal once the record is done (JSON), so that recovery can save it."""


class ProposalStore(Protocol):
    """Proposals, blobs and the apply journal of one workspace. Synchronous, safe to call from any thread.

    Every method that writes has its data on disk when it returns (`synchronous=FULL`), or raises
    `app.storage.StorageError` (OSError in memory fakes).
    """

    def reserve_proposal_id(self) -> str:
        """Reserve the next short id (`P7`); it is never given twice, not even to another process."""
        ...

    def save_proposal(self, *proposals: Proposal) -> None:
        """Insert or replace proposals, all or none."""
        ...

    def change_counter(self) -> tuple[int, ...]:
        """Return a value that changes with each write of a proposal by any process, and sometimes without one."""
        ...

    def proposal(self, proposal_id: str) -> Proposal | None:
        """Return a proposal by its id, case-insensitive; None if there is none."""
        ...

    def proposals(self, *, waiting_only: bool = False) -> Sequence[Proposal]:
        """Return the proposals, oldest first."""
        ...

    def pending_on_paths(self, paths: Collection[str], folders: Collection[str] = ()) -> Sequence[Proposal]:
        """Return pending proposals that touch one of `paths`, a file below one, or one of `folders`; oldest first."""
        ...

    def decided_on_paths(self, paths: Collection[str]) -> Sequence[Proposal]:
        """Return the latest decided proposals that name one of the paths; oldest first."""
        ...

    def put_blobs(self, contents: Iterable[bytes]) -> list[str]:
        """Store these bytes in one transaction, new ones only; return the SHA-256 hex of each."""
        ...

    def read_blob(self, sha256: str) -> bytes:
        """Return the bytes; raise KeyError if they are missing or no longer have this SHA-256."""
        ...

    def open_journal_record(self, record: JournalRecord) -> JournalRecord:
        """Write the intent; return the record with its id."""
        ...

    def mark_journal_prepared(self, record: JournalRecord) -> None:
        """Mark an open record as prepared, with the identities of the created files."""
        ...

    def close_journal_record(self, record: JournalRecord, proposal: Proposal | None) -> None:
        """Write the record's final state and the proposal's new one in one transaction."""
        ...

    def journal_records(self, *, proposal: str = "", state: str = "", limit: int = 0) -> Sequence[JournalRecord]:
        """Return the records, newest first, filtered; only the first `limit` of them, if not 0."""
        ...
