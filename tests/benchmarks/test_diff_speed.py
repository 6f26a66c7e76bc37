"""The line diff of a 50,000-line file, 1 % of the lines changed, against `git diff` in the same run."""

import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from app.proposals.text.diff import diff_lines
from app.proposals.text.document import split_lines
from app.proposals.text.line_edits import merge_lines

LINES = 50_000
MOST_TIMES_GIT_DIFF = 8
"""git's time includes its start, a few milliseconds."""
MOST_TIMES_GIT_MERGE = 15


def best(action: Callable[[], object], rounds: int = 5) -> float:
    """Seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def edited(lines: list[bytes], seed: int) -> list[bytes]:
    """One line in a hundred replaced, removed, or followed by a new one."""
    chance = random.Random(seed)
    result = []
    for line in lines:
        what = chance.random() * 300
        if what < 1:
            result.append(b"replaced %d\n" % chance.randrange(10**9))
        elif what >= 2:
            result.append(line)
        if 2 <= what < 3:
            result.append(b"inserted %d\n" % chance.randrange(10**9))
    return result


def source() -> list[bytes]:
    """Lines as code has them: most occur once, some (blank ones, closing brackets) many times."""
    chance = random.Random(7)
    common = [b"\n", b"    }\n", b"    return None\n", b"        pass\n"]
    return [
        chance.choice(common) if chance.random() < 0.2 else b"    value_%d = call(%d)\n" % (at, chance.randrange(999))
        for at in range(LINES)
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
    assert ours < MOST_TIMES_GIT_DIFF * theirs


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
    assert ours < MOST_TIMES_GIT_MERGE * theirs


def test_ten_times_the_hunks_cost_about_ten_times_as_much() -> None:
    """10,000 one-line hunks are where a matcher of the longest block takes minutes."""
    lines = [b"line %d\n" % number for number in range(100_000)]

    def changed_every(step: int) -> list[bytes]:
        return [b"x" + line if number % step == 0 else line for number, line in enumerate(lines)]

    few, many = changed_every(100), changed_every(10)
    fast, slow = best(lambda: diff_lines(lines, few), 3), best(lambda: diff_lines(lines, many), 3)
    print(f"1,000 hunks: {fast * 1000:.0f} ms; 10,000 hunks: {slow * 1000:.0f} ms")
    assert slow < 20 * fast
