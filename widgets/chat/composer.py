"""The composer: input with completion, history, folded pastes and queued messages."""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from app.images.mentions import Mention, format_mention
from app.keys.actions import make_key_bindings_of_scopes, parse_slash_command
from widgets.chat.composer_field import ComposerDraft, ComposerField, DroppedImages, Folds
from widgets.chat.composer_lists import CompletionPopup, CompletionSuggestion, QueuedMessages
from widgets.common.containers import Column, Row
from widgets.common.workbench_bars import HasChangingKeyTitles

if TYPE_CHECKING:
    from widgets.chat.path_index import PathIndex

_MENTION_PATTERN = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")
_COMMAND_PATTERN = re.compile(r"/([\w:-]*)$")

_HISTORY_TITLE = "type to search, Enter inserts, Esc closes"
_NO_MATCH_TITLE = "no earlier message matches, Esc closes"
_MAX_HISTORY_MATCHES = 50
_LISTING_WAIT_SECONDS = 0.04
"""Seconds to wait for a complete list of files before a partial one is shown; doubled each time."""
_MAX_OFFER_WAIT_SECONDS = 1.0
"""Maximum seconds that Tab or Enter waits for the list of files that fits the text."""

PLACEHOLDER = "Ask for a change, or / for commands, @ for files"
_WAITING_PLACEHOLDER = "Enter goes to the review, or ask for a change"


class Composer(Column, HasChangingKeyTitles):
    """A text field that grows with its text, with a list of suggestions and the queued messages above it.

    Args:
        files: Returns the workspace's files, sorted; called and iterated in a thread.
        commands: The offered commands, (name, title); until `set_commands` is called, there may be others.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*make_key_bindings_of_scopes("composer")]
    DEFAULT_CSS = """
    Composer {
        height: auto;
        background: $background;

        & > #composer-row {
            height: auto;
            padding: 0 1 0 0;
            border-top: solid $foreground 15%;
            border-title-color: $text-accent;
            border-title-style: bold;
        }
        &:focus-within > #composer-row { border-top: solid $accent 60%; }
        #composer-prompt {
            width: 2;
            height: 1;
            color: $foreground 40%;
        }
        &:focus-within #composer-prompt { color: $accent; }
        ComposerField { width: 1fr; }
    }
    """

    @dataclass
    class Submitted(Message):
        """The user sends this text; folded pastes are expanded."""

        text: str
        mentions: tuple[Mention, ...] = ()
        """Files that the user mentions in it, outside of folded pastes."""

    class EmptySubmitted(Message):
        """The user pressed Enter in the empty composer, after a pause in typing."""

    @dataclass
    class CommandEntered(Message):
        """The user entered a slash command."""

        name: str
        argument: str

    @dataclass
    class DraftChanged(Message):
        """The text in the composer has changed."""

        text: str
        """The text with expanded pastes."""
        folds: Folds = ()
        """Positions of the folded pastes in `text`."""

        def to_stored(self) -> str:
            """Return the draft as a string for `Composer.restore_draft`."""
            return ComposerDraft(self.text, self.folds).dump()

        def can_replace(self, message: Message) -> bool:
            """Return whether the other message is a draft too, because only the newest one counts."""
            return isinstance(message, Composer.DraftChanged)

    @dataclass
    class EditorRequested(Message):
        """The user wants to edit the text in `$EDITOR`; set `draft` to the result."""

        text: str

    class CommandsWanted(Message):
        """The user starts a slash command; the app may call `set_commands`."""

    @dataclass
    class UnknownCommand(Message):
        """The text looks like a slash command with an unknown name; nothing was sent."""

        name: str

    @dataclass
    class PageWanted(Message):
        """The user scrolls the transcript while writing."""

        direction: int
        """1 for down, -1 for up."""

    def __init__(self, files: Callable[[], Iterable[str]] = tuple, commands: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__()
        self._files = files
        self._commands = list(commands)
        self._unlisted_commands: frozenset[str] | None = None
        """Names of known commands that are not offered; None until `set_commands` is called."""
        self._is_command_started = False
        """Whether the text began with a slash at its last change."""
        self._listing_task: asyncio.Task[None] | None = None
        """Lists the workspace's files, once for each mention."""
        self._mention_ended = Event()
        self._files_offered = asyncio.Event()
        """Set unless the list of files is one for an earlier text."""
        self._files_offered.set()
        self._history: list[str] = []
        self._loaded_history_count = 0
        """Number of texts that `set_history` added; the user sent the others since."""
        self._history_index = 0
        self._unsent_draft = ComposerDraft("")
        """The draft before the user opened the history."""
        self._searching_history = False
        self.handle_key_when_empty: Callable[[str], bool] | None = None
        """Handles keys of the empty composer first, for example for the options of a question."""
        self._selects_options = False
        """Whether the arrow keys of the empty composer select one of a question's options."""
        self._placeholder = PLACEHOLDER
        self._is_review_pending = False
        """Whether an item waits in the review."""
        self.dropped = DroppedImages()
        self.editor = ComposerField(self._handle_list_key, self.dropped.mention_text, self._wait_for_files)
        self.popup = CompletionPopup()
        self._queue = QueuedMessages()

    def compose(self) -> ComposeResult:
        yield self._queue
        yield self.popup
        with Row(id="composer-row"):
            yield Static("❯", id="composer-prompt", markup=False)
            yield self.editor

    def on_mount(self) -> None:
        self.set_placeholder(PLACEHOLDER)

    # Interface for the app

    @property
    def draft(self) -> str:
        """Return the text of the composer with expanded pastes."""
        return self.editor.draft.text

    @draft.setter
    def draft(self, text: str) -> None:
        """Set the text of the composer; known pastes are folded again."""
        self._set_text(text)

    @property
    def stored_draft(self) -> str:
        """Return the text with its folds, for `restore_draft`."""
        return self.editor.draft.dump()

    def restore_draft(self, stored: str) -> None:
        """Restore a stored draft."""
        self._close_popup()
        self.editor.show_draft(ComposerDraft.load(stored))

    @property
    def is_empty(self) -> bool:
        """Return whether the composer is empty."""
        return not self.editor.text

    def set_placeholder(self, text: str) -> None:
        """Set the placeholder of the empty composer: the next action."""
        self._placeholder = text
        self.editor.placeholder = Content(_WAITING_PLACEHOLDER if self._enters_review else text)
        self.refresh_bindings()

    @property
    def _enters_review(self) -> bool:
        """Return whether Enter in the composer, while it is empty, goes to the review."""
        return self._is_review_pending and self._placeholder == PLACEHOLDER

    def title_of(self, action: str) -> str:
        """Return a special title of a key in the footer; empty for the default title of the action."""
        return "Review" if action == "send" and self.is_empty and self._enters_review else ""

    def set_review_pending(self, pending: bool) -> None:
        """Set whether an item waits for review; then Enter in the empty composer goes there."""
        if pending != self._is_review_pending:
            self._is_review_pending = pending
            self.set_placeholder(self._placeholder)

    def set_queued_messages(self, texts: Sequence[str]) -> None:
        """Show the messages that wait for the turn to end."""
        self._queue.show_messages(texts)

    def set_options_open(self, is_open: bool) -> None:
        """Set whether the arrow keys of the empty composer select one of a question's options."""
        self._selects_options = is_open
        self._update_queue_hint()

    def _update_queue_hint(self) -> None:
        self._queue.shows_key = self.is_empty and not self._selects_options

    def set_history(self, texts: Sequence[str]) -> None:
        """Set the messages sent before, oldest first; keep those that the user sent since."""
        known = set(texts)
        self._history = [*texts, *(text for text in self._history[self._loaded_history_count :] if text not in known)]
        self._loaded_history_count = len(texts)
        self._history_index = len(self._history)

    def set_files(self, files: Callable[[], Iterable[str]]) -> None:
        """Offer these files from now on; the function is called, and its result iterated, in a thread."""
        self._files = files

    def set_commands(self, commands: Sequence[tuple[str, str]], unlisted: Sequence[str] = ()) -> None:
        """Offer these commands, (name, title); `commands` and `unlisted` together are all known commands."""
        self._unlisted_commands = frozenset(unlisted)
        if self._commands != list(commands):
            self._commands = list(commands)
            if self.popup.is_open and self.popup.source == "command":
                self._offer_commands(self.editor.text.removeprefix("/").lower())

    def set_vim(self, on: bool) -> None:
        """Switch vim keys on or off; the border title shows the mode."""
        self.editor.set_vim(on, self._show_mode)

    def _show_mode(self, mode: str) -> None:
        self.query_one("#composer-row").border_title = Content(f" {mode} " if mode else "")

    def set_max_height(self, rows: int) -> None:
        """Set the maximum height of the text field in rows; longer text scrolls."""
        self.editor.styles.max_height = max(3, rows)

    # Sending

    def action_send(self) -> None:
        """Accept the highlighted suggestion, or send the text."""
        choice = self.popup.highlighted_suggestion
        is_complete = choice is not None and self.editor.text.strip() == f"/{choice.value}"
        if choice is not None and (self.popup.source != "command" or not is_complete):
            self._accept_suggestion(choice, enter=True)
            return
        if self._searching_history:
            # The text is a search query, not a message.
            return
        text = self.draft.strip()
        if not text:
            was_handled = self.handle_key_when_empty is not None and self.handle_key_when_empty("enter")
            if not was_handled and self.editor.is_quiet:
                self.post_message(self.EmptySubmitted())
            return
        if self._commands and (command := parse_slash_command(text)):
            name, argument = command
            if not self._is_known_command(name):
                self.post_message(self.UnknownCommand(name))
                return
            self._record_sent(text)
            self.post_message(self.CommandEntered(name, argument))
            return
        mentions = self.dropped.find_mentions(self.editor.text)
        self._record_sent(text)
        self.post_message(self.Submitted(text, mentions))

    def _is_known_command(self, name: str) -> bool:
        """Return whether a command with this name may exist."""
        return (
            self._unlisted_commands is None
            or name in self._unlisted_commands
            or any(name == known for known, _ in self._commands)
        )

    def _record_sent(self, text: str) -> None:
        if not self._history or self._history[-1] != text:
            self._history.append(text)
        self._history_index = len(self._history)
        self._unsent_draft = ComposerDraft("")
        self._set_text("")
        if self.editor.vim is not None:
            self.editor.vim.restart_in_insert_mode()

    def _set_text(self, text: str) -> None:
        self._close_popup()
        self.editor.show_draft(ComposerDraft(text))

    def action_undo(self) -> None:
        self.editor.undo()

    def action_newline(self) -> None:
        result = self.editor.replace("\n", *self.editor.selection, maintain_selection_offset=False)
        self.editor.move_cursor(result.end_location)

    def action_external_editor(self) -> None:
        """Request to edit the draft in `$EDITOR`."""
        self.post_message(self.EditorRequested(self.draft))

    # Keys for the lists

    def _handle_list_key(self, key: str) -> bool:
        if self.popup.is_open:
            return self._handle_popup_key(key)
        if key == "tab" and self._listing_task is not None and not self._listing_task.done():
            # The key is for the list of files, which is still loading.
            return True
        if self.is_empty and self.handle_key_when_empty is not None and self.handle_key_when_empty(key):
            return True
        if key == "up" and self.is_empty and self._queue.display:
            self._queue.post_message(QueuedMessages.TakeBackWanted())
            return True
        if key in ("page_up", "page_down") and not self.editor.max_scroll_y:
            self.post_message(self.PageWanted(1 if key == "page_down" else -1))
            return True
        if key == "up" and self.editor.navigator.is_first_wrapped_line(self.editor.cursor_location):
            return self._show_from_history(-1)
        if key == "down" and self.editor.navigator.is_last_wrapped_line(self.editor.cursor_location):
            return self._show_from_history(1)
        return False

    def _handle_popup_key(self, key: str) -> bool:
        match key:
            case "up" | "down":
                self.popup.move_highlight(1 if key == "down" else -1)
            case "tab" if self.popup.highlighted_suggestion is not None:
                self._accept_suggestion(self.popup.highlighted_suggestion, enter=False)
            case "escape":
                if self._searching_history:
                    self.editor.show_draft(self._unsent_draft)
                self._close_popup()
            case _:
                return False
        return True

    def _show_from_history(self, step: int) -> bool:
        """Show an earlier or later message; return False at the ends of the history."""
        index = self._history_index + step
        if not 0 <= index <= len(self._history):
            return False
        if self._history_index == len(self._history):
            self._unsent_draft = self.editor.draft
        self._history_index = index
        draft = ComposerDraft(self._history[index]) if index < len(self._history) else self._unsent_draft
        self.editor.show_draft(draft)
        if step > 0 and index < len(self._history):
            self.editor.move_cursor((0, 0))
        return True

    # Completion

    @on(TextArea.Changed)
    def offer_completions(self, event: TextArea.Changed) -> None:
        """Offer completions for the text at the cursor; report the draft."""
        event.stop()
        self._update_queue_hint()
        if self._enters_review:
            self.refresh_bindings()
        if self._searching_history:
            # A search query is not a draft.
            self._offer_history_matches()
            return
        draft = self.editor.draft
        self.post_message(self.DraftChanged(draft.text, draft.folds))
        row, column = self.editor.cursor_location
        before = self.editor.document.get_line(row)[:column]
        starts_command = self.editor.text.startswith("/")
        if starts_command and not self._is_command_started:
            self.post_message(self.CommandsWanted())
        self._is_command_started = starts_command
        if row == 0 and (command := _COMMAND_PATTERN.fullmatch(before)):
            self._offer_commands(command[1].lower())
        elif mention := _MENTION_PATTERN.search(before):
            self._files_offered.clear()
            self._offer_files(mention[1])
        else:
            self._close_popup()

    def _close_popup(self) -> None:
        self._searching_history = False
        self._listing_task = None
        self._mention_ended.set()
        self._files_offered.set()
        self.workers.cancel_group(self, "files")
        self.popup.close()

    def _offer_commands(self, query: str) -> None:
        ranked = sorted(
            (not name.startswith(query), name, title)
            for name, title in self._commands
            if name.startswith(query) or (query and (query in name or f" {query}" in f" {title.lower()}"))
        )
        choices = [CompletionSuggestion(name, f"/{name}", title) for _, name, title in ranked]
        self.popup.show_suggestions("command", choices)

    @work(group="files", exclusive=True, exit_on_error=False, description="complete files")
    async def _offer_files(self, query: str) -> None:
        index = self._path_index
        if self._listing_task is None:
            self._mention_ended = Event()
            self._listing_task = asyncio.create_task(asyncio.to_thread(self._list_files, index, self._mention_ended))
        # The next typed character cancels this search, but not the listing of files.
        listing, wait_seconds, is_first = self._listing_task, _LISTING_WAIT_SECONDS, True
        while True:
            await asyncio.wait({listing}, timeout=wait_seconds)
            is_complete = listing.done()
            if is_complete:
                listing.result()
            search_cancelled = Event()
            try:
                matches = await asyncio.to_thread(index.find_paths, query, search_cancelled.is_set)
            finally:
                search_cancelled.set()
            # Keep the highlighted file while the list grows.
            suggestions = [CompletionSuggestion(path, path) for path in matches]
            self.popup.show_suggestions("file", suggestions, keep_choice=not is_first)
            self._files_offered.set()
            if is_complete:
                return
            wait_seconds, is_first = 2 * wait_seconds, False

    async def _wait_for_files(self, key: str) -> None:
        """Return when the list of files fits the text, if a key accepts one, or after a second."""
        if key == "tab" or (key == "enter" and self.popup.is_open):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._files_offered.wait(), _MAX_OFFER_WAIT_SECONDS)

    @cached_property
    def _path_index(self) -> "PathIndex":
        from widgets.chat.path_index import PathIndex

        return PathIndex()

    def _list_files(self, index: "PathIndex", cancelled: Event) -> None:
        index.rebuild(self._files(), cancelled.is_set)

    def action_search_history(self) -> None:
        """Search the sent messages for the text in the composer."""
        if self._searching_history:
            self.popup.move_highlight(1)
            return
        self._unsent_draft = self.editor.draft
        self._searching_history = True
        if self._search_history() or not self._history:
            self._offer_history_matches()
        else:
            # No sent message contains the draft: select the draft, so that the first typed character replaces it.
            self.editor.select_all()
            self.popup.show_suggestions("history", self._history_suggestions(self._history), _HISTORY_TITLE)

    def _offer_history_matches(self) -> None:
        matches = self._search_history()
        title = _HISTORY_TITLE if matches else _NO_MATCH_TITLE
        self.popup.show_suggestions("history", self._history_suggestions(matches), title)

    def _search_history(self) -> list[str]:
        query = self.editor.text.lower()
        return [text for text in self._history if query in text.lower()]

    def _history_suggestions(self, texts: Sequence[str]) -> list[CompletionSuggestion]:
        """Return suggestions without duplicates, latest first."""
        latest = islice(dict.fromkeys(reversed(texts)), _MAX_HISTORY_MATCHES)
        return [CompletionSuggestion(text, text) for text in latest]

    @on(CompletionPopup.Chosen)
    def accept_clicked_suggestion(self, event: CompletionPopup.Chosen) -> None:
        """Accept the clicked suggestion."""
        event.stop()
        self._accept_suggestion(event.choice, enter=True)
        self.screen.set_focus(self.editor)

    def _accept_suggestion(self, choice: CompletionSuggestion, enter: bool) -> None:
        match self.popup.source:
            case "history":
                self._set_text(choice.value)
            case "command":
                self._set_text(f"/{choice.value}" if enter else f"/{choice.value} ")
                if enter:
                    self.action_send()
            case "file":
                self._complete_mention(choice.value)

    def _complete_mention(self, path: str) -> None:
        row, column = self.editor.cursor_location
        mention = _MENTION_PATTERN.search(self.editor.document.get_line(row)[:column])
        if mention is None:
            return
        text = f"{format_mention(path)} "
        result = self.editor.replace(text, (row, mention.start()), (row, column), maintain_selection_offset=False)
        self.editor.move_cursor(result.end_location)
        self._close_popup()
