"""The wire view: the exact last request, with the program's own words and the ladder's decisions marked."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any

from textual import work
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.conversation.events import Event, LadderMove, TurnStarted
from app.images.image import format_bytes
from app.llm.wires.wire_registry import SentRequest
from app.text.plural import plural
from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import Dialog, DialogKey
from widgets.common.text_view import TextLine, TextView


class WireScreen(Dialog[None]):
    """The request's body as formatted JSON."""

    HEADING = "Wire · the last request"
    KEYS = (
        DialogKey("s", "next system message", "next_system"),
        DialogKey("t", "tools", "tools"),
        DialogKey("d", "why it was sent", "decisions"),
        DialogKey("c", "copy all", "copy"),
        DialogKey("g,G", "top, end"),
        DialogKey("escape", "close"),
    )

    DEFAULT_CSS = """
    WireScreen {
        TextView { height: 1fr; margin-top: 1; }
    }
    """

    def __init__(self, request: SentRequest, moves: Sequence[LadderMove] = ()) -> None:
        super().__init__(classes="-large")
        self._moves = moves
        self._body = reorder_body(request.make_body())
        self._facts = request_summary(request, self._body)

    def compose_body(self) -> Iterable[Widget]:
        yield Static(self._facts, classes="text")
        yield TextView()

    def on_mount(self) -> None:
        """Lay it out on a thread, since a payload may be long."""
        self._show()

    @work(exit_on_error=False, description="lay out the payload")
    async def _show(self) -> None:
        import asyncio

        lines = [*await asyncio.to_thread(body_lines, self._body), *decision_lines(self._moves)]
        view = self.query_one(TextView)
        view.set_lines(lines)
        view.focus()
        self.show_status(f"{len(lines)} lines")

    def action_next_system(self) -> None:
        """Go to the next message of the program; after the last, to the first."""
        view = self.query_one(TextView)
        marked = view.marked_lines("program")
        top = view.first_line + 2
        following = [line for line in marked if line > top and not view.is_at_end]
        if marked:
            view.go_to_line(following[0] if following else marked[0])

    def action_tools(self) -> None:
        """Go to the tools."""
        self._go_to_heading(0)

    def action_decisions(self) -> None:
        """Go to the decisions of the turn."""
        self._go_to_heading(-1)

    def _go_to_heading(self, which: int) -> None:
        view = self.query_one(TextView)
        if marked := view.marked_lines("heading"):
            view.go_to_line(marked[which])

    def action_copy(self) -> None:
        """Copy the whole request as JSON."""
        self.app.copy_to_clipboard(format_body(self._body))
        self.notify("Copied.", timeout=2)


def ladder_moves_of_last_turn(events: Sequence[Event]) -> list[LadderMove]:
    """Return the ladder's decisions of the last turn, in order."""
    newest_first = takewhile(lambda event: not isinstance(event, TurnStarted), reversed(events))
    return [event for event in newest_first if isinstance(event, LadderMove)][::-1]


def decision_lines(moves: Sequence[LadderMove]) -> list[TextLine]:
    """Return a heading and a line for each decision: time, rung, next action and facts."""
    if not moves:
        return []
    lines = [TextLine((("", ""),)), TextLine((("Decisions of the last turn", "key"),), "heading")]
    for move in moves:
        when = datetime.fromtimestamp(move.time).strftime("%H:%M:%S")
        lines.append(TextLine(((f"{when}  ", "quiet"), (escape_unsafe(move.description, keep=""), "string"))))
    return lines


_SPOKEN = ("messages", "input")
"""Names of the conversation's field, by wire."""
_PROMPT = ("system", "instructions")
"""Names of a separate field for the system prompt."""


def reorder_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with long values after short ones and tools last; of images only the size."""
    body = _without_bytes(body)
    last = [name for name in (*_PROMPT, *_SPOKEN, "tools") if name in body]
    return {name: value for name, value in body.items() if name not in last} | {name: body[name] for name in last}


_BYTES = ("url", "image_url", "data")
"""Names of fields with image data."""


def _without_bytes(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: _bytes_left_out(inner) if key in _BYTES and isinstance(inner, str) else _without_bytes(inner)
                for key, inner in value.items()
            }
        case list():
            return [_without_bytes(inner) for inner in value]
    return value


def _bytes_left_out(text: str) -> str:
    """Return Base64 data, with or without the head of a data URL, as its size."""
    head, comma, data = text.rpartition(",")
    return f"{head}{comma}[{format_bytes(len(data) * 3 // 4)} of base64]"


def format_body(body: dict[str, Any]) -> str:
    """Return the body as text for copying."""
    return json.dumps(body, ensure_ascii=False, indent=2)


def request_summary(request: SentRequest, body: dict[str, Any]) -> Content:
    """Return one line about a request: endpoint, model, size, tool choice."""
    payload = request.payload
    spoken = sum(message.get("role") in _PROGRAM for message in payload.messages)
    apart = any(name in body for name in _PROMPT)
    parts = [
        Content(request.wire.title),
        Content(f"{len(payload.messages)} messages, {spoken} by signoff{' and the prompt' if apart else ''}"),
        Content(plural(len(payload.tools), "tool")),
    ]
    if payload.tool_choice is None:
        parts.append(Content.styled("The model may call tools", "$text-success"))
    else:
        text = f'closing request: tool_choice "{payload.tool_choice}"'
        parts.append(Content.styled(escape_unsafe(text, keep=""), "bold $text-warning"))
    return Content(" · ").join(parts)


def body_lines(body: dict[str, Any]) -> list[TextLine]:
    """Return the coloured lines of `format_body`, with system messages, `tools` and `tool_choice` marked."""
    lines: list[TextLine] = [TextLine((("{", "quiet"),))]
    keys = list(body)
    for key in keys:
        comma = "," if key != keys[-1] else ""
        if key in _SPOKEN and body[key]:
            lines.append(TextLine((("  ", ""), (f'"{key}"', "key"), (": [", "quiet"))))
            for number, message in enumerate(body[key]):
                end = "," if number < len(body[key]) - 1 else ""
                lines += _block(message, "    ", end, "program" if message.get("role") in _PROGRAM else "")
            lines.append(TextLine(((f"  ]{comma}", "quiet"),)))
            continue
        found = _block(body[key], "  ", comma, _MARKS.get(key, ""), key=key)
        if key == "tools":
            found[0] = TextLine(found[0].pieces, "heading")
        lines += found
    lines.append(TextLine((("}", "quiet"),)))
    return lines


_PROGRAM = ("system", "developer")
_MARKS = {"tool_choice": "important", **dict.fromkeys(_PROMPT, "program")}


def _block(value: Any, indent: str, end: str, mark: str, key: str = "") -> list[TextLine]:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    rows = text.split("\n")
    rows[0] = (f'"{key}": ' if key else "") + rows[0]
    rows[-1] += end
    return [TextLine(_pieces(indent + row), mark) for row in rows]


def _pieces(row: str) -> tuple[tuple[str, str], ...]:
    stripped = row.lstrip()
    indent = row[: len(row) - len(stripped)]
    if stripped.startswith('"'):
        name, colon, value = stripped.partition('": ')
        if colon:
            return ((indent, ""), (f'{name}"', "key"), (": ", "quiet"), (value, _role(value)))
    return ((indent, ""), (stripped, _role(stripped)))


def _role(value: str) -> str:
    if value[:1] in "{}[]":
        return "quiet"
    return "string" if value.startswith('"') else "number"
