"""The review: the diff above, the approvals below, and the keys that decide. It posts messages and does nothing itself."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget

from app.actions import ACTIONS, bindings
from app.proposals.models import FileChange, FileDiff, HunkState, Proposal, ProposalState
from app.tools.contract import Confirmation, ConfirmationAnswer
from widgets.approval import messages
from widgets.approval.comments import line_comments, placed
from widgets.approval.decide import Ask, Do, Refuse, Verdict, approve, approve_all, deny_all
from widgets.approval.feedback import WritingField
from widgets.approval.guard import GRACE_SECONDS, Guard
from widgets.approval.pane import ApprovalPane, Queue
from widgets.approval.splitter import Splitter
from widgets.approval.state import Remark, ReviewState
from widgets.approval.wording import chip, safe
from widgets.diff.minimap import MiniMap
from widgets.diff.position import PositionBar
from widgets.diff.rows import NoteRow
from widgets.diff.search_bar import SearchBar
from widgets.diff.view import Anchor, DiffView

_KEY_WORDS = {"question_mark": "?", "full_stop": ".", "slash": "/"}


class Review(Vertical):
    """Coordinates the diff preview and the approval pane."""

    DEFAULT_CSS = """
    Review {
        width: 1fr;
        height: 1fr;

        #diff-area { height: 1fr; }
        DiffView { width: 1fr; height: 1fr; }
        &.-full ApprovalPane Queue { display: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("review")]

    Approve = messages.Approve
    Deny = messages.Deny
    ApproveAll = messages.ApproveAll
    DenyAll = messages.DenyAll
    Undo = messages.Undo
    Redo = messages.Redo
    Edit = messages.Edit
    Confirmed = messages.Confirmed
    ProposalShown = messages.ProposalShown
    DiffsWanted = messages.DiffsWanted
    VersionsWanted = messages.VersionsWanted
    FullScreen = messages.FullScreen

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        keys: Mapping[str, str] | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """`clock` gives monotonic seconds; `keys` overrides the registry's keys for the hints, by action id."""
        super().__init__(id=id)
        self.state = ReviewState()
        self.view = DiffView(id="diff")
        self.pane = ApprovalPane(id="approvals")
        self._guard = Guard(clock)
        self._toggle_guard = Guard(clock)
        self._keys = dict(keys or {})
        self._question: Ask | None = None
        self._shown: tuple[str, tuple[object, ...]] | None = None
        self._versions: tuple[str, tuple[FileDiff, ...]] | None = None
        self._comparing = False
        self._outcome: tuple[Content, bool] | None = None
        self._last_applied = ""

    def compose(self) -> ComposeResult:
        yield PositionBar()
        with Horizontal(id="diff-area"):
            yield self.view
            yield MiniMap(self.view)
        yield SearchBar()
        yield WritingField("save the comment", id="comment")
        yield Splitter()
        yield WritingField("send to the model", id="feedback")
        yield self.pane

    def on_mount(self) -> None:
        """Begin with an empty pane."""
        self._show_current()

    # What the application tells

    def set_proposals(self, proposals: Sequence[Proposal]) -> None:
        """Take all waiting and recent proposals as they are now."""
        before = self.state.current
        self.state.update(proposals)
        if self.state.current != before:
            self._show_current()
            return
        proposal = self.state.proposal
        if proposal is not None and not self._is_shown(proposal):
            self.post_message(messages.DiffsWanted(proposal.id))
        self._refresh()

    def set_diffs(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take the diffs that were wanted; those of another proposal than the shown one are ignored."""
        proposal = self.state.proposal
        if proposal is None or proposal.id != proposal_id:
            return
        self._comparing = False
        self._shown = (proposal_id, _content_of(proposal))
        if tuple(_file_key(diff.change) for diff in diffs) != self._shown[1]:
            # The proposal moved on while its diffs were computed: never decide on what isn't on screen.
            self._shown = None
        self.view.show(proposal, diffs, extra=self._answered_notes(proposal))
        self._show_choice(proposal)
        self._refresh()
        self.post_message(messages.ProposalShown(proposal_id))

    def set_versions(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take the changes from the version before to this one, and show them if they are still wanted."""
        self._versions = (proposal_id, tuple(diffs))
        proposal = self.state.proposal
        if proposal is not None and proposal.id == proposal_id:
            self._compare(proposal)

    def add_confirmation(self, key: str, confirmation: Confirmation) -> None:
        """Ask the user; the model's turn waits for it."""
        self.state.confirmations[key] = confirmation
        if self.state.proposal is None or not self.state.proposal.state.waiting:
            self.state.current = key
            self._show_current()
        else:
            self._refresh()

    def remove_confirmation(self, key: str) -> None:
        """The question is gone, answered or not."""
        self.state.confirmations.pop(key, None)
        self.state.drafts.pop(key, None)
        if self.state.current == key:
            self.state.current = ""
            self.state.advance()
            self._show_current()
        else:
            self._refresh()

    def outcome(self, text: str, *, problem: bool = False) -> None:
        """Say in one line what a decision came to (`wrote 2 files; u undoes`)."""
        self._outcome = (safe(text), problem)
        self.pane.outcome(self._outcome[0], problem=problem)

    def set_keys(self, keys: Mapping[str, str]) -> None:
        """Override the keys that the hints name, by action id."""
        self._keys = dict(keys)
        self._refresh()

    def show_item(self, key: str) -> None:
        """Show a proposal or a confirmation of the queue."""
        if key in self.state.keys and key != self.state.current:
            self.state.current, self.state.picked = key, True
            self._show_current()

    # Drawing

    def _show_current(self) -> None:
        self._shown, self._comparing, self._question = None, False, None
        proposal, confirmation = self.state.proposal, self.state.confirmation
        if confirmation is not None:
            self.view.show_text(_confirmation_notes(confirmation))
        elif proposal is None:
            self.view.clear("Nothing to review yet. What the model proposes appears here.")
        else:
            self.view.clear(f"Loading {proposal.id} …")
            self.post_message(messages.DiffsWanted(proposal.id))
        self._refresh()

    def _is_shown(self, proposal: Proposal) -> bool:
        """Whether the diff on screen is of this very content."""
        return self._shown == (proposal.id, _content_of(proposal)) and not self._comparing

    def _show_choice(self, proposal: Proposal) -> None:
        self.view.set_left_out(frozenset(self.state.left_out.get(proposal.id, set())))
        self.view.set_comments(placed(self.state.remarks.get(proposal.id, ()), self.view.diffs))

    def _refresh(self) -> None:
        """Draw everything anew, and start the grace period if something else would be decided now."""
        if not self.is_mounted:
            return
        if self._question is not None and any(self.state.get(item) is None for item in self._question.ids):
            self._question = None
        subject = self._subject()
        base = subject[:3]
        self._toggle_guard.watch(base)
        if self._guard.watch(subject):
            self.add_class("-changed")
            self.set_timer(GRACE_SECONDS, self._lift_grace, name="grace")
        self.pane.show(self.state, self._key)
        self.pane.ask(self._question_line())
        self._draw_position()

    def _lift_grace(self) -> None:
        if self._guard.open:
            self.remove_class("-changed")

    def _subject(self) -> tuple[object, ...]:
        """What a decision key would decide now."""
        proposal = self.state.proposal
        if proposal is None:
            return (self.state.current, 0, None, self._question)
        choice = self.state.choice(proposal)
        return (
            proposal.id,
            proposal.revision,
            (proposal.state, self._is_shown(proposal)),
            choice.hunks,
            self._question,
        )

    def _question_line(self) -> Content | None:
        if self._question is None:
            return None
        yes = chip(self._key("approve"), "yes", "$success")
        no = chip(self._key("deny"), "no", "$error")
        named: tuple[str | Content, ...] = ()
        if self._question.named:
            words = f"also {', '.join(self._question.named)}" if self._question.ids else "approve these, too"
            named = ("   ", chip(self._key("approve_all"), words, "$warning"))
            if not self._question.ids:
                return Content.assemble(safe(self._question.question, "bold"), "\n", named[1], "   ", no)
        return Content.assemble(safe(self._question.question, "bold"), "\n", yes, *named, "   ", no)

    def _key(self, action: str) -> str:
        """The key of a review action as hints show it."""
        found = next(item for item in ACTIONS if item.id == f"review.{action}")
        key = self._keys.get(found.id, found.keys).split(",")[0]
        return _KEY_WORDS.get(key, key)

    @on(DiffView.ViewMoved)
    @on(DiffView.SearchDone)
    def _draw_position(self) -> None:
        if not self.is_mounted:
            return
        proposal = self.state.proposal
        title = Content("")
        if proposal is not None and self.view.proposal is not None:
            version = f" v{proposal.version}" if proposal.version > 1 else ""
            title = Content.styled(f"{proposal.id}{version}", "bold $text-accent")
            if self._comparing:
                title = Content.styled(f"{proposal.supersedes or 'before'} → {proposal.id}", "bold $text-warning")
        self.query_one(PositionBar).follow(self.view, title)
        self.query_one(MiniMap).refresh()

    @on(DiffView.Seen)
    def _take_seen(self) -> None:
        if self.view.proposal is not None and not self._comparing:
            self.state.seen.setdefault(self.view.proposal.id, set()).update(self.view.seen)
            self.pane.show(self.state, self._key)

    # Keys that decide

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Decisions exist only while one of the two panes itself has the focus."""
        if action in _NEED_FOCUS:
            return self._in_focus
        return True

    @property
    def _in_focus(self) -> bool:
        focused = self.screen.focused
        return focused is self.view or isinstance(focused, Queue)

    def _ready(self, guard: Guard | None = None) -> bool:
        """Whether a decision key counts now; says so if it doesn't."""
        if not self._in_focus:
            return False
        if not (guard or self._guard).open:
            self.say("That changed just now. Look again, then press the key.")
            return False
        return True

    def say(self, text: str) -> None:
        """One line that something was not done, and why."""
        self.outcome(text, problem=True)

    def action_approve(self) -> None:
        """Approve what is chosen, allow what is asked, or say yes to the question."""
        if not self._ready():
            return
        if self._question is not None:
            if self._question.ids:
                self._perform(self._question.action, self._question.ids)
            return
        if self.state.confirmation is not None:
            self._answer(ConfirmationAnswer(allowed=True))
            return
        proposal = self.state.proposal
        if proposal is not None:
            self._act(approve(self.state, proposal, shown=self._is_shown(proposal), versions=self._comparing))

    def action_deny(self) -> None:
        """Deny the proposal or what is asked, or say no to the question."""
        if self._question is not None:
            self._ask(None)
            return
        if not self._ready():
            return
        if self.state.confirmation is not None:
            self._answer(ConfirmationAnswer(allowed=False))
            return
        proposal = self.state.proposal
        if proposal is not None:
            self._act(
                Do("deny", (proposal.id,)) if proposal.state.waiting else Refuse(f"{proposal.id} isn't waiting.")
            )

    def action_approve_all(self) -> None:
        """Approve everything, after a question; from the question, what it left out, too."""
        if not self._ready():
            return
        if self._question is not None:
            if self._question.named:
                ids = {*self._question.ids, *self._question.named}
                self._perform("approve_all", tuple(item.id for item in self.state.waiting if item.id in ids))
            return
        self._act(approve_all(self.state))

    def action_deny_all(self) -> None:
        """Deny everything, after a question."""
        if self._ready() and self._question is None:
            self._act(deny_all(self.state))

    def action_deny_hunk(self) -> None:
        """Deny the hunk at the cursor alone."""
        proposal, hunk = self.state.proposal, self.view.hunk_at_cursor
        if not self._ready() or self._question is not None or proposal is None or hunk is None or self._comparing:
            return
        if hunk.state is HunkState.PENDING and proposal.state.waiting and self._is_shown(proposal):
            self._take_out(proposal, hunk.id)

    def _take_out(self, proposal: Proposal, hunk: str) -> None:
        self._done()
        self.post_message(messages.Deny(proposal.id, proposal.revision, (hunk,)))

    def action_allow_session(self) -> None:
        """Allow what is asked, and the same again, for this session."""
        if self.state.confirmation is not None and self._ready():
            self._answer(ConfirmationAnswer(allowed=True, remember=True))

    def action_undo(self) -> None:
        """Undo the shown proposal, or the one that was applied last."""
        if not self._ready() or self._question is not None:
            return
        proposal = self.state.proposal
        applied = (ProposalState.APPLIED, ProposalState.PARTLY_APPROVED)
        if proposal is None or proposal.state not in applied:
            proposal = self.state.get(self._last_applied)
        if proposal is None or proposal.state not in applied:
            self.say("Nothing here has been applied.")
            return
        self._done()
        self.post_message(messages.Undo(proposal.id))

    def action_redo(self) -> None:
        """Apply an undone proposal again."""
        proposal = self.state.proposal
        if self._ready() and proposal is not None and proposal.state is ProposalState.UNDONE:
            self._done()
            self.post_message(messages.Redo(proposal.id))

    def _act(self, verdict: Verdict) -> None:
        match verdict:
            case Refuse(reason):
                self.say(reason)
            case Ask():
                self._ask(verdict)
            case Do(action, ids):
                self._perform(action, ids)

    def _ask(self, question: Ask | None) -> None:
        self._question = question
        self._outcome = None
        self.pane.outcome(None)
        self._refresh()

    def _perform(self, action: str, ids: tuple[str, ...]) -> None:
        chosen = [proposal for item in ids if (proposal := self.state.get(item)) is not None]
        self._question = None
        self._done()
        if not chosen:
            self._refresh()
            return
        self.state.picked = False
        first = chosen[0]
        if action == "approve":
            self._last_applied = first.id
            self.post_message(messages.Approve(first.id, first.revision, self._hunks_of(first)))
        elif action == "approve_all":
            self._last_applied = chosen[-1].id
            self.post_message(
                messages.ApproveAll(
                    tuple(item.id for item in chosen),
                    tuple(item.revision for item in chosen),
                    tuple(self._hunks_of(item) for item in chosen),
                )
            )
        elif action == "deny":
            self.post_message(messages.Deny(first.id, first.revision))
        else:
            self.post_message(messages.DenyAll(tuple(item.id for item in chosen)))
        self._refresh()

    def _hunks_of(self, proposal: Proposal) -> tuple[str, ...] | None:
        choice = self.state.choice(proposal)
        return None if choice.all else choice.hunks

    def _done(self) -> None:
        """Take away what was said about the decision before."""
        self._outcome = None
        self.pane.outcome(None)

    def _answer(self, answer: ConfirmationAnswer) -> None:
        key = self.state.current
        self.post_message(messages.Confirmed(key, answer))
        self.remove_confirmation(key)

    # Keys that shape

    def action_toggle_hunk(self) -> None:
        """Take the hunk at the cursor in or out."""
        hunk = self.view.hunk_at_cursor
        if hunk is not None:
            self._toggle([hunk.id])

    def action_toggle_file(self) -> None:
        """Take all hunks of the file in or out."""
        if self.view.diffs:
            change = self.view.diffs[self.view.file_at_cursor].change
            if not change.hunks:
                self.say("This file is decided with the proposal as a whole.")
            self._toggle([hunk.id for hunk in change.hunks])

    @on(DiffView.HunkClicked)
    def _toggle_clicked(self, event: DiffView.HunkClicked) -> None:
        self._toggle([event.hunk])

    def _toggle(self, ids: Sequence[str]) -> None:
        proposal = self.state.proposal
        if proposal is None or not proposal.state.waiting or self._comparing or self._question is not None:
            return
        if not self._ready(self._toggle_guard):
            return
        self._done()
        self.state.toggle(proposal, [hunk for hunk in proposal.hunks if hunk.id in ids])
        self.view.set_left_out(frozenset(self.state.left_out.get(proposal.id, set())))
        self._refresh()

    def action_edit(self) -> None:
        """Change the proposed text of the file at the cursor."""
        proposal = self.state.proposal
        if proposal is not None and proposal.state.waiting and self.view.diffs and self._ready():
            self.post_message(messages.Edit(proposal.id, self.view.diffs[self.view.file_at_cursor].change.path))

    def action_next_proposal(self) -> None:
        """Show the next item."""
        self._step(1)

    def action_previous_proposal(self) -> None:
        """Show the previous item."""
        self._step(-1)

    def _step(self, by: int) -> None:
        keys = self.state.keys
        if keys:
            at = keys.index(self.state.current) + by if self.state.current in keys else 0
            self.show_item(keys[max(0, min(at, len(keys) - 1))])

    def action_full_screen(self) -> None:
        """Give the review the whole screen, or give it back."""
        self.toggle_class("-full")
        self.post_message(messages.FullScreen(self.has_class("-full")))

    @on(ApprovalPane.Picked)
    def _pick(self, event: ApprovalPane.Picked) -> None:
        self.show_item(event.key)

    @on(Splitter.Dragged)
    def _drag(self, event: Splitter.Dragged) -> None:
        bottom = self.region.bottom
        self.pane.add_class("dragged")
        self.pane.styles.height = max(4, min(bottom - event.screen_y - 1, self.size.height - 6))

    # Words

    def action_request_changes(self) -> None:
        """Write what should be different; sending it denies the proposal."""
        if not self._ready() or self._question is not None:
            return
        key = self.state.current
        if self.state.confirmation is not None:
            title = Content.assemble(("Deny ", "bold"), safe(self.state.confirmation.detail), " and say why")
            self.query_one("#feedback", WritingField).open(key, title, self.state.drafts.get(key, ""))
            return
        proposal = self.state.proposal
        if proposal is None or not proposal.state.waiting:
            return
        remarks = self.state.remarks.get(key, [])
        context = [
            Content.assemble(safe(f"{remark.path}:{remark.line + 1}", "$text-accent"), "  ", safe(remark.text))
            for remark in remarks
        ]
        title = Content.assemble(f"Request changes to {proposal.id} ", safe(proposal.summary, "not bold"))
        self.query_one("#feedback", WritingField).open(key, title, self.state.drafts.get(key, ""), context)

    @on(WritingField.Closed, "#feedback")
    def _keep_draft(self, event: WritingField.Closed) -> None:
        self.state.drafts[event.subject] = event.draft
        self.view.focus()

    @on(WritingField.Sent, "#feedback")
    def _send_feedback(self, event: WritingField.Sent) -> None:
        self.view.focus()
        key = event.subject
        if key in self.state.confirmations:
            self.state.current = key
            self._answer(ConfirmationAnswer(allowed=False, feedback=event.text))
            return
        proposal = self.state.get(key)
        if proposal is None or not proposal.state.waiting:
            self.state.drafts[key] = event.text
            self.say(f"{key} is not waiting any more; your words are kept.")
            return
        comments = line_comments(self.state.remarks.get(key, ()), self.view.diffs)
        if not event.text.strip() and not comments:
            self.say("Nothing was written, so nothing was sent.")
            return
        self.state.drafts.pop(key, None)
        self._done()
        self.post_message(messages.Deny(key, proposal.revision, None, event.text, comments))

    @on(DiffView.CommentWanted)
    def _open_comment(self, event: DiffView.CommentWanted) -> None:
        proposal = self.state.proposal
        if proposal is None or self._comparing:
            return
        anchor = event.anchor
        path = self.view.diffs[anchor.file].change.path
        subject = f"{proposal.id}\n{path}\n{anchor.side}\n{anchor.line}"
        known = next((item.text for item in self.state.remarks.get(proposal.id, ()) if _at(item, path, anchor)), "")
        title = Content.assemble("Comment on ", safe(f"{path}:{anchor.line + 1}"))
        draft = known or self.state.drafts.get(subject, "")
        self.query_one("#comment", WritingField).open(subject, title, draft)

    @on(WritingField.Closed, "#comment")
    def _keep_comment(self, event: WritingField.Closed) -> None:
        self.state.drafts[event.subject] = event.draft
        self.view.focus()

    @on(WritingField.Sent, "#comment")
    def _save_comment(self, event: WritingField.Sent) -> None:
        key, path, side, line = event.subject.split("\n")
        remarks = self.state.remarks.setdefault(key, [])
        remarks[:] = [item for item in remarks if (item.path, item.side, item.line) != (path, side, int(line))]
        if event.text.strip():
            remarks.append(Remark(path, "old" if side == "old" else "new", int(line), event.text.strip()))
        self.state.drafts.pop(event.subject, None)
        self.view.focus()
        proposal = self.state.proposal
        if proposal is not None and proposal.id == key:
            self._show_choice(proposal)
        self._refresh()

    def _answered_notes(self, proposal: Proposal) -> list[NoteRow]:
        return []

    # Search and versions

    @on(DiffView.SearchWanted)
    def _open_search(self) -> None:
        self.query_one(SearchBar).open()

    @on(SearchBar.Typed)
    def _search(self, event: SearchBar.Typed) -> None:
        self.view.search(event.query)

    @on(SearchBar.Finished)
    def _end_search(self, event: SearchBar.Finished) -> None:
        self.view.focus()
        if event.query:
            self.view.action_search_next()
        else:
            self.view.search("")

    @on(DiffView.VersionsWanted)
    def _toggle_versions(self) -> None:
        proposal = self.state.proposal
        if proposal is None:
            return
        if self._comparing:
            self._comparing = False
            self._shown = None
            self.post_message(messages.DiffsWanted(proposal.id))
            return
        if not proposal.supersedes:
            self.say(f"{proposal.id} is the first version.")
        elif self._versions is not None and self._versions[0] == proposal.id:
            self._compare(proposal)
        else:
            self.post_message(messages.VersionsWanted(proposal.id))

    def _compare(self, proposal: Proposal) -> None:
        assert self._versions is not None
        self._comparing = True
        self.view.clear()
        self.view.show(proposal, self._versions[1])
        self._refresh()

    @property
    def focus_target(self) -> Widget:
        """What takes the focus when the user goes to the diff."""
        return self.view


_NEED_FOCUS = frozenset(
    {
        "approve",
        "deny",
        "request_changes",
        "approve_all",
        "deny_all",
        "deny_hunk",
        "allow_session",
        "undo",
        "redo",
        "edit",
        "toggle_hunk",
        "toggle_file",
    }
)
"""Actions that decide or shape a decision."""


def _file_key(change: FileChange) -> tuple[object, ...]:
    return (
        change.path,
        change.op,
        change.base and change.base.sha256,
        change.result and change.result.sha256,
        tuple(hunk.id for hunk in change.hunks),
    )


def _content_of(proposal: Proposal) -> tuple[object, ...]:
    """What an approval would write, as a value to compare."""
    return tuple(_file_key(change) for change in proposal.files)


def _at(remark: Remark, path: str, anchor: Anchor) -> bool:
    return (remark.path, remark.side, remark.line) == (path, anchor.side, anchor.line)


def _confirmation_notes(confirmation: Confirmation) -> list[NoteRow]:
    folder = "the workspace" if confirmation.folder in ("", ".") else confirmation.folder
    what = "Command to run" if confirmation.kind == "command" else "File that may hold secrets"
    return [
        NoteRow(-1, f"{what}, in {folder}:", "warning"),
        NoteRow(-1, "", "plain"),
        *(NoteRow(-1, line, "plain") for line in confirmation.detail.split("\n")),
    ]
