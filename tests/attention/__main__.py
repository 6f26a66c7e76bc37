"""`uv run python -m tests.attention REPOSITORY …`: count the marks in the commits of a repository.

It also reports how early a planted defect would come in the review order. `--reads` counts only marks from the read
history, in the worst case: see `history_of`.

Without access to a git host: Debian's `golang-github-go-git-go-git-fixtures-dev` contains packs of the histories of
real projects (src-d/go-git, spinnaker, rumprun-xen and smaller ones). `fixtures.go` lists the address and head of
each; `git init --bare`, `git unpack-objects` and `git update-ref` make repositories from them.
"""

import argparse
import time
from collections import Counter
from functools import partial
from pathlib import Path

from tests.attention.commits import as_proposal, commits_of, history_of, marked_places, share_before
from tests.attention.defects import plant_defect

_MAX_MARKS_PER_HUNK = 0.2
_MIN_EARLY_SHARE, _EARLY_SHARE = 0.8, 1 / 3


def main() -> int:
    """Print the figures of each repository; return 1 if one of them exceeds the limits."""
    parser = argparse.ArgumentParser(prog="python -m tests.attention", description=__doc__.partition("\n\n")[0])
    parser.add_argument("repository", type=Path, nargs="+")
    parser.add_argument("--commits", type=int, default=300, help="number of the latest commits")
    parser.add_argument(
        "--reads", choices=("present", "stale"), help="count only marks from the read history of the author"
    )
    parser.add_argument("--list", action="store_true", help="print each mark")
    arguments = parser.parse_args()
    results = [measure(path, arguments) for path in arguments.repository]
    return 0 if all(results) else 1


def measure(repository: Path, arguments: argparse.Namespace) -> bool:
    """Print the figures of one repository; return whether they are within the limits."""
    if arguments.reads:
        return measure_reads(repository, arguments)
    hunks = marked = commits = planted_count = early_count = 0
    kinds: Counter[str] = Counter()
    started = time.process_time()
    for commit in commits_of(repository, arguments.commits):
        proposal = as_proposal(commit.files, commit.modes)
        if not proposal.files:
            continue
        commits += 1
        hunks += sum(max(1, len(change.hunks)) for change in proposal.files)
        marked += len(marked_places(proposal))
        for reason in proposal.reasons:
            if reason.kind.is_risk:
                kinds[reason.kind] += max(1, len({place.hunk for place in reason.places}))
                if arguments.list:
                    print(f"{commit.name} {reason.path}: {reason.description}")
        if (planted := plant_defect(commit.files, number=commits)) is not None:
            path, files = planted
            planted_count += 1
            early_count += share_before(as_proposal(files, commit.modes), path) <= _EARLY_SHARE
    seconds = time.process_time() - started
    rate, share = marked / max(1, hunks), early_count / max(1, planted_count)
    print(
        f"{repository}: {commits} commits, {hunks} hunks, {marked} marks: {rate:.3f} a hunk; {seconds:.1f} s of CPU"
    )
    print(f"  {', '.join(f'{kind} {count}' for kind, count in kinds.most_common())}")
    print(f"  a defect planted in the last file of {planted_count}: in the first third of the hunks in {share:.0%}")
    return rate <= _MAX_MARKS_PER_HUNK and (share >= _MIN_EARLY_SHARE or not planted_count)


def measure_reads(repository: Path, arguments: argparse.Namespace) -> bool:
    """Print how often a hunk is marked from the worst-case read history; return whether it is rare enough."""
    hunks = marked = 0
    for commit in commits_of(repository, arguments.commits):
        history = partial(history_of, repository, commit, stale=arguments.reads == "stale")
        proposal = as_proposal(commit.files, commit.modes, history=history)
        hunks += sum(max(1, len(change.hunks)) for change in proposal.files)
        places = {
            (reason.path, place.hunk if place else "")
            for reason in proposal.reasons
            if reason.kind.is_from_read_history
            for place in reason.places or (None,)
        }
        marked += len(places)
        if arguments.list:
            print(*(f"{commit.name} {path} {hunk}" for path, hunk in sorted(places)), sep="\n")
    rate = marked / max(1, hunks)
    print(f"{repository}: {hunks} hunks, {marked} marked by what was read: {rate:.3f} a hunk")
    return rate <= _MAX_MARKS_PER_HUNK


if __name__ == "__main__":
    raise SystemExit(main())
