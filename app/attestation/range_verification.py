"""Verify a range of commits under the policy of its base."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.attestation.commit_verification import CommitVerification, CommitVerifier
from app.attestation.review_policy import POLICY_PATH, ReviewPolicy, parse_policy, read_committed_file
from app.git.borrowed_repository import BorrowedRepository
from app.git.run_git import GitFailed
from app.text.plural import plural

_SHOWN = 7
"""Digits of a commit's id."""
_LARGEST = 1 << 20
"""Bytes of a policy file."""


@dataclass(frozen=True, slots=True)
class VerifiedRange:
    """The commits of a range and whether each was reviewed."""

    base: str
    """The commit before it; empty if it begins with the first."""
    tip: str
    policy: str
    """Where the policy was read; empty for the default one."""
    commits: Sequence[CommitVerification]
    refused: Mapping[str, str]
    """Signed statements that don't count, by id, with the reason."""

    @property
    def covered(self) -> bool:
        """Return whether all commits are covered."""
        return all(commit.covered for commit in self.commits)

    @property
    def summary(self) -> str:
        """Return one sentence for people."""
        missing = sum(not commit.covered for commit in self.commits)
        under = f"under {self.policy}" if self.policy else "with no policy in the base: one review of every change"
        of = f"{missing} of " if missing else ""
        return f"{of}{plural(len(self.commits), 'commit')} {'not ' if missing else ''}covered by reviews, {under}."


def verify_range(
    root: Path, words: str, time: float, *, policy_file: str | None = None, more_notes: Sequence[str] = ()
) -> VerifiedRange:
    """Verify the commits of a range.

    Args:
        words: `BASE..TIP`, one commit, or empty for what HEAD has and its upstream has not.
        time: When keys must be valid, Unix time in seconds.
        policy_file: The policy instead of that of the base.
        more_notes: References or commits of other notes that are read, too.

    Raises:
        GitFailed: the range is empty, or the repository, a note, the policy or the keys cannot be read.
    """
    with BorrowedRepository(root, work_tree=False) as borrowed:
        if any(key.endswith(".promisor") for key in borrowed.settings):
            raise GitFailed("The clone is partial, so that notes may be missing; clone it without `--filter`.")
        base, tip = _range(borrowed, words)
        if base == "" and tip in borrowed.shallow_commits:
            raise GitFailed(f"The clone is shallow: what {tip[:_SHOWN]} started from is missing.")
        policy, source = _policy(borrowed, base, policy_file)
        verifier = CommitVerifier(borrowed, policy, base, time, more_notes, base or tip)
        commits = verifier.verify(base, tip)
        if not commits:
            raise GitFailed("There is no commit in this range; nothing was verified.")
        return VerifiedRange(base, tip, source, commits, verifier.refused)


def _range(borrowed: BorrowedRepository, words: str) -> tuple[str, str]:
    """Return the commit before a range, empty for none, and its last commit."""
    if not words:
        upstream = borrowed.resolve("HEAD@{upstream}")
        words = f"{upstream}..HEAD" if upstream else "HEAD"
    first, dots, last = words.partition("..")
    tip = borrowed.resolve((last.removeprefix(".") or "HEAD") if dots else first)
    if not tip:
        raise GitFailed(f"There is no commit {(last if dots else first)!r} here.")
    if not dots:
        return borrowed.resolve(f"{tip}^"), tip
    base = borrowed.resolve(first or "HEAD")
    if not base:
        raise GitFailed(f"There is no commit {first!r} here.")
    return base, tip


def _policy(borrowed: BorrowedRepository, base: str, file: str | None) -> tuple[ReviewPolicy, str]:
    """Return the policy and where it was read: in a file that the user names, or in the base of the range."""
    if file is not None:
        try:
            with Path(file).open("rb") as stream:
                return parse_policy(stream.read(_LARGEST), file), file
        except OSError as error:
            raise GitFailed(f"{file} cannot be read ({error.strerror}).") from error
    text = read_committed_file(borrowed, base, POLICY_PATH) if base else None
    if text is None:
        return ReviewPolicy(), ""
    source = f"{POLICY_PATH} of {base[:_SHOWN]}"
    return parse_policy(text, source), source
