"""What of a changed line is marked: words, and white space that says something, by language."""

import re

from hypothesis import given
from hypothesis import strategies as st

from app.proposals.text.diff import LineChange
from app.proposals.text.line_comparison import Ranges, changed_words
from widgets.diff.white_space import are_equal_ignoring_space, significant_whitespace, split_off_space_changes

SAME = [
    ("a.go", "\tx := 1", "    x := 1"),
    ("a.go", "x := 1  ", "x := 1"),
    ("a.go", "x := a+b", "x := a + b"),
    ("a.go", "f( a,b )", "f(a, b)"),
    ("a.json", '{"a":1}', '{ "a": 1 }'),
    ("a.py", "x = 1  # one", "x = 1 # one"),
    ("a.py", "x=f(a , b)", "x = f(a, b)"),
    ("a.py", "x = 1   ", "x = 1"),
    ("a.py", "    ", ""),
    ("a.css", "  a  b { }", "a b { }"),
    ("notes", "a  b ", "a b"),
    ("a.go", "same", "same"),
    ("a.csv", "same, too", "same, too"),
]
OTHER = [
    ("a.py", "    return x", "return x"),
    ("a.py", "\treturn x", "        return x"),
    ("Makefile", "\techo", "        echo"),
    ("conf.yml", "  a: b", "a: b"),
    ("conf.yml", "a: b", "a:b"),
    ("notes", "  a", "a"),
    ("a.go", 's := "a  b"', 's := "a b"'),
    ("a.js", "s = `a  b`", "s = `a b`"),
    ("a.js", "<b>Hi</b> there", "<b>Hi</b>there"),
    ("a.js", "{name} wins", "{name}wins"),
    ("a.js", "s = 'it\\'s  so'", "s = 'it\\'s so'"),
    ("a.go", "return x", "returnx"),
    ("a.c", "a - -b", "a --b"),
    ("a.c", "#define f (x)", "#define f(x)"),
    ("a.go", "//go:embed x", "// go:embed x"),
    ("a.css", "a .b {", "a.b {"),
    ("a.sh", "a = b", "a=b"),
    ("a.rb", "f -1", "f - 1"),
    ("a.go", "x\u00a0y", "x y"),
    ("a.csv", "a, b", "a,b"),
    ("a.csv", "a  b", "a b"),
    ("a.md", "line  ", "line"),
    ("a.py", 'f "a"', 'f"a"'),
]


def test_only_white_space_without_meaning_is_ignored() -> None:
    for pairs, equal in ((SAME, True), (OTHER, False)):
        for path, old, new in pairs:
            assert are_equal_ignoring_space(old, new, significant_whitespace(path)) is equal, (path, old)
            assert are_equal_ignoring_space(new, old, significant_whitespace(path)) is equal, (path, old)


LINE = st.text(st.sampled_from("ab \t+-\"'`\\(,#.é\u00a0"), max_size=14)


@given(st.sampled_from(["a.go", "a.py", "a.css", "x.md", "Makefile", "none"]), LINE, LINE)
def test_lines_equal_but_for_space_have_the_same_words(path: str, old: str, new: str) -> None:
    if are_equal_ignoring_space(old, new, significant_whitespace(path)):
        assert re.sub(r"[ \t\r\f]", "", old) == re.sub(r"[ \t\r\f]", "", new)
        assert re.findall(r"\w+", old) == re.findall(r"\w+", new)


LINES = st.lists(st.sampled_from(["a", " a", "a ", "b(c)", "b( c )", "", "  ", "x"]), max_size=8)


@given(st.sampled_from(["a.go", "a.py"]), LINES, LINES)
def test_shown_and_hidden_parts_make_up_the_whole_hunk(path: str, old: list[str], new: list[str]) -> None:
    meaning = significant_whitespace(path)
    rest = split_off_space_changes(old, new, meaning)
    if rest is None:
        return
    at_old = at_new = pairs = 0
    for change in rest.changes:
        assert change.old_start - at_old == change.new_start - at_new
        for line in range(change.old_start - at_old):
            assert are_equal_ignoring_space(old[at_old + line], new[at_new + line], meaning)
            pairs += 1
        at_old, at_new = change.old_end, change.new_end
    assert len(old) - at_old == len(new) - at_new
    assert rest.left_out == pairs + len(old) - at_old


def test_hunk_is_whole_unless_space_changes_are_hidden() -> None:
    for old, new, rest in (
        (["a"], ["b"], None),
        (["a", "b"], ["c", "b"], ([LineChange(0, 1, 0, 1)], 1, 0)),
        (["a", " b"], ["c", "b"], ((LineChange(0, 2, 0, 2),), 0, 1)),
        (["a ", " b"], ["a", "b"], ([LineChange(1, 2, 1, 2)], 1, 1)),
    ):
        assert split_off_space_changes(old, new, significant_whitespace("a.py")) == rest
    assert split_off_space_changes(["a "], ["a"], significant_whitespace("a.csv")) is None
    assert split_off_space_changes([], ["a"], significant_whitespace("a.go")) is None


def test_comparing_a_long_line_of_quotes_takes_linear_time() -> None:
    line = '\\"' * 100_000 + "\\"
    assert not are_equal_ignoring_space(f"{line} x", f"{line}  x", significant_whitespace("a.go"))


def cut(line: str, ranges: Ranges) -> list[str]:
    return [line[start:end] for start, end in ranges]


def test_changed_words_are_marked_completely_as_one_range() -> None:
    for old, new, expected in (
        ("return load(path)", "return load(name)", (["path"], ["name"])),
        ("value = counter", "value = counters", (["counter"], ["counters"])),
        ("x", "x one two", ([], [" one two"])),
    ):
        gone, added = changed_words(old, new)
        assert (cut(old, gone), cut(new, added)) == expected


def test_a_very_long_line_is_marked_from_first_to_last_difference() -> None:
    old = "a" * 5_000_000
    new = "a" * 2_000_000 + "b" + "a" * 2_999_999
    assert changed_words(old, new) == ([(2_000_000, 2_000_001)], [(2_000_000, 2_000_001)])


@given(st.text("ab _.(", max_size=60), st.text("ab _.(", max_size=60))
def test_the_unmarked_parts_are_equal(old: str, new: str) -> None:
    gone, added = changed_words(old, new)

    def rest(line: str, ranges: Ranges) -> str:
        kept, at = "", 0
        for start, end in ranges:
            assert at <= start < end <= len(line)
            kept += line[at:start]
            at = end
        return kept + line[at:]

    assert rest(old, gone).replace(" ", "") == rest(new, added).replace(" ", "")
    if old == new:
        assert gone == added == []
