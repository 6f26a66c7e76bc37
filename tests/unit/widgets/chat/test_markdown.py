"""Markdown that grows: the same rows however it arrives, nothing wider than the pane, nothing lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.chat.entries.entry_base import GrowingTextRows
from widgets.chat.entries.message_entries import ModelAnswerEntry
from widgets.chat.markdown.markdown_blocks import markdown_parser
from widgets.chat.markdown.markdown_document import MarkdownDocument, markdown_lines
from widgets.chat.markdown.markdown_splitter import (
    MAX_FENCE_LINES,
    MAX_LATER_TABLE_ROWS,
    MAX_PARAGRAPH_CHARACTERS,
    MAX_QUOTE_LINES,
    MAX_TABLE_ROWS,
)
from widgets.chat.markdown.styled_lines import StyledLine, cell_width

WORDS = st.sampled_from(
    [
        *("alpha", "beta", "**bold**", "`code`", "*it*", "[link](https://x.y)", "日本語", "e\u0301", "a_b", "1."),
        "👩\u200d💻",
    ]
)
SENTENCE = st.lists(WORDS, min_size=1, max_size=14).map(" ".join)
BLOCK = st.one_of(
    SENTENCE,
    SENTENCE.map(lambda text: f"## {text}"),
    st.lists(SENTENCE, min_size=1, max_size=4).map(lambda items: "\n".join(f"- {item}" for item in items)),
    st.lists(SENTENCE, min_size=1, max_size=4).map(lambda items: "\n\n".join(f"1. {item}" for item in items)),
    st.lists(SENTENCE, min_size=1, max_size=3).map(
        lambda items: "- top\n" + "\n".join(f"  - {item}" for item in items)
    ),
    SENTENCE.map(lambda text: f"- item\n\n  {text}\n\n  ```py\n  x = 1\n\n  y = 2\n  ```"),
    st.lists(SENTENCE, min_size=1, max_size=3).map(lambda rows: "\n".join(f"> {row}" for row in rows)),
    st.lists(st.sampled_from(["x = 1", "", "    indented", "# no heading", "- no item", "``"]), max_size=8).map(
        lambda rows: "```python\n" + "\n".join(rows) + "\n```"
    ),
    st.lists(SENTENCE, min_size=1, max_size=4).map(
        lambda rows: "| a | b |\n|---|:-:|\n" + "\n".join(f"| {row} | x |" for row in rows)
    ),
    st.just("---"),
    st.text(alphabet="ab `*_#->|\n\t1.~[]()\r", max_size=60),
)
DOCUMENT = st.lists(st.tuples(BLOCK, st.sampled_from(["\n\n", "\n", "\r\n\r\n"])), max_size=8).map(
    lambda parts: "".join(block + end for block, end in parts)
)

LONG_LINES = [
    "word ",
    "- ",
    "- item\n\n  ",
    "- - - ",
    "> ",
    "> > ",
    "# ",
    "```python\n",
    "- item\n\n  ```\n  ",
    "| a | b |\n|---|---|\n| ",
]
"""What lines begin with that have no end, one for each kind of block."""


def rows(lines: list[StyledLine]) -> list[tuple[str, int, str | None, str]]:
    return [(line.text, line.gutter, line.joint, line.fill) for line in lines]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


@given(DOCUMENT, st.lists(st.integers(1, 40), max_size=60), st.integers(12, 90), st.data())
def test_streamed_text_equals_finished_text(text: str, sizes: list[int], width: int, data: st.DataObject) -> None:
    document = MarkdownDocument(width)
    position = 0
    for size in sizes:
        document.append_source(text[position : position + size])
        position += size
        if data.draw(st.booleans()):
            document.advance()
            assert all("".join(part for part, _ in line.resolve_spans()) == line.text for line in document.lines)
    document.append_source(text[position:])
    document.finish()
    document.advance()
    fresh = markdown_lines(text, width)
    assert rows(document.lines) == rows(fresh)
    assert [line.resolve_spans() for line in document.lines] == [line.resolve_spans() for line in fresh]


@given(DOCUMENT, st.integers(12, 60))
def test_no_row_is_wider_than_the_pane_unless_its_decoration_is(text: str, width: int) -> None:
    for line in markdown_lines(text, width):
        room = max(width, line.gutter + 12)
        if "│" not in line.text and "┼" not in line.text:
            assert cell_width(line.text) <= room, line.text


@pytest.mark.parametrize(
    "text",
    [
        "one\ntwo *three*\n\nfour\n",
        "1. a\n2. b\n\n   c\n3. d\n",
        "- a\n  - b\n    - c\n- d\n\nend\n",
        "> a\n> b\nlazy\n\n> - c\n",
        "Setext\n===\n\nOther\n---\ntext\n",
        "text\n| a | b |\n|---|---|\n| c | d |\nafter\n\nend\n",
        "- [ ] open\n- [x] done\n",
        "a\n***\nb\n",
    ],
)
def test_nothing_of_the_text_is_lost(text: str) -> None:
    expected: list[str] = []
    for token in markdown_parser().parse(text):
        for child in token.children or []:
            expected += words(child.content)
    shown = [word for line in markdown_lines(text, 60) for word in words(line.text) if not word.isdigit()]
    assert [word for word in expected if word != "x"] == [word for word in shown if word != "x"]


@pytest.mark.parametrize(
    "start, row, most",
    [
        ("```python\n", "value = 1\n", MAX_FENCE_LINES),
        ("| a | b |\n|---|---|\n", "| one | two |\n", MAX_LATER_TABLE_ROWS),
        ("- item\n", "- item\n", 1),
    ],
)
def test_settled_rows_stay_while_a_block_grows(start: str, row: str, most: int) -> None:
    document = MarkdownDocument(60)
    document.append_source(start)
    settled: list[StyledLine] = []
    for _ in range(4 * MAX_FENCE_LINES + MAX_TABLE_ROWS):
        document.append_source(row)
        document.advance()
        now = document.lines[: document.settled_row_count]
        assert all(old is new for old, new in zip(settled, now, strict=False))
        assert len(now) >= len(settled)
        assert not settled or len(document.lines) - len(now) <= most
        settled = now


def texts(source: str) -> list[str]:
    return [line.text for line in markdown_lines(source, 40)]


@pytest.mark.parametrize("lines", [1, MAX_FENCE_LINES - 1, MAX_FENCE_LINES, MAX_FENCE_LINES + 1])
def test_the_end_of_code_adds_no_row(lines: int) -> None:
    assert texts("```\n" + "x = 1\n" * lines + "```\nafter\n") == [" x = 1"] * lines + ["", "after"]


@pytest.mark.parametrize(
    "source, rows",
    [
        ("a\n# head\nb\n\n#c", ["a", "", "head", "b", "", "#c"]),
        ("a\nb\n===\nc", ["a b", "c"]),
        ("a\n***\nb", ["a", "", "─" * 40, "", "b"]),
        ("a\n    b\n*\n2. c", ["a b * 2. c"]),
        ("a\n- b\n1. c", ["a", "• b", "", "1. c"]),
        ("1. a\n- b\n* c\n2. d", ["1. a", "", "• b", "• c", "", "2. d"]),
        ("-\n- a\n\n\n- b\n\nc", ["•", "• a", "", "• b", "", "c"]),
        ("- a\nb\n  c\n# d", ["• a b c", "", "d"]),
        ("- a\n---\n- b\n```\nx", ["• a", "", "─" * 40, "", "• b", "", " x"]),
        ("- a\n\n  b\n  > c\n      d", ["• a", "", "  b", "  ▎ c d"]),
        ("- ```\n  x\n\n  y\n  ```\n- b", ["•", "   x", "", "   y", "• b"]),
        ("- - a\n  - [ ] b\n    c", ["• ◦ a", "  ☐ b c"]),
        ("> a\nb\n# c", ["▎ a b", "", "c"]),
        ("> a\n>\n> - b\n\n> c", ["▎ a", "▎", "▎ • b", "", "▎ c"]),
        ("> ```\n> x\n>\n> ```\n> y\n```\nz", ["▎  x", "▎ y", "", " z"]),
        ("a\n```py\nx\n\n  y\n```\nb", ["a", "", " x", "", "   y", "", "b"]),
        ("````\n```\n````\n~~~\n```\n    ~~~", [" ```", "", " ```", "     ~~~"]),
        ("  ```\n  x\n y\n``` `", [" x", " y", " ``` `"]),
        ("``` a`b\nc", ["``` a`b c"]),
        ("a\nb | c\n--|--\nd | e\nf\n- g", ["a", "", "b │ c", "──┼──", "d │ e", "f │", "", "• g"]),
        ("| a |\n|--|\n| b |\n\nc", ["a", "─", "b", "", "c"]),
        ("| a |\n---\n| b |", ["a", "─", "b"]),
        ("a | b\n---\nc", ["a | b", "c"]),
        ("a | b\n|---|\nx | y", ["a | b |---| x | y"]),
        ("3. a\n1. b\n\n   more\n1. c", ["3. a", "4. b", "", "   more", "5. c"]),
        ("<b>x</b> <!-- y -->", ["<b>x</b> <!-- y -->"]),
        ("[a]: https://example.org\n\nsee [a]", ["see a"]),
        ("a\n\n>\n\nb\n\n[a]: https://example.org\n\nc", ["a", "", "b", "", "c"]),
    ],
)
def test_blocks_start_and_end_as_in_commonmark(source: str, rows: list[str]) -> None:
    assert [row.rstrip() for row in texts(source)] == rows


def test_a_long_quotation_is_settled_at_its_empty_lines() -> None:
    quoted = "> words\n" * MAX_QUOTE_LINES
    document = MarkdownDocument(40)
    for source in (quoted, ">\n", "> more\n"):
        document.append_source(source)
        document.advance()
    assert document.settled_row_count >= 1
    document.finish()
    document.advance()
    assert [line.text.strip() for line in document.lines] == [line.strip() for line in texts(quoted + ">\n> more\n")]
    assert texts(quoted + ">\n") == texts(quoted)
    assert texts(quoted + ">\nmore") == texts(quoted + "\nmore") == [*texts(quoted), "", "more"]


def test_a_paragraph_of_many_pages_flows_on_as_one() -> None:
    sentence = "Some words of a sentence that is neither long nor short. "
    text = sentence * (3 * MAX_PARAGRAPH_CHARACTERS // len(sentence))
    lines = markdown_lines(text, 50)
    assert " ".join(line.text for line in lines).split() == text.split()
    assert all(line.joint == " " for line in lines[1:])
    assert min(len(line.text) for line in lines[:-1]) > 30

    document = MarkdownDocument(50)
    for start in range(0, len(text), 97):
        document.append_source(text[start : start + 97])
        document.advance()
        assert " ".join(line.text for line in document.lines).split() == text[: start + 97].split()


@pytest.mark.parametrize("end", ["", "[the manual]: https://example.org\n"])
def test_an_interrupted_layout_continues_where_it_stopped(end: str) -> None:
    text = "See [the manual].\n\n" * 200 + end
    entry = ModelAnswerEntry("answer", text)
    document: GrowingTextRows | None = None
    calls = 0
    while calls < 1_000 and (document is None or not document.advance(deadline=0.0)):
        document = entry.growing_rows(document, 60, opened=False)
        calls += 1
    assert document is not None and calls > 100
    assert rows(document.lines) == rows(markdown_lines(text, 60))


def test_addresses_become_links_and_keep_their_target() -> None:
    line = markdown_lines("see https://example.org/a_b. and [here](https://x.y/z)", 80)[0]
    assert [face.href for _, face in line.spans if face.href] == ["https://example.org/a_b", "https://x.y/z"]


@pytest.mark.parametrize(
    "start, row, prefix",
    [
        ("> ```py\n", "> value = 1\n", "▎ "),
        ("- item\n  ```py\n", "  value = 1\n", "  "),
        ("1. ```py\n", "   value = 1\n", "   "),
    ],
)
def test_a_fence_inside_a_container_stays_a_fence_however_long(start: str, row: str, prefix: str) -> None:
    lines = markdown_lines(start + row * 600, 40)
    code = [line for line in lines if line.fill == "code"]
    assert len(code) == 600
    assert all(line.text.startswith(prefix) and line.text.endswith("value = 1") for line in code)


@pytest.mark.parametrize(
    "unit",
    [
        "word ",
        "> quoted words\n",
        "- item\n",
        "  more of it\n",
        "x",
        "日本",
        "> > deep\n",
        "| a | b |\n",
        "***",
        "<p>\n",
        *(f"{start}word " for start in LONG_LINES[1:]),
    ],
)
def test_work_per_character_does_not_grow_with_the_text(unit: str) -> None:
    """Counts the characters that are laid out again, rather than seconds."""
    begins = "- a\n" if unit.startswith(" ") else unit.removesuffix("word ") if unit.endswith("word ") else ""
    unit = unit.removeprefix(begins)

    text = begins + unit * (24_000 // len(unit))
    document = MarkdownDocument(70)
    work = half = 0
    for start in range(0, len(text), 800):
        document.append_source(text[start : start + 800])
        settled = document.settled_row_count
        document.advance()
        work += sum(len(line.text) for line in document.lines[settled:])
        half = work if start <= 12_000 else half
    assert work < max(2.6 * half, 24_000)


@pytest.mark.parametrize("start", LONG_LINES)
def test_a_very_long_streamed_line_stays_in_its_block(start: str) -> None:
    line = " ".join(f"word{number} - # `" for number in range(750))
    text = f"{start}{line}\n"
    lines = markdown_lines(text, 60)
    document = MarkdownDocument(60)
    for at in range(0, len(text), 997):
        document.append_source(text[at : at + 997])
        document.advance()
    document.finish()
    document.advance()
    assert rows(document.lines) == rows(lines)
    assert words(" ".join(line.text for line in lines))[-750:] == words(line)
    assert len({line.fill for line in lines[-100:]}) == 1


def test_a_very_long_line_of_code_is_copied_as_one_line() -> None:
    line = "call(argument, 1); " * 1_000
    copied = "".join(
        ("\n" if row.joint is None else row.joint) + row.text[row.gutter :]
        for row in markdown_lines(f"```\nfirst\n{line}\nlast\n```\n", 60)
    )
    assert copied == f"\nfirst\n{line}\nlast"


@pytest.mark.parametrize("streamed", [False, True])
def test_reference_links_use_definitions_at_the_end(streamed: bool) -> None:
    text = "See [the manual][m] and [M].\n\n- or [there][m]\n\nThe end.\n\n[m]: https://example.org/manual\n"
    document = MarkdownDocument(40)
    for piece in text if streamed else [text]:
        document.append_source(piece)
        if streamed:
            document.advance()
    document.finish()
    document.advance()
    assert [line.text for line in document.lines] == ["See the manual and M.", "", "• or there", "", "The end."]
    links = [(part, face.href) for line in document.lines for part, face in line.spans if face.href]
    assert links == [(part, "https://example.org/manual") for part in ("the manual", "M", "there")]


ANSWER = """Some words with **bold ones**, *some in italics*, ***both***, `code`, ~~none~~, a_name, 2 * 3 * 4 and a
[link](https://example.org/a/path/that/is/far/longer/than/a/row/of/the/pane/is/wide/here?and=more) among them. So:
- one **item**: `code`
- [ ] a task
- [x] done
  - nested *words*

1. first __words__
2. ![image](https://example.org/another/path/that/is/longer/than/a/row/of/the/pane.png) and so on

> a quote with **bold** words
> goes on

```python
print("``")
# a comment
```

## Heading

Words at the end

---

Done.
"""


def shown(partial: str, width: int = 60) -> list[str]:
    document = MarkdownDocument(width)
    document.append_source(partial)
    document.advance()
    return [line.text for line in document.lines]


@pytest.mark.parametrize(
    "partial, rows",
    [
        ("plain", ["plain"]),
        ("this is **bo", ["this is bo"]),
        ("this is **bold*", ["this is bold"]),
        ("is **done** and", ["is done and"]),
        ("in *ital", ["in ital"]),
        ("in ***bo", ["in bo"]),
        ("in __bo", ["in bo"]),
        ("in ~~stru", ["in stru"]),
        ("2 * 3", ["2 * 3"]),
        ("a_name", ["a_name"]),
        ("words **", ["words"]),
        ("*args are many, " + "words " * 20 + "end", None),
        ("a `co", ["a co"]),
        ("a `", ["a"]),
        ("a `**co` and", ["a **co and"]),
        ("see [this](https://example.org/on", ["see this"]),
        ("see ![this](pic", ["see this"]),
        ("one:\n-", ["one:"]),
        ("one:\n- [", ["one:"]),
        ("one:\n- [x] t", ["one:", "☑ t"]),
        ("one\n``", ["one"]),
        ("one\n\n--", ["one"]),
        ("one\n==", ["one"]),
        ("```\ncode\n``", [" code"]),
        ("```\ncode\n--", [" code", " --"]),
        ("| a | b", ["a │ b", "──┼──"]),
        ("| a | b |\n|-", ["a │ b", "──┼──"]),
        ("| a | b |\n|--|--|\n| one **tw", ["a      │ b", "───────┼──", "one tw │"]),
        ("| a is said", ["a is said", "─────────"]),
        ("| a |\nb", ["| a | b"]),
        ("- a *b\n- c", ["• a *b", "• c"]),
    ],
)
def test_unfinished_markup_is_shown_closed(partial: str, rows: list[str] | None) -> None:
    assert [row.rstrip() for row in shown(partial)] == rows if rows else shown(partial)[0].startswith("*args")


@pytest.mark.parametrize("width", [40, 70])
def test_no_finished_row_changes_while_text_streams(width: int) -> None:
    before: list[str] = []
    document = MarkdownDocument(width)
    for end, character in enumerate(ANSWER, 1):
        document.append_source(character)
        document.advance()
        rows = [line.text for line in document.lines]
        assert len(rows) >= len(before), (before[-2:], rows[-2:])
        stays = max(0, len(before) - 2)
        assert rows[:stays] == before[:stays]
        assert end % 10 or rows == shown(ANSWER[:end], width), "as if it had come at once"
        before = rows


@pytest.mark.parametrize("text", ["-", "1.", "**", "[a](b", "| a | b |", "`", "# ", "- [ ]", "a\n-"])
def test_unfinished_markup_at_the_end_is_shown_as_typed(text: str) -> None:
    streamed, whole = MarkdownDocument(60), MarkdownDocument(60)
    whole.append_source(text)
    for character in text:
        streamed.append_source(character)
        streamed.advance()
    for document in (streamed, whole):
        document.finish()
        document.advance()
    assert streamed.lines == whole.lines
