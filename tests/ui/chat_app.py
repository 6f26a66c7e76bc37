"""An app that holds nothing but the chat pane, and keeps what the pane says to it."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from textual import on
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    Event,
    ProposalStaged,
    ToolCall,
    ToolResult,
    UserMessage,
)
from app.proposals.values.decision_facts import FileDiffStat
from widgets.chat.chat_column import ChatColumn
from widgets.chat.chat_pane import ChatPane
from widgets.chat.composer import Composer
from widgets.chat.composer_lists import QueuedMessages
from widgets.chat.transcript import Transcript

SIZE = (80, 30)
COMMANDS = (("new", "New session"), ("model", "Choose a model"), ("compact", "Make room"))


class ChatApp(App[None]):
    def __init__(
        self, log: Sequence[Event] = (), files: Sequence[str] | Callable[[], Iterable[str]] = (), **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self.log_to_open = log
        self.pane = ChatPane(Composer(files if callable(files) else lambda: files))
        self.said: list[Message] = []
        self.drafts: list[str] = []

    def compose(self) -> ComposeResult:
        yield ChatColumn(self.pane.composer, self.pane)

    def on_mount(self) -> None:
        self.pane.composer.set_commands(COMMANDS)
        self.pane.focus_composer()
        if self.log_to_open:
            self.pane.show_session(self.log_to_open)

    @on(Transcript.ProposalOpened)
    @on(ChatPane.QuestionAnswered)
    @on(Transcript.LinkOpened)
    @on(Composer.Submitted)
    @on(Composer.CommandEntered)
    @on(Composer.EditorRequested)
    @on(QueuedMessages.TakeBackWanted)
    def keep(self, message: Message) -> None:
        self.said.append(message)

    @on(Composer.DraftChanged)
    def keep_draft(self, message: Composer.DraftChanged) -> None:
        self.drafts.append(message.text)

    def shown(self) -> list[str]:
        transcript = self.pane.transcript
        return [transcript.render_line(y).text.rstrip() for y in range(transcript.size.height)]


def call(uid: str, name: str = "read_file", **arguments: Any) -> ToolCall:
    return ToolCall(uid=uid, name=name, arguments=arguments)


def staged(number: int, proposal: str = "P7") -> ProposalStaged:
    stats = (FileDiffStat(path="app/fetch.py", op="edit", added=12, removed=3),)
    return ProposalStaged(id=number, proposal=proposal, summary="Back off", files=stats, calls=())


def conversation(messages: int) -> list[Event]:
    """A log with so many messages of user and model, with tools between them, each different in height."""
    log: list[Event] = []
    for number in range(messages // 2):
        first = number * 10 + 1
        uid = f"c{number}.0"
        paragraphs = "\n\n".join(
            f"Paragraph {number}.{part} " + "with words " * (part * 5) for part in range(number % 5)
        )
        text = f"Answer {number}\n\n{paragraphs}\n\n```python\n" + f"value = {number}\n" * (number % 7) + "```\n"
        log += [
            UserMessage(id=first, text=f"Question {number}"),
            AssistantMessage(id=first + 1, text=text, calls=(call(uid, path=f"file{number}.py"),)),
            ToolResult(
                id=first + 2, call=uid, outcome=CallOutcome.OK, text="1 one\n2 two", summary="2 lines", duration=0.1
            ),
        ]
        if number % 10 == 0:
            log.append(staged(first + 3, f"P{number}"))
    return log


@asynccontextmanager
async def chatting(
    log: Sequence[Event] = (),
    files: Sequence[str] | Callable[[], Iterable[str]] = (),
    size: tuple[int, int] = SIZE,
    *,
    tooltips: bool = False,
    notifications: bool = False,
) -> AsyncIterator[tuple[ChatApp, Pilot[None]]]:
    """The chat pane with a session, once all of it is on the screen."""
    app = ChatApp(log, files)
    async with app.run_test(size=size, tooltips=tooltips, notifications=notifications) as pilot:
        await pilot.pause()
        yield app, pilot
