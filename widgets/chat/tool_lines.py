"""The rows of a tool call: one quiet line, and the details that it opens to."""

import json

from widgets.chat.code import code_lines
from widgets.chat.entries import ToolEntry, TurnEndEntry
from widgets.chat.lines import MUTED, TEXT, Face, Line, left_out, shorten, visible, width_of
from widgets.chat.targets import VERBS

LONGEST_DETAIL = 300
"""Rows of a tool's result shown when its line is opened."""
LIVE_ROWS = 5
"""Rows of output shown under a running command."""

_TOOL_WORDS = {
    "waiting": "waits",
    "running": "running",
    "refused": "not run: signoff had stopped the turn",
    "rejected": "you said no",
    "aborted": "interrupted",
    "invalid": "not a valid call",
    "error": "failed",
}


def seconds(duration: float) -> str:
    """A duration for people: `0.4 s`, `12 s`, `3 min 05 s`; empty where it is not worth a word."""
    if duration < 0.05:
        return ""
    if duration < 9.95:
        return f"{duration:.1f} s"
    if duration < 60:
        return f"{duration:.0f} s"
    minutes, rest = divmod(round(duration), 60)
    return f"{minutes} min {rest:02d} s"


def turn_end_facts(entry: TurnEndEntry) -> list[str]:
    """What there is to say about the end of a turn."""
    calls = f"{entry.calls} tool call{'s' if entry.calls > 1 else ''}" if entry.calls else ""
    tokens = f"{entry.tokens:,} token{'s' if entry.tokens > 1 else ''}" if entry.tokens else ""
    message = visible(" ".join(entry.message.split())) if entry.stopped != "answer" else ""
    return [fact for fact in (message, seconds(entry.duration), calls, tokens) if fact]


def tool_lines(entry: ToolEntry, width: int, opened: bool) -> list[Line]:
    """What, where, result and duration in one row; when opened, arguments and result below."""
    verb = VERBS.get(entry.name, visible(entry.name) or "Tool")
    # A failure is told with the path that the line begins with anyway.
    summary = entry.summary.removeprefix(entry.target).lstrip(" :") if entry.target else entry.summary
    facts = [shorten(visible(summary), max(20, width // 2)) or _TOOL_WORDS.get(entry.status, "")]
    if entry.status == "writing":
        facts = [f"{entry.characters:,} characters" if entry.characters else ""]
    elif entry.status == "staged" and entry.proposal:
        facts.append(f"staged in {entry.proposal}")
    facts.append(seconds(entry.duration))
    tail = "".join(f" · {fact}" for fact in facts if fact)
    room = width - width_of(verb) - 1 - width_of(tail)
    if room < 12:
        tail = shorten(tail, max(0, width - width_of(verb) - 13))
        room = width - width_of(verb) - 1 - width_of(tail)
    target = shorten_path(" ".join(visible(entry.target).split()), room)
    fact_face = Face("error") if entry.status in ("error", "invalid") else Face("tool")
    lines = [
        Line(
            (
                (verb, Face("tool-name", bold=True)),
                (f" {target}" if target else "", Face("tool-name")),
                (tail, fact_face),
            ),
            action="toggle",
        )
    ]
    if opened:
        lines.extend(_tool_details(entry, width))
    elif entry.status == "running" and entry.output:
        shown = visible(entry.output[-4000:].rstrip("\n")).split("\n")[-LIVE_ROWS:]
        lines.extend(Line(((shorten(row, width) or " ", Face("tool")),)) for row in shown)
    return lines


def shorten_path(text: str, width: int) -> str:
    """As `shorten`, but it is the start of a path that goes."""
    if width_of(text) <= width or "/" not in text or " " in text:
        return shorten(text, width)
    tail = text[-max(1, width - 1) :]
    return "…" + (tail[tail.find("/") :] if "/" in tail[:-1] else tail)


def _tool_details(entry: ToolEntry, width: int) -> list[Line]:
    lines: list[Line] = []
    arguments = {shorten(visible(name), width // 2): value for name, value in (entry.arguments or {}).items()}
    column = max((width_of(name) for name in arguments), default=0) + 2
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        text = visible(text)
        if "\n" in text or width_of(text) > width - column:
            lines.append(Line(((name, MUTED),)))
            lines.extend(_limited(code_lines(text.rstrip("\n"), "", width), LONGEST_DETAIL))
        else:
            lines.append(Line(((name + " " * (column - width_of(name)), MUTED), (text, TEXT))))
    if entry.raw_arguments:
        lines.extend(_limited(code_lines(visible(entry.raw_arguments), "", width), LONGEST_DETAIL))
    if entry.output.strip():
        lines.append(Line((("result", MUTED),)))
        lines.extend(_limited(code_lines(visible(entry.output.rstrip("\n")), "", width), LONGEST_DETAIL))
    return lines


def _limited(lines: list[Line], limit: int) -> list[Line]:
    if len(lines) <= limit:
        return lines
    return [*lines[:limit], Line(((left_out(lines[limit:]), MUTED),))]
