"""Runs trials for some minutes and prints each that someone has to look at, with the number that repeats it."""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.material import changed, diff, drifted, mutated, tree
from tests.fuzz.trial import Site, Verdict

PATCHES = 15
"""Mutations of one diff."""


def trials(number: int) -> Iterator[tuple[bytes, Verdict, str]]:
    """One diff, mutated many times: the patch and what came of it; the same for the same number."""
    dice = random.Random(number)
    before = tree(dice)
    with tempfile.TemporaryDirectory(prefix="signoff-fuzz-") as folder:
        for name in ("diff", "other", "site"):
            Path(folder, name).mkdir()
        patch = diff(dice, Path(folder, "diff"), before, changed(dice, before))
        other = diff(dice, Path(folder, "other"), before, changed(dice, before))
        site = Site(Path(folder, "site"), drifted(dice, before))
        for _ in range(PATCHES):
            broken = mutated(dice, patch, other)
            yield broken, *site.trial(broken)


def main() -> int:
    """Returns 1 if anything has to be looked at."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 10**9 * 1000, help="the first number")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="repeat the trials of one number, all printed")
    arguments = parser.parse_args()
    counts: Counter[Verdict] = Counter()
    started, number = time.monotonic(), arguments.seed if arguments.only is None else arguments.only
    while arguments.only == number or (
        arguments.only is None and time.monotonic() < started + 60 * arguments.minutes
    ):
        for index, (patch, verdict, why) in enumerate(trials(number)):
            counts[verdict] += 1
            if verdict.bad or arguments.only is not None:
                print(f"## {number}.{index}: {verdict}\n{why}\n{patch!r}\n", flush=True)
        number += 1
    for verdict in Verdict:
        print(f"{counts[verdict]:8,}  {verdict}")
    return int(any(counts[verdict] for verdict in Verdict if verdict.bad))


if __name__ == "__main__":
    sys.exit(main())
