"""The chat column: the composer, which the first frame already shows, and the chat above it."""

from abc import abstractmethod
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.widget import Widget

from widgets.chat.composer import Composer
from widgets.common.containers import Column

if TYPE_CHECKING:
    from widgets.chat.chat_pane import ChatPane


class ComposerQuestionBarBase(Widget):
    """Base class of a bar above the composer that asks the user; keys answer it while the composer is empty."""

    @abstractmethod
    def handle_text_change(self) -> None:
        """React to a change of the text in the composer."""

    @abstractmethod
    def require_repaint(self) -> None:
        """Ignore keys until the question has been painted again."""


class ChatColumn(Column):
    """The composer with the chat above it."""

    DEFAULT_CSS = """
    ChatColumn {
        width: 1fr;
        height: 1fr;
        layers: arriving default;
        overflow: hidden;
        background: $background;
    }
    """

    def __init__(self, composer: Composer, pane: "ChatPane | None" = None) -> None:
        super().__init__()
        self.composer = composer
        self._pane = pane
        self._bar: ComposerQuestionBarBase | None = None

    def compose(self) -> ComposeResult:
        """Compose the chat or its placeholder, and the composer below."""
        yield self._pane or Column(id="front-chat")
        yield self.composer

    def attach_pane(self, pane: "ChatPane") -> None:
        """Forward the composer's messages to this chat from now on."""
        self._pane = pane
        self._share_height()

    def on_resize(self) -> None:
        """Limit the composer, a question's options and the to-do list to a third of the height each."""
        self._share_height()

    def _share_height(self) -> None:
        third = self.size.height // 3
        self.composer.set_max_height(third)
        if self._pane is not None:
            self._pane.question_bar.set_max_height(third)
            self._pane.todo_bar.set_max_height(third)

    def on_click(self) -> None:
        """Focus the composer, unless a widget of the column has the focus."""
        if not self.has_focus_within:
            self.screen.set_focus(self.composer.editor)

    @on(Composer.Submitted)
    def forward_submitted(self, event: Composer.Submitted) -> None:
        """Let the chat answer an open question with the message; otherwise the message goes on to the app."""
        if self._pane is not None:
            self._pane.answer_open_question(event)

    @on(Composer.DraftChanged)
    def record_typing(self) -> None:
        """Report typing to the question and to the chat."""
        if self._bar is not None:
            self._bar.handle_text_change()
        if self._pane is not None:
            self._pane.record_typing()

    def show_question(self, bar: ComposerQuestionBarBase) -> None:
        """Show a question above the composer."""
        self._bar = bar
        self.mount(bar, before=self.composer)

    def require_repaint(self) -> None:
        """Ignore the keys of the question until it has been painted again."""
        if self._bar is not None:
            self._bar.require_repaint()

    @on(Composer.PageWanted)
    def page_transcript(self, event: Composer.PageWanted) -> None:
        """Scroll the transcript by a page; the focus stays in the composer."""
        event.stop()
        if self._pane is None:
            return
        if event.direction > 0:
            self._pane.transcript.action_page_down()
        else:
            self._pane.transcript.action_page_up()

    @on(Composer.UnknownCommand)
    def report_unknown_command(self, event: Composer.UnknownCommand) -> None:
        """Notify the user that an unknown command was not sent."""
        event.stop()
        text = f"There is no command /{event.name}. Put a space before it to send it as a message."
        self.notify(text, severity="warning", markup=False)
