"""The keys and the mouse of the diff preview: they move, fold, search, pick lines and point."""

from typing import ClassVar

from textual import events
from textual.binding import BindingType

from app.keys.actions import bindings
from app.proposals.values.models import HunkState
from widgets.common.key_hints import MAIN_BUTTON
from widgets.diff.diff_messages import (
    AskWanted,
    CommentWanted,
    ComparisonWanted,
    ExternalDiffWanted,
    FilesWanted,
    HunkClicked,
    NoteClicked,
    NothingUnseen,
    OrderWanted,
    SearchWanted,
)
from widgets.diff.diff_rows import CommentRow, FileRow, FoldRow, LineRow, NoteRow, SourceLine, SpaceRow, line_of
from widgets.diff.diff_surface import DiffSurface
from widgets.diff.line_selection import PickedLines, line_at, word_at
from widgets.diff.seen_lines import go_to_unseen

SIDE_STEP = 8
"""Cells scrolled to the side at a time."""

_NEEDS_DIFF = frozenset(
    {
        "next_hunk",
        "previous_hunk",
        "next_file",
        "previous_file",
        "next_unseen",
        "toggle_layout",
        "toggle_white_space",
        "toggle_order",
        "external_diff",
    }
)
"""Of the actions that the user is offered, those that mean nothing before there is a diff."""
_STATE_CELLS = 2
"""Cells before a line that say what becomes of its hunk."""


class DiffView(DiffSurface, can_focus=True):
    """A change over several files, of any size, that takes the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("diff")]

    has_external_diff = False
    """Whether a diff program of the user's is known."""
    _held: tuple[int, bool] | None = None
    """The row on which the mouse button went down, and whether it did so on the state of its hunk."""

    # Moving

    def action_cursor_down(self) -> None:
        """Next row."""
        self.cursor.step(1)

    def action_cursor_up(self) -> None:
        """Previous row."""
        self.cursor.step(-1)

    def action_page_down(self) -> None:
        """Next page."""
        self.cursor.page(1)

    def action_page_up(self) -> None:
        """Previous page."""
        self.cursor.page(-1)

    def action_top(self) -> None:
        """First row."""
        self.cursor.to_top()

    def action_bottom(self) -> None:
        """Last row."""
        self.cursor.to_end()

    def action_next_hunk(self) -> None:
        """Next hunk."""
        self.cursor.jump("hunks", 1)

    def action_previous_hunk(self) -> None:
        """Previous hunk."""
        self.cursor.jump("hunks", -1)

    def action_next_file(self) -> None:
        """Next file."""
        self.cursor.jump("files", 1)

    def action_previous_file(self) -> None:
        """Previous file."""
        self.cursor.jump("files", -1)

    def action_next_unseen(self) -> None:
        """Go to the next place that was never on screen, from the end on to the first."""
        if self.unread is not None:
            self.scroll_to(y=self.unread, animate=False, immediate=True)
            return
        sheet, unseen = self.sheet, self.on_screen.unseen
        looked_at = bool(sheet.diffs) and not sheet.versions
        place = next(unseen.below(self.cursor.file, self.cursor.row), None) if looked_at else None
        if place is None:
            self.post_message(NothingUnseen())
            return
        if place.file in sheet.shape.collapsed:
            self.reshape(sheet.shape.with_file(place.file))
        if place.hunk >= 0:
            side, line = line_of(self.diffs[place.file].change.hunks[place.hunk], place.number)
            if sheet.is_left_out(SourceLine(place.file, side, line), place.hunk):
                self.show_spaces(place.file, place.hunk)
        if place.hunk < 0:
            self.cursor.go_to_file(place.file)
        else:
            go_to_unseen(place, self.on_screen.seen, sheet, self.cursor, self)

    def action_scroll_code_left(self) -> None:
        """Show the beginning of long lines."""
        self.scroll_to(x=max(0, self.scroll_offset.x - SIDE_STEP), animate=False, immediate=True)

    def action_scroll_code_right(self) -> None:
        """Show the end of long lines."""
        self.scroll_to(x=self.scroll_offset.x + SIDE_STEP, animate=False, immediate=True)

    # How much is shown

    def action_toggle_layout(self) -> None:
        """Unified or side by side."""
        self.set_split(not self.split)

    def action_toggle_wrap(self) -> None:
        """Wrap long lines or scroll them."""
        self.set_wrap(not self.sheet.wrap)

    def action_toggle_white_space(self) -> None:
        """Leave out changes in white space alone, or show them."""
        self.set_white_space(not self.sheet.white_space)

    def action_toggle_folds(self) -> None:
        """Open or close the unchanged stretch at the cursor; from a hunk, all of them."""
        gap = self.cursor.gap
        self.reshape(self.sheet.shape.toggle_all() if gap is None else self.sheet.shape.toggle_gap(*gap))

    def action_toggle_all_folds(self) -> None:
        """Show the whole files, or only the surroundings of the hunks."""
        self.reshape(self.sheet.shape.toggle_all())

    def action_open(self) -> None:
        """Open or close the item under the cursor: a fold, a long line, a file, a comment."""
        shape = self.sheet.shape
        match self.cursor.row:
            case FoldRow():
                self.action_toggle_folds()
            case LineRow() as row:
                if lines := self.sheet.long_lines(row):
                    self.reshape(shape.toggle_long_lines(lines))
            case SpaceRow(file=file, hunk=hunk):
                self.show_spaces(file, hunk)
            case FileRow(file=file):
                self.reshape(shape.toggle_file(file))
            case NoteRow(key=key) if key:
                self.post_message(NoteClicked(key))
            case CommentRow(kind="remark"):
                self.action_comment()
            case CommentRow(kind="asked"):
                self.post_message(AskWanted())
            case _:
                pass

    # What the pane is asked for

    def action_comment(self) -> None:
        """Remark on the line at the cursor."""
        line = self.cursor.source_line
        if line is not None and self._takes_comments:
            self.post_message(CommentWanted(line))

    @property
    def _takes_comments(self) -> bool:
        """Return whether the model will read comments on what is shown: on a waiting proposal, not on a
        comparison."""
        return self.proposal is not None and self.proposal.state.is_pending and not self.sheet.versions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are offered where they do something."""
        if action == "comment":
            return self._takes_comments
        return action not in _NEEDS_DIFF or bool(self.diffs) or (action == "next_unseen" and self.unread is not None)

    def action_toggle_files(self) -> None:
        """The list of files."""
        self.post_message(FilesWanted())

    def action_toggle_order(self) -> None:
        """The files by need, or by path."""
        self.post_message(OrderWanted())

    def action_external_diff(self) -> None:
        """The file at the cursor by the user's own diff program."""
        if self.proposal is not None and self.diffs:
            self.post_message(ExternalDiffWanted(self.proposal.id, self.diffs[self.cursor.file].change.path))

    def title_of(self, action: str) -> str | None:
        """Return the title of an action at this moment; None where no diff program is set."""
        return None if action == "external_diff" and not self.has_external_diff else ""

    def action_toggle_versions(self) -> None:
        """The earlier version against this one."""
        self.post_message(ComparisonWanted())

    # Search

    def action_search(self) -> None:
        """Search in the diff."""
        if self.diffs:
            self.post_message(SearchWanted())

    def action_search_next(self) -> None:
        """Next match."""
        self.go_to_match(1)

    def action_search_previous(self) -> None:
        """Previous match."""
        self.go_to_match(-1)

    # Picking lines

    def action_pick_lines(self) -> None:
        """Begin to pick lines at the cursor, or stop it."""
        self.picking.toggle()

    def action_pick_down(self) -> None:
        """Extend the selection to the next line."""
        self.picking.extend(1)

    def action_pick_up(self) -> None:
        """Extend the selection to the line before."""
        self.picking.extend(-1)

    def picked(self) -> PickedLines | None:
        """The changed lines that are picked by key, or selected with the mouse."""
        return self.picking.picked(self.text_selection)

    def end_picking(self) -> None:
        """Pick nothing any more."""
        self.picking.set_start(None)
        if self.text_selection is not None:
            self.screen.clear_selection()

    def on_key(self, event: events.Key) -> None:
        """Escape leaves the picking."""
        if event.key == "escape" and self.picking.start is not None:
            event.stop()
            event.prevent_default()
            self.end_picking()

    # Mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remember where a click begins."""
        self._held = self._under(event)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on a line; toggle a hunk by its state; open a fold, a file or a comment.

        What a click does, it does where it began and ended; to drag from one line to another selects text. A double
        click selects the word, a triple click the line.
        """
        event.prevent_default()
        under, self._held = self._held, None
        if under is None or event.button != MAIN_BUTTON or under != self._under(event):
            return
        number, on_state = under
        row = self.rows.row(number)
        is_line = isinstance(row, LineRow)
        if event.chain > 1 and is_line and not on_state:
            self._select(event)
            return
        if not on_state and self.text_selection is not None:
            return
        self.cursor.move_to(number, above=0)
        if not is_line and not (on_state and isinstance(row, SpaceRow)):
            self.action_open()
        elif on_state and (hunk := self.cursor.hunk) is not None and hunk.state is HunkState.PENDING:
            self.post_message(HunkClicked(hunk.id))

    def _select(self, event: events.Click) -> None:
        _, offset = self.screen.get_widget_and_offset_at(event.screen_x, event.screen_y)
        if offset is not None:
            selection = (word_at if event.chain == 2 else line_at)(self.rows, self.sheet.scene, offset)
            self.screen.selections = {} if selection is None else {self: selection}

    def _under(self, event: events.MouseEvent) -> tuple[int, bool] | None:
        """The row under the mouse, and whether the state of its hunk is."""
        offset = event.get_content_offset(self)
        if offset is None or offset.y + self.scroll_offset.y >= self.rows.height:
            return None
        return self.rows.part_at(offset.y + self.scroll_offset.y).number, offset.x < _STATE_CELLS
