"""A Markdown text that may still grow, as lines for a width; finished blocks are laid out once."""

import re
import time
from collections.abc import Sequence
from typing import Any

from app.copies import replace
from widgets.chat.markdown.highlighted_code import LazyHighlightedCode
from widgets.chat.markdown.markdown_blocks import MarkdownChunkContext, link_references, markdown_parser, render_chunk
from widgets.chat.markdown.markdown_splitter import MAX_PARAGRAPH_CHARACTERS, MarkdownChunk, MarkdownSplitter
from widgets.chat.markdown.styled_lines import StyledLine, make_safe_text

_ONLY_MARKUP_PATTERN = re.compile(r"[\s>]*+(?:[-+*_=#`~|]++|\d{1,3}|(?:[-+*]|\d{1,3}[.)])(?:\s++\[[ xX]?\]?)?)?\s*+$")
"""A line that is only markup so far, with no visible text."""
_CODE_PATTERN = re.compile(r"(?<!`)(`++)[^`]++\1(?!`)")
_EMPHASIS_RUN_PATTERN = re.compile(r"\*+|_+|~~")
_OPEN_LINK_PATTERN = re.compile(r"!?\[[^\[\]\n]*\]\([^()\s]*$")
_PARAGRAPH_PATTERN = re.compile(r"\n[ \t>]*+\n|\n(?=[ \t>]*+(?:[-*+]|\d{1,9}[.)])\s)")
"""Start of a paragraph in a list or a quote."""
_MAX_EMPHASIS_CHARACTERS = 80
"""Maximum characters of open emphasis with a single mark; in longer text, the mark is no markup. Bold has no limit.
"""
_RULE_BELOW_PATTERN = re.compile(r"[|:\- \t]*$")


def has_visible_text(line: str, closing_fence: str) -> bool:
    """Return whether an unfinished Markdown line already has visible text, not only markup."""
    if closing_fence:
        return not closing_fence.startswith(line.strip())
    return _ONLY_MARKUP_PATTERN.match(line) is None


def close_chunk_markup(chunk: MarkdownChunk) -> MarkdownChunk:
    """Return the last chunk of an unfinished text with all open markup closed."""
    match chunk.kind:
        case "fence":
            return chunk
        case "table" if chunk.text or not chunk.begins:
            *rows, last = chunk.text.split("\n")
            before, pipe, cell = last.rpartition("|")
            return replace(chunk, text="\n".join([*rows, before + pipe + close_inline_marks(cell)]))
        case "table":
            heading, rule, _ = chunk.header.split("\n")
            return chunk if _count_cells(heading) == _count_cells(rule) else _heading_only_table(chunk, heading)
        case "block" if chunk.text.startswith("|"):
            heading, _, rule = chunk.text.partition("\n")
            return _heading_only_table(chunk, heading) if _RULE_BELOW_PATTERN.match(rule) else chunk
        case _:
            return replace(chunk, text=close_inline_marks(chunk.text))


def close_inline_marks(text: str) -> str:
    """Return a cut-off text with open emphasis, code and link addresses closed."""
    paragraph_start = max((match.end() for match in _PARAGRAPH_PATTERN.finditer(text)), default=0)
    last = _CODE_PATTERN.sub(lambda code: "x" * len(code[0]), text[paragraph_start:])
    if last.count("`") % 2:
        return text.rstrip("`") if last.endswith("`") else text + "`"
    if _OPEN_LINK_PATTERN.search(last):
        return text + ")"
    opened: list[tuple[str, int, int]] = []
    """Open delimiters: the character, its count, and its position."""
    for run in _EMPHASIS_RUN_PATTERN.finditer(last):
        _apply_emphasis_run(run, last, opened)
    trimmed = text.rstrip("*_~")
    if len(trimmed) < len(text) and (not trimmed or trimmed[-1].isspace() or trimmed[-1] in "(["):
        text = trimmed
    closable = [
        (mark, count)
        for mark, count, position in opened
        if count > 1 or len(last) - position <= _MAX_EMPHASIS_CHARACTERS
    ]
    return text + "".join(mark * count for mark, count in reversed(closable))


def _apply_emphasis_run(run: re.Match[str], text: str, opened: list[tuple[str, int, int]]) -> None:
    """Open or close emphasis, approximately by the rules of CommonMark."""
    mark, count = run[0][0], len(run[0])
    before, after = text[run.start() - 1 : run.start()] or " ", text[run.end() : run.end() + 1] or " "
    if not before.isspace() and not (mark == "_" and after.isalnum()):
        while count and opened and opened[-1][0] == mark:
            _, open_count, position = opened.pop()
            count, open_count = max(0, count - open_count), max(0, open_count - count)
            if open_count:
                opened.append((mark, open_count, position))
    if count and not after.isspace() and not (mark == "_" and before.isalnum()):
        opened.append((mark, count, run.start()))


def _count_cells(row: str) -> int:
    return row.replace("\\|", "").strip().strip("|").count("|") + 1


def _heading_only_table(chunk: MarkdownChunk, heading: str) -> MarkdownChunk:
    """Return a table of which only the heading exists, with the rule that will follow."""
    return replace(chunk, kind="table", text="", header=f"{heading}\n|{'---|' * _count_cells(heading)}\n")


class MarkdownDocument:
    """Converts Markdown source to lines while the source grows.

    `append_source` only stores source text; `advance` does the layout, up to an optional deadline. Finished lines
    stay: only the last, unfinished block is laid out again when it grows. Control characters are made visible.

    Args:
        width: In cells.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._parts: list[str] = []
        self._new_texts: list[str] = []
        self._waiting_lines: list[str] = []
        self._line_position = 0
        self._partial_line = ""
        self._is_finished = False
        self._closing_lines: Sequence[StyledLine] = ()
        self._splitter = MarkdownSplitter()
        self._chunks: list[MarkdownChunk] = []
        self._state = MarkdownChunkContext()
        self._lines: list[StyledLine] = []
        self.settled_row_count = 0
        """Number of rows that never change again at this width."""
        self._continued_row: StyledLine | None = None
        """The settled row that the shown, unfinished end of a long paragraph continues."""
        self._unfinished_code: LazyHighlightedCode | None = None
        """The code at the shown, unfinished end."""

    @property
    def lines(self) -> list[StyledLine]:
        """Return the rows after the last `advance`."""
        return [*self._lines, *self._closing_lines] if self._closing_lines else self._lines

    @property
    def source(self) -> str:
        """Return the whole text so far."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def is_continued_by(self, text: str) -> bool:
        """Return whether this text begins with the source, or equals it if the document is finished."""
        return text == self.source if self._is_finished else text.startswith(self.source)

    def append_source(self, text: str) -> None:
        """Append source text."""
        self._parts.append(text)
        self._new_texts.append(text)

    def finish(self, closing_lines: Sequence[StyledLine] = ()) -> None:
        """End the document: the last block becomes final, and `closing_lines` are shown below it."""
        self._closing_lines = closing_lines
        if self._is_finished:
            return
        self._is_finished = True
        if environment := link_references(make_safe_text(self.source)):
            self._restart_layout(environment)

    def _restart_layout(self, environment: dict[str, Any]) -> None:
        """Start the layout again: references are usually defined at the end, after the links that use them."""
        self._new_texts, self._waiting_lines, self._line_position, self._partial_line = [self.source], [], 0, ""
        self._splitter = MarkdownSplitter()
        self._state = MarkdownChunkContext(environment=environment)
        self._lines = []
        self.settled_row_count = 0
        self._continued_row = None

    def advance(self, deadline: float | None = None) -> bool:
        """Lay out new text; return True when nothing is left to do.

        `deadline` is a `time.thread_time` value; after it, the rest is left to the next call.
        """
        self._split_new_texts()
        del self._lines[self.settled_row_count :]
        if self._continued_row is not None:
            self._lines.append(self._continued_row)
            self.settled_row_count += 1
            self._continued_row = None
        while self._line_position < len(self._waiting_lines):
            self._settle_chunks(self._splitter.feed_line(_clean_line(self._waiting_lines[self._line_position])))
            self._line_position += 1
            if deadline is not None and time.thread_time() > deadline:
                return False
        self._waiting_lines.clear()
        self._line_position = 0
        if len(self._partial_line) > MAX_PARAGRAPH_CHARACTERS:
            chunks, self._partial_line = self._splitter.split_long_line(_clean_line(self._partial_line))
            self._settle_chunks(chunks)
        if self._is_finished:
            if self._partial_line:
                self._settle_chunks(self._splitter.feed_line(_clean_line(self._partial_line)))
                self._partial_line = ""
            self._settle_chunks(self._splitter.finish())
        else:
            self._render_open_end()
        return True

    def _split_new_texts(self) -> None:
        text = self._partial_line + "".join(self._new_texts)
        self._new_texts.clear()
        # A carriage return may be the first half of a line end.
        carriage_return = "\r" if text.endswith("\r") and not self._is_finished else ""
        *lines, self._partial_line = text[: len(text) - len(carriage_return)].replace("\r\n", "\n").split("\n")
        self._partial_line += carriage_return
        self._waiting_lines.extend(lines)

    def _settle_chunks(self, chunks: list[MarkdownChunk]) -> None:
        for chunk in chunks:
            self._lines += render_chunk(chunk, self.width, self._state, self._lines)
            self.settled_row_count = len(self._lines)

    def _render_open_end(self) -> None:
        """Render the unfinished block; the next `advance` discards these rows."""
        probe = self._splitter.copy()
        partial = _clean_line(self._partial_line.rstrip("\r"))
        chunks = probe.feed_line(partial) if has_visible_text(partial, probe.fence) else []
        chunks += map(close_chunk_markup, probe.finish())
        state = replace(self._state, unfinished_code=self._unfinished_code)
        for chunk in chunks:
            if chunk.kind == "rest" and self._lines and len(self._lines) == self.settled_row_count:
                self._continued_row = self._lines[-1]
                self.settled_row_count -= 1
            self._lines += render_chunk(chunk, self.width, state, self._lines)
        code = self._lines[-1].code if self._lines else None
        self._unfinished_code = code[0] if code is not None and isinstance(code[0], LazyHighlightedCode) else None


def _clean_line(line: str) -> str:
    return make_safe_text(line).replace("\t", "    ")


def markdown_lines(text: str, width: int) -> list[StyledLine]:
    """Return the rows of a whole Markdown text, laid out for a width."""
    document = MarkdownDocument(width)
    document.append_source(text)
    document.finish()
    document.advance()
    return document.lines


def preload_markdown_and_code_parsers() -> None:
    """Load the Markdown and code parsers; call it in a thread, so that the first answer does not delay keys."""
    import pygments.lexers  # noqa: F401

    markdown_parser()
