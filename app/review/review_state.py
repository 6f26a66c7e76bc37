"""State of the review: pending items, the shown one, and the user's unfinished work on them."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import Struct

from app.automation.check_results import ProposalChecks
from app.automation.evidence.proposal_evidence import CommandReproductionResult, ProposalTestEvidence
from app.copies import replace
from app.proposals.decide.comment_follow_up import CommentedLineChange
from app.proposals.stack.hunk_splitting import HunkPart
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import HunkState, Proposal, ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.review.hunk_lines import SeenLines, heading_shows_change, hunk_line_numbers
from app.review.unfinished_review import (
    FeedbackWithComments,
    HunkExclusions,
    UnfinishedReview,
    UnsentComment,
    move_comment_to_revision,
    pending_files_without_hunks,
)
from app.tools.base.command_forms import AllowableCommandPattern, AllowableMcpTool, NotSimpleCommand, allowable_forms
from app.tools.base.contract import PermissionRequest


class LastingPermissionForms(Struct, frozen=True):
    """The forms of a command or tool call, widest first, that the user can allow permanently."""

    forms: tuple[AllowableCommandPattern | AllowableMcpTool, ...] = ()
    """The widest first, the exact command last; empty if only this one call can be allowed."""
    reason: str = ""
    """Why there are no forms, as a clause: `it has a |`."""


@lru_cache(maxsize=64)
def find_lasting_permission_forms(permission_request: PermissionRequest) -> LastingPermissionForms:
    """Return the forms in which a requested action can be allowed permanently."""
    if permission_request.form is not None:
        return LastingPermissionForms((permission_request.form,))
    if permission_request.kind != "command":
        return LastingPermissionForms()
    if permission_request.only_once:
        return LastingPermissionForms(reason=permission_request.only_once)
    try:
        return LastingPermissionForms(allowable_forms(permission_request.detail))
    except NotSimpleCommand as error:
        return LastingPermissionForms(reason=f"it has {error}")


class OpenPermissionRequests:
    """Open permission requests, the oldest first."""

    def __init__(self) -> None:
        self.asked: dict[str, PermissionRequest] = {}
        self._narrowing_steps: dict[str, int] = {}
        """Number of steps by which the user made the form of a command narrower."""

    def remove(self, key: str) -> None:
        """Remove a request, answered or not."""
        self.asked.pop(key, None)
        self._narrowing_steps.pop(key, None)

    def selected_form(self, key: str) -> AllowableCommandPattern | AllowableMcpTool | None:
        """Return the form that a lasting permission would cover; None for only this call."""
        forms = find_lasting_permission_forms(self.asked[key]).forms if key in self.asked else ()
        return forms[max(0, min(self._narrowing_steps.get(key, 0), len(forms) - 1))] if forms else None

    def narrow_form(self, key: str, step: int) -> None:
        """Make the form of a command narrower, or wider with a negative step, as far as possible."""
        if key in self.asked:
            max_steps = len(find_lasting_permission_forms(self.asked[key]).forms) - 1
            self._narrowing_steps[key] = max(0, min(self._narrowing_steps.get(key, 0) + step, max_steps))


class ReviewFeedbackAndComments:
    """Feedback and comments on each item that the user has not sent yet, and the comments already sent."""

    def __init__(self) -> None:
        self.drafts: dict[str, str] = {}
        """Unsent feedback."""
        self.remarks: dict[str, list[UnsentComment]] = {}
        self.sent: dict[str, tuple[LineComment, ...]] = {}
        """Comments that were sent to the model with a denial, by the id of the denied proposal."""
        self.answered: set[str] = set()
        """Keys of the comments that the user ticked off: `P7/0` for the first of P7."""
        self.answers: dict[str, tuple[CommentedLineChange, ...]] = {}
        """How a proposal changed the lines of each comment on its former version, by the proposal's id."""

    def carry_over_comments(self, before: Proposal, after: Proposal) -> None:
        """Move comments with their lines after another hunk of the file was decided or edited."""
        if remarks := self.remarks.get(after.id):
            remarks[:] = [move_comment_to_revision(remark, before, after) for remark in remarks]

    def set_feedback(self, key: str, text: str) -> None:
        """Store unsent feedback; an empty text removes it."""
        if text:
            self.drafts[key] = text
        else:
            self.drafts.pop(key, None)

    def set_comment(self, proposal: Proposal, comment: UnsentComment) -> None:
        """Set the comment on a line; an empty text removes it.

        A draft does not replace a saved comment. Saving removes the draft.
        """
        remarks = self.remarks.setdefault(proposal.id, [])
        before = [item for item in remarks if item.place == comment.place]
        if before and not comment.quote:
            # The diff has changed while the user was writing.
            comment = replace(comment, quote=before[0].quote)
        remarks[:] = [item for item in remarks if item not in before or (comment.draft and not item.draft)]
        if comment.text and not (comment.draft and comment.text in (item.text for item in before if not item.draft)):
            remarks.append(comment)
            remarks.sort(key=lambda item: (item.path, item.line))

    def feedback_for(self, proposal: Proposal, hunks: Collection[str] | None = None) -> FeedbackWithComments:
        """Return the feedback for a decision on these hunks, or on all pending ones.

        A decision on some hunks includes only the comments on them; one that leaves nothing pending includes
        everything.
        """
        feedback, remarks = self._feedback_to_send(proposal, hunks)
        return FeedbackWithComments(feedback, tuple(remark.as_line_comment for remark in remarks))

    def pop_feedback(self, proposal: Proposal, hunks: Collection[str] | None = None) -> FeedbackWithComments:
        """Return and remove the feedback for a decision on these hunks, or on all pending ones."""
        feedback = self.feedback_for(proposal, hunks)
        places = {remark.place for remark in self._feedback_to_send(proposal, hunks)[1]}
        if remaining := [remark for remark in self.remarks.pop(proposal.id, []) if remark.place not in places]:
            self.remarks[proposal.id] = remaining
        if feedback.feedback:
            del self.drafts[proposal.id]
        return feedback

    def describe_unsent(self, proposal: Proposal, hunks: Collection[str] | None = None) -> list[str]:
        """Return the texts that the user has neither sent nor saved yet."""
        feedback, remarks = self._feedback_to_send(proposal, hunks)
        return [text for text in (feedback.strip(), *(item.text for item in remarks if item.draft)) if text]

    def _feedback_to_send(self, proposal: Proposal, hunks: Collection[str] | None) -> tuple[str, list[UnsentComment]]:
        """Return the feedback and the comments that are sent with a decision."""
        comments = self.remarks.get(proposal.id, [])
        places_with_draft = {remark.place for remark in comments if remark.draft}
        remarks = [remark for remark in comments if remark.draft or remark.place not in places_with_draft]
        if hunks is None or _leaves_nothing_pending(proposal, hunks):
            return self.drafts.get(proposal.id, ""), remarks
        return "", [remark for remark in remarks if _is_comment_on_hunks(remark, proposal, hunks)]

    def restore(self, key: str, words: FeedbackWithComments) -> None:
        """Restore feedback that could not be sent."""
        if words.feedback:
            self.drafts[key] = "\n\n".join(filter(None, (words.feedback, self.drafts.get(key, ""))))
        if words.comments:
            comments = self.remarks.setdefault(key, [])
            restored = [UnsentComment.from_comment(comment) for comment in words.comments]
            comments[:] = sorted({*comments, *restored}, key=lambda item: (item.path, item.line))


def _leaves_nothing_pending(proposal: Proposal, hunks: Collection[str]) -> bool:
    """Return whether nothing of a proposal stays pending once these hunks are decided."""
    return all(hunk.id in hunks for hunk in proposal.pending_hunks) and not pending_files_without_hunks(proposal)


def _is_comment_on_hunks(comment: UnsentComment, proposal: Proposal, hunks: Collection[str]) -> bool:
    """Return whether a comment is on a line of one of these hunks."""
    file_hunks = (hunk for change in proposal.files if change.path == comment.path for hunk in change.hunks)
    return any(hunk.id in hunks and comment.line in hunk_line_numbers(hunk, comment.side) for hunk in file_hunks)


class UnseenPartsSummary(Struct, frozen=True):
    """Parts of an approval that were never on screen."""

    lines: int = 0
    """Number of unseen changed lines."""
    total: int = 0
    """Number of changed lines that the approval would write."""
    paths: tuple[str, ...] = ()
    """The files with unseen lines, and files without hunks whose head was never drawn."""

    def __bool__(self) -> bool:
        return bool(self.paths)


class SeenTracker:
    """Remembers which parts of proposals the user has seen."""

    def __init__(self) -> None:
        self._seen_by_proposal: dict[str, SeenLines] = {}
        self._stored_lines: dict[str, Mapping[str, bytes]] = {}
        """Lines seen in other windows and runs, by proposal, that are not yet added to `_seen`."""
        self._bases: dict[str, dict[str, str]] = {}
        """Hashes of the base files of each shown proposal, by path."""
        self._rebased_since_seen: dict[str, tuple[str, ...]] = {}
        self._unread_counts: dict[str, tuple[tuple[int, str, int, int], tuple[int, int]]] = {}
        """By proposal, the last result of `count_unread_lines`, after the values on which it depends."""

    def seen_lines(self, proposal: Proposal) -> SeenLines:
        """Return the seen lines of a proposal; callers add to them."""
        seen = self._seen_by_proposal.setdefault(proposal.id, SeenLines())
        if stored := self._stored_lines.pop(proposal.id, None):
            seen.restore(stored, proposal.files)
        return seen

    def forget_all_but(self, listed: Container[str]) -> None:
        """Forget the proposals that are not `listed`: they have left the review."""
        for by_proposal in (self._seen_by_proposal, self._bases, self._rebased_since_seen, self._unread_counts):
            for proposal_id in [proposal_id for proposal_id in by_proposal if proposal_id not in listed]:
                del by_proposal[proposal_id]

    def unseen_parts(self, proposal: Proposal, left_out: Collection[str]) -> UnseenPartsSummary:
        """Return the parts that were never on screen, without excluded hunks."""
        seen = self.seen_lines(proposal)
        lines = total = 0
        paths: list[str] = []
        for change in proposal.files:
            missing, changed = seen.count_unseen_of_hunks(change.hunks, left_out)
            lines, total = lines + missing, total + changed
            is_written = changed or not change.hunks
            if missing or (is_written and change.path not in seen.files and heading_shows_change(change)):
                paths.append(change.path)
        return UnseenPartsSummary(lines, total, tuple(paths))

    @property
    def lines_read(self) -> int:
        """Return how many lines of all listed proposals were seen, including decided ones."""
        return sum(seen.lines for seen in self._seen_by_proposal.values())

    def count_unread_lines(self, proposal: Proposal) -> tuple[int, int]:
        """Return how many of a waiting proposal's changed lines were never on screen, and how many there are.

        A file without hunks counts as one line, as for the reading budget.
        """
        seen = self.seen_lines(proposal)
        key = (proposal.revision, proposal.state, seen.lines, len(seen.files))
        if (counted := self._unread_counts.get(proposal.id)) is None or counted[0] != key:
            missing = total = 0
            for change in proposal.files:
                if change.hunks:
                    unseen, lines = seen.count_unseen_of_hunks(change.hunks, ())
                elif change.state is HunkState.PENDING:
                    unseen, lines = int(change.path not in seen.files), 1
                else:
                    continue
                missing, total = missing + unseen, total + lines
            counted = self._unread_counts[proposal.id] = key, (missing, total)
        return counted[1]

    def pop_new_lines(self) -> dict[str, dict[str, bytes]]:
        """Return the lines seen since the last call, by proposal, in the stored form."""
        return {name: new for name, seen in self._seen_by_proposal.items() if (new := seen.pop_new_lines())}

    def restore(self, stored: Mapping[str, Mapping[str, bytes]]) -> None:
        """Add lines that were seen in other windows and runs, in the stored form."""
        self._stored_lines.update(stored)

    def remember_bases(self, proposal: Proposal) -> None:
        """Remember the bases of the shown proposal, to detect a later re-base."""
        bases = {change.path: change.base.sha256 for change in proposal.files if change.base is not None}
        earlier_bases = self._bases.get(proposal.id, bases)
        self._bases[proposal.id] = bases
        rebased = [change.path for change in proposal.files if change.rebased]
        moved = [path for path in rebased if bases.get(path) != earlier_bases.get(path)]
        rebased_earlier = [path for path in self._rebased_since_seen.get(proposal.id, ()) if path in rebased]
        self._rebased_since_seen[proposal.id] = tuple(dict.fromkeys((*rebased_earlier, *moved)))

    def rebased_files(self, proposal: Proposal) -> tuple[str, ...]:
        """Return the files that were re-based after the user had seen them."""
        return self._rebased_since_seen.get(proposal.id, ())


_OWN_LABEL = ProposalOrigin().label


class OriginFilter:
    """Filters the review by origin; hidden items are not listed, and no key decides on them."""

    def __init__(self) -> None:
        self.only = ""
        """Label of the only origin that is listed; empty for all."""
        self.everything: dict[str, Proposal] = {}
        """All proposals, listed or not, by id."""
        self.told_apart: frozenset[str] = frozenset()
        """Labels that rows show: all labels if several origins wait, else all except signoff's own."""
        self.waiting_labels: list[str] = []
        """Labels of the waiting proposals, sorted."""

    def filter_listed(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        """Return the listed proposals; if no proposal of the chosen origin waits, list all again."""
        self.everything = {proposal.id: proposal for proposal in proposals}
        proposals = self.everything.values()
        self.waiting_labels = sorted({item.origin.label for item in proposals if item.state.is_pending})
        all_labels = {item.origin.label for item in proposals}
        self.told_apart = frozenset(all_labels if self.has_several_origins else all_labels - {_OWN_LABEL})
        if self.only not in self.waiting_labels:
            self.only = ""
        return [proposal for proposal in proposals if self._is_of_listed_origin(proposal)]

    @property
    def hidden_count(self) -> int:
        """Return how many waiting proposals are not listed."""
        return sum(
            proposal.state.is_pending and not self._is_of_listed_origin(proposal)
            for proposal in self.everything.values()
        )

    @property
    def has_several_origins(self) -> bool:
        """Return whether there is more than one origin."""
        return len(self.waiting_labels) > 1

    def _is_of_listed_origin(self, proposal: Proposal) -> bool:
        return self.only in ("", proposal.origin.label)


_BLOCKING_ORIGINS = (OriginKind.MODEL, OriginKind.COMMAND, OriginKind.AGENT)
"""Origins whose author cannot continue before the decision."""


def order_by_urgency(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Return waiting proposals by urgency: blocked agents first, then risks, then age.

    A proposal comes after those that it builds on, because they have to be written first.
    """

    def urgency(proposal: Proposal) -> tuple[bool, bool, float]:
        is_risky = any(reason.kind.is_risk for reason in proposal.reasons)
        return proposal.origin.kind not in _BLOCKING_ORIGINS, not is_risky, proposal.created

    by_urgency = {item.id: item for item in sorted(proposals, key=urgency)}
    ordered: dict[str, Proposal] = {}
    stack: list[Proposal] = []
    for item in by_urgency.values():
        stack.append(item)
        while stack:
            ids_below = [name for change in stack[-1].files for name in change.stacked_on]
            missing = [by_urgency[name] for name in ids_below if name in by_urgency and name not in ordered]
            if missing and len(stack) <= len(by_urgency):
                stack.append(missing[0])
            else:
                done = stack.pop()
                ordered.setdefault(done.id, done)
    return list(ordered.values())


_UNDOABLE_STATES = (ProposalState.APPLIED, ProposalState.PARTLY_APPROVED, ProposalState.DENIED)
"""States that `undo` can revert."""


@dataclass(slots=True)
class ReviewQueueState:
    """The queue of a review, its shown item, and the user's unfinished work on each item; not a widget."""

    waiting: list[Proposal] = field(default_factory=list)
    """In the order of `order_by_urgency`."""
    recent: list[Proposal] = field(default_factory=list)
    """Decided proposals, the latest first."""
    origins: OriginFilter = field(default_factory=OriginFilter)
    """The filter by origin."""
    permissions: OpenPermissionRequests = field(default_factory=OpenPermissionRequests)
    hunk_exclusions: HunkExclusions = field(default_factory=HunkExclusions)
    seen_tracker: SeenTracker = field(default_factory=SeenTracker)
    feedback_drafts: ReviewFeedbackAndComments = field(default_factory=ReviewFeedbackAndComments)
    checks: dict[str, ProposalChecks] = field(default_factory=dict)
    """Check results, by proposal."""
    evidence: dict[str, ProposalTestEvidence] = field(default_factory=dict)
    """Evidence about the hunks, by proposal."""
    reproductions: dict[str, CommandReproductionResult] = field(default_factory=dict)
    """Results of second runs of a command, by proposal."""
    reproducing: str = ""
    """Id of the proposal whose command runs a second time now."""
    has_question_in_chat: bool = False
    """Whether the model waits for the answer to a question in the chat."""
    current: str = ""
    """Key of the shown item: a proposal's id or a permission request's key."""
    is_picked_by_user: bool = False
    """Whether the user chose the shown item; then nothing replaces it automatically."""
    item_before_permission: str = ""
    """Key of the item to show again after a permission request."""
    last_decided: str = ""
    """Id of the proposal of the latest decision, for undo."""
    continues_when_empty: bool = False
    """Whether the model continues automatically once nothing waits any more."""
    _listed_by_id: dict[str, Proposal] = field(init=False)
    _positions: dict[str, int] = field(init=False)
    """Index of each waiting proposal in `waiting`, by id."""

    def __post_init__(self) -> None:
        self._build_indexes()

    def _build_indexes(self) -> None:
        """Build the indexes: thousands of proposals may wait, and every key press looks up some of them."""
        self._listed_by_id = {item.id: item for item in (*self.waiting, *self.recent)}
        self._positions = {item.id: position for position, item in enumerate(self.waiting)}

    def update_proposals(
        self, proposals: Iterable[Proposal], *, attended: bool = True, is_edited: bool = False
    ) -> None:
        """Set the present proposals, and keep the shown one if possible.

        A decided proposal stays shown while the user writes about it (`is_edited`). Unless the review is `attended`,
        a proposal that can be approved replaces a stale one, if the user has neither chosen it nor written feedback
        on it.
        """
        earlier_proposals = self.origins.everything
        listed = self.origins.filter_listed(proposals)
        self.seen_tracker.forget_all_but(self.origins.everything)
        for proposal in self.origins.everything.values():
            before = earlier_proposals.get(proposal.id)
            if before is not None and before.revision != proposal.revision:
                self.hunk_exclusions.carry_over_exclusions(before, proposal)
                self.feedback_drafts.carry_over_comments(before, proposal)
        was_shown = self.proposal
        was_waiting = was_shown is not None and was_shown.state.is_pending
        self.waiting = order_by_urgency(item for item in listed if item.state.is_pending)
        self.recent = sorted((item for item in listed if not item.state.is_pending), key=lambda item: -item.created)
        self._build_indexes()
        shown = self.proposal
        if shown is not None and _is_stale(shown) and was_shown is not None and not _is_stale(was_shown):
            # The user chose it before it became stale.
            self.is_picked_by_user = False
        if self.current in self.permissions.asked:
            return
        if shown is None or (
            not is_edited and self._must_be_replaced(shown, was_waiting=was_waiting, attended=attended)
        ):
            self.show_next_waiting()

    def _must_be_replaced(self, shown: Proposal, *, was_waiting: bool, attended: bool) -> bool:
        """Return whether another item must be shown."""
        if not shown.state.is_pending:
            return was_waiting or not self.is_picked_by_user
        is_kept = attended or self.is_picked_by_user or bool(self.feedback_drafts.feedback_for(shown))
        return _is_stale(shown) and self._first_approvable is not None and not is_kept

    def list_next_origin(self) -> None:
        """List only the next origin; after the last one, all again."""
        labels = ("", *self.origins.waiting_labels)
        self.origins.only = labels[(labels.index(self.origins.only) + 1) % len(labels)]
        self.update_proposals(self.origins.everything.values())

    @property
    def has_hidden_permission(self) -> bool:
        """Return whether a permission request waits while another item is shown."""
        return bool(self.permissions.asked) and self.current not in self.permissions.asked

    def show_permission(self) -> None:
        """Show the oldest permission request."""
        if self.has_hidden_permission:
            self.item_before_permission, self.current = self.current, next(iter(self.permissions.asked))

    def leave_permission(self) -> None:
        """Show the item from before the permission request again, or the next one that waits."""
        if self.permissions.asked or self.item_before_permission not in self._positions:
            self.current = ""
            self.show_next_waiting()
        else:
            self.current = self.item_before_permission

    def show_next_waiting(self) -> None:
        """Show the first waiting item, stale ones last; if nothing waits, the decided one stays shown."""
        self.is_picked_by_user = False
        if self.permissions.asked:
            self.current = next(iter(self.permissions.asked))
        elif self.waiting:
            self.current = (self._first_approvable or self.waiting[0]).id
        elif self.proposal is None:
            self.current = self.recent[0].id if self.recent else ""

    @property
    def _first_approvable(self) -> Proposal | None:
        """Return the first waiting proposal that is not stale."""
        return next((item for item in self.waiting if not _is_stale(item)), None)

    @property
    def waiting_keys(self) -> list[str]:
        """Return the waiting items: permission requests, which block the model, then proposals."""
        return [*self.permissions.asked, *self._positions]

    @property
    def waiting_count(self) -> int:
        """Return how many items wait."""
        return len(self.permissions.asked) + len(self.waiting)

    @property
    def listed_keys(self) -> list[str]:
        """Return the keys of all listed items."""
        return [*self.permissions.asked, *self._listed_by_id]

    def is_listed(self, key: str) -> bool:
        """Return whether this item is listed."""
        return key in self.permissions.asked or key in self._listed_by_id

    def get(self, key: str) -> Proposal | None:
        """Return a listed proposal; None if it is not listed."""
        return self._listed_by_id.get(key)

    @property
    def proposal(self) -> Proposal | None:
        """Return the shown proposal."""
        return self.get(self.current)

    @property
    def permission_request(self) -> PermissionRequest | None:
        """Return the shown permission request, if there is one."""
        return self.permissions.asked.get(self.current)

    @property
    def form(self) -> AllowableCommandPattern | AllowableMcpTool | None:
        """Return the form that a lasting permission would cover; None for just this call."""
        return self.permissions.selected_form(self.current)

    def queue_number(self, key: str) -> int:
        """Return the position in the queue, from 1; 0 for an item that does not wait."""
        if key in self.permissions.asked:
            return list(self.permissions.asked).index(key) + 1
        position = self._positions.get(key)
        return 0 if position is None else len(self.permissions.asked) + position + 1

    # Available actions

    @property
    def undo_target(self) -> Proposal | None:
        """Return the shown proposal if it was decided, else the one decided last."""
        for proposal in (self.proposal, self.get(self.last_decided)):
            if proposal is not None and (proposal.state in _UNDOABLE_STATES or proposal.has_denied_part):
                return proposal
        return None

    @property
    def redo_target(self) -> Proposal | None:
        """Return the shown proposal if a decision on it was undone."""
        proposal = self.proposal
        if proposal is None:
            return None
        was_undone = proposal.state is ProposalState.UNDONE or (proposal.reopened and proposal.state.is_pending)
        return proposal if was_undone else None

    def unseen_parts(self, proposal: Proposal) -> UnseenPartsSummary:
        """Return the chosen parts that were never on screen."""
        return self.seen_tracker.unseen_parts(proposal, self.hunk_exclusions.excluded_from(proposal.id))

    @property
    def read_line_counts(self) -> tuple[int, int]:
        """Return how many changed lines of all waiting proposals were on screen, and how many there are."""
        counts = [
            self.seen_tracker.count_unread_lines(item)
            for item in self.origins.everything.values()
            if item.state.is_pending
        ]
        total = sum(lines for _, lines in counts)
        return total - sum(missing for missing, _ in counts), total

    @property
    def next_unread_proposal(self) -> str:
        """Return the next listed proposal after the shown one that has unseen lines; empty if none has."""
        next_position = self._positions.get(self.current, -1) + 1
        others = (
            item for item in (*self.waiting[next_position:], *self.waiting[:next_position]) if item.id != self.current
        )
        return next((item.id for item in others if self.seen_tracker.count_unread_lines(item)[0]), "")

    def select_split_parts(self, proposal: Proposal, parts: Sequence[HunkPart], whole: Collection[str]) -> None:
        """Choose among the parts of hunks that were just split; a part's lines are seen if they were seen in its
        hunk.

        Args:
            proposal: The proposal before the split.
            parts: The parts.
            whole: Ids of hunks whose lines were all selected.
        """
        hunks, seen = {hunk.id: hunk for hunk in proposal.hunks}, self.seen_tracker.seen_lines(proposal)
        for part in parts:
            seen.copy_seen_lines(hunks[part.whole], part.hunk)
        self.hunk_exclusions.toggle_split_parts(proposal, parts, whole)

    # State that survives a restart

    def unfinished_review(self, key: str) -> UnfinishedReview:
        """Return the unfinished review of a proposal."""
        return UnfinishedReview(
            draft=self.feedback_drafts.drafts.get(key, ""),
            remarks=tuple(self.feedback_drafts.remarks.get(key, ())),
            left_out=tuple(sorted(self.hunk_exclusions.excluded_from(key))),
            answered=tuple(sorted(tick for tick in self.feedback_drafts.answered if tick.startswith(f"{key}/"))),
        )

    def restore_notes(self, key: str, notes: UnfinishedReview) -> None:
        """Restore an unfinished review after a restart; newer notes win."""
        self.feedback_drafts.drafts.setdefault(key, notes.draft)
        self.feedback_drafts.remarks.setdefault(key, list(notes.remarks))
        self.hunk_exclusions.left_out.setdefault(key, set(notes.left_out))
        self.feedback_drafts.answered.update(notes.answered)


def _is_stale(proposal: Proposal) -> bool:
    return proposal.state is ProposalState.STALE
