"""The line diff of a 50,000-line file with 1 % of the lines changed, compared with `git diff` in the same run."""

import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from app.proposals.text.diff import diff_lines
from app.proposals.text.document import split_lines
from app.proposals.text.line_edits import merge_lines

LINES = 50_000
MAX_GIT_DIFF_RATIO = 8
"""git's time includes its start of a few milliseconds."""
MAX_GIT_MERGE_RATIO = 15


def best(action: Callable[[], object], rounds: int = 5) -> float:
    """Return the seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


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


def source() -> list[bytes]:
    """Return lines like those of source code: most occur once, some (blank lines, closing brackets) many times."""
    dice = random.Random(7)
    common = [b"\n", b"    }\n", b"    return None\n", b"        pass\n"]
    return [
        dice.choice(common) if dice.random() < 0.2 else b"    value_%d = call(%d)\n" % (index, dice.randrange(999))
        for index in range(LINES)
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
