"""Text that is still being written looks like what it becomes: no row comes and goes again."""

import pytest

from widgets.chat.markdown.markdown_document import MarkdownDocument

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
    document.append(partial)
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
def test_what_is_open_is_shown_closed(partial: str, rows: list[str] | None) -> None:
    assert [row.rstrip() for row in shown(partial)] == rows if rows else shown(partial)[0].startswith("*args")


@pytest.mark.parametrize("width", [40, 70])
def test_no_row_comes_and_goes_while_an_answer_is_written(width: int) -> None:
    before: list[str] = []
    for end in range(1, len(ANSWER) + 1):
        rows = shown(ANSWER[:end], width)
        assert len(rows) >= len(before), (before[-2:], rows[-2:])
        stays = max(0, len(before) - 2)
        assert rows[:stays] == before[:stays]
        before = rows


@pytest.mark.parametrize("text", ["-", "1.", "**", "[a](b", "| a | b |", "`", "# ", "- [ ]", "a\n-"])
def test_what_ends_so_is_shown_as_it_is(text: str) -> None:
    streamed, whole = MarkdownDocument(60), MarkdownDocument(60)
    whole.append(text)
    for character in text:
        streamed.append(character)
        streamed.advance()
    for document in (streamed, whole):
        document.finish()
        document.advance()
    assert streamed.lines == whole.lines
