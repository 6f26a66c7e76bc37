"""The record: one entry for each decision, with the person, the bytes and the kind of decision.

A second kind of entry holds the hash of the event of a decision in a session. Each entry holds the SHA-256 of the
entry before it, so the next entry shows if one was changed, removed or inserted. The record is tamper-evident, not
tamper-proof: the owner of the machine can write all of it again.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from app.images.image import Image
from app.proposals.values.decision_facts import (
    UNKNOWN_CONTEXT,
    DecisionContext,
    FrozenModel,
    LastDecision,
    LineComment,
)
from app.proposals.values.models import FileOperation, FileVersion, HunkState, Proposal, ProposalState
from app.proposals.values.origin import CommandRecipe, OriginKind, ProposalOrigin
from app.proposals.values.proposal_store import JournalEntry, ProposalStore
from app.sandbox.captured_changes import WrittenIgnoredPath
from app.text.quantities import format_count

LATEST: Literal[7] = 7
"""The format of new entries."""
_TREE_DIGITS = 12
FIRST = ""
"""Value of `before` in the first entry."""


class RecordedFile(FrozenModel):
    """One file of a decision in the record: its git blob ids, digests and modes before and after."""

    path: str
    base: str = ""
    """Id of the git blob before the decision; empty for no file."""
    result: str = ""
    """Id of the git blob after the decision."""
    base_sha256: str = ""
    """SHA-256 of the same content, its id in signoff's own store."""
    result_sha256: str = ""
    base_mode: str = ""
    """Octal permission bits before, for a symbolic link with its type: `644`, `120777`; empty for no file."""
    result_mode: str = ""


class RecordedHunkStates(FrozenModel):
    """States of the proposal's hunks after the decision, by number."""

    approved: tuple[int, ...] = ()
    denied: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    approved_files: tuple[str, ...] = ()
    """Files without hunks, which are decided as a whole."""
    denied_files: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Return the number of hunks."""
        return len(self.approved) + len(self.denied) + len(self.waiting)


class DecisionRecordEntry(FrozenModel):
    """One decision of the user in the hash-chained record.

    The hash is of the bytes as they were first written, never as a later schema would write them.
    """

    format: Literal[1, 2, 3, 4, 5, 6, 7] = LATEST
    """Increases with every field that is added, here or in nested values: 1 had no host in the origin, 2 neither
    `ignored` nor a caller in the circumstances, 3 neither a check's tree nor modes of files, 4 no `state`, `left`,
    `last` nor files in `hunks`, 5 no evidence in the circumstances, 6 no recipe."""
    number: int
    """Number in the workspace, from 1."""
    before: str
    """SHA-256 of the bytes of the entry before; empty in the first."""
    time: float
    """Unix time, seconds."""
    who: str
    """The git identity of the person who decided, `NAME <EMAIL>`, or the name of their account."""
    proposal: str
    count: int
    """Number of the decision, among all on the proposal."""
    content: str
    """SHA-256 over the proposed paths, modes and contents at the time of the decision."""
    origin: ProposalOrigin
    ignored: tuple[WrittenIgnoredPath, ...] = ()
    """Files ignored by git that the command of the proposal had also written, without a review."""
    recipe: CommandRecipe | None = None
    """The command that made all changes; `reproduced` is 0 unless a second run gave exactly the decided content."""
    decision: str
    files: tuple[RecordedFile, ...] = ()
    hunks: RecordedHunkStates = RecordedHunkStates()
    edited: tuple[str, ...] = ()
    """Files in which the user had changed the proposed text."""
    words: str = ""
    """SHA-256 of the user's feedback with it, if any; the feedback itself is stored separately."""
    circumstances: DecisionContext = UNKNOWN_CONTEXT
    state: str = ""
    """`ProposalState` after the decision."""
    left: str = ""
    """`proposal_hash` of the proposal after the decision."""
    last: str = ""
    """`decision_hash` of the decision as it is stored with the proposal."""

    @property
    def recipe_description(self) -> str:
        """Return `command make fmt on tree 1a2b3c, reproduced, 3 of 412 files seen`; empty without a command."""
        if self.recipe is None:
            return ""
        tree = f" on tree {self.recipe.tree[:_TREE_DIGITS]}" if self.recipe.tree else ""
        again = "reproduced" if self.recipe.reproduced else "not reproduced"
        seen = ""
        if self.circumstances.unseen_lines is not None:
            files = format_count(len(self.files), "file")
            seen = f", {len(self.files) - len(self.circumstances.unseen_files):,} of {files} seen"
        return f"command {self.recipe.command}{tree}, {again}{seen}"

    @property
    def has_written(self) -> bool:
        """Return whether the decision wrote files."""
        return self.decision in ("approved", "partly_approved", "redone")


class RecordingStore(ProposalStore, Protocol):
    """A store that also records the decisions on its proposals."""

    def entries_on_paths(self, paths: Collection[str]) -> Sequence[DecisionRecordEntry]:
        """Return the entries of all proposals with a decision about one of the paths; oldest first."""
        ...


class SessionEventRecordEntry(FrozenModel):
    """An entry of the record with the hash of a session's event about a decision, which logs and exports show."""

    format: Literal[5, 6, 7] = LATEST
    kind: Literal["event"] = "event"
    number: int
    """Number in the workspace, from 1, among entries of both kinds."""
    before: str
    time: float
    """Unix time of the event, seconds."""
    proposal: str
    count: int
    """Number of the decision; 0 for an edit of the proposed text, which is no decision, and if it was not counted."""
    decision: str
    session: str = ""
    """The session in which the event is recorded."""
    files: tuple[str, ...] = ()
    origin: ProposalOrigin | None = None
    words: str = ""
    event: str
    """SHA-256 of the event, without the user's words."""
    earlier: bool = False
    """Whether an earlier version stored the event without chaining it; a database upgrade added the entry."""


def has_proposal_changes_on_disk_after(entries: Sequence[DecisionRecordEntry]) -> bool:
    """Return whether, after a proposal's record entries (oldest first), anything of it is on disk."""
    if not entries or (last := entries[-1]).state == ProposalState.UNDONE:
        # The approved hunks of an undone proposal stay approved, for a redo.
        return False
    if last.hunks.approved or last.hunks.approved_files:
        return True
    if last.state:
        return False
    # Earlier formats have no states of files without hunks.
    writes = [entry.has_written for entry in entries if entry.has_written or entry.decision in ("undone", "reopened")]
    return bool(writes) and writes[-1]


def approvals_in_force(entries: Iterable[DecisionRecordEntry]) -> set[int]:
    """Return the numbers of the entries that approve something and that no later decision has reverted."""
    decisions_by_proposal: dict[str, list[DecisionRecordEntry]] = {}
    for entry in entries:
        decisions = decisions_by_proposal.setdefault(entry.proposal, [])
        if entry.decision == "undone":
            decisions.clear()
        elif entry.decision == "reopened":
            # An undo of a write is `undone`; `reopened` reverts a denial, or a decision to keep changes on disk.
            if decisions and (not decisions[-1].has_written or entry.origin.kind is OriginKind.DISK):
                decisions.pop()
        else:
            decisions.append(entry)
    return {entry.number for decisions in decisions_by_proposal.values() for entry in decisions if entry.has_written}


def without_undone_disk_approvals(entries: Sequence[DecisionRecordEntry]) -> list[DecisionRecordEntry]:
    """Return the entries but for undone approvals of changes on disk, where the undo left the files as they are."""
    in_force = approvals_in_force(entries)
    return [
        entry
        for entry in entries
        if entry.origin.kind is not OriginKind.DISK or not entry.has_written or entry.number in in_force
    ]


class RecordChainEnd(Struct, frozen=True):
    """The number and hash of the last entry of the decision record, to which the next entry is chained."""

    number: int = 0
    digest: str = FIRST


def make_record_entry(
    proposed: Proposal,
    decided: Proposal,
    last: LastDecision,
    written: Iterable[JournalEntry],
    git_blob_id: Callable[[str], str],
    *,
    who: str,
    chain_end: RecordChainEnd,
    time: float,
) -> DecisionRecordEntry:
    """Return the record entry of a decision.

    Args:
        proposed: The proposal before the decision.
        decided: The proposal after it.
        last: The decision.
        written: The journal entries of the files that it wrote.
        git_blob_id: Returns git's id of a content, by its SHA-256.
        who: The identity of the person who decided.
        chain_end: The end of the chain.
    """
    return DecisionRecordEntry(
        number=chain_end.number + 1,
        before=chain_end.digest,
        time=time,
        who=who,
        proposal=decided.id,
        count=last.number,
        content=_proposed_changes_hash(proposed),
        origin=decided.origin,
        ignored=decided.ignored,
        recipe=_recorded_recipe(proposed),
        decision=last.decision,
        files=tuple(_written_files(written, git_blob_id))
        or tuple(_files_kept_on_disk(decided, last, git_blob_id))
        or tuple(RecordedFile(path=file.path) for file in last.files),
        hunks=collect_hunk_states(decided),
        edited=tuple(change.path for change in decided.files if change.edited),
        words=feedback_hash(last.feedback, last.comments, last.images),
        circumstances=last.circumstances,
        state=decided.state,
        left=proposal_hash(decided),
        last=decision_hash(last),
    )


def _recorded_recipe(proposed: Proposal) -> CommandRecipe | None:
    """Return the command of the decided proposal; `reproduced` is 0 unless it is about the present revision."""
    if proposed.recipe is None or proposed.is_reproduced:
        return proposed.recipe
    return proposed.recipe.model_copy(update={"reproduced": 0})


def proposal_hash(proposal: Proposal) -> str:
    """Return the SHA-256 of a proposal, without the successor, which may change after the decision."""
    return _hash_model(proposal, {"superseded_by"})


def decision_hash(last: LastDecision) -> str:
    """Return the SHA-256 of the decision as it is stored with its proposal."""
    return _hash_model(last)


def _hash_model(value: FrozenModel, left_out: Collection[str] = ()) -> str:
    # Default values are left out, so fields that a later version adds do not change the hash.
    text = value.model_dump_json(exclude=set(left_out), exclude_defaults=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _proposed_changes_hash(proposal: Proposal) -> str:
    """Return the SHA-256 of the proposed change: names, modes, and the SHA-256 before and after, for each file."""
    digest = hashlib.sha256()
    for change in proposal.files:
        versions = (*hash_and_mode(change.base), *hash_and_mode(change.result))
        digest.update(
            "\0".join((change.op, change.old_path, change.path, *versions, "")).encode("utf-8", "surrogatepass")
        )
    return digest.hexdigest()


def feedback_hash(feedback: str, comments: Iterable[LineComment], images: Iterable[Image] = ()) -> str:
    """Return the SHA-256 of the user's feedback, comments and images with a decision; empty without any."""
    text = "\0".join((feedback, *(value.model_dump_json() for value in (*comments, *images))))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""


def git_blob_id(data: bytes, algorithm: str = "sha1") -> str:
    """Return git's id of a blob with these bytes (https://git-scm.com/book/en/v2/Git-Internals-Git-Objects)."""
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def hash_and_mode(version: FileVersion | None) -> tuple[str, str]:
    """Return the SHA-256 and the octal permission bits of a version; two empty texts for no file."""
    return ("", "") if version is None else (version.sha256, f"{version.mode:o}")


def _written_files(written: Iterable[JournalEntry], git_blob_id: Callable[[str], str]) -> Iterator[RecordedFile]:
    for entry in written:
        base = _version_fields("base", entry.before, entry.before_mode, git_blob_id)
        result = _version_fields("result", entry.after, entry.after_mode, git_blob_id)
        new_path = entry.new_path if entry.op is FileOperation.RENAME else entry.path
        yield from _recorded_files(entry.path, new_path, base, result)


def _files_kept_on_disk(
    decided: Proposal, last: LastDecision, git_blob_id: Callable[[str], str]
) -> Iterator[RecordedFile]:
    """Yield the files of which a part on disk was kept: the base, and the base with that part."""
    if last.decision not in ("approved", "partly_approved"):
        return
    for change in decided.files:
        for part in change.decisions[-1:]:
            if part.decision == last.number:
                base, left = part.base, part.left
                base_fields = _version_fields("base", base.sha256, base.mode, git_blob_id) if base else {}
                result_fields = _version_fields("result", left.sha256, left.mode, git_blob_id) if left else {}
                yield from _recorded_files(part.old_path or change.path, change.path, base_fields, result_fields)


def _version_fields(
    name: str, sha256: str | None, mode: int | None, git_blob_id: Callable[[str], str]
) -> dict[str, str]:
    if not sha256:
        return {}
    octal = f"{mode:o}" if mode is not None else ""
    return {name: git_blob_id(sha256), f"{name}_sha256": sha256, f"{name}_mode": octal}


def _recorded_files(
    old_path: str, path: str, base: dict[str, str], result: dict[str, str]
) -> tuple[RecordedFile, ...]:
    if old_path == path:
        return (RecordedFile(path=path, **base, **result),)
    return RecordedFile(path=old_path, **base), RecordedFile(path=path, **result)


def collect_hunk_states(proposal: Proposal) -> RecordedHunkStates:
    """Return the states of a proposal's hunks, and of its files without hunks."""

    def hunks(state: HunkState) -> tuple[int, ...]:
        return tuple(hunk.number for hunk in proposal.hunks if hunk.state is state)

    def files(state: HunkState) -> tuple[str, ...]:
        return tuple(change.path for change in proposal.files if not change.hunks and change.state is state)

    return RecordedHunkStates(
        approved=hunks(HunkState.APPLIED),
        denied=hunks(HunkState.DENIED),
        waiting=hunks(HunkState.PENDING),
        approved_files=files(HunkState.APPLIED),
        denied_files=files(HunkState.DENIED),
    )
