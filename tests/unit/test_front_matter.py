"""Front matter as people and other tools write it, strict YAML or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.prompts.front_matter import parse_front_matter


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("description: Use it when: always", "Use it when: always"),
        ('description: "with \\"quotes\\" and # no comment"', 'with "quotes" and # no comment'),
        ("description: 'it''s so'", "it's so"),
        ('description: "C:\\new \\q"', "C:\\new \\q"),
        ("description: >-\n  folded\n  over lines", "folded over lines"),
        ("description: |\n  line\n  by line", "line\nby line"),
        ("description: goes on\n  below", "goes on below"),
        ("Description:   spaces around   ", "spaces around"),
        ("# a remark\n\ndescription: after it\ntools:\n  - one\n- two", "after it"),
        ("description: [file] [n]", "[file] [n]"),
        ("description:", ""),
        ("description: that is it", "that is it"),
        ("description: '", "'"),
        ("description: 'not the end' of \"it\"", "'not the end' of \"it\""),
    ],
)
def test_a_value_is_read_as_it_is_meant(written: str, meant: str) -> None:
    for text in (f"---\n{written}\n---\n\nbody\n", f"---\n{written}\n---\n\nbody\n".replace("\n", "\r\n")):
        read = parse_front_matter(text)
        assert (read.values.get("description"), read.body, read.problem) == (meant, "body", "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [("---\ndescription: x\n", "no end"), ("---\na: b\nwhat is this\n---\n", "line 3"), ("---\n{}\n---\n", "line 2")],
)
def test_what_cannot_be_read_is_one_line(text: str, problem: str) -> None:
    read = parse_front_matter(text)
    assert problem in read.problem and "\n" not in read.problem
    assert read.body == ""


def test_a_text_without_it_is_all_body() -> None:
    assert parse_front_matter("# Title\n---\na: b\n---\n").body == "# Title\n---\na: b\n---\n"


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert "\n" not in parse_front_matter(f"---\n{text}").problem
