"""The session picker: search, a look into the conversation, and what to do with it."""

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.conversation.events import AssistantMessage, Event, ProposalStaged, UserMessage
from app.plural import plural
from app.safe_text import visible
from app.storage.errors import StorageError
from app.storage.sessions import SessionRecord, SessionStore
from app.ui.screens.ask import AskScreen
from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint
from widgets.common.search_list import Choice, SearchList

_NONE_YET = "No session is kept here yet. One begins with your first message."
_LAST_MESSAGES = 6
_MARKED = re.compile(r"\*\*([^*\n]+)\*\*|`([^`\n]+)`")
_LONGEST = 600
"""Characters of a message in the preview."""
_LOOK_BACK = 400
"""Events at the end of a session that the preview looks at."""


class SessionScreen(Dialog[SessionRecord]):
    """The workspace's sessions, the latest first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+d", "delete", "Delete", priority=True)]
    HEADING = "Sessions"
    KEYS = (
        KeyHint("", "type to search"),
        KeyHint("up,down", "choose"),
        KeyHint("enter", "open"),
        KeyHint("ctrl+d", "delete"),
        KeyHint("escape", "close"),
    )

    DEFAULT_CSS = """
    SessionScreen {
        & > #dialog { width: 130; }
        #session-panes { height: 1fr; }
        SearchList { width: 5fr; }
        #session-preview { width: 6fr; height: 1fr; padding: 0 1; border-left: vkey $foreground 15%; }
        #session-text { height: auto; }
        &.-narrow {
            #session-panes { layout: vertical; }
            SearchList { width: 1fr; height: 1fr; }
            #session-preview { width: 1fr; height: 40%; border-left: none; border-top: solid $foreground 15%; }
        }
    }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (96, "-wide")]  # noqa: RUF012

    def __init__(self, store: SessionStore, current: str) -> None:
        """`current` is the id of the open session."""
        super().__init__()
        self._store = store
        self._current = current
        self._records: dict[str, SessionRecord] = {}

    def body(self) -> Iterable[Widget]:
        """List and preview."""
        with Horizontal(id="session-panes"):
            yield SearchList("Search titles, models and ids", empty=_NONE_YET)
            with VerticalScroll(id="session-preview", can_focus=False):
                yield Static(id="session-text", markup=False)

    def on_mount(self) -> None:
        """Load the list."""
        self._load()

    @work(group="list", exclusive=True, exit_on_error=False, description="list sessions")
    async def _load(self) -> None:
        try:
            records = await asyncio.to_thread(self._store.all)
        except StorageError as error:
            self._preview(Content(visible(str(error))))
            return
        self._records = {record.id: record for record in records}
        now = time.time()
        self.query_one(SearchList).set_choices(
            [_choice(record, now, current=record.id == self._current) for record in records], self._current
        )
        self.say(plural(len(records), "session") if records else "")
        self.query_one("#session-preview").display = bool(records)

    @on(SearchList.Highlighted)
    def look(self, event: SearchList.Highlighted) -> None:
        """Show how the conversation went on last."""
        record = self._records.get(event.choice.key) if event.choice else None
        if record is None:
            self._preview(Content(""))
        else:
            self._look(record)

    @work(group="preview", exclusive=True, exit_on_error=False, description="preview a session")
    async def _look(self, record: SessionRecord) -> None:
        # Whoever runs down the list wants no preview of what is passed by.
        await asyncio.sleep(0.05)
        try:
            events = await asyncio.to_thread(self._store.last_events, record.id, _LOOK_BACK)
        except StorageError as error:
            self._preview(Content(visible(str(error))))
            return
        self._preview(preview(record, events))

    def _preview(self, content: Content) -> None:
        self.query_one("#session-text", Static).update(content)
        self.query_one("#session-preview", VerticalScroll).scroll_end(animate=False)

    @on(SearchList.Picked)
    def pick(self, event: SearchList.Picked) -> None:
        """Open it."""
        if event.choice is not None:
            self.dismiss(self._records[event.choice.key])

    @work(group="delete", exclusive=True, exit_on_error=False, description="delete a session")
    async def action_delete(self) -> None:
        """Delete the session under the cursor, after a question."""
        choice = self.query_one(SearchList).choice
        if choice is None:
            return
        if choice.key == self._current:
            self.say("this one is open")
            return
        record = self._records[choice.key]
        question = (
            f"“{record.title or 'Untitled'}” of {_when(record.updated)} is deleted for good.\n"
            "Its proposals and the record of your decisions stay."
        )
        if not await self.app.push_screen_wait(AskScreen("Delete this session?", question, "delete", "keep")):
            return
        try:
            await asyncio.to_thread(self._store.delete, [record.id])
        except StorageError as error:
            self._preview(Content(visible(str(error))))
            return
        self._load()


def preview(record: SessionRecord, events: Sequence[Event]) -> Content:
    """The last messages of a session."""
    parts: list[Content] = []
    for event in events:
        match event:
            case UserMessage():
                parts.append(_said("❯ ", "bold $text-accent", event.text))
            case AssistantMessage() if event.text.strip() and event.state != "discarded":
                parts.append(_said("● ", "$text-primary", event.text))
            case ProposalStaged():
                parts.append(_said(f"{event.proposal} ", "bold $text-warning", event.summary))
    facts = f"{record.id} · {visible(record.model, keep='') or 'no model'} · {_when(record.updated)}"
    head = Content.styled(facts, "$foreground 65%")
    return Content("\n\n").join([head, *parts[-_LAST_MESSAGES:]])


def _said(mark: str, style: str, text: str) -> Content:
    text = text.strip()
    short = text if len(text) <= _LONGEST else text[:_LONGEST].rstrip() + " …"
    return Content.assemble((visible(mark), style), _inline(visible(short)))


def _inline(text: str) -> Content:
    """Text with the commonest of Markdown shown rather than spelt: bold and code."""
    parts: list[str | tuple[str, str]] = []
    position = 0
    for found in _MARKED.finditer(text):
        bold, code = found.groups()
        parts += [text[position : found.start()], (bold, "bold") if bold else (code, "$text-secondary")]
        position = found.end()
    return Content.assemble(*parts, text[position:])


def _choice(record: SessionRecord, now: float, *, current: bool) -> Choice:
    title = visible(record.title, keep="") or "Untitled"
    mark = ("● ", "$text-accent") if current else "  "
    forked = f" · copy of {record.forked_from}" if record.forked_from else ""
    label = Content.assemble(
        mark,
        (title, "bold" if current else ""),
        "\n  ",
        (f"{_ago(now - record.updated)} · {visible(record.model, keep='')}{forked}", "$foreground 65%"),
    )
    return Choice(record.id, label, f"{record.title} {record.model} {record.id}")


def _ago(seconds: float) -> str:
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def _when(moment: float) -> str:
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")
