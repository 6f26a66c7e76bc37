"""The approval pane: the pending proposals, the effect of an approval, and the keys that approve and deny."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size, Spacing
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Padding, Visual
from textual.widgets import Static

from app.keys.actions import make_key_bindings_of_scopes
from app.proposals.values.models import Proposal
from app.review.review_state import ReviewQueueState
from app.text.quantities import format_count
from widgets.common.containers import Column
from widgets.review.review_wording import (
    ACTION_META_KEY,
    QUIET_STYLE,
    CurrentItemLineOptions,
    KeyNameOf,
    check_lines,
    current_item_lines,
    drop_keys_to_fit,
    find_chip_actions,
    is_summary_visible,
    make_chip,
    permission_row,
    proposal_row,
    safe_line_content,
    wrap_parts_into_lines,
)

_DECIDED_LINE_KEY = "decided"
"""Key of the line that opens the list of decided proposals; no proposal and no permission request has this key."""
_MARGIN = Spacing(0, 1, 0, 1)
_COLUMN_GAP = "   "


class ReviewQueue(ScrollView, can_focus=True):
    """The list of items that wait for a decision; the cursor is on the shown item."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *make_key_bindings_of_scopes("approval"),
        Binding("enter", "take", "Show", show=False),
        Binding("home", "move_to(0)", "First", show=False),
        Binding("end", "move_to(-1)", "Last", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"queue--cursor", "queue--hover"}
    DEFAULT_CSS = """
    ReviewQueue {
        height: auto;
        max-height: 100%;
        overflow-x: hidden;
        background: $surface;
        color: $foreground;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        scrollbar-size-vertical: 1;
        & > .queue--hover { background: $block-hover-background; }
        & > .queue--cursor { background: $foreground 9%; color: $foreground; }
        &:focus > .queue--cursor { background: $primary 30%; color: $foreground; }
        &:ansi:focus > .queue--cursor { background: ansi_bright_black; }
    }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    @dataclass
    class Picked(Message):
        """The user selected an item."""

        key: str

    class DecidedToggled(Message):
        """The user opened or closed the list of decided proposals."""

    def __init__(self) -> None:
        super().__init__(id="queue")
        self._keys: tuple[str, ...] = ()
        self._cursor: int | None = None
        self._hovered: int | None = None
        self._is_decided_list_open = False
        self._state = ReviewQueueState()

    @property
    def items(self) -> Sequence[str]:
        """Return the keys of the lines: proposal ids, permission request keys, and the key of the line "decided"."""
        return self._keys

    def show_state(self, state: ReviewQueueState) -> None:
        """Draw the current state."""
        is_on_decided_line = self.has_focus and self._key_at_cursor == _DECIDED_LINE_KEY
        cursor_key = _DECIDED_LINE_KEY if is_on_decided_line else state.current
        self._state = state
        self._keys = self._line_keys(state)
        self._cursor = self._keys.index(cursor_key) if cursor_key in self._keys else None
        self.virtual_size = Size(self.size.width, len(self._keys))
        self._scroll_to_cursor()
        self.refresh()

    @property
    def _key_at_cursor(self) -> str | None:
        return None if self._cursor is None else self._keys[self._cursor]

    def _line_keys(self, state: ReviewQueueState) -> tuple[str, ...]:
        if len(state.waiting_keys) == 1 and not self._is_decided_list_open:
            # A single item needs no list: the lines above already show everything about it.
            return ()
        heading = (_DECIDED_LINE_KEY,) if state.recent else ()
        decided_ids = (proposal.id for proposal in state.recent) if self._is_decided_list_open else ()
        return (*state.waiting_keys, *heading, *decided_ids)

    # Drawing

    def render_line(self, y: int) -> Strip:
        line, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if line >= len(self._keys):
            return Strip.blank(width, self.rich_style)
        classes_by_line = {self._hovered: ("queue--hover",), self._cursor: ("queue--cursor",)}
        style = self.get_visual_style(*classes_by_line.get(line, ()))
        row = Padding(self._row_content(self._keys[line]), _MARGIN)
        # The margins can fill the whole width.
        strips = Visual.to_strips(self, row, width, 1, style, pad=True)
        return strips[0] if strips else Strip.blank(width, style.rich_style)

    def _row_content(self, key: str) -> Content:
        if key == _DECIDED_LINE_KEY:
            arrow = "▾" if self._is_decided_list_open else "▸"
            return Content.styled(f"{arrow} {len(self._state.recent)} decided", QUIET_STYLE)
        if key in self._state.permissions.asked:
            return permission_row(self._state, key)
        proposal = self._state.get(key)
        return proposal_row(self._state, proposal) if proposal is not None else Content("")

    def _scroll_to_cursor(self) -> None:
        if self._cursor is not None and self.is_mounted:
            self.scroll_to_region(Region(0, self._cursor, 1, 1), animate=False, immediate=True, force=True)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def on_resize(self) -> None:
        """Keep the cursor in view."""
        self._scroll_to_cursor()

    # Keys and mouse

    def action_cursor_down(self) -> None:
        """Select the next item; after the last one, select the first one."""
        self.action_move_to(0 if self._cursor is None else self._cursor + 1)

    def action_cursor_up(self) -> None:
        self.action_move_to(-1 if self._cursor is None else self._cursor - 1)

    def action_page(self, by: int) -> None:
        line = (self._cursor or 0) + by * self.scrollable_content_region.height
        self.action_move_to(max(0, min(line, len(self._keys) - 1)))

    def action_move_to(self, line: int) -> None:
        """Move the cursor to a line and select its item; a negative number counts from the end."""
        if not self._keys:
            return
        self._cursor = line % len(self._keys)
        self._scroll_to_cursor()
        self.refresh()
        if self._key_at_cursor != _DECIDED_LINE_KEY:
            self.post_message(self.Picked(self._keys[self._cursor]))

    def action_take(self) -> None:
        """Show the item under the cursor, or open or close the list of decided proposals."""
        if self._keys == (_DECIDED_LINE_KEY,):
            # With no other item, the key always opens or closes the list.
            self._cursor = 0
        if self._key_at_cursor == _DECIDED_LINE_KEY or (not self._keys and self._state.recent):
            self._is_decided_list_open = not self._is_decided_list_open
            self.show_state(self._state)
            self.post_message(self.DecidedToggled())
        elif self._cursor is not None:
            self.post_message(self.Picked(self._keys[self._cursor]))

    def on_click(self, event: events.Click) -> None:
        """Select the clicked item."""
        line = self._line_at(event)
        if line is not None:
            event.stop()
            self.action_move_to(line)
            if self._key_at_cursor == _DECIDED_LINE_KEY:
                self.action_take()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._set_hovered_line(self._line_at(event))

    def on_leave(self) -> None:
        self._set_hovered_line(None)

    def _set_hovered_line(self, line: int | None) -> None:
        if line != self._hovered:
            self._hovered = line
            self.refresh()

    def _line_at(self, event: events.MouseEvent) -> int | None:
        """Return the number of the line under the pointer."""
        offset = event.get_content_offset(self)
        line = -1 if offset is None else offset.y + self.scroll_offset.y
        return line if 0 <= line < len(self._keys) else None


_HEIGHT_SHARE = 0.3
"""Share of the review's height for the approvals, unless the user drags the splitter above them."""
_MAX_LIST_ROWS = 10
"""Maximum number of rows in the list."""
_CHECKS_WIDTH_DIVISOR, _MAX_CHECKS_CELLS = 3, 24
"""Results of passed checks stay beside the title if they need at most this share of the width and this many cells."""


class _ChangingText(Static):
    """Text that changes without a new layout of the screen, because a layout would delay key presses."""

    def show_text(self, text: Content | None) -> None:
        """Show the text, or nothing if it is None."""
        text = text or Content("")
        if not (isinstance(self.content, Content) and self.content.is_same(text)):
            self.update(text)


class ApprovalPane(Column):
    """The pane with the review queue, the current item and its decision keys; draws a `ReviewQueueState`."""

    DEFAULT_CSS = """
    ApprovalPane {
        height: auto;
        min-height: 2;
        background: $surface;

        #headline {
            height: auto;
            padding: 0 1 0 0;
            border-left: outer $surface;
            background: $surface;
            color: $foreground;
            text-wrap: nowrap;
            text-overflow: ellipsis;
        }
        #outcome {
            height: auto;
            padding: 0 1;
            color: $text-success;
            display: none;
            &.problem { color: $text-warning; }
            &.shown { display: block; }
        }
        #question {
            height: auto;
            padding: 0 1;
            background: $warning 25%;
            color: $foreground;
            display: none;
            &.shown { display: block; }
        }
        /* With 16 colours, a colour cannot be drawn at 25 %. */
        &:ansi #question { background: $surface; border-left: outer $warning; padding: 0 1 0 0; }
        &.dragged { max-height: 80%; ReviewQueue { height: 1fr; max-height: 100%; } }
        /* Textual restyles the children on a change of focus only if a rule of the pane itself uses :focus-within. */
        &:focus-within { background: $surface; }
        &:focus-within #headline { border-left: outer $primary; }
        &.-changed #headline { text-opacity: 60%; }
        &.-asking #headline { display: none; }
        &.-writing { min-height: 2; #headline { display: none; } }
    }
    """

    _review_height = 0
    """Rows of the whole review."""
    _dragged_height = 0
    """Height of the pane, in rows, that the user set with the splitter; applies while there is a list."""
    _fixed_height = 0
    """The fixed height in rows; 0 if the pane takes the height of its content."""
    _row_count_above_list = 0
    """Number of rows above the list."""
    _redraw_headline: Callable[[], None] = staticmethod(lambda: None)
    """Redraws the headline with its latest arguments."""
    _outcome: tuple[Content | None, Callable[[], str] | None] = (None, None)
    is_passing = False
    """Whether the outcome line is removed at the end of the model's turn."""
    is_about_key = False
    """Whether the outcome line is about a key that did nothing and must be pressed again."""
    decided_proposal: Proposal | None = None
    """The proposal after the decision that the outcome line is about."""
    shows_title = True
    """Whether the headline or the list shows the complete title of the current item."""
    actions_with_shown_keys: frozenset[str] = frozenset()
    """Actions whose keys the headline or the question shows."""
    _question: Content | None = None
    """The question that replaces the headline; None if no question is open."""
    shown_keys_changed: Callable[[], None] = staticmethod(lambda: None)
    """Called when `actions_with_shown_keys` changes."""

    def compose(self) -> ComposeResult:
        yield _ChangingText(id="question", markup=False)
        yield _ChangingText(id="headline", markup=False)
        yield _ChangingText(id="outcome", markup=False)
        yield ReviewQueue()

    @property
    def queue(self) -> ReviewQueue:
        """Return the list of items; it takes the focus."""
        return self.query_one(ReviewQueue)

    def show_state(
        self, state: ReviewQueueState, key: KeyNameOf, *, comparing: bool = False, notes_shown: bool = True
    ) -> None:
        """Draw the current state.

        Args:
            comparing: Whether the diff compares two versions.
            notes_shown: Whether all notes of a permission request are on the screen.
        """
        self.queue.show_state(state)
        self._redraw_headline = partial(self._show_headline, state, key, comparing, notes_shown)
        self._redraw_headline()

    def _show_headline(self, state: ReviewQueueState, key: KeyNameOf, comparing: bool, notes_shown: bool) -> None:
        """Draw only the lines about the current item."""
        headline = self.query_one("#headline", _ChangingText)
        # While a question hides the headline, the headline itself has no size.
        width = max(0, self.content_size.width - headline.gutter.width)
        proposal = state.proposal
        decidable = proposal if proposal is not None and proposal.state.is_pending and not comparing else None
        short_checks = None if decidable is None else self._short_passed_checks(state, decidable.id, key, width)
        is_listed = self.queue.display and state.current in self.queue.items
        is_decided = proposal is not None and not proposal.state.is_pending
        is_outcome_shown = is_decided and self.query_one("#outcome").has_class("shown")
        options = CurrentItemLineOptions(width, is_listed, comparing, is_outcome_shown, notes_shown, short_checks)
        lines = current_item_lines(state, key, options)
        self.shows_title = decidable is None or is_summary_visible(state, decidable, lines, options)
        if decidable is not None:
            # Insert above the keys, which are on the last line.
            lines[-1:-1] = [
                *(check_lines(state, decidable.id, key, width) if short_checks is None else ()),
                *_evidence_lines(state, decidable.id, key, width),
                *_reproduction_lines(state, decidable, key, width),
            ]
        lines = [drop_keys_to_fit(line, width) if width else line for line in lines]
        headline.show_text(Content("\n").join(lines))
        self._row_count_above_list = len(lines)
        self.fit_height(self._review_height)
        actions = find_chip_actions([self._question] if self._question is not None else lines)
        if actions != self.actions_with_shown_keys:
            self.actions_with_shown_keys = actions
            self.shown_keys_changed()

    def _short_passed_checks(
        self, state: ReviewQueueState, proposal: str, key: KeyNameOf, width: int
    ) -> Content | None:
        """Return the check results if all passed and they fit beside the title."""
        checks = state.checks.get(proposal)
        if checks is None or checks.why_not or checks.new_failures or checks.is_running:
            return None
        if any(result.stale or result.has_coverage_gap for result in checks.results):
            return None
        max_cells = min(width // _CHECKS_WIDTH_DIVISOR, _MAX_CHECKS_CELLS)
        lines = check_lines(state, proposal, key, max_cells, show_keys=False)
        return lines[0] if len(lines) == 1 and lines[0].cell_length <= max_cells else None

    def fit_height(self, height: int) -> None:
        """Leave most of the review's height to the diff; never cut the lines with the decision keys."""
        self._review_height = height
        fixed_height = self._dragged_height if self.queue.items else 0
        if fixed_height != self._fixed_height:
            # Setting the height causes a new layout of the screen.
            self._fixed_height = fixed_height
            self.styles.height = fixed_height or None
            self.set_class(bool(fixed_height), "dragged")
        if fixed_height:
            self.queue.styles.clear_rule("max_height")
            return
        rows = int(height * _HEIGHT_SHARE) - self._row_count_above_list
        self.queue.styles.max_height = max(1, min(_MAX_LIST_ROWS, rows))

    def set_list_height(self, height: int) -> None:
        """From now on, use this height in rows whenever there is a list."""
        self._dragged_height = height
        self.fit_height(self._review_height)

    def on_click(self, event: events.Click) -> None:
        """Focus the list, unless the click is on a chip."""
        if ACTION_META_KEY not in event.style.meta:
            self.screen.set_focus(self.queue)

    def on_resize(self) -> None:
        """Adapt the shown keys to the new width."""
        self._redraw_headline()

    def redraw_outcome(self) -> None:
        """Redraw the last outcome after the focus has moved."""
        text, reversal_hint = self._outcome
        content = text + Content(f" {reversal_hint()}") if text is not None and reversal_hint is not None else text
        self.query_one("#outcome", _ChangingText).show_text(content)

    @property
    def decision_outcome(self) -> tuple[str, str]:
        """Return the outcome of the last decision and how to undo it; empty if the line shows something else."""
        text, reversal_hint = self._outcome
        if text is None or self.decided_proposal is None:
            return "", ""
        return text.plain, reversal_hint() if reversal_hint is not None else ""

    def clear_key_notice(self) -> None:
        """Remove the notice that a key press was ignored, because another item is shown now."""
        if self.is_about_key:
            self.show_outcome(None)

    def show_question(self, question: Content | None) -> None:
        """Show a question in place of everything else, or remove it."""
        self._question = question
        bar = self.query_one("#question", _ChangingText)
        bar.show_text(question)
        self.set_class(question is not None, "-asking")
        bar.set_class(question is not None, "shown")

    def show_outcome(
        self,
        text: Content | None,
        *,
        problem: bool = False,
        passing: bool = False,
        about_key: bool = False,
        reversal_hint: Callable[[], str] | None = None,
        decided: Proposal | None = None,
    ) -> None:
        """Show the outcome of an action.

        Args:
            text: The outcome; None removes the line.
            problem: Whether it is an error.
            passing: Whether to remove it at the end of the model's turn.
            about_key: Whether it is about an ignored key press; it is removed when the item or the focus changes.
            reversal_hint: Returns the words on how to undo the action; they depend on the focus.
            decided: The proposal after the decision that it is about, if there is one.
        """
        self.is_passing, self.is_about_key, self.decided_proposal = passing, about_key, decided
        self._outcome = (text, reversal_hint)
        line = self.query_one("#outcome", Static)
        self.redraw_outcome()
        line.set_class(text is not None, "shown")
        line.set_class(problem, "problem")
        self._redraw_headline()


def _evidence_lines(state: ReviewQueueState, proposal: str, key: KeyNameOf, width: int) -> list[Content]:
    """Return the lines about a proposal's evidence: verdicts, tests that ran, and keys."""
    evidence = state.evidence.get(proposal)
    if evidence is None or not (evidence.marks or evidence.is_running or evidence.why_not):
        return []
    if evidence.why_not:
        return [safe_line_content(f"No evidence: {evidence.why_not}", "$text-warning")]
    first, *counts = evidence.verdict_counts.split(", ")
    style = "$text-warning" if evidence.unnoticed_hunks else ""
    parts = [
        Content.assemble(("without each hunk: ", "bold"), safe_line_content(first, style)),
        *map(safe_line_content, counts),
    ]
    progress = []
    if evidence.is_running:
        progress_text = f"{evidence.left:,} to go, {evidence.seconds:.0f} s" if evidence.selection else "begins"
        progress.append(Content.assemble(("▸ ", "$text-accent"), (progress_text, QUIET_STYLE)))
    chips = [make_chip(key, "find_evidence", "end", "$foreground 40%")] if evidence.is_running else []
    if evidence.is_cut_short and not evidence.is_running:
        chips.append(make_chip(key, "find_evidence", "go on", "$foreground 40%"))
    if evidence.unnoticed_hunks and not evidence.is_running:
        chips.append(make_chip(key, "send_findings", "as feedback", "$primary"))
    tests_run = [safe_line_content(evidence.tests_run_text, QUIET_STYLE)] if evidence.tests_run_text else []
    return wrap_parts_into_lines([*parts, *progress, *tests_run, *chips], width, _COLUMN_GAP)


def _reproduction_lines(state: ReviewQueueState, proposal: Proposal, key: KeyNameOf, width: int) -> list[Content]:
    """Return the lines about the second run of a proposal's command; empty if no single command made the proposal."""
    if proposal.recipe is None:
        return []
    reproduction = state.reproductions.get(proposal.id)
    parts: list[Content] = []
    label = "run again"
    if state.reproducing == proposal.id:
        parts, label = [Content.assemble(("▸ ", "$text-accent"), ("its command runs again", QUIET_STYLE))], "end"
    elif proposal.is_reproduced:
        count = format_count(len(proposal.files), "file")
        parts, label = [Content.assemble(("✓ ", "$text-success"), f"run again: same {count}, byte for byte")], ""
    elif reproduction is not None and reproduction.revision == proposal.revision:
        parts = [safe_line_content(reproduction.summary, "$text-warning")]
    chips = [make_chip(key, "reproduce", label, "$foreground 40%")] if label else []
    return wrap_parts_into_lines([*parts, *chips], width, _COLUMN_GAP)
