"""The review policy of a repository: which changes must be reviewed, by how many people, under which conditions."""

import re
from collections.abc import Sequence
from fnmatch import translate
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, ValidationError

from app.attestation.signed_statement import read_user_allowed_signers
from app.config.toml_files import describe_invalid_toml, parse_toml
from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.run_git import GitFailed

POLICY_PATH = ".signoff/review-policy.toml"
"""Its path in a repository; read from the base of a range, never from the verified commits."""


class PathReviewRule(BaseModel):
    """A rule of the policy: how many people must have approved changes of some paths."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    match: tuple[str, ...]
    """Patterns of paths from the top of the repository; `*` matches `/`, too."""
    people: StrictInt = Field(default=1, ge=0, le=9)
    """Number of different people who must have approved; 0 for no review."""


class ReviewPolicy(BaseModel):
    """Which changes must be reviewed, and by how many people; by default one review of every change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: str = ""
    """The name that reviews must contain; if empty, they contain the root commits of the history."""
    allowed_signers: str = ""
    """The file of the repository with the allowed SSH keys; empty for git's `gpg.ssh.allowedSignersFile`."""
    gpg_keys: tuple[str, ...] = ()
    """Full fingerprints of the gpg keys that may sign."""
    commits: Literal["all", "agents"] = "all"
    """Which commits need reviews: all, or those to which an agent contributed."""
    agents: tuple[str, ...] = ()
    """Patterns of authors (`NAME <EMAIL>`) that are agents; commits with `Assisted-by` count, too."""
    handwritten: Literal["review", "signature"] = "review"
    """Requirement for commits without an agent: reviews, or a signature by an allowed key of their author."""
    author_counts: StrictBool = True
    """Whether a commit without an agent may be covered by reviews of its author."""
    people: StrictInt = Field(default=1, ge=0, le=9)
    """Number of different people who must have approved a change."""
    unseen_lines: StrictInt | None = Field(default=None, ge=0)
    """Maximum number of lines that were never on the screen; without it, any number."""
    checks: tuple[str, ...] = ()
    """Checks that must have passed on the reviewed content."""
    rebased: StrictBool = True
    """Accept reviewed hunks on another base; otherwise only exact versions of whole files."""
    paths: tuple[PathReviewRule, ...] = ()
    """Other numbers of people for some paths; the last matching rule counts."""

    def required_reviewer_count(self, path: str) -> int:
        """Return how many people must have approved a change of a path."""
        fitting = [rule.people for rule in self.paths if _matches_any(path, rule.match)]
        return fitting[-1] if fitting else self.people

    def is_by_agent(self, author: str, trailers: Sequence[str]) -> bool:
        """Return whether an agent contributed to a commit, by its author and its trailer keys."""
        return "assisted-by" in {key.lower() for key in trailers} or _matches_any(author, self.agents)


def parse_policy(text: bytes, name: str) -> ReviewPolicy:
    """Return the policy in a text. Raises GitFailed with the name and the error."""
    values: dict[str, Any] = {}
    try:
        values = parse_toml(text)
        return ReviewPolicy.model_validate(values)
    except ValidationError as error:
        raise GitFailed(describe_invalid_toml(error, name, values, "docs/verify.md")) from error
    except ValueError as error:
        raise GitFailed(f"{name} is no TOML: {error}.") from error


def read_committed_policy(borrowed: ObjectBorrowingRepository, commit: str) -> ReviewPolicy:
    """Return the policy of a commit, or the default one. Raises GitFailed if it is invalid."""
    text = read_committed_file(borrowed, commit, POLICY_PATH)
    return ReviewPolicy() if text is None else parse_policy(text, f"{POLICY_PATH} of {commit[:7]}")


def read_allowed_signers(borrowed: ObjectBorrowingRepository, policy: ReviewPolicy, commit: str) -> bytes:
    """Return the allowed SSH keys, from the policy's file in a commit or from the user's git configuration.

    Raises:
        GitFailed: The file does not exist, or no keys are configured.
    """
    if policy.allowed_signers:
        allowed = read_committed_file(borrowed, commit, policy.allowed_signers) if commit else None
        if allowed is None:
            raise GitFailed(f"{policy.allowed_signers}, which the policy names, is not in the base of the range.")
    else:
        allowed = read_user_allowed_signers(borrowed.environment)
    if not allowed.strip() and not policy.gpg_keys:
        raise GitFailed(
            "No keys are allowed to sign: name them in `allowed_signers` or `gpg_keys` of the policy, "
            "or in git's gpg.ssh.allowedSignersFile."
        )
    return allowed


def read_committed_file(borrowed: ObjectBorrowingRepository, commit: str, path: str) -> bytes | None:
    """Return the bytes of a file in a commit; None if it is missing, no file or not in the repository."""
    inside = PurePosixPath(normpath(path))
    if inside.is_absolute() or inside.parts[:1] == ("..",) or "\0" in path:
        return None
    said = borrowed.run_query("ls-tree", "-z", "--full-tree", commit, "--", path).decode("utf-8", "surrogateescape")
    facts = said.partition("\t")[0].split()
    return borrowed.read_blobs([facts[2]])[facts[2]] if facts[1:2] == ["blob"] else None


def _matches_any(text: str, patterns: Sequence[str]) -> bool:
    return any(re.match(translate(pattern), text) for pattern in patterns)
