"""The line diff of 50,000 lines, 1 % of them changed, against `git diff`, and 200 edits, tolerant against exact."""

import random
import subprocess
import time
from pathlib import Path

import pytest

from app.proposals.locate.matching import TextReplacement, apply_replacements
from app.proposals.text.diff import diff_lines
from app.proposals.text.document import Document, split_lines
from app.proposals.text.line_edits import merge_lines
from app.proposals.values.models import MatchLevel
from app.proposals.values.proposal_errors import NoMatch
from tests.benchmarks.outside import best

LINES = 50_000
MAX_GIT_DIFF_RATIO = 8
"""git's time includes its start of a few milliseconds."""
MAX_GIT_MERGE_RATIO = 15
EDITED_LINES, EDITS = 20_000, 200
MAX_EXACT_RATIO = 8
"""Maximum cost of tolerant matches of the edits, relative to exact ones."""


def edited(lines: list[bytes], seed: int) -> list[bytes]:
    """Return the lines, with one in a hundred replaced, removed, or followed by a new line."""
    dice = random.Random(seed)
    result = []
    for line in lines:
        choice = dice.random() * 300
        if choice < 1:
            result.append(b"replaced %d\n" % dice.randrange(10**9))
        elif choice >= 2:
            result.append(line)
        if 2 <= choice < 3:
            result.append(b"inserted %d\n" % dice.randrange(10**9))
    return result


def source(count: int = LINES) -> list[bytes]:
    """Return lines like those of source code: most occur once, some (blank lines, closing brackets) many times."""
    dice = random.Random(7)
    common = [b"\n", b"    }\n", b"    return None\n", b"        pass\n"]
    return [
        dice.choice(common) if dice.random() < 0.2 else b"    value_%d = call(%d)\n" % (index, dice.randrange(999))
        for index in range(count)
    ]


def test_diff_against_git(tmp_path: Path) -> None:
    old = source()
    new = edited(old, 1)
    (tmp_path / "old").write_bytes(b"".join(old))
    (tmp_path / "new").write_bytes(b"".join(new))
    old_data, new_data = b"".join(old), b"".join(new)

    def git() -> None:
        subprocess.run(["git", "diff", "--no-index", "old", "new"], cwd=tmp_path, capture_output=True, check=False)

    ours = best(lambda: diff_lines(split_lines(old_data), split_lines(new_data)))
    theirs = best(git)
    print(f"diff of {LINES} lines: {ours * 1000:.0f} ms; git diff: {theirs * 1000:.0f} ms; ratio {ours / theirs:.1f}")
    assert ours < MAX_GIT_DIFF_RATIO * theirs


def test_merge_against_git(tmp_path: Path) -> None:
    base = source()
    ours_lines, theirs_lines = edited(base, 1), edited(base, 2)
    for name, lines in (("base", base), ("ours", ours_lines), ("theirs", theirs_lines)):
        (tmp_path / name).write_bytes(b"".join(lines))

    def git() -> None:
        command = ["git", "merge-file", "-p", "ours", "base", "theirs"]
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)

    ours = best(lambda: merge_lines(base, ours_lines, theirs_lines))
    theirs = best(git)
    print(f"merge: {ours * 1000:.0f} ms; git merge-file: {theirs * 1000:.0f} ms; ratio {ours / theirs:.1f}")
    assert ours < MAX_GIT_MERGE_RATIO * theirs


def test_diff_cost_is_linear_in_hunks() -> None:
    """A matcher of the longest block takes minutes for 10,000 one-line hunks."""
    lines = [b"line %d\n" % number for number in range(100_000)]

    def changed_every(step: int) -> list[bytes]:
        return [b"x" + line if number % step == 0 else line for number, line in enumerate(lines)]

    few, many = changed_every(100), changed_every(10)
    fast, slow = best(lambda: diff_lines(lines, few), 3), best(lambda: diff_lines(lines, many), 3)
    print(f"1,000 hunks: {fast * 1000:.0f} ms; 10,000 hunks: {slow * 1000:.0f} ms")
    assert slow < 20 * fast


def edits(lines: list[str], rung: MatchLevel) -> list[TextReplacement]:
    """Return edits of seven-line blocks with the middle line changed, written as imprecisely as the match level
    allows.
    """
    result = []
    step = EDITED_LINES // EDITS
    for number in range(EDITS):
        start = number * step
        while not all("call(" in lines[start + offset] for offset in (0, 1, 3, 6)):
            start += 1
        block = lines[start : start + 7]
        match rung:
            case MatchLevel.TRAILING_SPACE:
                block = [line + " " for line in block]
            case MatchLevel.INDENTATION:
                block = [line and f"    {line}" for line in block]
            case MatchLevel.SPACING:
                block = [line.replace(" = ", "  =  ") for line in block]
            case MatchLevel.ALIGNED:
                block[1] = block[1].replace("value", "valve")
        new_lines = [*block[:3], block[3].replace("call", "changed"), *block[4:]]
        result.append(TextReplacement("\n".join(block), "\n".join(new_lines)))
    return result


def lines_and_document() -> tuple[list[str], Document]:
    text = b"".join(source(EDITED_LINES)).decode()
    return text.splitlines(), Document(text.encode())


def seconds(document: Document, replacements: list[TextReplacement], rung: MatchLevel) -> float:
    documents = iter([Document(document.data) for _ in range(3)])

    def apply() -> None:
        _, matches = apply_replacements(next(documents), replacements)
        assert {match.rung for match in matches} == {rung}

    return best(apply, 3)


@pytest.mark.parametrize(
    "rung", [MatchLevel.TRAILING_SPACE, MatchLevel.INDENTATION, MatchLevel.SPACING, MatchLevel.ALIGNED]
)
def test_tolerant_matches_against_exact_matches(rung: MatchLevel) -> None:
    lines, document = lines_and_document()
    exact = seconds(document, edits(lines, MatchLevel.EXACT), MatchLevel.EXACT)
    tolerant = seconds(document, edits(lines, rung), rung)
    print(
        f"{EDITS} edits: exact {exact * 1000:.0f} ms, {rung} {tolerant * 1000:.0f} ms, ratio {tolerant / exact:.1f}"
    )
    assert tolerant < MAX_EXACT_RATIO * exact


def test_refusal_costs_a_small_multiple_of_200_exact_edits() -> None:
    """A refusal also searches for the nearest text."""
    lines, document = lines_and_document()
    exact = seconds(document, edits(lines, MatchLevel.EXACT), MatchLevel.EXACT)
    block = [line.replace("value", "vault") for line in lines[500:520]]
    start = time.perf_counter()
    with pytest.raises(NoMatch):
        apply_replacements(Document(document.data), [TextReplacement("\n".join(block), "x")])
    refused = time.perf_counter() - start
    print(f"refusal {refused * 1000:.0f} ms, {EDITS} exact edits {exact * 1000:.0f} ms")
    assert refused < 4 * exact
