"""A `ProposalStore` in memory, which keeps JSON as a real one does; a hook lets tests fail any write."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence

from app.proposals.stack.stacking import proposal_paths
from app.proposals.values.models import Proposal
from app.proposals.values.proposal_store import JournalEntry, JournalRecord
from app.proposals.values.record_entries import DecisionRecordEntry, RecordChainEnd, git_blob_id, make_record_entry


class MemoryStore:
    """Everything in dictionaries; `before_write` is called with the method's name and may raise OSError."""

    def __init__(self) -> None:
        self.before_write: Callable[[str], None] = lambda name: None
        self.handed_out = 0
        """How many waiting proposals it has given for paths: what a stage costs that others wait beside."""
        self._number = 0
        self._writes = 0
        self._proposals: dict[str, str] = {}
        self._blobs: dict[str, bytes] = {}
        self._journal: list[str] = []
        self._record: list[DecisionRecordEntry] = []

    def reserve_proposal_id(self) -> str:
        self._number += 1
        return f"P{self._number}"

    def save_proposal(self, *proposals: Proposal) -> None:
        self.before_write("save_proposal")
        self._writes += 1
        for proposal in proposals:
            self._keep(proposal)

    def _keep(self, proposal: Proposal, written: Sequence[JournalEntry] = ()) -> None:
        before = MemoryStore.proposal(self, proposal.id)
        self._proposals[proposal.id] = proposal.model_dump_json()
        known = before.last.number if before and before.last else 0
        if before and proposal.last and proposal.last.number > known:
            after = RecordChainEnd(len(self._record), "")
            entry = make_record_entry(
                before, proposal, proposal.last, written, self._git_id, who="", chain_end=after, time=0
            )
            self._record.append(entry)

    def _git_id(self, name: str) -> str:
        return git_blob_id(self._blobs[name])

    def entries_on_paths(self, paths: Collection[str]) -> Sequence[DecisionRecordEntry]:
        named = {entry.proposal for entry in self._record if any(file.path in paths for file in entry.files)}
        return [entry for entry in self._record if entry.proposal in named]

    def change_counter(self) -> tuple[int, ...]:
        return (self._writes,)

    def proposal(self, proposal_id: str) -> Proposal | None:
        body = self._proposals.get(proposal_id.strip().upper())
        return Proposal.model_validate_json(body) if body else None

    def proposals(self, *, waiting_only: bool = False) -> Sequence[Proposal]:
        return [proposal for proposal in self._sorted() if proposal.state.is_pending or not waiting_only]

    def _sorted(self) -> list[Proposal]:
        found = [Proposal.model_validate_json(body) for body in self._proposals.values()]
        return sorted(found, key=lambda proposal: int(proposal.id[1:]))

    def pending_on_paths(self, paths: Collection[str], folders: Collection[str] = ()) -> Sequence[Proposal]:
        below = tuple(f"{path}/" for path in paths)
        found = [
            proposal
            for proposal in self._sorted()
            if proposal.state.is_pending
            and any(name in paths or name in folders or name.startswith(below) for name in proposal_paths(proposal))
        ]
        self.handed_out += len(found)
        return found

    def decided_on_paths(self, paths: Collection[str]) -> Sequence[Proposal]:
        return [
            proposal
            for proposal in self._sorted()
            if not proposal.state.is_pending and proposal_paths(proposal).intersection(paths)
        ]

    def put_blobs(self, many: Iterable[bytes]) -> list[str]:
        self.before_write("put_blobs")
        named = {hashlib.sha256(data).hexdigest(): bytes(data) for data in many}
        self._blobs.update(named)
        return list(named)

    def lose_blobs(self) -> None:
        """As a damaged database does."""
        self._blobs.clear()

    def read_blob(self, sha256: str) -> bytes:
        return self._blobs[sha256]

    def open_journal_record(self, record: JournalRecord) -> JournalRecord:
        self.before_write("open_journal_record")
        record = record.model_copy(update={"id": len(self._journal) + 1})
        self._journal.append(record.model_dump_json())
        return record

    def mark_journal_prepared(self, record: JournalRecord) -> None:
        self.before_write("mark_journal_prepared")
        self._journal[record.id - 1] = record.model_dump_json()

    def close_journal_record(self, record: JournalRecord, proposal: Proposal | None) -> None:
        self.before_write("close_journal_record")
        self._writes += 1
        self._journal[record.id - 1] = record.model_dump_json()
        if proposal:
            self._keep(proposal, record.entries if record.state == "done" else ())

    def journal_records(self, *, proposal: str = "", state: str = "", limit: int = 0) -> Sequence[JournalRecord]:
        records = [JournalRecord.model_validate_json(body) for body in reversed(self._journal)]
        found = [
            record
            for record in records
            if (not proposal or record.proposal == proposal) and (not state or record.state == state)
        ]
        return found[: limit or None]
