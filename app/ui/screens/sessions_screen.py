"""The session picker (search, preview, rename, fork, delete), and the search over all sessions."""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from textual import on, work
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from app.conversation.events import AssistantMessage, Event, ProposalStaged, UserMessage
from app.storage import StorageError
from app.storage.session_search import MAX_HITS, SessionSearch, SessionSearchHit
from app.storage.session_store import SessionRecord, SessionStore
from app.text.quantities import format_count, format_time
from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import ConfirmScreen, Dialog, DialogKey, PreviewedListDialog
from widgets.common.search_list import ListChoice, SearchList

_NO_SESSIONS = "No session here yet. One begins with your first message."
_MAX_PREVIEW_MESSAGES = 6
_BOLD_OR_CODE = re.compile(r"\*\*([^*\n]+)\*\*|`([^`\n]+)`")
_MAX_MESSAGE_CHARACTERS = 600
"""Largest number of characters of a message in the preview."""
_MAX_PREVIEW_EVENTS = 400
"""Number of last events that the preview reads."""


class SessionPickerScreen(PreviewedListDialog[SessionRecord]):
    """The sessions of the workspace: pinned ones first, then the latest; the result is the picked one.

    Args:
        is_open: Returns whether any window has the session with this id open; then it cannot be deleted.
    """

    HEADING = "Sessions"
    KEYS = (
        DialogKey("", "type to search"),
        DialogKey("up,down", "choose"),
        DialogKey("enter", "open"),
        DialogKey("ctrl+t", "pin", "pin", priority=True),
        DialogKey("ctrl+r", "rename", "rename", priority=True),
        DialogKey("ctrl+d", "delete", "delete", priority=True),
        DialogKey("escape", "close"),
    )

    def __init__(self, store: SessionStore, current_id: str, is_open: Callable[[str], bool]) -> None:
        super().__init__()
        self._store = store
        self._is_open = is_open
        self._current_id = current_id
        self._records: dict[str, SessionRecord] = {}

    def search_list(self) -> SearchList:
        return SearchList("Search titles, models and ids", empty_text=_NO_SESSIONS)

    def on_mount(self) -> None:
        self._load_sessions()

    @work(group="list", exclusive=True, exit_on_error=False, description="list sessions")
    async def _load_sessions(self) -> None:
        try:
            records = await asyncio.to_thread(self._store.all)
        except StorageError as error:
            self.show_preview(str(error))
            return
        records.sort(key=lambda record: not record.pinned)
        self._records = {record.id: record for record in records}
        now = time.time()
        self.query_one(SearchList).set_choices(
            [_session_choice(record, now, current=record.id == self._current_id) for record in records],
            self._current_id,
        )
        self.show_status(format_count(len(records), "session") if records else "")
        self.query_one("#preview").display = bool(records)

    @on(SearchList.Highlighted)
    def preview_session(self, event: SearchList.Highlighted) -> None:
        """Preview the end of the highlighted session."""
        record = self._records.get(event.choice.key) if event.choice else None
        if record is None:
            self.show_preview("")
        else:
            self._load_preview(record)

    @work(group="preview", exclusive=True, exit_on_error=False, description="preview a session")
    async def _load_preview(self, record: SessionRecord) -> None:
        # Skip previews while the user scrolls quickly.
        await asyncio.sleep(0.05)
        try:
            events = await asyncio.to_thread(self._store.last_events, record.id, _MAX_PREVIEW_EVENTS)
        except StorageError as error:
            self.show_preview(str(error))
            return
        self.show_preview(session_preview(record, events), end=True)

    @on(SearchList.Picked)
    def open_session(self, event: SearchList.Picked) -> None:
        """Close with the picked session."""
        if event.choice is not None and (record := self._records.get(event.choice.key)) is not None:
            self.dismiss(record)

    def action_delete(self) -> None:
        """Delete the highlighted session, after a question."""
        choice = self.query_one(SearchList).highlighted
        if choice is not None and choice.key == self._current_id:
            self.show_status("this one is open")
        elif choice is not None and self._is_open(choice.key):
            self.show_status("this one is open in another window")
        elif choice is not None:
            self._delete_session(self._records[choice.key])

    @work(group="delete", exclusive=True, exit_on_error=False, description="delete a session")
    async def _delete_session(self, record: SessionRecord) -> None:
        question = (
            f"“{record.title or 'Untitled'}” of {format_time(record.updated)} is deleted for good.\n"
            "Its proposals and the record of your decisions stay."
        )
        if await self.app.push_screen_wait(ConfirmScreen("Delete this session?", question, "delete", "keep")):
            await self._change_and_reload(self._store.delete, [record.id])

    @work(group="pin", exclusive=True, exit_on_error=False, description="pin a session")
    async def action_pin(self) -> None:
        """Pin or unpin the highlighted session; pruning keeps pinned ones."""
        if (choice := self.query_one(SearchList).highlighted) is not None:
            await self._change_and_reload(self._store.pin, choice.key, not self._records[choice.key].pinned)

    @work(group="rename", exclusive=True, exit_on_error=False, description="rename a session")
    async def action_rename(self) -> None:
        """Let the user edit the title of the highlighted session."""
        if (choice := self.query_one(SearchList).highlighted) is not None:
            title = await self.app.push_screen_wait(SessionTitleScreen(self._records[choice.key].title))
            if title:
                await self._change_and_reload(self._store.rename, choice.key, title)

    async def _change_and_reload(self, change: Callable[..., None], *values: object) -> None:
        try:
            await asyncio.to_thread(change, *values)
        except StorageError as error:
            self.show_preview(str(error))
            return
        self._load_sessions()


class SessionTitleScreen(Dialog[str]):
    """Edits the title of a session."""

    HEADING = "Title"
    KEYS = (DialogKey("enter", "save"), DialogKey("escape", "cancel"))

    def __init__(self, title: str) -> None:
        super().__init__(classes="-small")
        self._title = title

    def compose_body(self) -> Iterable[Widget]:
        yield Input(self._title, select_on_focus=False)

    @on(Input.Submitted)
    def save_title(self, event: Input.Submitted) -> None:
        """Close with the entered title."""
        event.stop()
        self.dismiss(event.value.strip())


def session_preview(record: SessionRecord, events: Sequence[Event]) -> Content:
    """Return the last messages and proposals of a session."""
    parts: list[Content] = []
    for event in events:
        match event:
            case UserMessage():
                parts.append(_message_content("❯ ", "bold $text-accent", event.typed_text))
            case AssistantMessage() if event.text.strip() and event.state != "discarded":
                parts.append(_message_content("● ", "$text-primary", event.text))
            case ProposalStaged():
                parts.append(_message_content(f"{event.proposal} ", "bold $text-warning", event.summary))
    facts = f"{record.id} · {escape_unsafe(record.model, keep='') or 'no model'} · {format_time(record.updated)}"
    head = Content.styled(facts, "$foreground 65%")
    return Content("\n\n").join([head, *parts[-_MAX_PREVIEW_MESSAGES:]])


def _message_content(mark: str, style: str, text: str) -> Content:
    text = text.strip()
    short = text if len(text) <= _MAX_MESSAGE_CHARACTERS else text[:_MAX_MESSAGE_CHARACTERS].rstrip() + " …"
    return Content.assemble((escape_unsafe(mark), style), _style_markdown(escape_unsafe(short)))


def _style_markdown(text: str) -> Content:
    """Return a text with Markdown's bold and code styled."""
    parts: list[str | tuple[str, str]] = []
    position = 0
    for match in _BOLD_OR_CODE.finditer(text):
        bold, code = match.groups()
        parts += [text[position : match.start()], (bold, "bold") if bold else (code, "$text-secondary")]
        position = match.end()
    return Content.assemble(*parts, text[position:])


def _session_choice(record: SessionRecord, now: float, *, current: bool) -> ListChoice:
    title = escape_unsafe(record.title, keep="") or "Untitled"
    mark = (
        ("● ", "$text-accent") if current else ("◆ ", "$text-warning") if record.pinned else ("· ", "$foreground 35%")
    )
    forked = f" · copy of {record.forked_from}" if record.forked_from else ""
    pinned = "pinned · " if record.pinned else ""
    facts = f"{pinned}{format_age(now - record.updated)} · {escape_unsafe(record.model, keep='')}{forked}"
    label = Content.assemble(mark, (title, "bold" if current else ""), "\n  ", (facts, "$foreground 65%"))
    return ListChoice(record.id, label, f"{record.title} {record.model} {record.id}")


def format_age(seconds: float) -> str:
    """Return an age such as `2 days ago`."""
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{format_count(int(seconds // size), name)} ago"
    return "just now"


_SEARCH_HINT = "Every message, proposal, file and side question of this workspace's sessions is searched."
_EXCERPT_CHARACTERS, _EXCERPT_LEAD_CHARACTERS = 96, 24
"""Characters of an excerpt in the list, and at most how many of them precede the first match."""
_PREVIEW_CHARACTERS, _PREVIEW_LEAD_CHARACTERS = 6_000, 1_500
"""Characters of the preview, and at most how many of them precede the first match."""
_KIND_MARKS = {
    "you": ("❯", "$text-accent"),
    "model": ("●", "$text-primary"),
    "question": ("?", "$text-warning"),
    "proposal": ("±", "$text-warning"),
    "decision": ("✎", "$text-accent"),
    "file": ("▤", "$foreground 65%"),
    "asked": ("❯", "$foreground 65%"),
    "answered": ("●", "$foreground 65%"),
}
_KIND_NAMES = {
    "you": "you",
    "model": "the model",
    "question": "a question to you",
    "proposal": "a proposal",
    "decision": "your feedback",
    "file": "files that were read",
    "asked": "you, aside",
    "answered": "the model, aside",
}


class SessionSearchScreen(PreviewedListDialog[SessionSearchHit]):
    """Searches all sessions while the user types; the result is the picked match."""

    HEADING = "Search"
    KEYS = (
        DialogKey("", "type to search"),
        DialogKey("up,down", "choose"),
        DialogKey("enter", "go to it"),
        DialogKey("escape", "close"),
    )

    def __init__(self, search: SessionSearch, query: str = "") -> None:
        super().__init__()
        self._search = search
        self._typed_query = query
        self._hits: dict[str, SessionSearchHit] = {}
        """Matches by the key of their choice; keys of an earlier search are ignored."""

    def search_list(self) -> SearchList:
        return SearchList(
            "Search all sessions", empty_text=_SEARCH_HINT, no_match_text="No match.", searches_elsewhere=True
        )

    def on_mount(self) -> None:
        self.query_one("#preview").display = False
        choices = self.query_one(SearchList)
        choices.set_choices([])
        choices.set_query(self._typed_query)

    @on(SearchList.QueryChanged)
    @work(group="search", exclusive=True, exit_on_error=False, description="search the sessions")
    async def search(self, event: SearchList.QueryChanged) -> None:
        """Search for the typed words."""
        query = event.text
        try:
            hits = await asyncio.to_thread(self._search.find, query)
        except StorageError as error:
            self._show_hits(query, [], problem=str(error))
            self.show_status("")
            return
        self._show_hits(query, hits)
        more = "+" if len(hits) == MAX_HITS else ""
        self.show_status(f"{len(hits)}{more} {'place' if len(hits) == 1 else 'places'}" if query.strip() else "")

    def _show_hits(self, query: str, hits: Sequence[SessionSearchHit], *, problem: str = "") -> None:
        self._typed_query, self._hits = query, {str(hit.event): hit for hit in hits}
        now = time.time()
        self.query_one("#preview").display = bool(hits)
        choices = [_hit_choice(key, hit, query, now) for key, hit in self._hits.items()]
        self.query_one(SearchList).set_choices(choices, problem=problem)

    @on(SearchList.Highlighted)
    def preview_hit(self, event: SearchList.Highlighted) -> None:
        """Preview the highlighted match."""
        if event.choice is not None and (hit := self._hits.get(event.choice.key)) is not None:
            self.show_preview(_hit_preview(hit, self._typed_query))

    @on(SearchList.Picked)
    def return_hit(self, event: SearchList.Picked) -> None:
        """Close with the picked match."""
        if event.choice is not None and (hit := self._hits.get(event.choice.key)) is not None:
            self.dismiss(hit)


def _hit_choice(key: str, hit: SessionSearchHit, query: str, now: float) -> ListChoice:
    mark, style = _KIND_MARKS[hit.kind]
    excerpt = _make_excerpt(" ".join(hit.text.split()), query, _EXCERPT_CHARACTERS, _EXCERPT_LEAD_CHARACTERS)
    facts = f"\n  {format_age(now - hit.time)} · {escape_unsafe(hit.title, keep='') or 'Untitled'}"
    label = Content.assemble((f"{mark} ", style), _underline_words(excerpt, query), (facts, "$foreground 65%"))
    return ListChoice(key, label, "")


def _hit_preview(hit: SessionSearchHit, query: str) -> Content:
    head = Content.styled(f"{_KIND_NAMES[hit.kind]} · {format_time(hit.time)}", "$foreground 65%")
    excerpt = _make_excerpt(hit.text.strip(), query, _PREVIEW_CHARACTERS, _PREVIEW_LEAD_CHARACTERS)
    return Content("\n\n").join([head, _underline_words(excerpt, query)])


def _make_excerpt(text: str, query: str, length: int, lead_length: int) -> str:
    """Return an excerpt of a text around the first match."""
    first = next(_find_words(text, query), None)
    start = max(0, min(first.start() - lead_length, len(text) - length)) if first else 0
    start_mark, end_mark = "… " if start else "", " …" if start + length < len(text) else ""
    return f"{start_mark}{text[start : start + length]}{end_mark}"


def _underline_words(text: str, query: str) -> Content:
    """Return the text with all occurrences of the words underlined."""
    shown = escape_unsafe(text)
    content = Content(shown)
    for match in _find_words(shown, query):
        content = content.stylize("bold underline", *match.span())
    return content


def _find_words(text: str, query: str) -> Iterator[re.Match[str]]:
    """Yield the occurrences of the typed words in the text."""
    return re.finditer("|".join(map(re.escape, _split_words(query))), text, re.IGNORECASE)


def _split_words(query: str) -> Sequence[str]:
    return sorted(set(re.findall(r"[^\W_]+", query)), key=len, reverse=True)
