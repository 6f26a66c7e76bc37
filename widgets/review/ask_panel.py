"""Side questions and their answers: the threads of each hunk, and the panel below the diff.

No key in the panel makes a decision. The panel also works while a turn runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from app.agent.updates import EventRecorded, SideAnswerDiscarded, SideAnswerStreamed, SideUpdate
from app.conversation.events import (
    EventBase,
    ProposalLocation,
    SideAnswer,
    SideExchange,
    SideQuestion,
    collect_side_exchanges,
)
from app.conversation.token_totals import TokenTotals
from app.keys.actions import make_key_bindings_of_scopes
from app.keys.keymap import first_key_name
from app.proposals.values.models import FileDiff, Hunk
from app.review.hunk_lines import Side, hunk_line_numbers
from app.review.review_state import ReviewQueueState
from app.text.quantities import format_count
from widgets.chat.composer_field import ComposerDraft, ComposerField
from widgets.chat.entries.entry_base import EntryAddedOrReplaced, TranscriptEntry
from widgets.chat.entries.message_entries import ModelAnswerEntry, NoticeToUserEntry, UserEntry
from widgets.chat.markdown.styled_lines import format_seconds, shorten_to_one_line
from widgets.chat.transcript import Transcript
from widgets.common.containers import Column
from widgets.common.figures import format_dollars, format_tokens
from widgets.common.workbench_bars import HasChangingKeyTitles
from widgets.diff.diff_arrangement import DiffComment
from widgets.diff.diff_cursor import PickedLines
from widgets.diff.diff_pane import DiffPane
from widgets.diff.diff_rows import CommentRow, SourceLinePosition
from widgets.review import review_messages
from widgets.review.diff_preview_controller import DiffPreviewController
from widgets.review.review_wording import safe_line_content

_WAITING_TEXT = "Waiting for the answer …"
_UNANSWERED_TEXT = "There was no answer. Ask again if you still want to know."


class SideThreads:
    """All known side questions with their answers."""

    def __init__(self) -> None:
        self._exchanges: dict[str, SideExchange] = {}
        """By uid of the question, in the order of asking."""
        self._partial_answers: dict[str, str] = {}
        """Answer text received so far, by uid of the open question."""

    def load(self, events: Iterable[EventBase]) -> None:
        """Add the questions in stored events; keep known questions that have an answer."""
        for exchange in collect_side_exchanges(events):
            known = self._exchanges.get(exchange.question.uid)
            if known is None or known.answer is None:
                self._exchanges[exchange.question.uid] = exchange

    def handle_update(self, update: SideUpdate) -> ProposalLocation | None:
        """Handle an update; return the anchor of its question, or None if the question is unknown."""
        match update:
            case EventRecorded(event=SideQuestion() as question):
                self._exchanges[question.uid] = SideExchange(question)
                self._partial_answers[question.uid] = ""
                return question.place
            case EventRecorded(event=SideAnswer() as answer):
                self._partial_answers.pop(answer.question, None)
                return self._record_answer(answer)
            case SideAnswerStreamed(question=uid, text=text) if uid in self._partial_answers:
                self._partial_answers[uid] += text
                return self._exchanges[uid].question.place
            case SideAnswerDiscarded(question=uid, over=over) if uid in self._partial_answers:
                self._partial_answers[uid] = ""
                if over:
                    del self._partial_answers[uid]
                return self._exchanges[uid].question.place
        return None

    def _record_answer(self, answer: SideAnswer) -> ProposalLocation | None:
        exchange = self._exchanges.get(answer.question)
        if exchange is None:
            return None
        self._exchanges[answer.question] = SideExchange(exchange.question, answer)
        return exchange.question.place

    def exchanges_at(self, anchor: ProposalLocation) -> list[SideExchange]:
        """Return the questions at an anchor, oldest first."""
        return [exchange for exchange in self._exchanges.values() if exchange.question.place == anchor]

    def awaited_question(self, anchor: ProposalLocation) -> str:
        """Return the uid of the open question at an anchor; empty if there is none."""
        return next((uid for uid in self._partial_answers if self._exchanges[uid].question.place == anchor), "")

    def exchanges_about(self, proposal: str) -> list[SideExchange]:
        """Return the questions about a proposal."""
        return [exchange for exchange in self._exchanges.values() if exchange.question.proposal == proposal]

    def thread_entries(self, anchor: ProposalLocation) -> list[TranscriptEntry]:
        """Return the transcript entries of a thread."""
        return [entry for exchange in self.exchanges_at(anchor) for entry in self._exchange_entries(exchange)]

    def _exchange_entries(self, exchange: SideExchange) -> list[TranscriptEntry]:
        uid, answer = exchange.question.uid, exchange.answer
        entries: list[TranscriptEntry] = [UserEntry(f"asked{uid}", exchange.question.text)]
        if answer is None:
            if text := self._partial_answers.get(uid, ""):
                return [*entries, ModelAnswerEntry(f"answer{uid}", text, "streaming")]
            notice = _WAITING_TEXT if uid in self._partial_answers else _UNANSWERED_TEXT
            return [*entries, NoticeToUserEntry(f"note{uid}", notice)]
        if answer.text.strip():
            state = "truncated" if answer.state == "failed" else answer.state
            entries.append(ModelAnswerEntry(f"answer{uid}", answer.text, state))
        elif answer.state == "interrupted":
            entries.append(NoticeToUserEntry(f"note{uid}", "You stopped the answer before it began."))
        if answer.note:
            entries.append(NoticeToUserEntry(f"note{uid}", answer.note, "warning"))
        if usage := _format_answer_usage(answer):
            entries.append(NoticeToUserEntry(f"took{uid}", usage))
        return entries


def _format_answer_usage(answer: SideAnswer) -> str:
    """Return the cost of an answer, for example `1.2k in, 80 out · $0.002 · 2.1 s`; empty if it is unknown."""
    totals = TokenTotals().add(answer.usage)
    facts = (format_tokens(totals), format_dollars(totals), format_seconds(answer.duration) if answer.usage else "")
    return " · ".join(fact for fact in facts if fact)


def exchange_as_feedback(exchange: SideExchange) -> str:
    """Return a question and its answer as feedback text that names both authors."""
    quoted_lines = "\n".join(f"> {line}".rstrip() for line in exchange.answer_text.splitlines())
    subject = exchange.question.subject
    return f"About {subject} I asked you aside: “{exchange.question.text}”\nYou answered:\n\n{quoted_lines}\n\n"


_MAX_PICKED_LINES = 200
"""Maximum number of picked lines that are sent with a question; the first ones are sent."""
_MAX_MARK_CELLS = 120
"""Maximum length of a question in the mark at its hunk, in cells; the thread shows the whole question."""
_LAYOUT_PAUSE_SECONDS = 0.004
"""Seconds between two steps of a long layout, for key presses."""


class SideThreadSubject(Struct, frozen=True):
    """What a side question is about: its anchor in a proposal, a label, and the lines that the user picked."""

    anchor: ProposalLocation
    label: str
    """For example `hunk 2 of P7 in a.py`."""
    picked: str = ""
    """The lines that the user picked, with their `+` and `-` signs."""


class ThreadTranscript(Transcript, can_focus=False):
    """The transcript of a side thread; its keys come from the focused field."""


class SideQuestionPanel(Column, HasChangingKeyTitles):
    """The panel with a side thread about a hunk, and the field for the next question."""

    BINDINGS: ClassVar[list[BindingType]] = [*make_key_bindings_of_scopes("asking")]
    DEFAULT_CSS = """
    SideQuestionPanel {
        display: none;
        height: auto;
        background: $surface;
        &.shown { display: block; }
        &.-thread { height: 1fr; min-height: 8; }
        ThreadTranscript { display: none; height: 1fr; background: $surface; }
        &.-thread ThreadTranscript { display: block; }
        .asking--title {
            height: 1;
            padding: 0 1;
            background: $boost;
            text-wrap: nowrap;
            text-overflow: ellipsis;
        }
        /* Textual restyles the children on a change of focus only if a rule of the pane itself uses :focus-within. */
        &:focus-within { background: $surface; }
        &:focus-within .asking--title { background: $primary 30%; }
        &:ansi:focus-within .asking--title { background: ansi_blue; color: ansi_bright_white; }
        ComposerField { padding: 0 1; max-height: 5; background: $boost; }
        ComposerField:focus { background: $foreground 10%; }
    }
    """

    class Closed(Message):
        """The user closed the panel."""

    @dataclass
    class FeedbackWanted(Message):
        """The user wants the last question and answer as feedback."""

        anchor: ProposalLocation

    def __init__(self, state: ReviewQueueState, diff_pane: DiffPane, preview: DiffPreviewController) -> None:
        super().__init__(id="asking")
        self.threads = SideThreads()
        self._state = state
        self._diff_pane = diff_pane
        self._view = diff_pane.view
        self._preview = preview
        self._anchors_by_mark: Mapping[DiffComment, ProposalLocation] = {}
        """The thread of each mark in the diff."""
        self._requested_anchor: ProposalLocation | None = None
        """The thread to which the cursor moves when its diff is loaded."""
        self.subject: SideThreadSubject | None = None
        """None while the panel is closed."""
        self._keys: Mapping[str, str] = {}
        self._editor = ComposerField(self._scroll_thread)
        self._transcript = ThreadTranscript()
        self._drafts: dict[ProposalLocation, ComposerDraft] = {}
        """Unsent questions, by anchor."""
        self._is_waiting = self._has_answer = False

    def compose(self) -> ComposeResult:
        yield Static(classes="asking--title", markup=False)
        yield self._transcript
        yield self._editor

    @property
    def is_open(self) -> bool:
        """Return whether the panel is shown."""
        return self.subject is not None

    @property
    def is_writing(self) -> bool:
        """Return whether the field of the panel has the focus."""
        return self.is_open and self.screen.focused is self._editor

    def override_keys(self, keys: Mapping[str, str]) -> None:
        """Override the keys in the hints, by action id."""
        self._keys = keys
        self.update_title()

    @property
    def can_ask(self) -> bool:
        """Return whether the screen shows a diff of a proposal to ask about."""
        return self._state.proposal is not None and bool(self._view.diffs) and not self._preview.comparing

    def open_at_cursor(self) -> bool:
        """Open the thread of the mark at the cursor, the picked lines, the hunk, or else the file; return success."""
        anchor = self._anchor_at_cursor()
        subject = self._subject_at_cursor() if anchor is None else self._subject_at_anchor(anchor)
        if subject is None:
            return False
        if anchor is None:
            self._view.end_picking()
        self._open_thread(subject)
        return True

    def _subject_at_cursor(self) -> SideThreadSubject | None:
        proposal, view = self._state.proposal, self._view
        if proposal is None or not self.can_ask or not self._preview.is_showing_approvable_diff(proposal):
            return None
        picked, diff, hunk = view.picked_lines(), view.diffs[view.cursor.file_index], view.cursor.hunk
        if picked is not None:
            diff = next(diff for diff in view.diffs if diff.change.path == picked.lines.path)
            hunk = next(hunk_of_file for hunk_of_file in diff.change.hunks if hunk_of_file.id in picked.hunks)
        path = diff.change.path
        label = f"hunk {hunk.number} of {proposal.id} in {path}" if hunk is not None else f"{path} in {proposal.id}"
        anchor = ProposalLocation(proposal.id, path, hunk.id if hunk is not None else "")
        return SideThreadSubject(anchor, label, "" if picked is None else _quote_picked_lines(diff, picked))

    def show_thread(self, anchor: ProposalLocation) -> None:
        """Open the thread at an anchor, and move the cursor to it when its diff is loaded."""
        self._requested_anchor = anchor
        self.go_to_requested_thread()
        self._open_thread(self._subject_at_anchor(anchor))

    def _subject_at_anchor(self, anchor: ProposalLocation) -> SideThreadSubject:
        """Return the subject for an anchor, labelled like the last question there."""
        exchanges = self.threads.exchanges_at(anchor)
        label = exchanges[-1].question.subject if exchanges else f"{anchor.path} in {anchor.proposal}"
        return SideThreadSubject(anchor, label)

    def _anchor_at_cursor(self) -> ProposalLocation | None:
        """Return the anchor of the mark under the cursor; None if there is none or if the user picks lines."""
        row = self._view.cursor.row
        if not isinstance(row, CommentRow) or self._view.line_selection.start is not None:
            return None
        return self._anchors_by_mark.get(self._view.model.comments[row.comment])

    def go_to_requested_thread(self) -> None:
        """Move the cursor to the requested thread if its hunk is laid out; give up if the hunk no longer exists."""
        anchor = self._requested_anchor
        if anchor is None or not self._view.diffs or self._state.current != anchor.proposal:
            return
        hunks = (
            (file, number)
            for file, diff in enumerate(self._view.diffs)
            for number, hunk in enumerate(diff.change.hunks)
            if diff.change.path == anchor.path and hunk.id == anchor.hunk
        )
        position = next(hunks, None)
        row = None if position is None else self._view.layout_rows.row_of_hunk(*position)
        if position is None or row is not None:
            self._requested_anchor = None
        if row is not None:
            self._view.cursor.go_to(row)

    def _open_thread(self, subject: SideThreadSubject) -> None:
        """Show a thread with its draft, and focus the field."""
        self.post_message(review_messages.SideThreadsWanted(subject.anchor.proposal))
        self._save_draft()
        self.subject = subject
        entries = self.threads.thread_entries(subject.anchor)
        self._editor.show_draft(self._drafts.pop(subject.anchor, ComposerDraft("")))
        self._editor.placeholder = Content("what calls this? why? is that tested?")
        self._show_entries(entries)
        self._update_state(entries)
        self.add_class("shown")
        self.screen.set_focus(self._editor)
        self._view.cursor.scroll_into_view()

    def _show_entries(self, entries: Iterable[TranscriptEntry]) -> None:
        layout = self._transcript.make_empty_layout()
        for entry in entries:
            layout.apply_change(EntryAddedOrReplaced(entry))
        self._transcript.show_layout(layout)

    def load_threads(self, events: Iterable[EventBase]) -> None:
        """Add the stored side questions about a proposal, and their answers."""
        self.threads.load(events)
        self._update_thread()
        self.show_marks()

    def handle_update(self, update: SideUpdate) -> None:
        """Show the effect of an update."""
        anchor = self.threads.handle_update(update)
        if anchor is not None and self.subject is not None and self.subject.anchor == anchor:
            self._update_thread()
        if isinstance(update, EventRecorded):
            self.show_marks()

    def _update_thread(self) -> None:
        if self.subject is None:
            return
        entries = self.threads.thread_entries(self.subject.anchor)
        shown_entries = {entry.key: entry for entry in self._transcript.entries}
        changed = [EntryAddedOrReplaced(entry) for entry in entries if shown_entries.get(entry.key) != entry]
        keys = [entry.key for entry in entries]
        if list(shown_entries) != keys[: len(shown_entries)]:
            # An entry was removed: lay out the whole thread again.
            self._show_entries(entries)
        elif not self._transcript.apply_changes(changed):
            self._continue_layout_later()
        self._update_state(entries)

    def show_marks(self) -> None:
        """Mark each hunk with a thread; threads about a file are marked at its first hunk."""
        threads: dict[ProposalLocation, list[SideExchange]] = {}
        for exchange in () if self._preview.comparing else self.threads.exchanges_about(self._state.current):
            threads.setdefault(exchange.question.place, []).append(exchange)
        files = {diff.change.path: number for number, diff in enumerate(self._view.diffs if threads else ())}
        anchors_by_mark: dict[DiffComment, ProposalLocation] = {}
        for anchor, exchanges in threads.items():
            if (file := files.get(anchor.path)) is None:
                continue
            hunks = self._view.diffs[file].change.hunks
            hunk_of_thread = next((hunk for hunk in hunks if hunk.id == anchor.hunk), None)
            # The hunk no longer exists after a split or an edit: show its thread as one about the file.
            line = next(
                (line for hunk in hunks if hunk_of_thread in (hunk, None) and (line := _last_line(file, hunk))), None
            )
            if line is not None:
                text = self._mark_text(exchanges, of_hunk=hunk_of_thread is not None)
                anchors_by_mark[DiffComment(line, text, "asked")] = anchor
        self._anchors_by_mark = anchors_by_mark
        self._diff_pane.set_thread_marks([*anchors_by_mark])

    def _mark_text(self, exchanges: Sequence[SideExchange], *, of_hunk: bool) -> str:
        """Return the text of a thread's mark: the last question, and the key that shows the thread."""
        question = exchanges[-1].question
        about = "" if of_hunk else " about a hunk as it was" if question.hunk else " about the file"
        more = f" and {len(exchanges) - 1} more" if len(exchanges) > 1 else ""
        key = first_key_name("review.ask" if of_hunk else "diff.open", self._keys)
        return (
            f"You asked{about}: {shorten_to_one_line(question.text, _MAX_MARK_CELLS)}{more} ({key} shows the answer)"
        )

    def close(self) -> None:
        """Close the panel; keep an unsent question as the draft of its thread."""
        self._save_draft()
        self._requested_anchor = None
        self.subject = None
        self.remove_class("shown")

    def restore_text(self, anchor: ProposalLocation, text: str) -> None:
        """Restore the text of a question that failed, unless the user writes another one at this anchor."""
        if self.subject is not None and self.subject.anchor == anchor and not self._editor.draft.text.strip():
            self._editor.show_draft(ComposerDraft(text))
        elif anchor not in self._drafts:
            self._drafts[anchor] = ComposerDraft(text)

    def _save_draft(self) -> None:
        if self.subject is not None and self._editor.draft.text.strip():
            self._drafts[self.subject.anchor] = self._editor.draft

    def _update_state(self, entries: Sequence[TranscriptEntry]) -> None:
        self.set_class(bool(entries), "-thread")
        is_waiting = self.subject is not None and bool(self.threads.awaited_question(self.subject.anchor))
        has_answer = any(entry.key.startswith("answer") for entry in entries)
        if (is_waiting, has_answer) != (self._is_waiting, self._has_answer):
            self._is_waiting, self._has_answer = is_waiting, has_answer
            self.refresh_bindings()
        self.update_title()

    def update_title(self) -> None:
        """Show the subject, and what works with the current focus."""
        if self.subject is None or not self.is_mounted:
            return
        picked_count = len(self.subject.picked.split("\n")) if self.subject.picked else 0
        picked_count_text = f", {format_count(picked_count, 'picked line')}" if picked_count else ""
        hint = "decides nothing"
        if not self.is_writing:
            hint = "Esc closes it"
        elif self._is_waiting:
            hint = f"{first_key_name('asking.close', self._keys)} stops the answer"
        about = safe_line_content(self.subject.label, "bold $text-accent")
        title = Content.assemble("Ask about ", about, picked_count_text, "  ", (hint, "$foreground 65%"))
        self.query_one(".asking--title", Static).update(title)

    def _continue_layout_later(self) -> None:
        def go_on() -> None:
            if self.is_mounted and not self._transcript.continue_layout():
                self._continue_layout_later()

        self.app.set_timer(_LAYOUT_PAUSE_SECONDS, go_on)

    # Keys

    def title_of(self, action: str) -> str:
        """Return a special title of a key; empty for the default title of the action."""
        return "Stop" if action == "close" and self._is_waiting else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is possible now; feedback needs a complete answer."""
        return self._has_answer and not self._is_waiting if action == "make_feedback" else True

    def _scroll_thread(self, key: str) -> bool:
        """Scroll the thread with the page keys of the field; return whether the key was used."""
        if key not in ("page_up", "page_down") or not self.has_class("-thread"):
            return False
        getattr(self._transcript, f"action_{key}")()
        return True

    def action_send(self) -> None:
        if self.subject is None or not (text := self._editor.draft.text.strip()) or self._is_waiting:
            return
        self._editor.show_draft(ComposerDraft(""))
        self.post_message(review_messages.SideQuestionAsked(self.subject.anchor, text, self.subject.picked))

    def action_newline(self) -> None:
        self._editor.replace("\n", *self._editor.selection, maintain_selection_offset=False)

    def action_undo(self) -> None:
        self._editor.undo()

    def action_close(self) -> None:
        """Stop the open answer; if there is none, close the panel."""
        if self.subject is not None and self._is_waiting:
            self.post_message(
                review_messages.SideQuestionStopRequested(self.threads.awaited_question(self.subject.anchor))
            )
        else:
            self.post_message(self.Closed())

    def action_make_feedback(self) -> None:
        """Request that the question and its answer become feedback that the user can edit."""
        if self.subject is not None:
            self.post_message(self.FeedbackWanted(self.subject.anchor))

    def on_click(self, event: events.Click) -> None:
        if self.is_open and not self.is_writing:
            event.stop()
            self.screen.set_focus(self._editor)


def _last_line(file: int, hunk: Hunk) -> SourceLinePosition | None:
    """Return the last line of a hunk, below which its mark is shown; None if the hunk has no lines."""
    side: Side = "new" if hunk.new_count else "old"
    lines = hunk_line_numbers(hunk, side)
    return SourceLinePosition(file, side, lines[-1]) if lines else None


def _quote_picked_lines(diff: FileDiff, picked: PickedLines) -> str:
    """Return the picked lines with their signs; in each hunk, the removed lines come first."""
    rows: list[str] = []
    for hunk in diff.change.hunks:
        rows += [f"-{diff.old[line]}" for line in hunk_line_numbers(hunk, "old") if line in picked.lines.old]
        rows += [f"+{diff.new[line]}" for line in hunk_line_numbers(hunk, "new") if line in picked.lines.new]
    return "\n".join(rows[:_MAX_PICKED_LINES])
