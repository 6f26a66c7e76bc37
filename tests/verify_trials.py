"""Test whether `signoff verify` accepts reviewed commits that git has rewritten.

Run `uv run python -m tests.verify_trials REPOSITORY`. The program clones a repository and takes the latest commits
along its first parents. It stages, approves, commits and signs each as a user would. Then git amends, rebases,
squashes, picks and merges the reviewed commits onto other versions of the repository. Operations that end with a
conflict are counted, but not verified.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from app.runtime.git_proposals import stage_commits_or_pull_request
from app.runtime.open_workspace import open_workspace
from tests.commands.test_verify import git
from tests.commands.test_verify import run as run_signoff

DISTANCES = (5, 3, 2, 1)
"""Numbers of versions between the reviewed base and another base, in the order in which they are tried."""
GROUP = 10
"""Number of commits that are rebased or squashed together."""
CONFLICT = "conflict"
POLICY = 'repository = "trial"\nallowed_signers = ".signoff/signers"\n'


class Trials:
    """The clone, its reviewed commits (first the base) and the results of the trials."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reviewed: list[str] = []
        self.counts: dict[str, Counter[str]] = {}
        self.refused: list[str] = []

    def git(self, *words: str) -> str:
        return git(self.root, *words)

    def try_git(self, *words: str) -> bool:
        """Run git; return whether it succeeded. After a failure, abort the operation."""
        done = subprocess.run(["git", *words], cwd=self.root, capture_output=True, check=False)
        if done.returncode:
            for command in ("cherry-pick", "rebase", "merge"):
                subprocess.run(["git", command, "--abort"], cwd=self.root, capture_output=True, check=False)
        return not done.returncode

    def checkout(self, commit: str) -> None:
        self.git("checkout", "--quiet", "--force", "--detach", commit)

    def verify(self, kind: str, base: str, commits: int) -> None:
        """Verify the commits from `base` to HEAD, and count the result."""
        code, said = run_signoff("verify", f"{base}..HEAD")
        self.count(kind, {0: "accepted", 3: "refused"}.get(code, "failed"), commits)
        if code:
            self.refused.append(f"{kind}: {said}")

    def count(self, kind: str, what: str, commits: int) -> None:
        self.counts.setdefault(kind, Counter())[what] += commits


def prepare(source: Path, folder: Path, max_commits: int) -> Trials:
    git(folder, "clone", "--quiet", "--no-checkout", str(source.resolve()), "ws")
    trials = Trials(folder / "ws")
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    settings = {"user.name": "ann", "user.email": "ann@example.org", "gpg.format": "ssh", "gc.auto": "0"}
    for name, value in {**settings, "user.signingkey": str(key), "advice.detachedHead": "false"}.items():
        trials.git("config", name, value)
    commits = trials.git("rev-list", "--first-parent", f"--max-count={max_commits + 1}", "HEAD").split()[::-1]
    trials.checkout(commits[0])
    (trials.root / ".signoff").mkdir(exist_ok=True)
    (trials.root / ".signoff/review-policy.toml").write_text(POLICY)
    (trials.root / ".signoff/signers").write_text(f"ann@example.org {key.with_suffix('.pub').read_text()}")
    trials.git("add", "--force", ".signoff")
    trials.git("commit", "--quiet", "--message", "policy")
    trials.reviewed.append(trials.git("rev-parse", "HEAD"))
    os.chdir(trials.root)
    for commit in commits[1:]:
        review(trials, commit)
    return trials


def review(trials: Trials, commit: str) -> None:
    runtime = open_workspace(trials.root, {}, {})
    try:
        proposal, left_out = stage_commits_or_pull_request(runtime, [commit])
        assert not left_out, left_out
        runtime.service.approve(proposal.id)
    finally:
        runtime.close()
    trials.git("add", "--all", "--force")
    trials.git("commit", "--quiet", "--no-verify", "--message", f"reviewed {commit}")
    assert trials.git("rev-parse", f"{commit}:app") == trials.git("rev-parse", "HEAD:app"), commit
    assert run_signoff("notes")[0] == 0
    trials.reviewed.append(trials.git("rev-parse", "HEAD"))


def plain(trials: Trials) -> None:
    trials.checkout(trials.reviewed[-1])
    trials.verify("plain", trials.reviewed[0], len(trials.reviewed) - 1)


def amend(trials: Trials) -> None:
    for before, commit in pairwise(trials.reviewed):
        trials.checkout(commit)
        trials.git("commit", "--quiet", "--amend", "--no-verify", "--message", "amended")
        trials.verify("amend", before, 1)


def rebase(trials: Trials) -> None:
    for start in range(DISTANCES[0], len(trials.reviewed) - 1, GROUP):
        group = trials.reviewed[start : start + GROUP + 1]
        if rebase_onto_other(trials, start, group[0], group[-1]):
            trials.verify("rebase", trials.git("rev-parse", "other"), len(group) - 1)
            continue
        # Rebase the commits of the group one by one, where this is possible without a conflict.
        for number, (base, commit) in enumerate(pairwise(group), start):
            if rebase_onto_other(trials, number, base, commit):
                trials.verify("rebase", trials.git("rev-parse", "other"), 1)
            else:
                trials.count("rebase", CONFLICT, 1)


def rebase_onto_other(trials: Trials, number: int, base: str, tip: str) -> bool:
    for distance in DISTANCES:
        trials.checkout(tip)
        trials.git("update-ref", "refs/heads/other", trials.reviewed[number - distance])
        if trials.try_git("rebase", "--quiet", "--no-verify", "--onto", "other", base):
            return True
    return False


def squash(trials: Trials) -> None:
    last = len(trials.reviewed) - 1
    for size in (2, GROUP, last):
        for start in range(0, last, size):
            end = min(start + size, last)
            trials.checkout(trials.reviewed[end])
            trials.git("reset", "--quiet", "--soft", trials.reviewed[start])
            trials.git("commit", "--quiet", "--no-verify", "--allow-empty", "--message", "squashed")
            trials.verify(f"squash of {size}", trials.reviewed[start], end - start)


def cherry_pick(trials: Trials) -> None:
    for number, commit in enumerate(trials.reviewed[DISTANCES[0] + 1 :], DISTANCES[0]):
        if old := pick_onto_other(trials, number, commit):
            trials.verify("cherry-pick", old, 1)
        else:
            trials.count("cherry-pick", CONFLICT, 1)


def pick_onto_other(trials: Trials, number: int, commit: str) -> str:
    """Pick a commit onto another base; return the base, empty if there is a conflict with each."""
    for distance in DISTANCES:
        old = trials.reviewed[number - distance]
        trials.checkout(old)
        if trials.try_git("cherry-pick", "--allow-empty", "--keep-redundant-commits", commit):
            return old
    return ""


def merge(trials: Trials) -> None:
    for number, (landed, commit) in enumerate(pairwise(trials.reviewed)):
        if number < DISTANCES[0]:
            continue
        picked = pick_onto_other(trials, number, commit)
        side = trials.git("rev-parse", "HEAD")
        trials.checkout(landed)
        words = ("merge", "--quiet", "--no-ff", "--no-verify", "--message", "merge", side)
        if picked and trials.try_git(*words):
            trials.verify("merge", landed, 1)
        else:
            trials.count("merge", CONFLICT, 1)


KINDS: tuple[Callable[[Trials], None], ...] = (plain, amend, rebase, squash, cherry_pick, merge)


def run(source: Path, max_commits: int, kinds: tuple[Callable[[Trials], None], ...] = KINDS) -> Trials:
    """Review the latest commits of a repository, and try git's operations on them."""
    here = Path.cwd()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="verify-trials-", dir=memory) as folder:
        os.environ["SIGNOFF_HOME"] = f"{folder}/home"
        try:
            trials = prepare(source, Path(folder), max_commits)
            for kind in kinds:
                kind(trials)
        finally:
            os.chdir(here)
    return trials


def main() -> int:
    """Print how many commits were accepted; return 1 if one was refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify_trials", description=__doc__.partition("\n\n")[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("--commits", type=int, default=200, help="number of the latest commits to review")
    arguments = parser.parse_args()
    trials = run(arguments.repository, arguments.commits)
    for kind, counts in trials.counts.items():
        print(f"{kind}: {', '.join(f'{count} {what}' for what, count in sorted(counts.items()))}")
    print("\n".join(trials.refused))
    return bool(trials.refused)


if __name__ == "__main__":
    sys.exit(main())
