"""Converts chunks of Markdown to lines for a width; parses them with markdown-it."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from widgets.chat.markdown.highlighted_code import LazyHighlightedCode, lay_out_code
from widgets.chat.markdown.markdown_splitter import MarkdownChunk
from widgets.chat.markdown.styled_lines import (
    BLANK_LINE,
    TEXT_STYLE,
    Span,
    StyledLine,
    TextStyle,
    cell_width,
    wrap_spans,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


_DEFINITION_PATTERN = re.compile(r"^ {0,3}\[[^\]\n]+\]:[ \t]*\S.*$", re.MULTILINE)
_URL_PATTERN = re.compile(r"https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}]")


@lru_cache(maxsize=1)
def markdown_parser() -> "MarkdownIt":
    """Return the Markdown parser: CommonMark with tables and strikethrough; HTML stays text."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def link_references(source: str) -> dict[str, Any]:
    """Return the link references defined in a whole text, in the parser's form."""
    environment: dict[str, Any] = {}
    if definitions := _DEFINITION_PATTERN.findall(source):
        markdown_parser().parse("\n\n".join(definitions), environment)
    return environment


def inline_spans(tokens: Sequence["Token"], base: TextStyle) -> list[list[Span]]:
    """Return the spans of an inline token's children, with one list for each hard line."""
    rows: list[list[Span]] = [[]]
    styles = [base]
    for token in tokens:
        style = styles[-1]
        if token.nesting == 1:
            styles.append(_style_inside(token, style))
        elif token.nesting == -1:
            styles.pop()
        elif token.type == "hardbreak":
            rows.append([])
        else:
            rows[-1].extend(_leaf_spans(token, style))
    return rows


def _style_inside(token: "Token", style: TextStyle) -> TextStyle:
    match token.type:
        case "strong_open":
            return style._replace(bold=True)
        case "em_open":
            return style._replace(italic=True)
        case "s_open":
            return style._replace(strike=True)
        case "link_open":
            return style._replace(role="link", href=str(token.attrs.get("href", "")))
    return style


def _leaf_spans(token: "Token", style: TextStyle) -> list[Span]:
    match token.type:
        case "softbreak":
            return [(" ", style)]
        case "code_inline":
            return [(token.content, style._replace(role="link" if style.href else "code-inline"))]
        case "image":
            address = str(token.attrs.get("src", ""))
            return [(token.content or address, style._replace(role="link", href=address))]
        case "text" if "://" in token.content and not style.href:
            return _link_spans(token.content, style)
    return [(token.content, style)] if token.content else []


def _link_spans(text: str, style: TextStyle) -> list[Span]:
    spans: list[Span] = []
    position = 0
    for url in _URL_PATTERN.finditer(text):
        if url.start() > position:
            spans.append((text[position : url.start()], style))
        spans.append((url[0], style._replace(role="link", href=url[0])))
        position = url.end()
    if position < len(text):
        spans.append((text[position:], style))
    return spans


Prefix = tuple[Span, ...]
"""Text at the left of a row: quote bars, list marks, indentation."""
TableCell = list[Span]
TableRow = list[TableCell]

_TABLE_RULE = TextStyle("table-rule")
_COLUMN_GAP_CELLS = 3
"""Cells between two columns: a space, a thin rule, a space."""


def table_column_widths(rows: Sequence[TableRow], width: int) -> list[int]:
    """Return the widths of the columns so that these rows fit into `width` cells.

    Wide columns are narrowed first. Words stay whole if the longest words of all columns fit.
    """
    columns = max((len(row) for row in rows), default=0)
    wanted_widths, min_widths = [1] * columns, [1] * columns
    for row in rows:
        for index, cell in enumerate(row):
            text = "".join(part for part, _ in cell)
            wanted_widths[index] = max(wanted_widths[index], cell_width(text))
            min_widths[index] = max([min_widths[index], *map(cell_width, text.split())])
    available = max(columns, width - _COLUMN_GAP_CELLS * (columns - 1))
    if sum(min_widths) > available:
        min_widths = [1] * columns
    return _share_column_widths(wanted_widths, min_widths, available)


def _share_column_widths(wanted_widths: Sequence[int], min_widths: Sequence[int], available: int) -> list[int]:
    """Return the widths of the columns within `available` cells: wide columns get equal shares (max-min fairness)."""
    result = list(wanted_widths)
    left, reserved = available, sum(min_widths)
    narrow_first = sorted(range(len(wanted_widths)), key=lambda index: wanted_widths[index])
    for position, index in enumerate(narrow_first):
        share = left // (len(wanted_widths) - position)
        reserved -= min_widths[index]
        result[index] = max(min_widths[index], min(wanted_widths[index], share, left - reserved))
        left -= result[index]
    return result


def table_lines(
    rows: Sequence[TableRow], widths: Sequence[int], aligns: Sequence[str], prefix: Prefix, heading: bool
) -> list[StyledLine]:
    """Return the rows in columns of these widths; with `heading`, a rule follows the first row."""
    lines: list[StyledLine] = []
    gutter = sum(len(text) for text, _ in prefix)
    for number, row in enumerate(rows):
        lines.extend(_row_lines(row, widths, aligns, prefix, gutter))
        if heading and number == 0:
            rule = "─┼─".join("─" * width for width in widths)
            lines.append(StyledLine((*prefix, (rule, _TABLE_RULE)), gutter))
    return lines


def _row_lines(
    row: TableRow, widths: Sequence[int], aligns: Sequence[str], prefix: Prefix, gutter: int
) -> list[StyledLine]:
    cells = [wrap_spans(row[index] if index < len(row) else [], width) for index, width in enumerate(widths)]
    lines: list[StyledLine] = []
    for level in range(max((len(cell) for cell in cells), default=0)):
        spans: list[Span] = [*prefix]
        for index, cell in enumerate(cells):
            if index:
                spans.append((" │ ", _TABLE_RULE))
            content = cell[level].spans if level < len(cell) else ()
            free = max(0, widths[index] - sum(cell_width(text) for text, _ in content))
            align = aligns[index] if index < len(aligns) else ""
            before = free if align == "right" else free // 2 if align == "center" else 0
            after = free - before
            if before:
                spans.append((" " * before, TextStyle()))
            spans.extend(content)
            if after and index < len(widths) - 1:
                spans.append((" " * after, TextStyle()))
        lines.append(StyledLine(tuple(spans), gutter))
    return lines


_LIST_MARK = TextStyle("list-mark")
_QUOTE = TextStyle("quote")
_RULE = TextStyle("rule")
_BULLETS = ("•", "◦", "▪")
_TASK_BOXES = {
    "[ ] ": ("☐ ", TextStyle("list-mark")),
    "[x] ": ("☑ ", TextStyle("success")),
    "[X] ": ("☑ ", TextStyle("success")),
}


class MarkdownChunkContext(Struct):
    """State that rendering a chunk needs from the chunks before it."""

    previous: MarkdownChunk | None = None
    widths: list[int] = field(default_factory=list)
    """Column widths of the current table."""
    item_indent: int = 2
    """Cells before the text of the current list item."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Link references of the whole text, for the parser."""
    unfinished_code: LazyHighlightedCode | None = None
    """Previous state of the growing code, while an unfinished chunk is rendered."""


def needs_blank_row(previous: MarkdownChunk | None, chunk: MarkdownChunk) -> bool:
    """Return whether an empty row goes between two chunks."""
    if previous is None or not chunk.begins or previous.kind == "heading":
        return chunk.spaced and not chunk.begins and chunk.kind in ("item_rest", "quote")
    if chunk.kind == "item" and (previous.number is None) != (chunk.number is None) and previous.kind == "item":
        return True
    if {previous.kind, chunk.kind} <= {"item", "item_rest", "block", "rest"}:
        return chunk.spaced
    return True


def render_chunk(
    chunk: MarkdownChunk, width: int, state: MarkdownChunkContext, rows_above: list[StyledLine]
) -> list[StyledLine]:
    """Return the lines of a chunk; one that continues a paragraph takes the last line from `rows_above`."""
    if chunk.kind == "rest":
        lines = _continue_paragraph(chunk, width, rows_above, state)
    else:
        lines = _chunk_lines(chunk, width, state)
        if not lines:
            # The chunk contains only link references, or is the empty end of a block.
            return []
        if needs_blank_row(state.previous, chunk):
            lines = [BLANK_LINE, *lines]
    state.previous = chunk
    return lines


def _chunk_lines(chunk: MarkdownChunk, width: int, state: MarkdownChunkContext) -> list[StyledLine]:
    match chunk.kind:
        case "fence":
            if not chunk.text and not chunk.begins:
                return []
            return lay_out_code(chunk.text, chunk.info, width, (), chunk.continuation_lines, state.unfinished_code)
        case "table":
            return _table_lines(chunk, width, state)
        case "item_rest":
            indent = " " * state.item_indent
            return _BlockRenderer(chunk.text, width, state.environment).render(((indent, TEXT_STYLE),))
        case "item":
            blocks = _BlockRenderer(chunk.text, width, state.environment, chunk.number)
            lines = blocks.render()
            state.item_indent = blocks.item_indent
            return lines
        case _:
            return _BlockRenderer(chunk.text, width, state.environment).render()


def _continue_paragraph(
    chunk: MarkdownChunk, width: int, above: list[StyledLine], state: MarkdownChunkContext
) -> list[StyledLine]:
    tokens = markdown_parser().parseInline(chunk.text.lstrip(), dict(state.environment))
    rows = inline_spans(tokens[0].children or [], TEXT_STYLE) if tokens else [[]]
    joint: str | None = None
    if above:
        last = above.pop()
        rows[0] = [*last.spans, (" ", TEXT_STYLE), *rows[0]] if chunk.text[:1].isspace() else [*last.spans, *rows[0]]
        joint = last.joint
    lines: list[StyledLine] = []
    for spans in rows:
        lines.extend(wrap_spans(spans, width, joint=joint))
        joint = None
    return lines


def _table_lines(chunk: MarkdownChunk, width: int, state: MarkdownChunkContext) -> list[StyledLine]:
    source = chunk.header + chunk.text
    rows, aligns = _table_rows(markdown_parser().parse(source, dict(state.environment)))
    if not rows:
        return _BlockRenderer(source, width, state.environment).render()
    if chunk.begins:
        state.widths = table_column_widths(rows, width)
        return table_lines(rows, state.widths, aligns, (), heading=True)
    return table_lines(rows[1:], state.widths, aligns, (), heading=False)


def _table_rows(tokens: Sequence["Token"]) -> tuple[list[TableRow], list[str]]:
    rows: list[TableRow] = []
    aligns: list[str] = []
    heading = False
    for token in tokens:
        match token.type:
            case "tr_open":
                rows.append([])
            case "th_open":
                heading = True
                aligns.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
            case "td_open":
                heading = False
            case "inline" if rows:
                style = TextStyle("table-head", bold=True) if heading else TEXT_STYLE
                cell: list[Span] = []
                for part in inline_spans(token.children or [], style):
                    cell.extend(part)
                rows[-1].append(cell)
    return rows, aligns


class _BlockRenderer:
    """Renders block tokens recursively; containers extend the prefix of the rows inside them."""

    def __init__(self, source: str, width: int, environment: dict[str, Any], number: int | None = None) -> None:
        self.width = width
        self.item_indent = 2
        self._tokens = markdown_parser().parse(source, dict(environment))
        self._source = source.split("\n")
        self._number = number
        """First number of the outermost ordered list, if it differs from that in the text."""

    def render(self, prefix: Prefix = ()) -> list[StyledLine]:
        lines: list[StyledLine] = []
        self._render_siblings(self._tokens, prefix, prefix, 0, lines)
        return lines

    def _has_empty_line_above(self, token: "Token") -> bool:
        """Return whether an empty line, ignoring quote marks, is above the block."""
        return token.map is not None and not self._source[token.map[0] - 1].strip(" >")

    def _render_siblings(
        self, tokens: Sequence["Token"], first: Prefix, rest: Prefix, depth: int, lines: list[StyledLine]
    ) -> None:
        """Render sibling blocks; the first row of the first one gets `first`, all others `rest`."""
        position = 0
        has_rendered = False
        previous = ""
        while position < len(tokens):
            token = tokens[position]
            end = _closing_index(tokens, position)
            kind = token.type
            prefix = rest if has_rendered else first
            is_separate = kind == "heading_open" or self._has_empty_line_above(token)
            if has_rendered and is_separate and previous != "heading_open":
                lines.append(StyledLine(rest, _prefix_cells(rest)))
            inner = tokens[position + 1 : end]
            match kind:
                case "paragraph_open":
                    style = TextStyle("quote-text") if any(mark is _QUOTE for _, mark in rest) else TEXT_STYLE
                    self._render_inline(inner[0], style, prefix, rest, lines)
                case "heading_open":
                    style = TextStyle("heading" if token.tag in ("h1", "h2") else "subheading", bold=True)
                    self._render_inline(inner[0], style, prefix, rest, lines)
                case "bullet_list_open" | "ordered_list_open":
                    self._render_list(token, inner, prefix, rest, depth, lines)
                case "blockquote_open":
                    bar = ("▎ ", _QUOTE)
                    self._render_siblings(inner, (*prefix, bar), (*rest, bar), depth, lines)
                case "fence" | "code_block":
                    if prefix != rest and not has_rendered:
                        lines.append(StyledLine(prefix, _prefix_cells(prefix)))
                    lines.extend(lay_out_code(token.content.rstrip("\n"), token.info, self.width, rest))
                case "hr":
                    rule_cells = self.width - _prefix_cells(rest)
                    lines.append(StyledLine((*prefix, ("─" * max(3, rule_cells), _RULE)), _prefix_cells(prefix)))
                case "table_open":
                    rows, aligns = _table_rows(inner)
                    widths = table_column_widths(rows, self.width - _prefix_cells(rest))
                    lines.extend(table_lines(rows, widths, aligns, rest, heading=True))
                case _ if token.content:
                    lines.extend(wrap_spans([(token.content.strip(), TEXT_STYLE)], self.width, prefix, rest))
            has_rendered = True
            previous = kind
            position = end + 1

    def _render_inline(
        self, token: "Token", style: TextStyle, first: Prefix, rest: Prefix, lines: list[StyledLine]
    ) -> None:
        for spans in inline_spans(token.children or [], style):
            if spans and first is not rest and first[-1] in _TASK_BOXES.values():
                spans[0] = (spans[0][0][4:], spans[0][1])
            lines.extend(wrap_spans(spans, self.width, first, rest))
            first = rest

    def _render_list(
        self,
        token: "Token",
        inner: Sequence["Token"],
        first: Prefix,
        rest: Prefix,
        depth: int,
        lines: list[StyledLine],
    ) -> None:
        ordered = token.type == "ordered_list_open"
        number = int(token.attrs.get("start", 1))
        if self._number is not None and depth == 0:
            number = self._number
        position = 0
        while position < len(inner):
            end = _closing_index(inner, position)
            mark = f"{number}. " if ordered else f"{_BULLETS[min(depth, 2)]} "
            indent = (" " * len(mark), TEXT_STYLE)
            if depth == 0:
                self.item_indent = _prefix_cells(rest) + len(mark)
            if position and self._has_empty_line_above(inner[position]):
                lines.append(StyledLine(rest, _prefix_cells(rest)))
            lead = first if position == 0 else rest
            children = inner[position + 1 : end]
            if box := _task_box(children):
                self._render_siblings(children, (*lead, box), (*rest, ("  ", TEXT_STYLE)), depth + 1, lines)
            elif children:
                self._render_siblings(children, (*lead, (mark, _LIST_MARK)), (*rest, indent), depth + 1, lines)
            else:
                lines.append(StyledLine((*lead, (mark, _LIST_MARK)), _prefix_cells(lead)))
            number += 1
            position = end + 1


def _task_box(children: Sequence["Token"]) -> Span | None:
    """Return the box instead of the bullet if the item is a task; else None."""
    return _TASK_BOXES.get(children[1].content[:4]) if len(children) > 1 and children[1].type == "inline" else None


def _closing_index(tokens: Sequence["Token"], position: int) -> int:
    """Return the index of the token that closes the one at `position`; `position` if that opens nothing."""
    token = tokens[position]
    if token.nesting != 1:
        return position
    for index in range(position + 1, len(tokens)):
        if tokens[index].level == token.level and tokens[index].nesting == -1:
            return index
    return len(tokens) - 1


def _prefix_cells(prefix: Prefix) -> int:
    return sum(len(text) for text, _ in prefix)
