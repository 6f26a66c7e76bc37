"""Proposal, file change, hunk: values for disk, JSON and the screen; and the states of a proposal."""

import stat
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from app.images.image import Image
from app.proposals.values.attention_reason import AttentionReason
from app.proposals.values.decision_facts import (
    UNKNOWN_CONTEXT,
    DecisionContext,
    FileDiffStat,
    FrozenModel,
    HunkOutcome,
    HunksNotProposed,
    LastDecision,
    LineComment,
)
from app.proposals.values.origin import CommandRecipe, OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import InvalidTransition
from app.sandbox.captured_changes import WrittenIgnoredPath, describe_written_ignored_paths
from app.text.quantities import join_first
from app.workspace.path_rules import windows_path_problem


class ProposalState(StrEnum):
    """State of a proposal; `TRANSITIONS` has the allowed changes."""

    PENDING = "pending"
    PARTLY_APPROVED = "partly_approved"
    """Some hunks were applied, others are pending."""
    APPLIED = "applied"
    DENIED = "denied"
    STALE = "stale"
    SUPERSEDED = "superseded"
    UNDONE = "undone"
    FAILED = "failed"

    @property
    def is_pending(self) -> bool:
        """Return whether a decision of the user is still pending."""
        return self in (ProposalState.PENDING, ProposalState.PARTLY_APPROVED, ProposalState.STALE)


class FileOperation(StrEnum):
    """The operation on a file."""

    CREATE = "create"
    EDIT = "edit"
    DELETE = "delete"
    RENAME = "rename"
    """Moved, perhaps with edits."""
    MODE = "mode"
    """Only the mode bits change."""


class HunkState(StrEnum):
    """State of a hunk."""

    PENDING = "pending"
    APPLIED = "applied"
    DENIED = "denied"


class MatchLevel(StrEnum):
    """How the place of an edit was found, from exact to tolerant."""

    EXACT = "exact"
    TRAILING_SPACE = "trailing_space"
    INDENTATION = "indentation"
    SPACING = "spacing"
    """Runs of inner whitespace and look-alike dashes, quotes and spaces folded."""
    ALIGNED = "aligned"
    """Lines aligned: removed lines match, some context lines differ."""
    LINE_HINT = "line_hint"
    """Several exact places; the line number that the model gave decided."""
    DOUBTFUL = "doubtful"
    """Exact text, or an insertion without context, but the edit contradicts itself or its place."""

    @property
    def is_exact(self) -> bool:
        """Return whether the place is certain, so that a bulk approval may include it."""
        return self in (MatchLevel.EXACT, MatchLevel.TRAILING_SPACE)


class FileVersion(FrozenModel):
    """One content of a file; the bytes are in the blob store under `sha256`."""

    sha256: str
    size: int
    mode: int = 0o644
    """Permission bits; for a symbolic link `stat.S_IFLNK` and all of them, and the bytes are its target."""

    @property
    def is_link(self) -> bool:
        """Return whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)


class FileIdentity(FrozenModel):
    """Identity of a file on disk, independent of its name and content."""

    device: int
    inode: int


class EditMatch(FrozenModel):
    """How the place of one edit was found."""

    rung: MatchLevel
    line: int
    """First line of the place, from 1."""
    note: str = ""


class Hunk(FrozenModel):
    """A contiguous edit, with no context lines: the smallest unit of a decision."""

    id: str
    """Stable: a hash of the path, the old lines, the new lines, and a count among equal hunks."""
    number: int
    """From 1, across all files of the proposal, as in `--hunks 1,3`; stable over partial decisions."""
    old_start: int
    """First replaced line, from 0; for a pure insertion, the line before which it goes."""
    old_count: int
    new_start: int
    new_count: int
    state: HunkState = HunkState.PENDING
    part_of: str = ""
    """Id of the hunk from which the user split this part."""
    repeat_of: str = ""
    """The proposal in which the user denied the same hunk before."""


class ConflictingLines(FrozenModel):
    """A place where the disk and a stale proposal changed the same lines, with the lines of both and of the base."""

    line: int
    """Line on disk, from 1."""
    base: tuple[str, ...]
    disk: tuple[str, ...]
    proposed: tuple[str, ...]


class ReopenableHunkDenial(FrozenModel):
    """Hunks of a file that were denied while others were pending, with the data to make them pending again."""

    decision: int
    """Number among all decisions on the proposal, from 1."""
    hunks: tuple[str, ...]
    """Ids of the hunks."""
    before: FileVersion | None
    """The result with the hunks."""
    after: FileVersion | None
    """The result without the hunks; equal to `before` if nothing else of the file was pending."""


class OnDiskChangeDecision(FrozenModel):
    """A decision on a change that is already on disk, with the data to undo it."""

    decision: int
    """Number among all decisions on the proposal, from 1."""
    hunks: tuple[str, ...]
    """Ids of the hunks; empty for a change that is decided as a whole."""
    old_path: str
    """Old path of the change before the decision."""
    base: FileVersion | None
    result: FileVersion | None
    left: FileVersion | None
    """The base after the decision."""


class FileChange(FrozenModel):
    """The part of a proposal in one file."""

    path: str
    """Workspace-relative, POSIX; the new path of a rename."""
    old_path: str = ""
    """The old path of a rename; else empty."""
    op: FileOperation
    base: FileVersion | None
    """The version that an approval replaces; None for a create."""
    result: FileVersion | None
    """The version that an approval writes; None for a delete."""
    on_disk: bool = False
    """Whether the disk has the result already: an approval keeps it and writes nothing, a denial writes the base."""
    origin_base: FileVersion | None = None
    """The version to which the edit was made; each re-base starts from it and `origin_result`, without drift."""
    origin_result: FileVersion | None = None
    """The result of the edit of `origin_base`; both change when the user decides on a part."""
    state: HunkState = HunkState.PENDING
    """State of the file as a whole; pending as long as anything in it is."""
    hunks: tuple[Hunk, ...] = ()
    """Empty for a binary file, a pure rename or a mode change, which are decided as a whole. A hunk without a
    difference between base and result (decided before, or on disk already) marks its place with both counts 0."""
    added: int = 0
    removed: int = 0
    binary: bool = False
    matches: tuple[EditMatch, ...] = ()
    rebased: bool = False
    """Whether a three-way merge has changed the base since the model wrote the edit."""
    edited: bool = False
    """Whether the user changed the proposed text."""
    taken_over: bool = False
    """Whether it comes from a superseded proposal in which others than this session's model had changed it."""
    already_applied: bool = False
    """Whether the disk already has the result."""
    conflicts: tuple[ConflictingLines, ...] = ()
    stacked_on: tuple[str, ...] = ()
    """Proposals whose pending edits this one builds on, oldest first; of many only the oldest few and the latest."""
    warnings: tuple[str, ...] = ()
    """Descriptions of text in the name or the added lines that could deceive a reader."""
    mentions: tuple[str, ...] = ()
    """Remarks about unusual text there that is normal in human languages."""
    denied: tuple[ReopenableHunkDenial, ...] = ()
    """Denied parts, the latest last, without undone ones."""
    decisions: tuple[OnDiskChangeDecision, ...] = ()
    """Decisions on a change that is already on disk, the latest last, without undone ones."""
    notes: tuple[str, ...] = ()
    """Facts for the review (`CRLF line endings kept`, `not UTF-8`, `follows a symlink to x`)."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Return its path, after the old path of a rename."""
        return (self.old_path, self.path) if self.old_path else (self.path,)

    @property
    def pending_hunks(self) -> list[Hunk]:
        """Return its hunks that await a decision."""
        return [hunk for hunk in self.hunks if hunk.state is HunkState.PENDING]

    @property
    def has_applied_part(self) -> bool:
        """Return whether an approval has written the change or one of its hunks."""
        return self.state is HunkState.APPLIED or any(hunk.state is HunkState.APPLIED for hunk in self.hunks)

    @property
    def stat(self) -> FileDiffStat:
        """Return the change in numbers."""
        return FileDiffStat(path=self.path, op=self.op, added=self.added, removed=self.removed)

    @property
    def disk_version(self) -> FileVersion | None:
        """Return the version on disk at the path, after a re-base."""
        return self.result if self.on_disk else self.base

    @property
    def is_inexact(self) -> bool:
        """Return whether any edit was found on a tolerant level."""
        return any(not match.rung.is_exact for match in self.matches)

    @property
    def involves_link(self) -> bool:
        """Return whether it is, or becomes, a symbolic link, which is decided as a whole."""
        return any(version and version.is_link for version in (self.base, self.result))

    @property
    def name_problem(self) -> str:
        """Return a sentence about a new name that other systems reject or confuse; empty if there is none."""
        return windows_path_problem(self.path) if self.op in (FileOperation.CREATE, FileOperation.RENAME) else ""


class Proposal(FrozenModel):
    """The edits staged by one step, as one change set."""

    id: str
    """Short, unique in the workspace: `P7`."""
    workspace: str
    """Absolute path of the workspace."""
    session: str = ""
    """The session whose model made it; empty for a patch of the user."""
    origin: ProposalOrigin = ProposalOrigin()
    ignored: tuple[WrittenIgnoredPath, ...] = ()
    """Files ignored by git that its commands have also written."""
    recipe: CommandRecipe | None = None
    """The command that made all of its changes; None if there is no single one."""
    created: float
    """Unix time, seconds."""
    summary: str
    state: ProposalState = ProposalState.PENDING
    revision: int = 1
    """Increases whenever the result of an approval, or of one of its parts, changes."""
    files: tuple[FileChange, ...]
    """Sorted by path."""
    reasons: tuple[AttentionReason, ...] = ()
    """Reasons for attention, found when it was staged or edited; none in proposals of earlier versions."""
    order: tuple[str, ...] = ()
    """The paths in reading order, fixed when it was staged."""
    reason: str = ""
    """Why it is stale, failed or superseded."""
    supersedes: str = ""
    superseded_by: str = ""
    version: int = 1
    """2 for the first answer to feedback, and so on."""
    feedback: str = ""
    """The user's feedback with the denial."""
    reopened: bool = False
    """Whether it is pending because its denial was undone; a redo denies it again."""
    last: LastDecision | None = None
    """The user's last action on it."""
    left_out: tuple[HunksNotProposed, ...] = ()
    """Hunks of its source that were left out."""

    @property
    def number(self) -> int:
        """Return the number in its id."""
        return int(self.id[1:])

    def next_revision(self, files: Iterable[FileChange], **update: object) -> "Proposal":
        """Return the next revision, with these files and other updated fields."""
        return self.model_copy(update={"files": tuple(files), "revision": self.revision + 1, **update})

    def with_decision(
        self,
        decision: str,
        files: Sequence[FileDiffStat] = (),
        hunks: Collection[str] = (),
        feedback: str = "",
        comments: Sequence[LineComment] = (),
        circumstances: DecisionContext = UNKNOWN_CONTEXT,
        images: Sequence[Image] = (),
        stale: str = "",
    ) -> "Proposal":
        """Return the proposal with the user's decision; the arguments are those of `LastDecision`."""
        last = LastDecision(
            number=self.next_decision_number,
            decision=decision,
            files=tuple(files),
            hunks=tuple(sorted(hunks)),
            feedback=feedback,
            comments=tuple(comments),
            images=tuple(images),
            stale=stale,
            circumstances=circumstances,
        )
        return self.model_copy(update={"last": last})

    @property
    def next_decision_number(self) -> int:
        """Return the number of the user's next decision on it, from 1."""
        return self.last.number + 1 if self.last else 1

    @property
    def ignored_files_note(self) -> str:
        """Return a line about ignored files that its commands have also written; empty if there were none."""
        return describe_written_ignored_paths(self.ignored)

    @property
    def on_disk(self) -> bool:
        """Return whether its result is already on disk, so that a denial writes."""
        return any(change.on_disk for change in self.files)

    @property
    def is_reproduced(self) -> bool:
        """Return whether a second run of its command gave exactly the present result."""
        return self.recipe is not None and self.recipe.reproduced == self.revision

    @property
    def can_be_committed(self) -> bool:
        """Return whether no undecided part of it is on disk."""
        return not (self.on_disk and self.state.is_pending)

    @property
    def has_denied_part(self) -> bool:
        """Return whether hunks decided without a write can become pending again, beside the pending ones."""
        return self.state in (ProposalState.PENDING, ProposalState.PARTLY_APPROVED) and any(
            change.denied or change.decisions for change in self.files
        )

    def sole_author_session(self, change: FileChange) -> str:
        """Return the session whose model alone wrote the changes; empty if anyone else contributed."""
        own = self.origin.kind in (OriginKind.MODEL, OriginKind.COMMAND)
        return self.session if own and not (change.edited or change.taken_over) else ""

    @property
    def counted_changes(self) -> tuple[FileChange, ...]:
        """Return the files that its numbers count: the pending ones, else the approved ones, else all."""
        for state in (HunkState.PENDING, HunkState.APPLIED):
            if files := tuple(change for change in self.files if change.state is state):
                return files
        return self.files

    @property
    def added(self) -> int:
        """Return the number of added lines in the counted files."""
        return sum(change.added for change in self.counted_changes)

    @property
    def removed(self) -> int:
        """Return the number of removed lines in the counted files."""
        return sum(change.removed for change in self.counted_changes)

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        """Return all hunks, in order."""
        return tuple(hunk for change in self.files for hunk in change.hunks)

    @property
    def pending_hunks(self) -> list[Hunk]:
        """Return all hunks that await a decision, in order."""
        return [hunk for change in self.files for hunk in change.pending_hunks]

    @property
    def written_hashes(self) -> dict[str, str]:
        """Return the results of the edits before any merge: SHA-256 by path, empty for a deleted file."""
        removed = {change.old_path: "" for change in self.files if change.old_path}
        results = {change.path: change.origin_result.sha256 if change.origin_result else "" for change in self.files}
        return removed | results

    @property
    def is_written_in_part(self) -> bool:
        """Return whether an approval has written any of it."""
        return any(change.has_applied_part for change in self.files)

    @property
    def is_denied_in_part(self) -> bool:
        """Return whether nothing of it is pending any more, and the user approved some of it and denied the rest."""
        return self.state is ProposalState.APPLIED and HunkState.DENIED in self.part_states

    @property
    def part_states(self) -> set[HunkState]:
        """Return the states of its files and hunks."""
        return {change.state for change in self.files} | {hunk.state for hunk in self.hunks}


class FileDiff(FrozenModel):
    """A file for the diff preview: both texts as display lines, and the change between them."""

    change: FileChange
    old: tuple[str, ...]
    """Lines without their ending, undecodable bytes as U+DC80..U+DCFF; not escaped for a terminal."""
    new: tuple[str, ...]
    old_final_newline: bool = True
    new_final_newline: bool = True
    reasons: tuple[AttentionReason, ...] = ()
    """Reasons of the proposal about this file."""

    @property
    def is_sorted_last(self) -> bool:
        """Return whether the file is generated and nothing in it deserves attention."""
        return bool(self.reasons) and not any(reason.kind.is_risk for reason in self.reasons)


TRANSITIONS: dict[ProposalState, frozenset[ProposalState]] = {
    ProposalState.PENDING: frozenset(
        {
            ProposalState.PARTLY_APPROVED,
            ProposalState.APPLIED,
            ProposalState.DENIED,
            ProposalState.STALE,
            ProposalState.SUPERSEDED,
            ProposalState.FAILED,
        }
    ),
    ProposalState.PARTLY_APPROVED: frozenset(
        {ProposalState.PENDING, ProposalState.APPLIED, ProposalState.STALE, ProposalState.FAILED}
    ),
    ProposalState.STALE: frozenset(
        {
            ProposalState.PENDING,
            ProposalState.PARTLY_APPROVED,
            ProposalState.APPLIED,
            ProposalState.DENIED,
            ProposalState.SUPERSEDED,
            ProposalState.FAILED,
        }
    ),
    ProposalState.APPLIED: frozenset({ProposalState.UNDONE, ProposalState.FAILED}),
    ProposalState.UNDONE: frozenset({ProposalState.APPLIED, ProposalState.FAILED}),
    ProposalState.FAILED: frozenset(
        {ProposalState.PENDING, ProposalState.PARTLY_APPROVED, ProposalState.APPLIED, ProposalState.UNDONE}
    ),
    ProposalState.DENIED: frozenset({ProposalState.PENDING}),
    ProposalState.SUPERSEDED: frozenset(),
}
"""The states that may follow each state.

A partly approved proposal becomes pending again when its approved hunks are undone, and applied when the rest is
approved, denied or superseded. A denied one becomes pending again when the denial is undone, a stale one when the
disk changes back. A proposal is failed if an apply broke off and another program changed the files before it was
finished; recovery restores the state from before.
"""

ON_DISK_TRANSITIONS: dict[ProposalState, frozenset[ProposalState]] = {
    ProposalState.APPLIED: frozenset({ProposalState.PENDING, ProposalState.PARTLY_APPROVED}),
}
"""Further transitions of a proposal for changes on disk: to undo its approval writes nothing."""


def with_state(proposal: Proposal, state: ProposalState, reason: str = "") -> Proposal:
    """Return the proposal in another state; raise if the state machine does not allow the transition.

    Raises:
        InvalidTransition: the transition is not allowed.
    """
    allowed = TRANSITIONS[proposal.state]
    if proposal.on_disk:
        allowed |= ON_DISK_TRANSITIONS.get(proposal.state, frozenset())
    if state not in allowed and not (state is proposal.state and state.is_pending):
        raise InvalidTransition(
            f"{proposal.id} is {describe_state(proposal.state)} and can't become {describe_state(state)}."
        )
    return proposal.model_copy(update={"state": state, "reason": reason})


def describe_state(state: ProposalState) -> str:
    """Return the state as the user reads it."""
    return state.value.replace("_", " ")


_ON_DISK_WORDS = {
    ProposalState.PARTLY_APPROVED: "partly kept",
    ProposalState.APPLIED: "kept",
    ProposalState.DENIED: "reverted",
}
"""Words for the states of a proposal for changes on disk, where they differ."""


def describe_proposal_state(proposal: Proposal) -> str:
    """Return the state of a proposal as the user reads it; `in part` is added if the rest was denied."""
    state = (_ON_DISK_WORDS if proposal.on_disk else {}).get(proposal.state) or describe_state(proposal.state)
    return f"{state} in part" if proposal.is_denied_in_part else state


def compute_state(proposal: Proposal) -> ProposalState:
    """Return the state that follows from the hunks and files of a proposal, apart from re-bases and undos."""
    states = proposal.part_states
    if HunkState.PENDING in states:
        return ProposalState.PARTLY_APPROVED if HunkState.APPLIED in states else ProposalState.PENDING
    return ProposalState.APPLIED if HunkState.APPLIED in states else ProposalState.DENIED


_MAX_NAMED_FILES = 3
"""Maximum left out files that one line names."""


class EditReport(Struct, frozen=True):
    """What an edit did to the draft: its files, a text for the model, and a line for the user."""

    files: tuple[FileDiffStat, ...]
    text: str
    """For the model: the new version of each file, and how a place was found if not exactly."""
    summary: str
    """One line for the user."""
    left_out: tuple[str, ...] = ()
    """Files whose part of a patch was skipped."""


def excluded_binary_files_note(paths: Sequence[str]) -> str:
    """Return what to add to a summary for the binary files that were left out of a patch."""
    if not paths:
        return ""
    return f", without {join_first(paths, _MAX_NAMED_FILES)} (binary)"


class DecisionResult(Struct, frozen=True):
    """The result of a decision: the proposal after it, with the files, hunks and other proposals concerned."""

    proposal: Proposal
    """The proposal after the decision."""
    files: tuple[FileDiffStat, ...] = ()
    """The files that the decision was about, with the lines that it wrote or discarded."""
    hunks: tuple[HunkOutcome, ...] = ()
    """The outcome of every pending hunk, if the decision was not on the whole proposal."""
    changed: tuple[Proposal, ...] = ()
    """Other proposals that were re-based or turned stale because of it."""
    denial: bool = False
    """Whether a denial was undone or redone."""
