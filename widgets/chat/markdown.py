"""A Markdown text that may still be growing, as lines for a width; finished blocks are laid out once."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from widgets.chat.blocks import RenderState, render_chunk
from widgets.chat.chunks import LONGEST_PARAGRAPH, Chunk
from widgets.chat.code import CodePiece
from widgets.chat.inline import link_references, parser
from widgets.chat.lines import Line
from widgets.chat.split import Splitter
from widgets.chat.unfinished import expected, is_worth_showing


class MarkdownDocument:
    """Source in, lines out.

    `append` takes more source and costs next to nothing; `advance` does the layout, up to a deadline if one is
    given. What is laid out stays: only the last, unfinished block is done again when it grows.
    """

    def __init__(self, width: int, clean: Callable[[str], str] = str) -> None:
        """`width` in cells; `clean` makes control characters visible, and keeps line ends."""
        self._width = width
        self._clean = clean
        self._parts: list[str] = []
        self._incoming: list[str] = []
        self._waiting: list[str] = []
        self._position = 0
        self._partial = ""
        self._finished = False
        self._note: Sequence[Line] = ()
        self._splitter = Splitter()
        self._chunks: list[Chunk] = []
        self._state = RenderState()
        self._lines: list[Line] = []
        self._settled = 0
        self._held: Line | None = None
        """The settled row that the unfinished end of a long paragraph flows on from, while that is shown."""
        self._unfinished_code: CodePiece | None = None
        """The code at the unfinished end, while that is shown."""

    @property
    def lines(self) -> list[Line]:
        """The rows as of the last `advance`."""
        return [*self._lines, *self._note] if self._note else self._lines

    @property
    def settled(self) -> int:
        """How many of the rows never change again at this width."""
        return self._settled

    @property
    def width(self) -> int:
        """Cells that the rows were laid out for."""
        return self._width

    @property
    def finished(self) -> bool:
        """Whether `finish` was called."""
        return self._finished

    @property
    def source(self) -> str:
        """The whole text so far."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def takes(self, text: str) -> bool:
        """Whether this text is the source so far with, unless it is finished, more behind it."""
        return text == self.source if self._finished else text.startswith(self.source)

    def append(self, text: str) -> None:
        """More source."""
        self._parts.append(text)
        self._incoming.append(text)

    def finish(self, note: Sequence[Line] = ()) -> None:
        """No more source will come; the last block is final, and `note` stands below it."""
        self._note = note
        if self._finished:
            return
        self._finished = True
        if environment := link_references(self._clean(self.source)):
            self._begin_again(environment)

    def _begin_again(self, environment: dict[str, Any]) -> None:
        """Lay out the whole text anew: a reference is defined at the end as a rule, after the links that use it."""
        self._incoming, self._waiting, self._position, self._partial = [self.source], [], 0, ""
        self._splitter = Splitter()
        self._state = RenderState(environment=environment)
        self._lines = []
        self._settled = 0
        self._held = None

    def advance(self, deadline: float | None = None) -> bool:
        """Lay out what has come; returns True when nothing is left to do.

        `deadline` is a `time.thread_time` value after which the rest is left to the next call.
        """
        self._take_incoming()
        del self._lines[self._settled :]
        if self._held is not None:
            self._lines.append(self._held)
            self._settled += 1
            self._held = None
        while self._position < len(self._waiting):
            self._settle(self._splitter.feed(self._cleaned(self._waiting[self._position])))
            self._position += 1
            if deadline is not None and time.thread_time() > deadline:
                return False
        self._waiting.clear()
        self._position = 0
        if len(self._partial) > LONGEST_PARAGRAPH:
            chunks, self._partial = self._splitter.overflow(self._cleaned(self._partial))
            self._settle(chunks)
        if self._finished:
            if self._partial:
                self._settle(self._splitter.feed(self._cleaned(self._partial)))
                self._partial = ""
            self._settle(self._splitter.finish())
        else:
            self._render_open_end()
        return True

    def _take_incoming(self) -> None:
        text = self._partial + "".join(self._incoming)
        self._incoming.clear()
        # A carriage return may be half of a line end whose other half is still to come.
        held = "\r" if text.endswith("\r") and not self._finished else ""
        *lines, self._partial = text[: len(text) - len(held)].replace("\r\n", "\n").split("\n")
        self._partial += held
        self._waiting.extend(lines)

    def _cleaned(self, line: str) -> str:
        # To the parser a lone carriage return would be a line end, and no two lines may hide in one.
        return self._clean(line).replace("\t", "    ").replace("\r", " ")

    def _settle(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self._lines += render_chunk(chunk, self._width, self._state, self._lines)
            self._settled = len(self._lines)

    def _render_open_end(self) -> None:
        """Rows for the block that is still being written; thrown away by the next `advance`."""
        probe = self._splitter.copy()
        partial = self._cleaned(self._partial.rstrip("\r"))
        chunks = probe.feed(partial) if is_worth_showing(partial, probe.fence) else []
        chunks += map(expected, probe.finish())
        state = self._state.unfinished(self._unfinished_code)
        for chunk in chunks:
            if chunk.kind == "rest" and self._lines and len(self._lines) == self._settled:
                self._held = self._lines[-1]
                self._settled -= 1
            self._lines += render_chunk(chunk, self._width, state, self._lines)
        code = self._lines[-1].code if self._lines else None
        self._unfinished_code = code[0] if code is not None and isinstance(code[0], CodePiece) else None


def markdown_lines(text: str, width: int, clean: Callable[[str], str] = str) -> list[Line]:
    """The rows of a whole text."""
    document = MarkdownDocument(width, clean)
    document.append(text)
    document.finish()
    document.advance()
    return document.lines


def preload() -> None:
    """Load what reads Markdown and code, on any thread: else the first answer does, while the keyboard waits."""
    import pygments.lexers  # noqa: F401

    parser()
