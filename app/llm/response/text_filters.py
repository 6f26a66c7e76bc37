"""Separate reasoning and unparsed tool calls from streamed text, wherever the deltas split it."""

from encodings import utf_16_le

from msgspec import Struct

_OPENING_TAGS = ("<think>", "<thinking>")
_LONE_CLOSING_TAG = "</think>"
"""Begins the response of a model whose chat template has written `<think>`, if the model does not think."""


class SurrogateJoiner:
    """Joins characters that a server split into two surrogates; a lone surrogate becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = utf_16_le.IncrementalDecoder("replace")

    def feed(self, text: str) -> str:
        """Return the text; hold back a first half of a surrogate pair at its end."""
        return self._decoder.decode(text.encode("utf-16-le", "surrogatepass"))

    def finish(self) -> str:
        """Return the held-back rest: at most one replacement character."""
        return self._decoder.decode(b"", final=True)


class ThinkSplitter(Struct):
    """Separates a leading `<think>…</think>` block from the answer; later tags are part of the answer."""

    _state: str = "start"
    _held_back: str = ""
    _closing_tag: str = ""

    def feed(self, text: str) -> tuple[str, str]:
        """Return (answer, reasoning) so far; a possible start of a tag is held back."""
        match self._state:
            case "start":
                return self._feed_start(self._held_back + text)
            case "thinking":
                return self._feed_thinking(self._held_back + text)
            case "ended":
                text = text.lstrip("\n")
                if text:
                    self._state = "answer"
                return text, ""
            case _:
                return text, ""

    def finish(self) -> tuple[str, str]:
        """Return (answer, reasoning) that was held back as a possible start of a tag."""
        held, self._held_back = self._held_back, ""
        return ("", held) if self._state == "thinking" else (held, "")

    def _feed_start(self, text: str) -> tuple[str, str]:
        stripped = text.lstrip()
        for opener in _OPENING_TAGS:
            if stripped.startswith(opener):
                self._state, self._held_back = "thinking", ""
                self._closing_tag = opener.replace("<", "</")
                return self._feed_thinking(stripped.removeprefix(opener))
        if stripped.startswith(_LONE_CLOSING_TAG):
            self._state, self._held_back = "ended", ""
            return self.feed(stripped.removeprefix(_LONE_CLOSING_TAG))
        if any(tag.startswith(stripped) for tag in (*_OPENING_TAGS, _LONE_CLOSING_TAG)):
            self._held_back = text
            return "", ""
        self._state, self._held_back = "answer", ""
        return text, ""

    def _feed_thinking(self, text: str) -> tuple[str, str]:
        reasoning, found, answer = text.partition(self._closing_tag)
        if found:
            self._state, self._held_back = "ended", ""
            return self.feed(answer)[0], reasoning
        keep = _overlap(text, self._closing_tag)
        self._held_back = text[len(text) - keep :]
        return "", text[: len(text) - keep]


_CALL_MARKERS = (
    *("<tool_call>", "<tool_calls>", "<function=", "<|tool_call", "[TOOL_CALLS]", "<function_call", "<invoke name="),
    "<minimax:tool_call>",
    # DeepSeek's bars are U+FF5C.
    *("<\uff5ctool▁call", "<\uff5cDSML"),
)


class CallMarkupCutter(Struct):
    """Hides tool calls that a server sends as text: everything from the first marker on.

    Only for closing requests, where no call is allowed; in other responses the text may be about these markers.
    """

    _has_marker: bool = False
    _held_back: str = ""

    def feed(self, text: str) -> str:
        """Return the text before any marker; a possible start of a marker is held back."""
        if self._has_marker:
            return ""
        text = self._held_back + text
        found = min((at for mark in _CALL_MARKERS if (at := text.find(mark)) >= 0), default=-1)
        if found >= 0:
            self._has_marker, self._held_back = True, ""
            return text[:found]
        keep = max(_overlap(text, mark) for mark in _CALL_MARKERS)
        self._held_back = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """Return the text held back as a possible start of a marker."""
        held, self._held_back = self._held_back, ""
        return held


def has_call_markup(text: str) -> bool:
    """Return whether a text contains a tool call that the server did not parse."""
    return any(mark in text for mark in _CALL_MARKERS)


def _overlap(text: str, tag: str) -> int:
    """Return the length of the longest end of `text` that is a proper prefix of `tag`."""
    return next((size for size in range(min(len(text), len(tag) - 1), 0, -1) if tag.startswith(text[-size:])), 0)
