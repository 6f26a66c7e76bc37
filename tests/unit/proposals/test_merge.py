"""The three-way merge: what git merges cleanly, it merges the same."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.text.merge import merge_lines


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
def test_merges_what_git_merges_as_git_does(
    tmp_path: Path, triple: tuple[list[bytes], list[bytes], list[bytes]]
) -> None:
    base, ours, theirs = triple
    expected = git_merge(tmp_path, base, ours, theirs)
    result = merge_lines(base, ours, theirs)
    if expected is not None:
        assert not result.conflicts
        assert b"".join(result.lines) == expected


@given(triples())
def test_is_symmetric_and_trivial_with_one_side(triple: tuple[list[bytes], list[bytes], list[bytes]]) -> None:
    base, ours, theirs = triple
    assert merge_lines(base, ours, base).lines == tuple(ours)
    assert merge_lines(base, base, theirs).lines == tuple(theirs)
    assert merge_lines(base, ours, ours).lines == tuple(ours)
    forward, backward = merge_lines(base, ours, theirs), merge_lines(base, theirs, ours)
    assert bool(forward.conflicts) == bool(backward.conflicts)
    if not forward.conflicts:
        assert forward.lines == backward.lines


@given(triples())
def test_conflicts_name_what_each_side_has(triple: tuple[list[bytes], list[bytes], list[bytes]]) -> None:
    base, ours, theirs = triple
    for conflict in merge_lines(base, ours, theirs).conflicts:
        assert tuple(base[conflict.base_start :][: len(conflict.base)]) == conflict.base
        assert tuple(ours[conflict.ours_start :][: len(conflict.ours)]) == conflict.ours
        assert tuple(theirs[conflict.theirs_start :][: len(conflict.theirs)]) == conflict.theirs
        assert conflict.ours != conflict.theirs


def test_touching_changes_conflict() -> None:
    assert merge_lines("abcd", "aXcd", "abYd").conflicts
    assert merge_lines("ab", "aXb", "aYb").conflicts
    assert merge_lines("abcd", "Xbcd", "abcY").lines == tuple("XbcY")


def test_equal_changes_are_taken_once() -> None:
    assert merge_lines("abc", "aXc", "aXc").lines == tuple("aXc")
    assert merge_lines("abcdef", "aXcdeY", "aXcdef").lines == tuple("aXcdeY")


def real_sources() -> list[Path]:
    import hypothesis

    return sorted(Path(hypothesis.__file__).parent.rglob("*.py"))[::6]


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
