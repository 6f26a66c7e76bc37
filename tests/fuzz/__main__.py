"""Run trials for some minutes and print each suspicious one, with the number that repeats it."""

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

MUTATIONS_PER_DIFF = 15
"""Number of mutations of one diff."""


def trials(number: int) -> Iterator[tuple[bytes, Verdict, str]]:
    """Yield the patch and the result for each mutation of one diff; the same for the same number."""
    dice = random.Random(number)
    before = tree(dice)
    with tempfile.TemporaryDirectory(prefix="signoff-fuzz-") as folder:
        for name in ("diff", "other", "site"):
            Path(folder, name).mkdir()
        patch = diff(dice, Path(folder, "diff"), before, changed(dice, before))
        other = diff(dice, Path(folder, "other"), before, changed(dice, before))
        site = Site(Path(folder, "site"), drifted(dice, before))
        for _ in range(MUTATIONS_PER_DIFF):
            broken = mutated(dice, patch, other)
            yield broken, *site.trial(broken)


def main() -> int:
    """Run the trials; return 1 if a result is suspicious."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="duration (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 10**9 * 1000, help="number of the first trial")
    parser.add_argument(
        "--only", type=int, metavar="NUMBER", help="repeat the trials of one number and print all of them"
    )
    arguments = parser.parse_args()
    counts: Counter[Verdict] = Counter()
    started, number = time.monotonic(), arguments.seed if arguments.only is None else arguments.only
    while arguments.only == number or (
        arguments.only is None and time.monotonic() < started + 60 * arguments.minutes
    ):
        for index, (patch, verdict, reason) in enumerate(trials(number)):
            counts[verdict] += 1
            if verdict.is_suspicious or arguments.only is not None:
                print(f"## {number}.{index}: {verdict}\n{reason}\n{patch!r}\n", flush=True)
        number += 1
    for verdict in Verdict:
        print(f"{counts[verdict]:8,}  {verdict}")
    return int(any(counts[verdict] for verdict in Verdict if verdict.is_suspicious))


if __name__ == "__main__":
    sys.exit(main())
