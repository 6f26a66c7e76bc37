"""Output of a command: decoded, without terminal sequences, live for the user and shortened for the model."""

import asyncio
import codecs
import re
from collections import deque
from collections.abc import Callable

HEAD_CHARACTERS = 8_000
"""Characters kept from the beginning."""
TAIL_CHARACTERS = 24_000
"""Characters kept from the end, where errors are."""
LIVE_INTERVAL_SECONDS = 0.05
"""Seconds between two pieces of live output."""
MAX_LIVE_CHARACTERS = 16_000
"""Characters of one piece of live output; the beginning of a larger one is left out."""
_LIVE_HELD = 8 * MAX_LIVE_CHARACTERS
"""Characters that wait for the next piece at most, also while the event loop is late."""

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # two and more characters, CSI and strings left out
)
"""Control sequences of ECMA-48, and xterm's BEL as the end of a string."""
_C1 = re.compile(r"[\x90\x98\x9b\x9d-\x9f]")
_UNFINISHED = re.compile(r"(?:\x1b|[\x90\x98\x9b\x9d-\x9f])[^\x07\x9c\n]*\Z")
_HELD_BACK = 500
"""Characters at the end of a piece that may be the beginning of a sequence."""


class PlainTextDecoder:
    """Incremental decoder of UTF-8 that removes terminal sequences, also where a piece ends inside one."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Return the text that later bytes cannot change."""
        text = self._held + self._decoder.decode(data, final)
        self._held = ""
        # Most output has none, and looking for them in it takes ten times as long as to see that.
        if "\x1b" not in text and (text.isascii() or not _C1.search(text)):
            return text
        text = _SEQUENCE.sub("", text)
        if not final and (unfinished := _UNFINISHED.search(text, max(0, len(text) - _HELD_BACK))):
            self._held = text[unfinished.start() :]
            text = text[: unfinished.start()]
        return text


class HeadAndTail:
    """Keeps the beginning and end of a long text, and counts the characters between them."""

    def __init__(self, head: int = HEAD_CHARACTERS, tail: int = TAIL_CHARACTERS) -> None:
        self._head_size = head
        self._tail_size = tail
        self._head: list[str] = []
        self._in_head = 0
        self._tail: deque[str] = deque()
        self._in_tail = 0
        self._left_out = 0
        self._left_out_lines = 0
        self.lines = 0
        """Newlines in all."""

    def feed(self, text: str) -> None:
        """Take more."""
        self.lines += text.count("\n")
        if room := self._head_size - self._in_head:
            self._head.append(text[:room])
            self._in_head += len(self._head[-1])
            text = text[room:]
        self._tail.append(text)
        self._in_tail += len(text)
        while self._in_tail > self._tail_size:
            over = self._in_tail - self._tail_size
            first = self._tail.popleft()
            gone = first[:over]
            if len(first) > over:
                self._tail.appendleft(first[over:])
            self._in_tail -= len(gone)
            self._left_out += len(gone)
            self._left_out_lines += gone.count("\n")

    def text(self) -> str:
        """Return the two ends, with a line between that says how much is missing."""
        head, tail = "".join(self._head), "".join(self._tail)
        if not self._left_out:
            return remove_overwritten(head + tail)
        gap = f"\n[{self._left_out:,} characters with {self._left_out_lines:,} newlines left out]\n"
        return remove_overwritten(head) + gap + remove_overwritten(tail)


class LiveOutput:
    """Passes output on at a rate that a screen can follow."""

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send = send
        self._waiting: list[str] = []
        self._characters = 0
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, text: str) -> None:
        """Take more; it goes out within `LIVE_INTERVAL_SECONDS`."""
        self._waiting.append(text)
        self._characters += len(text)
        if self._characters > _LIVE_HELD:
            # One character more than goes out, which says that something is left out.
            self._waiting = ["".join(self._waiting)[-MAX_LIVE_CHARACTERS - 1 :]]
            self._characters = len(self._waiting[0])
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LIVE_INTERVAL_SECONDS, self.flush)

    def flush(self) -> None:
        """Send buffered output."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = "".join(self._waiting)
        self._waiting.clear()
        self._characters = 0
        if len(text) > MAX_LIVE_CHARACTERS:
            text = f"…\n{text[-MAX_LIVE_CHARACTERS:]}"
        if text:
            self._send(text)


def remove_overwritten(text: str) -> str:
    """Return the text that stays on a terminal after carriage returns, as of progress bars."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
