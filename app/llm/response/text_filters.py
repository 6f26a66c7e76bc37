"""Separate reasoning and raw tool calls from streamed text, however the deltas cut it."""

import re
from dataclasses import dataclass, field

_OPENERS = ("<think>", "<thinking>")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class SurrogateJoiner:
    """Rejoins characters that a server cut in two UTF-16 halves; a lone half becomes U+FFFD."""

    _held: str = ""

    def feed(self, text: str) -> str:
        """Return the text without an unfinished surrogate pair."""
        text, self._held = self._held + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        if _SURROGATE.search(text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    def finish(self) -> str:
        """Return the rest: at most one replacement character."""
        left = "\ufffd" if self._held else ""
        self._held = ""
        return left


@dataclass(slots=True)
class ThinkSplitter:
    """Separates a leading `<think>…</think>` block from the answer; later tags belong to the answer."""

    _state: str = "start"
    _held: str = ""
    _closer: str = ""

    def feed(self, text: str) -> tuple[str, str]:
        """Return the answer and the reasoning that can be told apart so far."""
        match self._state:
            case "start":
                return self._start(self._held + text)
            case "thinking":
                return self._thinking(self._held + text)
            case "ended":
                text = text.lstrip("\n")
                if text:
                    self._state = "answer"
                return text, ""
            case _:
                return text, ""

    def finish(self) -> tuple[str, str]:
        """(answer, reasoning) that was held back in case it was the beginning of a tag."""
        held, self._held = self._held, ""
        return ("", held) if self._state == "thinking" else (held, "")

    def _start(self, text: str) -> tuple[str, str]:
        stripped = text.lstrip()
        for opener in _OPENERS:
            if stripped.startswith(opener):
                self._state, self._held = "thinking", ""
                self._closer = opener.replace("<", "</")
                return self._thinking(stripped.removeprefix(opener))
        if any(opener.startswith(stripped) for opener in _OPENERS):
            self._held = text
            return "", ""
        self._state, self._held = "answer", ""
        return text, ""

    def _thinking(self, text: str) -> tuple[str, str]:
        reasoning, found, answer = text.partition(self._closer)
        if found:
            self._state, self._held = "ended", ""
            return self.feed(answer)[0], reasoning
        keep = _overlap(text, self._closer)
        self._held = text[len(text) - keep :]
        return "", text[: len(text) - keep]


_CALL_MARKS = (
    "<tool_call>",
    "<tool_calls>",
    "<function=",
    "<|tool_call",
    "<|tool▁call",
    "[TOOL_CALLS]",
    "<function_call",
)


@dataclass(slots=True)
class CallMarkupHider:
    """Hides tool calls that a server prints as text: everything from the first marker on.

    For closing requests only, where a call can't be meant and is never run; elsewhere such marks may be an answer
    about them.
    """

    hidden: list[str] = field(default_factory=list)
    _held: str = ""

    def feed(self, text: str) -> str:
        """Return the text that cannot be part of a tool call."""
        if self.hidden:
            self.hidden.append(text)
            return ""
        text = self._held + text
        found = min((at for mark in _CALL_MARKS if (at := text.find(mark)) >= 0), default=-1)
        if found >= 0:
            self._held = ""
            self.hidden.append(text[found:])
            return text[:found]
        keep = max(_overlap(text, mark) for mark in _CALL_MARKS)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """Return the text held back as a possible start of markup."""
        held, self._held = self._held, ""
        return held


def has_call_markup(text: str) -> bool:
    """Return whether a text contains a tool call that the server did not parse."""
    return any(mark in text for mark in _CALL_MARKS)


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of `text` that is a beginning of `tag`, but not the whole."""
    return next((size for size in range(min(len(text), len(tag) - 1), 0, -1) if tag.startswith(text[-size:])), 0)
