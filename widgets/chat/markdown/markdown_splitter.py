"""Splits a growing Markdown text into chunks that never change again.

A chunk is a block (paragraph, heading, list item, quote), or a piece of a block that may grow without limit (a fence,
a table, a very long paragraph). The cuts depend only on the text, not on how it arrived: a streamed text and the same
text from the log have the same chunks. The rules for the end of a block are those of CommonMark 0.31 and of GitHub's
tables.
"""

import re
from copy import copy
from typing import Literal

from msgspec import Struct

ChunkKind = Literal["block", "heading", "rule", "rest", "item", "item_rest", "quote", "fence", "table"]

MAX_PARAGRAPH_CHARACTERS = 4096
"""Maximum characters of a paragraph or list item in one chunk, and of any other single line."""
MAX_CHUNK_CHARACTERS = 2 * MAX_PARAGRAPH_CHARACTERS
"""Maximum characters of code, a table or a quote in one chunk."""
MAX_FENCE_LINES = 64
"""Maximum lines of code in one chunk; after `MIN_FENCE_LINES`, an empty line ends the chunk earlier."""
MIN_FENCE_LINES = 40
MAX_TABLE_ROWS = 24
"""Maximum rows in the first chunk of a table, which determines the widths of the columns."""
MAX_LATER_TABLE_ROWS = 8
"""Maximum rows in each later chunk; an open chunk is laid out for each refresh."""
MAX_QUOTE_LINES = 40
"""Lines of a quote after which an empty quoted line ends the chunk; after three times as many, any line does."""


class MarkdownChunk(Struct, frozen=True):
    """A piece of Markdown that can be rendered independently."""

    kind: ChunkKind
    """`rest` continues the paragraph before it, `item_rest` the list item before it."""
    text: str
    spaced: bool = False
    """Whether an empty line is before the chunk."""
    begins: bool = True
    """Whether the chunk is the first piece of its block."""
    number: int | None = None
    """The number of an item in an ordered list."""
    info: str = ""
    """The info string of a fence: the text after the opening marks."""
    header: str = ""
    """The first two lines of a table."""
    continuation_lines: tuple[int, ...] = ()
    """Indices of the lines in a fence that continue the line before, because that was too long."""


FENCE_PATTERN = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)$")
INNER_FENCE_PATTERN = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")
ITEM_MARK_PATTERN = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+")
HEADING_PATTERN = re.compile(r" {0,3}#{1,6}(?:\s|$)")
RULE_PATTERN = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
UNDERLINE_PATTERN = re.compile(r" {0,3}(?:-+|=+)[ \t]*$")
ITEM_PATTERN = re.compile(r"( {0,3})(?:([-*+])|(\d{1,9})([.)]))(?:([ \t]+)(?=\S)|[ \t]*$)")
NESTED_ITEM_PATTERN = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\S")
QUOTE_PATTERN = re.compile(r" {0,3}>")
TABLE_DELIMITER_PATTERN = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*+(?:\|[ \t]*:?-+:?[ \t]*+)*(?:\|[ \t]*)?$")


def count_leading_spaces(line: str) -> int:
    """Return the number of spaces before the text of a line."""
    return len(line) - len(line.lstrip(" "))


def starts_block(line: str, inside_paragraph: bool = False) -> bool:
    """Return whether the line begins a new block, which ends an open paragraph, table or quote."""
    if any(pattern.match(line) for pattern in (FENCE_PATTERN, HEADING_PATTERN, RULE_PATTERN, QUOTE_PATTERN)):
        return True
    item = ITEM_PATTERN.match(line)
    if not item:
        return False
    # Inside a paragraph, an empty item or a number other than 1 is text.
    return not inside_paragraph or (item[5] is not None and item[3] in (None, "1"))


class MarkdownSplitter:
    """Splits lines into chunks; keeps the state of the open block between two lines."""

    def __init__(self) -> None:
        self._kind: ChunkKind | None = None
        self._lines: list[str] = []
        self._size = 0
        self._spaced = False
        self._begins = True
        self._pending_blank = False
        self._fence = ""
        self._fence_indent = 0
        self._fence_opening = ""
        self._inner_fence = ""
        self._info = ""
        self._header = ""
        self._marker = ""
        self._indent = 0
        self._number: int | None = None
        self._continuation_lines: list[int] = []
        self._is_inside_line = False
        """Whether the current line continues after a cut."""

    @property
    def fence(self) -> str:
        """Return the closing marks of the code block that contains the next line; empty outside of code."""
        return self._fence if self._kind == "fence" else self._inner_fence

    def copy(self) -> "MarkdownSplitter":
        """Return an independent copy, to try an unfinished line."""
        other = copy(self)
        other._lines, other._continuation_lines = list(self._lines), list(self._continuation_lines)
        return other

    def feed_line(self, line: str) -> list[MarkdownChunk]:
        """Add one line without its line end; return the chunks that it finishes."""
        chunks, rest = self._cut_line(line)
        chunks += self._feed_piece(rest)
        self._is_inside_line = False
        return chunks

    def _feed_piece(self, line: str) -> list[MarkdownChunk]:
        if self._is_inside_line:
            return self._continue_line(line)
        match self._kind:
            case "fence":
                return self._feed_fence(line)
            case "item" | "item_rest":
                return self._feed_item(line)
            case "table":
                return self._feed_table(line)
            case "quote":
                return self._feed_quote(line)
            case "block" | "rest":
                return self._feed_paragraph(line)
            case _:
                return self._start_block(line)

    def split_long_line(self, partial: str) -> tuple[list[MarkdownChunk], str]:
        """Cut an unfinished last line that is too long; return chunks and the rest."""
        chunks, rest = self._cut_line(partial)
        if len(rest) > MAX_PARAGRAPH_CHARACTERS and rest.strip():
            if self._kind is None:
                self._open_block("block", rest)
            else:
                self._add_line(rest)
            chunks += self._cut_paragraph()
            rest = self._remove_last_line()
            self._is_inside_line = True
        return chunks, rest

    def finish(self) -> list[MarkdownChunk]:
        """End the text; return the open chunk."""
        return [] if self._kind is None else [self._close_block()]

    # Long lines

    def _is_of_paragraph(self, line: str) -> bool:
        """Return whether the line begins or continues a paragraph; paragraphs are cut after sentences."""
        if self._kind not in (None, "block", "rest"):
            return False
        return self._is_inside_line or not starts_block(line, inside_paragraph=self._kind is not None)

    def _cut_line(self, line: str) -> tuple[list[MarkdownChunk], str]:
        """Cut a line while it is too long; return chunks and the rest."""
        chunks: list[MarkdownChunk] = []
        while len(line) > MAX_PARAGRAPH_CHARACTERS and not self._is_of_paragraph(line):
            space = line.rfind(" ", MAX_PARAGRAPH_CHARACTERS // 2, MAX_PARAGRAPH_CHARACTERS)
            cut = space + 1 or MAX_PARAGRAPH_CHARACTERS
            chunks += self._feed_piece(line[:cut])
            self._is_inside_line = True
            line = line[cut:]
        return chunks, line

    def _continue_line(self, piece: str) -> list[MarkdownChunk]:
        """Continue a line with its next piece in the same block, even if the piece looks like another block."""
        match self._kind:
            case "fence":
                self._continuation_lines.append(len(self._lines))
                return self._add_code(piece)
            case "item" | "item_rest":
                return self._feed_item(" " * self._indent + piece.lstrip()) if piece.strip() else []
            case "quote":
                return self._continue_quote(f"> {piece}")
            case "table":
                return self._add_row(f"| {piece}")
            case "block" | "rest":
                self._add_line(piece)
            case _:
                self._open_block("block", piece)
        return self._cut_paragraph() if self._size > MAX_PARAGRAPH_CHARACTERS else []

    # One method for each state

    def _start_block(self, line: str) -> list[MarkdownChunk]:
        if not line.strip():
            self._pending_blank = True
            return []
        if fence := FENCE_PATTERN.match(line):
            self._open_block("fence")
            self._fence_indent = len(fence[1])
            self._fence = fence[2]
            self._info = fence[3].strip()
            return []
        if HEADING_PATTERN.match(line):
            self._open_block("heading", line)
            return [self._close_block()]
        if RULE_PATTERN.match(line):
            self._open_block("rule", line)
            return [self._close_block()]
        if item := ITEM_PATTERN.match(line):
            self._open_item(item, line, None)
            return []
        self._open_block("quote" if QUOTE_PATTERN.match(line) else "block", line)
        if self._kind == "quote":
            self._track_inner_fence(line.strip().lstrip("> "), line)
        return self._cut_paragraph() if self._size > MAX_PARAGRAPH_CHARACTERS and self._kind == "block" else []

    def _feed_fence(self, line: str) -> list[MarkdownChunk]:
        stripped = line.strip()
        if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]) and count_leading_spaces(line) < 4:
            return [self._close_block()]
        return self._add_code(line[min(count_leading_spaces(line), self._fence_indent) :])

    def _add_code(self, line: str) -> list[MarkdownChunk]:
        self._add_line(line)
        count = len(self._lines)
        is_full = count >= MAX_FENCE_LINES or (count >= MIN_FENCE_LINES and not line.strip())
        return [self._cut_block()] if is_full or self._size > MAX_CHUNK_CHARACTERS else []

    def _feed_item(self, line: str) -> list[MarkdownChunk]:
        depth = count_leading_spaces(line)
        is_blank = not line.strip()
        if self._inner_fence and (is_blank or depth >= self._indent):
            chunks = self._cut_item() if self._size > MAX_PARAGRAPH_CHARACTERS else []
            if chunks:
                self._add_line(self._fence_opening)
            self._add_line(line)
            self._track_inner_fence(line.strip(), line)
            return chunks
        self._inner_fence = ""
        if is_blank:
            self._add_line(line)
            self._pending_blank = True
            return []
        if depth >= self._indent:
            return self._continue_item(line)
        item = None if RULE_PATTERN.match(line) else ITEM_PATTERN.match(line)
        if item:
            chunks = [self._close_block()]
            same = (item[2] or item[4]) == self._marker
            self._open_item(item, line, self._number if same else None)
            return chunks
        if not self._pending_blank and not starts_block(line):
            self._add_line(line)
            return []
        return [self._close_block(), *self._start_block(line)]

    def _continue_item(self, line: str) -> list[MarkdownChunk]:
        chunks: list[MarkdownChunk] = []
        if self._size > MAX_PARAGRAPH_CHARACTERS // 2 and (
            self._pending_blank or NESTED_ITEM_PATTERN.match(line) or self._size > MAX_PARAGRAPH_CHARACTERS
        ):
            chunks = self._cut_item()
        self._pending_blank = False
        self._add_line(line)
        self._track_inner_fence(ITEM_MARK_PATTERN.sub("", line), line)
        return chunks

    def _cut_item(self) -> list[MarkdownChunk]:
        """Close a long list item, and continue it in a new chunk."""
        indent, number, marker, fence = self._indent, self._number, self._marker, self._inner_fence
        chunk = self._close_block()
        self._open_block("item_rest")
        self._begins = False
        self._indent, self._number, self._marker, self._inner_fence = indent, number, marker, fence
        return [chunk]

    def _feed_table(self, line: str) -> list[MarkdownChunk]:
        if not line.strip() or starts_block(line):
            return [self._close_block(), *self._start_block(line)]
        return self._add_row(line)

    def _add_row(self, line: str) -> list[MarkdownChunk]:
        self._add_line(line)
        max_rows = MAX_TABLE_ROWS if self._begins else MAX_LATER_TABLE_ROWS
        return [self._cut_block()] if len(self._lines) >= max_rows or self._size > MAX_CHUNK_CHARACTERS else []

    def _feed_quote(self, line: str) -> list[MarkdownChunk]:
        if QUOTE_PATTERN.match(line):
            return self._continue_quote(line)
        if not line.strip() or starts_block(line):
            return [self._close_block(), *self._start_block(line)]
        self._add_line(line)
        return []

    def _continue_quote(self, line: str) -> list[MarkdownChunk]:
        quoted = line.strip().lstrip("> ")
        count = len(self._lines)
        if not quoted and not self._inner_fence and count >= MAX_QUOTE_LINES:
            chunk = self._cut_block()
            self._spaced = True
            return [chunk]
        chunks: list[MarkdownChunk] = []
        if count >= 3 * MAX_QUOTE_LINES or self._size > MAX_CHUNK_CHARACTERS:
            chunks.append(self._cut_block())
            if self._inner_fence:
                self._add_line(self._fence_opening)
        self._add_line(line)
        self._track_inner_fence(quoted, line)
        return chunks

    def _track_inner_fence(self, content: str, line: str) -> None:
        """Record the start and end of a fence inside a quote or list item; `content` is the line without markers."""
        if not self._inner_fence:
            if fence := INNER_FENCE_PATTERN.match(content):
                self._inner_fence = fence[1]
                self._fence_opening = line
        elif content.startswith(self._inner_fence) and not content.strip(self._inner_fence[0]):
            self._inner_fence = ""

    def _feed_paragraph(self, line: str) -> list[MarkdownChunk]:
        if not line.strip():
            return [self._close_block(), *self._start_block(line)]
        if self._kind == "block":
            if UNDERLINE_PATTERN.match(line) and not self._lines[0].startswith("    "):
                if TABLE_DELIMITER_PATTERN.match(line) and "|" in self._lines[-1] and len(self._lines) == 1:
                    return self._begin_table(line)
                self._add_line(line)
                return [self._close_block("heading")]
            if TABLE_DELIMITER_PATTERN.match(line) and "|" in line and "|" in self._lines[-1]:
                return self._begin_table(line)
        if starts_block(line, inside_paragraph=True):
            return [self._close_block(), *self._start_block(line)]
        self._add_line(line)
        return self._cut_paragraph() if self._size > MAX_PARAGRAPH_CHARACTERS else []

    def _begin_table(self, delimiter: str) -> list[MarkdownChunk]:
        heading = self._lines.pop()
        chunks: list[MarkdownChunk] = []
        spaced = self._spaced
        if self._lines:
            chunks.append(self._close_block())
            spaced = False
        self._open_block("table")
        self._spaced = spaced
        self._header = f"{heading}\n{delimiter}\n"
        return chunks

    # Opening and closing

    def _open_block(self, kind: ChunkKind, *lines: str) -> None:
        self._kind = kind
        self._lines = list(lines)
        self._size = sum(len(line) + 1 for line in lines)
        self._spaced = self._pending_blank
        self._pending_blank = False
        self._begins = True
        self._number = None
        self._info = self._header = self._inner_fence = ""

    def _open_item(self, item: re.Match[str], line: str, previous: int | None) -> None:
        self._open_block("item", line)
        self._marker = item[2] or item[4]
        if item[3]:
            self._number = int(item[3]) if previous is None else previous + 1
        padding = len(item[5] or " ")
        marker_end = len(item[1]) + len(item[2] or item[3] + item[4])
        self._indent = marker_end + (padding if padding <= 4 else 1)
        self._track_inner_fence(ITEM_MARK_PATTERN.sub("", line), " " * self._indent + ITEM_MARK_PATTERN.sub("", line))

    def _add_line(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _remove_last_line(self) -> str:
        line = self._lines.pop()
        self._size -= len(line) + 1
        if not self._lines and self._kind == "block":
            self._kind = None
            self._pending_blank = self._spaced
        return line

    def _make_chunk(self, kind: ChunkKind) -> MarkdownChunk:
        """Return the collected lines as a chunk, and begin to collect again."""
        lines = self._lines
        if kind == "item_rest":
            lines = [line[min(count_leading_spaces(line), self._indent) :] for line in lines]
        text = "\n".join(lines)
        if kind != "fence":
            text = text.rstrip()
        joined, self._continuation_lines = tuple(self._continuation_lines), []
        self._lines, self._size = [], 0
        return MarkdownChunk(kind, text, self._spaced, self._begins, self._number, self._info, self._header, joined)

    def _close_block(self, kind: ChunkKind | None = None) -> MarkdownChunk:
        assert self._kind is not None
        chunk = self._make_chunk(kind or self._kind)
        self._kind = None
        return chunk

    def _cut_block(self) -> MarkdownChunk:
        """Return the finished part of the block and continue the block."""
        assert self._kind is not None
        chunk = self._make_chunk(self._kind)
        self._begins = self._spaced = False
        return chunk

    def _cut_paragraph(self) -> list[MarkdownChunk]:
        """Cut an open paragraph that is too long, after a sentence if possible."""
        assert self._kind is not None
        text = "\n".join(self._lines)
        chunks: list[MarkdownChunk] = []
        while len(text) > MAX_PARAGRAPH_CHARACTERS:
            bounds = MAX_PARAGRAPH_CHARACTERS // 2, MAX_PARAGRAPH_CHARACTERS - 1
            cut = max(text.rfind(". ", *bounds), text.rfind(".\n", *bounds)) + 1
            if not cut:
                cut = max(text.rfind(" ", 1, MAX_PARAGRAPH_CHARACTERS), text.rfind("\n", 1, MAX_PARAGRAPH_CHARACTERS))
            if cut < 1:
                cut = MAX_PARAGRAPH_CHARACTERS
            chunks.append(MarkdownChunk(self._kind, text[:cut], self._spaced, self._begins))
            text = text[cut:]
            self._kind = "rest"
            self._begins = self._spaced = False
        self._lines = text.split("\n") if chunks else self._lines
        self._size = len(text) + 1
        return chunks
