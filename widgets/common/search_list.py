"""A list that is filtered while the user types."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.text.safe_text import escape_unsafe


class ListChoice(Struct, frozen=True):
    """A choice in a `SearchList`: its key, its label, and the text that a search matches."""

    key: str
    """Identifies the choice."""
    label: Content
    """The text in the list."""
    search_text: str
    """The text that a search matches."""


class SearchList(Vertical):
    """A search field above a list of choices.

    Args:
        placeholder: Placeholder of the field.
        empty_text: Shown if there are no choices.
        no_match_text: Shown if no choice matches.
        searches_elsewhere: Post `QueryChanged` instead of filtering; the listener sets the choices.
    """

    DEFAULT_CSS = """
    SearchList {
        height: 1fr;
        & > OptionList {
            height: 1fr;
            margin-top: 1;
            & > .option-list--option-highlighted {
                background: $block-cursor-background;
                color: $block-cursor-foreground;
                text-style: $block-cursor-text-style;
            }
        }
        & > .nothing { display: none; height: 1fr; margin-top: 1; padding: 0 1; color: $foreground 65%; }
        &.-nothing {
            & > OptionList { display: none; }
            & > .nothing { display: block; }
        }
    }
    """

    LIST_KEY_ACTIONS: ClassVar[dict[str, str]] = {
        "up": "cursor_up",
        "down": "cursor_down",
        "pageup": "page_up",
        "pagedown": "page_down",
    }
    """Keys of the search field that the list handles."""

    @dataclass
    class Highlighted(Message):
        """The cursor moved to this choice; None if the list is empty."""

        choice: ListChoice | None

    @dataclass
    class QueryChanged(Message):
        """The listener must search the text and set the results as choices."""

        text: str

    @dataclass
    class Picked(Message):
        """The user selected a choice; None if no choice matches, so that the typed text is the result."""

        choice: ListChoice | None
        text: str

    def __init__(
        self,
        placeholder: str,
        *,
        empty_text: str = "There is nothing here.",
        no_match_text: str = "Nothing matches.",
        searches_elsewhere: bool = False,
    ) -> None:
        super().__init__()
        self._empty_text = empty_text
        self._no_match_text = no_match_text
        self._searches_elsewhere = searches_elsewhere
        self._problem = ""
        self._notice = Static(classes="nothing", markup=False)
        self._field = Input(placeholder=placeholder)
        self._list = OptionList(markup=False)
        self._list.can_focus = False
        self._all_choices: list[ListChoice] = []
        self._shown_choices: list[ListChoice] = []

    def compose(self) -> ComposeResult:
        """Compose the field and the list, with the text that replaces an empty list."""
        yield self._field
        yield self._list
        yield self._notice

    def on_mount(self) -> None:
        self._field.focus()

    def set_query(self, text: str) -> None:
        """Set the query."""
        self._field.value = text

    @property
    def highlighted(self) -> ListChoice | None:
        """Return the choice under the cursor; None if the list is empty."""
        index = self._list.highlighted
        return self._shown_choices[index] if index is not None and index < len(self._shown_choices) else None

    @property
    def typed_text(self) -> str:
        """Return the query."""
        return self._field.value.strip()

    def set_choices(self, choices: Sequence[ListChoice], current: str = "", *, problem: str = "") -> None:
        """Set the choices, or the reason why there are none; keep the cursor, or else move it to `current`."""
        self._problem = escape_unsafe(problem)
        wanted = self.highlighted.key if self.highlighted else current
        self._all_choices = list(choices)
        self._filter_choices(wanted)

    def _filter_choices(self, wanted_key: str = "") -> None:
        query = self._field.value.casefold().split()
        self._shown_choices = [
            choice
            for choice in self._all_choices
            if self._searches_elsewhere or all(word in choice.search_text.casefold() for word in query)
        ]
        self._list.clear_options()
        self._list.add_options([Option(_underline_matches(choice.label, query)) for choice in self._shown_choices])
        self.set_class(not self._shown_choices, "-nothing")
        has_searched = self._all_choices or (self._searches_elsewhere and query)
        unmatched = self._no_match_text if has_searched else self._empty_text
        self._notice.update(self._problem or unmatched)
        index = next((index for index, choice in enumerate(self._shown_choices) if choice.key == wanted_key), 0)
        self._list.highlighted = index if self._shown_choices else None
        self.post_message(self.Highlighted(self.highlighted))

    @on(Input.Changed)
    def _handle_query(self, event: Input.Changed) -> None:
        event.stop()
        if self._searches_elsewhere:
            self.post_message(self.QueryChanged(event.value))
        else:
            self._filter_choices()

    @on(Input.Submitted)
    def _pick_highlighted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Picked(self.highlighted, self.typed_text))

    @on(OptionList.OptionHighlighted)
    def _post_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.post_message(self.Highlighted(self.highlighted))

    @on(OptionList.OptionSelected)
    def _pick_clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_index < len(self._shown_choices):
            self.post_message(self.Picked(self._shown_choices[event.option_index], self.typed_text))

    def on_key(self, event: events.Key) -> None:
        """Move the cursor of the list while the field has the focus."""
        if (action := self.LIST_KEY_ACTIONS.get(event.key)) is not None:
            event.stop()
            event.prevent_default()
            getattr(self._list, f"action_{action}")()


def _underline_matches(label: Content, words: Sequence[str]) -> Content:
    """Return the label with the matches of the words underlined."""
    for word in words:
        # Lower-case text may be longer, so its positions could differ.
        if match := re.search(re.escape(word), label.plain, re.IGNORECASE):
            label = label.stylize("underline", *match.span())
    return label
