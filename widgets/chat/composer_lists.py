"""Lists above the composer: completions to choose from, and queued messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from app.text.safe_text import escape_unsafe
from widgets.chat.markdown.styled_lines import cell_width, shorten_to_one_line

CompletionSource = Literal["file", "command", "history"]

_MAX_SUGGESTION_ROWS = 8


class CompletionSuggestion(NamedTuple):
    """A row of the completion list."""

    value: str
    """The text to insert when the user accepts the suggestion; untrusted."""
    label: str
    note: str = ""


class CompletionPopup(Widget):
    """A list of suggestions, one of them highlighted; the composer controls it, and it never has the focus."""

    DEFAULT_CSS = """
    CompletionPopup {
        display: none;
        height: auto;
        max-height: 9;
        background: $surface;
        padding: 0 1 0 0;
    }
    """

    @dataclass
    class Chosen(Message):
        """The user clicked a suggestion."""

        choice: CompletionSuggestion

    def __init__(self) -> None:
        super().__init__()
        self.source: CompletionSource = "file"
        self._choices: Sequence[CompletionSuggestion] = ()
        self._index = 0
        self._title = ""

    @property
    def is_open(self) -> bool:
        """Return whether the list is shown."""
        return bool(self.display)

    @property
    def highlighted_suggestion(self) -> CompletionSuggestion | None:
        """Return the highlighted suggestion; None if there is none."""
        return self._choices[self._index] if self.is_open and self._choices else None

    def show_suggestions(
        self,
        source: CompletionSource,
        choices: Sequence[CompletionSuggestion],
        title: str = "",
        *,
        keep_choice: bool = False,
    ) -> None:
        """Show these suggestions and highlight the first.

        Args:
            title: A line below the suggestions.
            keep_choice: Whether to keep the current suggestion highlighted if it is still listed.
        """
        chosen = self.highlighted_suggestion if keep_choice else None
        self.source = source
        self._choices = choices
        self._index = choices.index(chosen) if chosen in choices else 0
        self._title = title
        self.display = bool(choices or title)
        self.refresh(layout=True)

    def close(self) -> None:
        """Hide the list."""
        if self.display:
            self.display = False
        self._choices = ()

    def move_highlight(self, step: int) -> None:
        """Move the highlight by `step`, with wrap-around."""
        if self._choices:
            self._index = (self._index + step) % len(self._choices)
            self.refresh()

    @property
    def _first_visible_row(self) -> int:
        return max(0, min(self._index - _MAX_SUGGESTION_ROWS // 2, len(self._choices) - _MAX_SUGGESTION_ROWS))

    def get_content_height(self, *_: object) -> int:
        """Return the number of rows: the visible suggestions and the title."""
        return min(_MAX_SUGGESTION_ROWS, len(self._choices)) + bool(self._title)

    def render(self) -> Content:
        """Return the suggestions around the highlighted one."""
        width = max(10, self.content_size.width)
        rows: list[Content] = []
        first = self._first_visible_row
        # Align the notes in one column for all scroll positions.
        label_widths = (cell_width(escape_unsafe(choice.label)) for choice in self._choices if choice.note)
        column = max(label_widths, default=0) + 2
        for index, choice in enumerate(self._choices[first : first + _MAX_SUGGESTION_ROWS], first):
            label = shorten_to_one_line(escape_unsafe(choice.label), width - 2)
            room = width - 2 - column
            note = shorten_to_one_line(escape_unsafe(choice.note), room) if choice.note and room > 8 else ""
            text = f"{'›' if index == self._index else ' '} {label}"
            row = Content.styled(text, "$text-primary bold" if index == self._index else "$foreground")
            gap = " " * (column - cell_width(label))
            rows.append(row + Content.styled(f"{gap}{note}", "$foreground 60%") if note else row)
        if self._title:
            rows.append(Content.styled(f"  {shorten_to_one_line(self._title, width - 2)}", "$foreground 60%"))
        return Content("\n").join(rows)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        index = self._first_visible_row + (offset.y if offset else 0)
        if 0 <= index < len(self._choices):
            event.stop()
            self.post_message(self.Chosen(self._choices[index]))


_MAX_QUEUE_ROWS = 4
_QUEUE_LABEL = "queued  "
_TAKE_BACK_HINT = Content.assemble(("↑", "$text-accent bold"), (" takes back", "$foreground 60%"))


class QueuedMessages(Widget):
    """A row for each queued message; a click, or Up in the empty composer, takes all of them back."""

    DEFAULT_CSS = "QueuedMessages { display: none; height: auto; padding: 0 1 0 2; }"

    class TakeBackWanted(Message):
        """The user wants to edit the queued messages in the composer."""

    shows_key: reactive[bool] = reactive(True)
    """Whether the key that takes them back is shown: it works only in the empty composer."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: Sequence[str] = ()

    def show_messages(self, texts: Sequence[str]) -> None:
        """Show these messages, oldest first."""
        self._texts = texts
        self.display = bool(texts)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(_MAX_QUEUE_ROWS, len(self._texts))

    def render(self) -> Content:
        """Return the oldest messages, and the key that takes them back."""
        width, hint = self.content_size.width, _TAKE_BACK_HINT if self.shows_key else Content("")
        shown_texts = self._texts if len(self._texts) <= _MAX_QUEUE_ROWS else self._texts[: _MAX_QUEUE_ROWS - 1]
        rows = []
        for number, text in enumerate(shown_texts):
            cells = width - len(_QUEUE_LABEL) - (hint.cell_length + 2 if number == 0 else 0)
            short_text = shorten_to_one_line(escape_unsafe(text), max(1, cells))
            row = Content.assemble((_QUEUE_LABEL, "$text-accent"), (short_text, "$foreground 60%"))
            rows.append(row + " " * (cells - cell_width(short_text) + 2) + hint if number == 0 else row)
        if len(shown_texts) < len(self._texts):
            rows.append(Content.styled(f"… {len(self._texts) - len(shown_texts)} more", "$foreground 60%"))
        return Content("\n").join(rows)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.TakeBackWanted())
