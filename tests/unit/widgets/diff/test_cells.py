"""Display texts: safe, without tabs, and with three ways of counting that agree."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from widgets.diff.display_cells import (
    DisplayText,
    display_text,
    find_line_breaks,
    lru_cache_by_text_identity,
    wrap_into_safe_lines,
    wrapped_row_count,
)
from widgets.diff.line_marks import suspicious_spans

TEXT = st.text(
    st.one_of(
        st.characters(exclude_characters="\n"),
        st.sampled_from("\t\x1b\u202e\u200b\u200d\ufe0f\u0301中文日👩🏽❤️é\udc80ab c"),
    ),
    max_size=40,
)


@given(TEXT)
def test_display_text_is_safe_and_its_positions_increase_to_the_terminals_width(line: str) -> None:
    shown = display_text(line)
    assert not any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in shown.text)
    assert not set(shown.text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert shown.width == cell_len(shown.text)
    drawn = [shown.drawn_index(index) for index in range(len(line) + 1)]
    assert drawn == sorted(drawn)
    assert drawn[-1] == len(shown.text)
    cells = [shown.first_column_of(index) for index in range(len(shown.text) + 1)]
    assert cells == sorted(cells)
    assert cells[-1] == shown.width
    assert [shown.source_index(index) for index in drawn] == list(range(len(line) + 1)), "led back to its source"


def test_a_long_line_of_one_width_needs_few_places_in_any_script() -> None:
    for letter in "xéз中ب":
        assert len(display_text(letter * 10_000).width_runs) <= 3
    shown = display_text("日本語" * 100_000)
    assert len(shown.width_runs) < 4
    assert shown.width == 600_000
    assert shown.slice_cells(301, 401) == (151, 200, 1)
    shown = display_text("x = y;" * 80_000)
    assert shown.width_runs == ()
    assert shown.slice_cells(400_000, 400_100) == (400_000, 400_100, 0)


@given(TEXT, st.integers(0, 40), st.integers(1, 30))
def test_a_slice_has_the_requested_width_or_ends_the_line(line: str, start: int, width: int) -> None:
    shown = display_text(line)
    first, last, blank = shown.slice_cells(start, start + width)
    cells = blank + shown.first_column_of(last) - shown.first_column_of(first)
    assert cells <= width
    if shown.width >= start + width:
        assert cells >= width - 1, "at most half a wide character is missing"


@given(TEXT, st.integers(2, 20))
def test_wrapping_shows_every_character_once(line: str, width: int) -> None:
    shown = display_text(line)
    starts, hang = find_line_breaks(line, width)
    assert starts[0] == 0
    assert list(starts) == sorted(set(starts))
    assert len(starts) == wrapped_row_count(line, width)
    ends = [*starts[1:], len(shown.text)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        assert shown.first_column_of(end) - shown.first_column_of(start) + (hang if number else 0) <= width
        assert shown.index_at_cell(shown.first_column_of(start)) >= start, "no grapheme is halved"


WORDS = st.lists(st.from_regex(r"[a-z_]{1,12}|[A-Z]{13,60}|[\u4e00-\u4e05]{1,3}", fullmatch=True), max_size=12)


@given(WORDS, st.integers(0, 30), st.integers(8, 40), st.sampled_from(" \t"))
def test_a_word_that_fits_a_row_is_not_broken(words: list[str], indent: int, width: int, space: str) -> None:
    line = " " * indent + space.join(words)
    shown = display_text(line)
    starts, hang = find_line_breaks(line, width)
    assert hang in (0, len(shown.text) - len(shown.text.lstrip()))
    for start in starts[1:]:
        before, after = shown.text[:start].rsplit(" ", 1)[-1], shown.text[start:].split(" ", 1)[0]
        is_inside = before and after and not before[-1] >= "\u4e00"
        assert not is_inside or cell_len(before + after) > width - hang


def test_a_long_word_breaks_before_a_name_inside_it() -> None:
    def rows(line: str, width: int) -> list[str]:
        shown, (starts, hang) = display_text(line).text, find_line_breaks(line, width)
        ends = [*starts[1:], len(shown)]
        return [" " * hang * bool(start) + shown[start:end] for start, end in zip(starts, ends, strict=True)]

    assert rows("\treturn self.server.answer(first,second)", 24) == [
        "    return self.server.",
        "    answer(first,second)",
    ]
    assert rows(f"key={'k' * 40} end", 20) == ["key=" + "k" * 16, "k" * 20, "kkkk end"]
    assert rows("# 日本語の文章は、空白がない", 12) == ["# 日本語の文", "章は、空白が", "ない"]


@given(TEXT, st.integers(2, 20))
def test_wrapped_words_fit_and_lose_only_spaces(line: str, width: int) -> None:
    lines = wrap_into_safe_lines(line, width)
    assert all(cell_len(part) <= width for part in lines)
    assert "".join("".join(lines).split()) == "".join(display_text(line).text.split())


def test_tabs_stop_at_multiples_of_four_and_a_grapheme_is_never_split() -> None:
    assert display_text("a\tb\t\tc").text == "a   b       c"
    assert display_text("中\tx").text == "中  x"
    family = "👩\u200d👩\u200d👧"
    assert display_text(f"x{family}y") == DisplayText(f"x{family}y", 4, display_text(f"x{family}y").width_runs)
    line = display_text("a\U0001f469\u200d\U0001f4bbb")
    assert line.slice_cells(1, 3) == (1, 4, 0), "all of it"
    assert line.slice_cells(2, 4) == (4, 5, 1), "half of it would be left"
    assert line.slice_cells(0, 2) == (0, 1, 0)
    assert line.slice_cells(9, 12) == (5, 5, 0)


def test_deceptive_characters_are_flagged_also_in_very_long_lines() -> None:
    line = "a\x1b[2Jb\u202ec\t= p\u0430ssword"
    shown = display_text(line)
    found = suspicious_spans(line, shown, 0, len(shown.text))
    assert [shown.text[start:end] for start, end in found] == ["␛", "⇠", "p\u0430ssword"]
    line = "x = f(y);" * 30_000 + "p\u0430ssword\u202e" + "x = f(y);" * 30_000
    shown = display_text(line)
    at = line.index("p\u0430ssword")
    found = suspicious_spans(line, shown, at + 3, at + 100)
    assert [shown.text[start:end] for start, end in sorted(found)] == ["p\u0430ssword", "⇠"]
    assert suspicious_spans(line, shown, 0, 100) == []


def test_a_long_line_is_told_from_its_twin_without_being_compared() -> None:
    calls: list[str] = []

    @lru_cache_by_text_identity(8)
    def noted(line: str) -> int:
        calls.append(line)
        return len(line)

    line = "x" * 10_000
    twin = "".join(["x"] * 10_000)
    assert noted(line) == noted(line) == noted(twin) == noted(twin)
    assert calls[0] is line
    assert calls[1] is twin
    assert noted("short") == noted("sho" + "rt") == 5
    assert len(calls) == 3
