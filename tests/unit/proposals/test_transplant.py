"""Whatever rung finds the place: no byte outside the edit changes, and no sloppy copy of the context is written."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.proposals.locate.matching import TextReplacement, apply_replacements
from app.proposals.text.diff import diff_lines
from app.proposals.text.document import Document
from app.proposals.values.models import MatchLevel
from app.proposals.values.proposal_errors import EditRefused

WORDS = ["load", "save", "path", "data", "index", "value", "store", "key", "item", "count"]


@st.composite
def sources(draw: st.DrawFn) -> tuple[list[str], int, int, list[str]]:
    """A file's lines, a block in it, and what the middle of the block becomes."""
    word = st.sampled_from(WORDS)
    number = st.integers(0, 999)
    lines = [
        "    " * draw(st.integers(0, 3)) + f"{draw(word)}.{draw(word)}({draw(word)}, {draw(number)})"
        for _ in range(draw(st.integers(8, 30)))
    ]
    start = draw(st.integers(0, len(lines) - 6))
    end = start + draw(st.integers(5, min(9, len(lines) - start)))
    new = [f"{draw(word)} = {draw(number)}" for _ in range(draw(st.integers(0, 2)))]
    return lines, start, end, new


def as_is(lines: list[str], _: random.Random) -> list[str]:
    return lines


def without_trailing_space(lines: list[str], _: random.Random) -> list[str]:
    return [line.rstrip() for line in lines]


def indented(lines: list[str], _: random.Random) -> list[str]:
    return [f"  {line}" for line in lines]


def spaced(lines: list[str], _: random.Random) -> list[str]:
    return [line.replace(", ", ",   ") for line in lines]


def with_a_typo(lines: list[str], chance: random.Random) -> list[str]:
    """Only in the first two lines, which the edits below never touch."""
    at = chance.randrange(2)
    return [line.replace("(", "x(") if index == at else line for index, line in enumerate(lines)]


SLOPPINESS = [
    (as_is, MatchLevel.EXACT),
    (without_trailing_space, MatchLevel.TRAILING_SPACE),
    (indented, MatchLevel.INDENTATION),
    (spaced, MatchLevel.SPACING),
    (with_a_typo, MatchLevel.ALIGNED),
]


@pytest.mark.parametrize(("sloppy", "rung"), SLOPPINESS, ids=lambda value: getattr(value, "__name__", str(value)))
@given(ending=st.sampled_from(["\n", "\r\n"]), source=sources(), chance=st.randoms(use_true_random=False))
def test_only_the_lines_of_the_edit_change(
    sloppy: Callable[[list[str], random.Random], list[str]],
    rung: MatchLevel,
    ending: str,
    source: tuple[list[str], int, int, list[str]],
    chance: random.Random,
) -> None:
    lines, start, end, new = source
    file_lines = [line + ("  " if rung is MatchLevel.TRAILING_SPACE else "") for line in lines]
    removed = start + 3
    data = ending.join([*file_lines, ""]).encode()
    block = sloppy(lines[start:end], chance)
    margin = "  " if sloppy is indented else ""
    wanted = [*block[:3], *(margin + line for line in new), *block[4:]]
    try:
        result, matches = apply_replacements(Document(data), [TextReplacement("\n".join(block), "\n".join(wanted))])
    except EditRefused:
        return
    before, after = Document(data).lines, Document(result).lines
    assert b"".join(after).count(b"\r\n") == (len(after) if ending == "\r\n" else 0)
    if matches[0].line != start + 1:
        return  # the block stands elsewhere in the same words, nearer to what was asked for
    kept = [*before[:removed], *before[removed + 1 :]]
    inserted = len(after) - len(kept)
    assert after[:removed] == tuple(kept[:removed])
    assert after[removed + inserted :] == tuple(kept[removed:])
    assert [line.strip() for line in after[removed : removed + inserted]] == [line.encode() for line in new]


@given(source=sources(), chance=st.randoms(use_true_random=False))
def test_tolerance_keeps_kept_lines(source: tuple[list[str], int, int, list[str]], chance: random.Random) -> None:
    """Even where the model dropped or mangled lines, every line that goes is one that it asked to remove."""
    lines, start, end, new = source
    block = lines[start:end]
    wanted = [*block[:2], *new, *block[3:]]
    dropped = chance.randrange(len(block))
    old_text = [line for at, line in enumerate(block) if at != dropped]
    new_text = [line for line in wanted if line != block[dropped]]
    data = "\n".join(lines).encode()
    try:
        result, _ = apply_replacements(Document(data), [TextReplacement("\n".join(old_text), "\n".join(new_text))])
    except EditRefused:
        return
    before, after = Document(data), Document(result)
    asked = {line.strip() for line in old_text}
    for change in diff_lines(before.line_texts, after.line_texts):
        assert {text.strip() for text in before.line_texts[change.old_start : change.old_end]} <= asked


@pytest.mark.parametrize(("sloppy", "rung"), SLOPPINESS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_each_level_finds_its_kind(sloppy: Callable[[list[str], random.Random], list[str]], rung: MatchLevel) -> None:
    lines = [f"{word}(a, {number})" for number, word in enumerate(WORDS)]
    file_lines = [line + ("  " if rung is MatchLevel.TRAILING_SPACE else "") for line in lines]
    block = sloppy(lines[2:8], random.Random(1))
    wanted = [*block[:3], "  new" if sloppy is indented else "new", *block[4:]]
    edit = TextReplacement("\n".join(block), "\n".join(wanted))
    result, matches = apply_replacements(Document("\n".join(file_lines).encode()), [edit])
    assert matches[0].rung is rung
    assert result.decode().split("\n") == [*file_lines[:5], "new", *file_lines[6:]]


def test_an_insertion_where_the_file_has_other_text_is_refused() -> None:
    lines = [f"{word}({number})" for number, word in enumerate(WORDS)]
    block = [line for line in lines if line != lines[4]]
    with pytest.raises(EditRefused, match="other text just where new lines would go"):
        edit = TextReplacement("\n".join(block), "\n".join([*block[:4], "new", *block[4:]]))
        apply_replacements(Document("\n".join(lines).encode()), [edit])
