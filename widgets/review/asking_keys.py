"""Side questions in the review: their topic, their thread, and the way from an answer to feedback.

None of it decides anything, and all of it can be done while a turn runs and the gate is shut.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType

from app.agent.updates import Recorded, SideUpdate
from app.conversation.events import EventBase, SideExchange, ThreadAnchor
from app.proposals.values.models import FileDiff, Hunk
from widgets.chat.markdown.styled_lines import shorten
from widgets.chat.transcript import Transcript
from widgets.diff.diff_arrangement import Comment
from widgets.diff.diff_messages import AskWanted, ViewMoved
from widgets.diff.diff_rows import CommentRow, Side, SourceLine, lines_of
from widgets.diff.line_selection import PickedLines
from widgets.review import review_messages
from widgets.review.ask_panel import AskPanel, PanelTopic
from widgets.review.counting_keys import CountingKeys
from widgets.review.side_threads import as_feedback

_MOST_PICKED = 200
"""Picked lines that go out with a question; of more, the first."""
_MOST_SAID = 120
"""Cells of a question in the mark at its hunk: the thread has all of it."""


class AskingKeys(CountingKeys):
    """The review panes with side questions."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close_thread", "Close")]

    _could_ask = False
    _marked: Mapping[Comment, ThreadAnchor] = MappingProxyType({})
    """The marks in the diff, each with the thread that it is of."""
    _sought: ThreadAnchor | None = None
    """Where the cursor is to go once its diff is there."""

    # What is asked

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There has to be something to ask about, or a question to close: else Escape interrupts, as ever."""
        match action:
            case "ask":
                return self._can_ask
            case "close_thread":
                return self.in_focus and self.asking.is_open
        return super().check_action(action, parameters)

    @property
    def _can_ask(self) -> bool:
        return self.state.proposal is not None and bool(self.view.diffs) and not self.preview.comparing

    @on(AskWanted)
    def action_ask(self) -> None:
        """Ask about the hunk at the cursor, the picked lines, or else the file; on a mark, show its thread."""
        if (place := self._marked_at_cursor()) is not None:
            self._open_thread(self._topic_of(place))
            return
        if (topic := self._topic()) is None:
            self.show_notice("There is no proposal on the screen to ask about.")
            return
        self.view.end_picking()
        self._open_thread(topic)

    def _topic(self) -> PanelTopic | None:
        proposal, view = self.state.proposal, self.view
        if proposal is None or not self._can_ask or not self.preview.shows(proposal):
            return None
        picked = view.picked()
        file = view.cursor.file
        hunk = view.cursor.hunk
        if picked is not None:
            file = next(at for at, diff in enumerate(view.diffs) if diff.change.path == picked.lines.path)
            hunk = next(one for one in view.diffs[file].change.hunks if one.id in picked.hunks)
        diff = view.diffs[file]
        path = diff.change.path
        words = f"hunk {hunk.number} of {proposal.id} in {path}" if hunk is not None else f"{path} in {proposal.id}"
        lines = "" if picked is None else _quoted(diff, picked)
        return PanelTopic(ThreadAnchor(proposal.id, path, hunk.id if hunk is not None else ""), words, lines)

    def _open_thread(self, topic: PanelTopic) -> None:
        self.show_notice("")
        self.post_message(review_messages.ThreadsWanted(topic.place.proposal))
        self.asking.open(topic, self.threads.entries(topic.place), waits=bool(self.threads.awaited(topic.place)))
        self._keep_line_in_view()

    def show_thread(self, place: ThreadAnchor) -> None:
        """Show what was asked at a place, and where that is, as soon as its diff is there."""
        self._sought = place
        self._go_to_sought()
        self._open_thread(self._topic_of(place))

    def _topic_of(self, place: ThreadAnchor) -> PanelTopic:
        """The thread of a place, as it was called when something was asked there last."""
        asked = self.threads.of(place)
        return PanelTopic(place, asked[-1].question.subject if asked else f"{place.path} in {place.proposal}")

    def _marked_at_cursor(self) -> ThreadAnchor | None:
        """Of which thread the mark at the cursor is, if there is one and no lines are picked."""
        row = self.view.cursor.row
        if not isinstance(row, CommentRow) or self.view.picking.start is not None:
            return None
        return self._marked.get(self.view.sheet.comments[row.comment])

    @on(ViewMoved)
    def _go_to_sought(self) -> None:
        """Go to where a thread is, as soon as that is laid out: the diff may come later, or be out of sight yet."""
        place = self._sought
        if place is None or not self.view.diffs or self.state.current != place.proposal:
            return
        hunks = (
            (file, number)
            for file, diff in enumerate(self.view.diffs)
            for number, hunk in enumerate(diff.change.hunks)
            if diff.change.path == place.path and hunk.id == place.hunk
        )
        found = next(hunks, None)
        row = None if found is None else self.view.rows.row_of_hunk(*found)
        if found is None or row is not None:
            self._sought = None
        if row is not None:
            self.view.cursor.go_to(row)

    @on(AskPanel.Asked)
    def _send_question(self, event: AskPanel.Asked) -> None:
        event.stop()
        self.post_message(review_messages.SideQuestionAsked(event.topic.place, event.text, event.topic.picked))

    @on(AskPanel.Stopped)
    def _stop_answer(self, event: AskPanel.Stopped) -> None:
        event.stop()
        self.post_message(review_messages.SideQuestionStopped(self.threads.awaited(event.place)))

    @on(AskPanel.Closed)
    def _leave_thread(self, event: AskPanel.Closed) -> None:
        event.stop()
        self._end_asking()
        self.show_permission()

    def action_close_thread(self) -> None:
        """Put away the question that stands open beside the diff; what is being answered there is answered."""
        self._sought = None
        self.asking.close()
        self.refresh_bindings()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _tell_what_keys_do(self) -> None:
        """The keys that decide are named wherever they decide; in the question they are letters."""
        if self.asking.has_keys != self.has_class("-aside"):
            self.set_class(self.asking.has_keys, "-aside")
            self._keep_line_in_view()
        self.asking.follow_focus()

    def _end_asking(self) -> None:
        self._sought = None
        self.asking.close()
        self.screen.set_focus(self.view)
        # Whoever writes on although the field is gone decides nothing.
        self.hold_keys("The field for questions was closed just now. Press the key again.")

    # What comes of it

    def set_diffs(self, proposal_id: str, diffs: Sequence[FileDiff]) -> None:
        """Take the diffs that were wanted, and have what was asked about them come, too."""
        super().set_diffs(proposal_id, diffs)
        self.post_message(review_messages.ThreadsWanted(proposal_id))

    def draw(self) -> None:
        """Draw everything anew, and what was asked at each hunk."""
        super().draw()
        self._show_asked()
        if self._can_ask != self._could_ask:
            self._could_ask = self._can_ask
            self.refresh_bindings()

    def load_threads(self, events: Iterable[EventBase]) -> None:
        """Take what was asked on a proposal before."""
        self.threads.load(events)
        self._show_thread()
        self._show_asked()

    def handle_side_update(self, update: SideUpdate) -> None:
        """Handle an update of a side question."""
        place = self.threads.take(update)
        if place is not None and self.asking.topic is not None and self.asking.topic.place == place:
            self._show_thread()
        if isinstance(update, Recorded):
            self._show_asked()

    def _show_thread(self) -> None:
        if (topic := self.asking.topic) is not None:
            before = self.asking.has_thread
            waits = bool(self.threads.awaited(topic.place))
            self.asking.show(self.threads.entries(topic.place), waits=waits)
            if self.asking.has_thread != before:
                self._keep_line_in_view()

    def _keep_line_in_view(self) -> None:
        """The cursor stays in view above the panel, which takes its room from the diff."""
        self.call_after_refresh(lambda: self.view.cursor.move_to(self.view.cursor.number))

    def _show_asked(self) -> None:
        """Put a mark at each hunk that something was asked about, and at the first for what was asked of the file."""
        threads: dict[ThreadAnchor, list[SideExchange]] = {}
        for one in () if self.preview.comparing else self.threads.on(self.state.current):
            threads.setdefault(one.question.place, []).append(one)
        files = {diff.change.path: number for number, diff in enumerate(self.view.diffs if threads else ())}
        marked: dict[Comment, ThreadAnchor] = {}
        for place, asked in threads.items():
            if (file := files.get(place.path)) is None:
                continue
            hunks = self.view.diffs[file].change.hunks
            own = next((hunk for hunk in hunks if hunk.id == place.hunk), None)
            # A hunk that was cut or edited since is no more, and what was asked about it is of the file.
            line = next((line for hunk in hunks if own in (hunk, None) and (line := _last_line(file, hunk))), None)
            if line is not None:
                marked[Comment(line, self._mark_of(asked, of_hunk=own is not None), "asked")] = place
        self._marked = marked
        self.diff_pane.set_asked([*marked])

    def _mark_of(self, asked: Sequence[SideExchange], *, of_hunk: bool) -> str:
        """What the mark of a thread says: the last question, and the key that shows the thread."""
        question = asked[-1].question
        about = "" if of_hunk else " about a hunk as it was" if question.hunk else " about the file"
        more = f" and {len(asked) - 1} more" if len(asked) > 1 else ""
        key = self.key_of("ask" if of_hunk else "open")
        return f"You asked{about}: {shorten(question.text, _MOST_SAID)}{more} ({key} shows the answer)"

    # What becomes of it

    @on(AskPanel.FeedbackWanted)
    def _make_feedback(self, event: AskPanel.FeedbackWanted) -> None:
        event.stop()
        place, answered = event.place, [one for one in self.threads.of(event.place) if one.answered]
        proposal = self.state.get(place.proposal)
        if proposal is None or not proposal.state.is_pending or not self.state.is_listed(proposal.id):
            self.show_notice(f"{place.proposal} is decided, or not listed here: nobody would get the feedback.")
            return
        self._end_asking()
        self.show_item(proposal.id)
        before = self.state.unsaid.drafts.get(proposal.id, "").rstrip()
        self.writing.put_aside(proposal.id, "\n\n".join(filter(None, (before, as_feedback(answered[-1])))))
        self.writing.open()
        self.pane.set_class(self.feedback.is_open, "-writing")

    @on(Transcript.LinkOpened)
    def _open_link(self, event: Transcript.LinkOpened) -> None:
        event.stop()
        self.post_message(review_messages.LinkWanted(event.href))


def _last_line(file: int, hunk: Hunk) -> SourceLine | None:
    """Under which line of a hunk its mark stands; None if it has none any more."""
    side: Side = "new" if hunk.new_count else "old"
    lines = lines_of(hunk, side)
    return SourceLine(file, side, lines[-1]) if lines else None


def _quoted(diff: FileDiff, picked: PickedLines) -> str:
    """Picked lines with their signs, the removed ones of each hunk before the added ones."""
    rows: list[str] = []
    for hunk in diff.change.hunks:
        rows += [f"-{diff.old[line]}" for line in lines_of(hunk, "old") if line in picked.lines.old]
        rows += [f"+{diff.new[line]}" for line in lines_of(hunk, "new") if line in picked.lines.new]
    return "\n".join(rows[:_MOST_PICKED])
