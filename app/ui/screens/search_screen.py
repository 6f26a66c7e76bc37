"""Search over all sessions."""

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime

from textual import on, work
from textual.content import Content

from app.storage.session_search import MAX_HITS, SearchHit, SessionSearch
from app.storage.storage_errors import StorageError
from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import PreviewDialog
from app.ui.screens.sessions_screen import format_age
from widgets.common.key_hints import KeyHint
from widgets.common.search_list import Choice, SearchList

_WHAT_FOR = "Every message, proposal, file and side question of this workspace's sessions is searched."
_SNIPPET, _BEFORE = 96, 24
"""Characters of a place in the list, and how many of them may stand before the first word that was found."""
_LONGEST, _ABOVE = 6_000, 1_500
"""Characters in the preview, and how many of them may stand before the first word that was found."""
_KINDS = {
    "you": ("❯", "$text-accent"),
    "model": ("●", "$text-primary"),
    "question": ("?", "$text-warning"),
    "proposal": ("±", "$text-warning"),
    "decision": ("✎", "$text-accent"),
    "file": ("▤", "$foreground 65%"),
    "asked": ("❯", "$foreground 65%"),
    "answered": ("●", "$foreground 65%"),
}
_NAMES = {
    "you": "you",
    "model": "the model",
    "question": "a question to you",
    "proposal": "a proposal",
    "decision": "your feedback",
    "file": "files that were read",
    "asked": "you, aside",
    "answered": "the model, aside",
}


class SearchScreen(PreviewDialog[SearchHit]):
    """Searches while the user types; the picked match is the result."""

    HEADING = "Search"
    KEYS = (
        KeyHint("", "type to search"),
        KeyHint("up,down", "choose"),
        KeyHint("enter", "open there"),
        KeyHint("escape", "close"),
    )

    def __init__(self, search: SessionSearch, words: str = "") -> None:
        super().__init__()
        self._search = search
        self._words = words
        self._found: dict[str, SearchHit] = {}
        """By the keys of their choices; a key that comes late is of another search, and means nothing any more."""

    def search_list(self) -> SearchList:
        """Return the list of results."""
        return SearchList("Search all sessions", empty=_WHAT_FOR, unmatched="Nowhere.", asks=True)

    def on_mount(self) -> None:
        """Begin."""
        self.query_one("#preview").display = False
        choices = self.query_one(SearchList)
        choices.set_choices([])
        choices.set_query(self._words)

    @on(SearchList.Asked)
    def search(self, event: SearchList.Asked) -> None:
        """Search as soon as something was typed."""
        self._look_for(event.text)

    @work(group="search", exclusive=True, exit_on_error=False, description="search the sessions")
    async def _look_for(self, words: str) -> None:
        try:
            found = await asyncio.to_thread(self._search.find, words)
        except StorageError as error:
            self._show(words, [], problem=str(error))
            self.say("")
            return
        self._show(words, found)
        more = "+" if len(found) == MAX_HITS else ""
        self.say(f"{len(found)}{more} {'place' if len(found) == 1 else 'places'}" if words.strip() else "")

    def _show(self, words: str, found: Sequence[SearchHit], *, problem: str = "") -> None:
        self._words, self._found = words, {str(one.event): one for one in found}
        now = time.time()
        self.query_one("#preview").display = bool(found)
        choices = [_choice(key, one, words, now) for key, one in self._found.items()]
        self.query_one(SearchList).set_choices(choices, problem=problem)

    @on(SearchList.Highlighted)
    def look(self, event: SearchList.Highlighted) -> None:
        """Show the selected event."""
        if event.choice is not None and (found := self._found.get(event.choice.key)) is not None:
            self.show_preview(_preview(found, self._words))

    @on(SearchList.Picked)
    def pick(self, event: SearchList.Picked) -> None:
        """Go there."""
        if event.choice is not None and (found := self._found.get(event.choice.key)) is not None:
            self.dismiss(found)


def _choice(key: str, found: SearchHit, words: str, now: float) -> Choice:
    mark, style = _KINDS[found.kind]
    title = escape_unsafe(found.title, keep="") or "Untitled"
    label = Content.assemble(
        (f"{mark} ", style),
        _marked(_part(" ".join(found.text.split()), words, _SNIPPET, _BEFORE), words),
        "\n  ",
        (f"{format_age(now - found.time)} · {title}", "$foreground 65%"),
    )
    return Choice(key, label, "")


def _preview(found: SearchHit, words: str) -> Content:
    when = datetime.fromtimestamp(found.time).strftime("%Y-%m-%d %H:%M")
    head = Content.styled(f"{_NAMES[found.kind]} · {when}", "$foreground 65%")
    return Content("\n\n").join([head, _marked(_part(found.text.strip(), words, _LONGEST, _ABOVE), words)])


def _part(text: str, words: str, length: int, before: int) -> str:
    """As much of a text as fits, around the first place that has one of the words."""
    first = next(_places(text, words), None)
    start = max(0, min(first.start() - before, len(text) - length)) if first else 0
    lead, end = "… " if start else "", " …" if start + length < len(text) else ""
    return f"{lead}{text[start : start + length]}{end}"


def _marked(text: str, words: str) -> Content:
    """Return the text with all occurrences of the words underlined."""
    shown = escape_unsafe(text)
    content = Content(shown)
    for place in _places(shown, words):
        content = content.stylize("bold underline", *place.span())
    return content


def _places(text: str, words: str) -> Iterator[re.Match[str]]:
    """Yield the occurrences of the typed words in the text."""
    return re.finditer("|".join(map(re.escape, _parts(words))), text, re.IGNORECASE)


def _parts(words: str) -> Sequence[str]:
    return sorted(set(re.findall(r"[^\W_]+", words)), key=len, reverse=True)
