"""The text field of the composer: folded pastes act as one character, and other widgets may handle keys first."""

import asyncio
import contextlib
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from rich.text import Text
from textual import events, on
from textual.widgets import TextArea
from textual.widgets.text_area import Location

from app.images.mentions import Mention, find_mentioned_files, format_mention, possible_pasted_paths
from widgets.common.input_order import PossiblyPastedKey, input_arrival_time

if TYPE_CHECKING:
    from widgets.vim.vim_keys import VimKeyHandler


_MAX_IMAGE_CHECK_SECONDS = 2.0
"""Maximum seconds to check whether a path is an image; the folder may be on a slow network."""


class DroppedImages:
    """Images that the user dropped on the terminal; other pasted text never counts as an image."""

    def __init__(self) -> None:
        self.find_dropped_files: Callable[[str], Awaitable[Sequence[Mention]]] | None = None
        """Returns the images if a pasted text consists of their paths."""
        self._paths: set[str] = set()

    async def mention_text(self, pasted: str) -> str:
        """Return the text to insert for a paste: mentions if it consists of image paths, else the paste itself."""
        if self.find_dropped_files is None or not any(possible_pasted_paths(pasted)):
            return pasted
        mentions: Sequence[Mention] = ()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_IMAGE_CHECK_SECONDS):
                mentions = await self.find_dropped_files(pasted)
        self._paths.update(mention.path for mention in mentions)
        return "".join(f"{format_mention(mention.path)} " for mention in mentions) or pasted

    def find_mentions(self, text: str) -> tuple[Mention, ...]:
        """Return the files that a text mentions."""
        return find_mentioned_files(text, frozenset(self._paths))


Folds = tuple[tuple[int, int], ...]
"""Folded parts of a text in order, as (start, end)."""

_MIN_FOLDED_LINES = 12
_MIN_FOLDED_CHARACTERS = 2_000
_MAX_SHOWN_LINES = 200
_MAX_SHOWN_CHARACTERS = 20_000
_EDGE_LINES = 3
_EDGE_CHARACTERS = 400
_MAX_REMEMBERED_PASTES = 20
_MAX_REMEMBERED_CHARACTERS = 20_000_000

_STORED_FOLDS_PATTERN = re.compile(r"folds((?: \d+-\d+)*)\n")


def should_fold_paste(text: str) -> bool:
    """Return whether a paste is folded: 12 or more line breaks, or more than 2,000 characters."""
    return len(text) > _MIN_FOLDED_CHARACTERS or text.count("\n") >= _MIN_FOLDED_LINES


class ComposerDraft(NamedTuple):
    """Content of the composer: the whole text, and which parts are folded."""

    text: str
    folds: Folds = ()

    def dump(self) -> str:
        """Return the draft as one string for a store: a line with the folds, if any, and the text."""
        if not self.folds and not _STORED_FOLDS_PATTERN.match(self.text):
            return self.text
        return "folds" + "".join(f" {start}-{end}" for start, end in self.folds) + "\n" + self.text

    @classmethod
    def load(cls, stored: str) -> Self:
        """Return the draft from the result of `dump`; any other string is a text without folds."""
        head = _STORED_FOLDS_PATTERN.match(stored)
        if head is None:
            return cls(stored)
        text = stored[head.end() :]
        spans = [span.partition("-") for span in head[1].split()]
        folds = tuple((int(start), int(end)) for start, _, end in spans)
        bounds = [0, *(bound for fold in folds for bound in fold), len(text)]
        return cls(text, folds if bounds == sorted(bounds) else ())


class FoldedPastes:
    """The folded parts of the text in the composer.

    The latest pastes are remembered after the message is sent. If one comes back, from the queue, the history or
    `$EDITOR`, it is folded again.
    """

    def __init__(self) -> None:
        self._texts_by_marker: dict[str, str] = {}
        """Texts of the current message by marker."""
        self._marker_pattern: re.Pattern[str] | None = None
        self._remembered: list[str] = []
        """Oldest first."""

    def fold(self, text: str, surrounding_text: str = "", label: str = "pasted ") -> str:
        """Fold a text; return the marker for it in the current message.

        Args:
            surrounding_text: The text to insert the marker into; the marker does not occur in it.
            label: The text before the number of lines in the marker.
        """
        lines = len(text.splitlines())
        name = f"{label}{lines:,} lines" if lines > 1 else f"{label}{len(text):,} characters"
        marker = f"[{name}]"
        number = 2
        while marker in self._texts_by_marker or marker in surrounding_text:
            marker = f"[{name} #{number}]"
            number += 1
        self._texts_by_marker[marker] = text
        self._marker_pattern = re.compile("|".join(re.escape(known) for known in self._texts_by_marker))
        self._remember_paste(text)
        return marker

    def _remember_paste(self, text: str) -> None:
        others = [known for known in self._remembered if known != text]
        while len(others) >= _MAX_REMEMBERED_PASTES or sum(map(len, others)) > _MAX_REMEMBERED_CHARACTERS:
            del others[0]
        self._remembered = [*others, text]

    def unfold(self, shown: str) -> ComposerDraft:
        """Return the text with all markers expanded, and the positions of the expanded parts."""
        if self._marker_pattern is None:
            return ComposerDraft(shown)
        parts: list[str] = []
        folds: list[tuple[int, int]] = []
        position = length = 0
        for match in self._marker_pattern.finditer(shown):
            whole = self._texts_by_marker[match[0]]
            start = length + match.start() - position
            parts += shown[position : match.start()], whole
            position, length = match.end(), start + len(whole)
            folds.append((start, length))
        return ComposerDraft("".join([*parts, shown[position:]]), tuple(folds))

    def marker_columns(self, line: str) -> list[tuple[int, int]]:
        """Return the (start, end) columns of the markers in a line."""
        if self._marker_pattern is None or "[" not in line:
            return []
        return [match.span() for match in self._marker_pattern.finditer(line)]

    def load_draft(self, draft: ComposerDraft) -> str:
        """Start another message; return the text to show, with markers for folded pastes.

        Pastes of earlier messages are folded too. If the rest is still very long, only its ends are shown.
        """
        self._texts_by_marker.clear()
        self._marker_pattern = None
        parts: list[str] = []
        position = 0
        for start, end in draft.folds:
            parts.append(self._fold_again(draft.text[position:start]))
            parts.append(self._find_or_fold(draft.text[start:end], draft.text))
            position = end
        return "".join([*parts, self._fold_again(draft.text[position:])])

    def _find_or_fold(self, text: str, surrounding_text: str) -> str:
        known = next((marker for marker, whole in self._texts_by_marker.items() if whole == text), None)
        return known or self.fold(text, surrounding_text)

    def _fold_again(self, text: str) -> str:
        if not should_fold_paste(text):
            return text
        for paste in sorted(self._remembered, key=len, reverse=True):
            before, match, after = text.partition(paste)
            if match:
                return self._fold_again(before) + self._find_or_fold(paste, text) + self._fold_again(after)
        if len(text) <= _MAX_SHOWN_CHARACTERS and text.count("\n") < _MAX_SHOWN_LINES:
            return text
        start = _edge_length(text)
        end = len(text) - _edge_length(text[: start - 1 : -1])
        return text[:start] + self.fold(text[start:end], text, label="") + text[end:]


def _edge_length(text: str) -> int:
    """Return how many characters are shown at the start of a long text: a few short lines, or else a fixed number."""
    position = 0
    for _ in range(_EDGE_LINES):
        end = text.find("\n", position, _EDGE_CHARACTERS)
        if end < 0:
            break
        position = end + 1
    return position or _EDGE_CHARACTERS


TYPING_PAUSE_SECONDS = 1.0
"""Minimum seconds without a key before a key that is not treated as typing."""

_LIST_KEYS = frozenset({"tab", "escape"})
"""Keys for the list above the composer, besides those that are actions of the text area."""


class ComposerField(TextArea):
    """The composer's text area, which offers Up, Tab, Escape and such keys to `intercept_key` before it uses them.

    Args:
        intercept_key: Called with `up`, `down`, `page_up`, `page_down`, `tab`, `escape` or a digit; returns whether
            it used the key.
        transform_paste: Returns the text to insert for a paste; None inserts the paste itself.
        wait_for_list: Called with each key before it is used; returns when the list of suggestions fits the text.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"editor--paste"}
    DEFAULT_CSS = """
    ComposerField {
        height: auto;
        min-height: 1;
        max-height: 10;
        border: none;
        padding: 0;
        background: transparent;
        scrollbar-size-vertical: 1;
        &:focus { border: none; }
        & > .editor--paste { color: $text-accent; text-style: bold; }
        & > .text-area--placeholder { color: $foreground 45%; }
        &:ansi > .text-area--placeholder { text-style: dim; }
        & > .text-area--cursor-line { background: transparent; }
    }
    """

    def __init__(
        self,
        intercept_key: Callable[[str], bool],
        transform_paste: Callable[[str], Awaitable[str]] | None = None,
        wait_for_list: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(soft_wrap=True, tab_behavior="focus", highlight_cursor_line=False)
        # A blinking cursor needs a timer that never stops and wakes the CPU twice a second.
        self.set_reactive(TextArea.cursor_blink, False)
        self.folded_pastes = FoldedPastes()
        self._intercept_key = intercept_key
        self._transform_paste = transform_paste
        self._wait_for_list = wait_for_list
        self._last_cursor: Location = (0, 0)
        self.vim: VimKeyHandler | None = None
        """The vim keys; None if the user does not use them."""
        self.before_key: Callable[[events.Key], bool] = lambda event: False
        """Called first with each key; returns whether it handled the key."""
        self.is_quiet = True
        """Whether the latest key came alone: after a pause, and without other keys in the same read."""
        self._last_key_at = -math.inf
        """Time of the latest key."""

    @property
    def splits_alt_keys(self) -> bool:
        """Return whether Alt and a key are Escape and the key, as in vim."""
        return self.vim is not None

    @property
    def draft(self) -> ComposerDraft:
        """Return the text with expanded pastes, and the positions of these."""
        return self.folded_pastes.unfold(self.text)

    def show_draft(self, draft: ComposerDraft) -> None:
        """Show another text, with the cursor at its end."""
        self.text = self.folded_pastes.load_draft(draft)
        self.move_cursor(self.document.end)

    def get_line(self, line_index: int) -> Text:
        """Return a line with its paste markers coloured."""
        line = super().get_line(line_index)
        for start, end in self.folded_pastes.marker_columns(line.plain):
            line.stylize(self.get_component_rich_style("editor--paste", partial=True), start, end)
        return line

    # Keys

    async def on_key(self, event: events.Key) -> None:
        """Let the list of suggestions handle its keys, and run the actions of other bound keys at once.

        Textual looks for the binding of a key only after the key has bubbled up to the app. On that way, the key
        would wait for the layout of the chat.
        """
        key, now = event.key, input_arrival_time(self.app)
        self.is_quiet = now - self._last_key_at >= TYPING_PAUSE_SECONDS and not isinstance(event, PossiblyPastedKey)
        self._last_key_at = now
        if self.before_key(event):
            event.stop()
            event.prevent_default()
            return
        if self._wait_for_list is not None:
            await self._wait_for_list(key)
        # A digit that arrives together with other characters is text.
        selects_option = key.isdigit() and not self.text and not isinstance(event, PossiblyPastedKey)
        is_list_key = key in _LIST_KEYS or selects_option
        is_handled = is_list_key and self._intercept_key(key)
        if not is_handled and self.vim is not None:
            is_handled = self.vim.handle_key(event)
        if not is_handled and not is_list_key and not event.is_printable:
            is_handled = await self._run_binding(key)
        if is_handled:
            event.stop()
            event.prevent_default()

    async def _run_binding(self, key: str) -> bool:
        bound = self.screen.active_bindings.get(key)
        if bound is None or not bound.enabled or self.screen not in bound.node.ancestors:
            return False
        return await self.app.run_action(bound.binding.action, bound.node)

    async def on_paste(self, event: events.Paste) -> None:
        """Fold a large paste, and convert line ends to newlines; keys typed meanwhile are inserted after it."""
        event.prevent_default()
        event.stop()
        self.paste(event.text if self._transform_paste is None else await self._transform_paste(event.text))

    def paste(self, text: str) -> None:
        """Insert pasted text at the cursor, folded if it is large."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if should_fold_paste(text):
            text = self.folded_pastes.fold(text, self.text)
        self.move_cursor(self.replace(text, *self.selection, maintain_selection_offset=False).end_location)

    def action_paste(self) -> None:
        if self.app.clipboard:
            self.paste(self.app.clipboard)

    def action_cursor_up(self, select: bool = False) -> None:
        """Move the cursor up, unless a list or the history uses the key."""
        if select or not self._intercept_key("up"):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move the cursor down, unless a list or the history uses the key."""
        if select or not self._intercept_key("down"):
            super().action_cursor_down(select)

    def action_cursor_page_up(self) -> None:
        """Move a page up; if the text has only one page, scroll the transcript."""
        if not self._intercept_key("page_up"):
            super().action_cursor_page_up()

    def action_cursor_page_down(self) -> None:
        """Move a page down; if the text has only one page, scroll the transcript."""
        if not self._intercept_key("page_down"):
            super().action_cursor_page_down()

    def set_vim(self, on: bool, on_mode: Callable[[str], None]) -> None:
        """Switch vim keys on or off; `on_mode` is called with each new mode."""
        if on and self.vim is None:
            from widgets.vim.vim_keys import VimKeyHandler

            self.vim = VimKeyHandler(self, on_mode, widen=self._extend_to_whole_markers, on_edge=self._intercept_key)
        elif not on:
            self.vim = None
            on_mode("")

    def _extend_to_whole_markers(self, text: str, span: tuple[int, int]) -> tuple[int, int]:
        """Return a span extended so that no paste marker is partly inside."""
        start, end = span
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        for left, right in self.folded_pastes.marker_columns(text[first : last if last >= 0 else len(text)]):
            if start < first + right and end > first + left:
                start, end = min(start, first + left), max(end, first + right)
        return start, end

    # Paste markers act as one character for the cursor and for deletion.

    def _marker_at(self, location: Location, left: bool) -> tuple[Location, Location] | None:
        row, column = location
        for start, end in self.folded_pastes.marker_columns(self.document.get_line(row)):
            if (start < column <= end) if left else (start <= column < end):
                return (row, start), (row, end)
        return None

    def _delete_marker(self, left: bool) -> bool:
        marker = self._marker_at(self.cursor_location, left) if self.selection.is_empty else None
        if marker is not None:
            self.delete(*marker, maintain_selection_offset=False)
        return marker is not None

    def action_delete_left(self) -> None:
        """Delete a character or a whole paste."""
        if not self._delete_marker(left=True):
            super().action_delete_left()

    def action_delete_right(self) -> None:
        """Delete a character or a whole paste."""
        if not self._delete_marker(left=False):
            super().action_delete_right()

    def action_delete_word_left(self) -> None:
        """Delete a word or a whole paste."""
        if not self._delete_marker(left=True):
            super().action_delete_word_left()

    def action_delete_word_right(self) -> None:
        """Delete a word or a whole paste."""
        if not self._delete_marker(left=False):
            super().action_delete_word_right()

    @on(TextArea.SelectionChanged)
    def move_cursor_out_of_marker(self) -> None:
        """Move a cursor that is inside a paste marker to its far end."""
        location = self.cursor_location
        marker = self._marker_at(location, left=True)
        if marker is not None and location != marker[1] and self.selection.is_empty:
            self.cursor_location = marker[0] if self._last_cursor > location else marker[1]
        self._last_cursor = self.cursor_location
