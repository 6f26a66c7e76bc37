"""Diff and merge of lines: the target is rebuilt, what git merges cleanly is merged the same, and nothing hangs."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.text.diff import LineChange, compact_change_groups, diff_lines, flag_comparable_lines
from app.proposals.text.line_edits import merge_lines
from tests.unit.proposals.applied_changes import apply_changes


@st.composite
def edited(draw: st.DrawFn, base: list[bytes], symbols: int) -> list[bytes]:
    lines = list(base)
    line = st.integers(0, symbols - 1).map(lambda number: b"%d\n" % number)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines)))
        lines[at : at + draw(st.integers(0, 3))] = draw(st.lists(line, max_size=3))
    return lines


@st.composite
def triples(draw: st.DrawFn) -> tuple[list[bytes], list[bytes], list[bytes]]:
    symbols = draw(st.sampled_from([2, 3, 6, 40]))
    base = draw(st.lists(st.integers(0, symbols - 1).map(lambda number: b"%d\n" % number), max_size=30))
    return base, draw(edited(base, symbols)), draw(edited(base, symbols))


def git_merge(folder: Path, base: list[bytes], ours: list[bytes], theirs: list[bytes]) -> bytes | None:
    for name, lines in (("base", base), ("ours", ours), ("theirs", theirs)):
        (folder / name).write_bytes(b"".join(lines))
    run = subprocess.run(
        ["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=folder, capture_output=True, check=False
    )
    return run.stdout if run.returncode == 0 else None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(triples())
def test_merge_is_symmetric_and_equals_that_of_git(
    tmp_path: Path, triple: tuple[list[bytes], list[bytes], list[bytes]]
) -> None:
    base, ours, theirs = triple
    expected = git_merge(tmp_path, base, ours, theirs)
    forward, backward = merge_lines(base, ours, theirs), merge_lines(base, theirs, ours)
    if expected is not None:
        assert not forward.conflicts
        assert b"".join(forward.lines) == expected
    assert bool(forward.conflicts) == bool(backward.conflicts)
    if not forward.conflicts:
        assert forward.lines == backward.lines
    for conflict in forward.conflicts:
        assert tuple(base[conflict.base_start :][: len(conflict.base)]) == conflict.base
        assert tuple(ours[conflict.ours_start :][: len(conflict.ours)]) == conflict.ours
        assert tuple(theirs[conflict.theirs_start :][: len(conflict.theirs)]) == conflict.theirs
        assert conflict.ours != conflict.theirs
    assert merge_lines(base, ours, base).lines == merge_lines(base, ours, ours).lines == tuple(ours)
    assert merge_lines(base, base, theirs).lines == tuple(theirs)


def test_touching_changes_conflict_and_equal_ones_are_taken_once() -> None:
    assert merge_lines("abcd", "aXcd", "abYd").conflicts
    assert merge_lines("ab", "aXb", "aYb").conflicts
    assert merge_lines("abcd", "Xbcd", "abcY").lines == tuple("XbcY")
    assert merge_lines("abc", "aXc", "aXc").lines == tuple("aXc")
    assert merge_lines("abcdef", "aXcdeY", "aXcdef").lines == tuple("aXcdeY")


def real_sources() -> list[Path]:
    import hypothesis

    return sorted(Path(hypothesis.__file__).parent.rglob("*.py"))[::15]


@pytest.mark.parametrize("path", real_sources(), ids=lambda path: path.name)
def test_real_files_with_edits_on_both_sides(tmp_path: Path, path: Path) -> None:
    """Every 17th line changed by one side, every 23rd moved or dropped by the other."""
    base = path.read_bytes().splitlines(keepends=True)
    ours = [line.replace(b"self", b"this") if at % 17 == 0 else line for at, line in enumerate(base)]
    theirs = [line for at, line in enumerate(base) if at % 23]
    theirs[len(theirs) // 2 : len(theirs) // 2] = base[3:9]
    expected = git_merge(tmp_path, base, ours, theirs)
    result = merge_lines(base, ours, theirs)
    if expected is not None:
        assert not result.conflicts
        assert b"".join(result.lines) == expected
    else:
        assert result.conflicts


FEW = st.lists(st.sampled_from("abc"), max_size=30)
LINES = st.tuples(FEW, FEW) | st.tuples(*[st.lists(st.integers(0, 40), max_size=40)] * 2)


def check(old: Sequence[object], new: Sequence[object], changes: list[LineChange]) -> None:
    assert apply_changes(old, new, changes) == list(new)
    at = -1
    for change in changes:
        assert change.old_start > at, "an equal line stands between two changes"
        assert change.removed or change.added
        at = change.old_end


@given(LINES, st.booleans(), st.sets(st.integers(0, 40)))
def test_all_changes_rebuild_the_target_and_a_subset_changes_only_its_own_lines(
    lines: tuple[list[object], list[object]], anchored: bool, numbers: set[int]
) -> None:
    old, new = lines
    changes = diff_lines(old, new, anchored=anchored)
    check(old, new, changes)
    expected: list[object] = []
    at = 0
    for number, change in enumerate(changes):
        expected += old[at : change.old_start]
        expected += (
            new[change.new_start : change.new_end] if number in numbers else old[change.old_start : change.old_end]
        )
        at = change.old_end
    chosen = [change for number, change in enumerate(changes) if number in numbers]
    assert apply_changes(old, new, chosen) == expected + old[at:]


def test_groups_of_changes_slide_and_join() -> None:
    assert diff_lines("fg{}", "fg{}g{}") == [LineChange(4, 4, 4, 7)]
    assert diff_lines(["{", "x", "}", "end"], ["{", "x", "}", "{", "x", "}", "end"]) == [LineChange(3, 3, 3, 6)]
    assert diff_lines("abab", "ab") == [LineChange(2, 4, 2, 2)]
    assert list(compact_change_groups("xbb", "b", bytearray(b"\1\0\1"), bytearray(1))) == [(0, 2, 0, 0)]
    first = ["def a():", "    return 1", ""]
    second = ["def b():", "    return 2", ""]
    changes = diff_lines(first + second, ["def c():", "    return 3", "", *first, *second])
    assert changes == [LineChange(0, 0, 0, 3)]


def test_hard_inputs_end() -> None:
    lines = [str(number) for number in range(1500)]
    check(lines, lines[::-1], diff_lines(lines, lines[::-1]))
    noise = ["ab"[(number * number // 7) % 2] for number in range(2000)]
    other = ["ab"[(number * number // 5) % 2] for number in range(2000)]
    for anchored in (True, False):
        check(noise, other, diff_lines(noise, other, anchored=anchored))
    long, longer = [b"x" * 5_000_000 + b"\n"], [b"x" * 4_999_999 + b"y\n"]
    check(long, longer, diff_lines(long, longer))
    many = [f"line {number}" for number in range(20_000)]
    changed = [line + "!" if number % 4 == 0 else line for number, line in enumerate(many)]
    hunks = diff_lines(many, changed)
    check(many, changed, hunks)
    assert len(hunks) == 5_000


HOPELESS, FAIR, FREQUENT = 0, 1, 2


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        ([HOPELESS] * 4 + [FREQUENT] + [HOPELESS] * 4, False),
        ([HOPELESS] * 3 + [FREQUENT] + [HOPELESS] * 3, True),
        ([FREQUENT] + [HOPELESS] * 8, True),
        ([HOPELESS, FAIR, FREQUENT] + [HOPELESS] * 8, True),
        ([FAIR, FREQUENT], True),
    ],
)
def test_a_frequent_line_is_compared_unless_hopeless_ones_are_around_it(kinds: list[int], kept: bool) -> None:
    lines = list(range(len(kinds)))
    counts = {line: (0, 1, 99)[kind] for line, kind in zip(lines, kinds, strict=True)}
    assert flag_comparable_lines(lines, counts, limit=10)[kinds.index(FREQUENT)] == kept
