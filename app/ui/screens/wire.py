"""The wire view: what the last request said, exactly, with the program's own words easy to find."""

import json
from collections.abc import Iterable
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.llm.types import Payload
from app.plural import plural
from app.safe_text import visible
from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint
from widgets.common.text_view import Line, TextView


class WireScreen(Dialog[None]):
    """Pretty JSON of `messages`, `tools` and `tool_choice`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "next_system", "Next system message"),
        Binding("t", "tools", "Tools"),
        Binding("c", "copy", "Copy"),
    ]
    HEADING = "Wire · the last request"
    KEYS = (
        KeyHint("s", "next system message"),
        KeyHint("t", "tools"),
        KeyHint("c", "copy all"),
        KeyHint("g,G", "top, end"),
        KeyHint("escape", "close"),
    )

    DEFAULT_CSS = """
    WireScreen {
        TextView { height: 1fr; margin-top: 1; }
    }
    """

    def __init__(self, payload: Payload, model: str) -> None:
        """`model` is the name that the request was for."""
        super().__init__(classes="-large")
        self._body = body_of(payload, model)
        self._payload = payload

    def body(self) -> Iterable[Widget]:
        """Facts, then the text."""
        yield Static(facts(self._payload), classes="text")
        yield TextView()

    def on_mount(self) -> None:
        """Lay it out on a thread, since a payload may be long."""
        self._show()

    @work(exit_on_error=False, description="lay out the payload")
    async def _show(self) -> None:
        import asyncio

        lines = await asyncio.to_thread(lines_of, self._body)
        view = self.query_one(TextView)
        view.set_lines(lines)
        view.focus()
        self.say(f"{len(lines)} lines")

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
        view = self.query_one(TextView)
        for line in view.marked_lines("heading"):
            view.go_to_line(line)

    def action_copy(self) -> None:
        """All of it as JSON."""
        self.app.copy_to_clipboard(dumped(self._body))
        self.notify("Copied.", timeout=2)


def body_of(payload: Payload, model: str) -> dict[str, Any]:
    """The part of the request's body that is the conversation; the key is in no body."""
    body: dict[str, Any] = {"model": model}
    if payload.tool_choice is not None:
        body["tool_choice"] = payload.tool_choice
    if payload.max_tokens is not None:
        body["max_tokens"] = payload.max_tokens
    body["messages"] = payload.messages
    if payload.tools:
        body["tools"] = payload.tools
    return body


def dumped(body: dict[str, Any]) -> str:
    """The body as it is copied."""
    return json.dumps(body, ensure_ascii=False, indent=2)


def facts(payload: Payload) -> Content:
    """One line that says what matters."""
    system = sum(message.get("role") == "system" for message in payload.messages)
    parts = [
        Content(f"{len(payload.messages)} messages, {system} by signoff"),
        Content(plural(len(payload.tools), "tool")),
    ]
    if payload.tool_choice is None:
        parts.append(Content.styled("gate open: tools may be called", "$text-success"))
    else:
        text = f'closing request: tool_choice "{payload.tool_choice}"'
        parts.append(Content.styled(visible(text, keep=""), "bold $text-warning"))
    return Content(" · ").join(parts)


def lines_of(body: dict[str, Any]) -> list[Line]:
    """The lines of `dumped`, coloured, with system messages and `tool_choice` marked."""
    lines: list[Line] = []
    keys = list(body)
    lines.append(Line((("{", "quiet"),)))
    for key in keys:
        comma = "," if key != keys[-1] else ""
        mark = "important" if key == "tool_choice" else "heading" if key == "tools" else ""
        if key == "messages":
            lines.append(Line((('  "messages"', "key"), (": [", "quiet"))))
            for number, message in enumerate(body[key]):
                end = "," if number < len(body[key]) - 1 else ""
                role = "program" if message.get("role") == "system" else ""
                lines += _block(message, "    ", end, role)
            lines.append(Line(((f"  ]{comma}", "quiet"),)))
        else:
            found = _block(body[key], "  ", comma, "important" if mark == "important" else "", key=key)
            if mark == "heading":
                found[0] = Line(found[0].pieces, "heading")
            lines += found
    lines.append(Line((("}", "quiet"),)))
    if not body["messages"]:
        return [Line(((text, ""),)) for text in dumped(body).split("\n")]
    return lines


def _block(value: Any, indent: str, end: str, mark: str, key: str = "") -> list[Line]:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    rows = text.split("\n")
    rows[0] = (f'"{key}": ' if key else "") + rows[0]
    rows[-1] += end
    return [Line(_pieces(indent + row), mark) for row in rows]


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
