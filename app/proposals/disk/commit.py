"""A git commit of what a proposal wrote, holding just its files; only where the user has asked for it."""

import os
import subprocess
from collections.abc import Collection
from pathlib import Path

from app.proposals.errors import CommitFailed
from app.proposals.models import HunkState, Proposal

_SECONDS = 60.0
"""How long git and the hooks of the repository may take."""


def written_paths(proposal: Proposal) -> list[str]:
    """The paths that a proposal has written or removed."""
    return sorted(
        {
            path
            for change in proposal.files
            if change.state is HunkState.APPLIED or any(hunk.state is HunkState.APPLIED for hunk in change.hunks)
            for path in (change.path, change.old_path)
            if path
        }
    )


def commit_proposal(root: Path, proposal: Proposal, paths: Collection[str] | None = None) -> str:
    """Commit files as they are on disk; whatever else is staged stays staged and out of the commit.

    Args:
        root: The workspace, in a git work tree.
        proposal: Its summary is the message, its id a trailer.
        paths: What to commit; None for all that the proposal wrote.

    Returns:
        The commit's id.

    Raises:
        CommitFailed: git refused; the files stay as they are.
    """
    names = sorted(written_paths(proposal) if paths is None else paths)
    if not names:
        raise CommitFailed(f"{proposal.id} wrote no files, so there is nothing to commit.")
    message = f"{proposal.summary}\n\nSignoff-Proposal: {proposal.id}\n"
    present = [name for name in names if (root / name).exists()]
    if present:
        _git(root, "add", "--intent-to-add", "--", *present)
    known = set(_git(root, "ls-files", "-z", "--", *names).split("\0"))
    tracked = [name for name in names if name in known]
    if not tracked:
        raise CommitFailed(f"Git does not track any file of {proposal.id}, so there is nothing to commit.")
    _git(root, "commit", "--quiet", "--only", "--message", message, "--", *tracked)
    return _git(root, "rev-parse", "HEAD").strip()


def _git(root: Path, *arguments: str) -> str:
    """Git's output; paths are taken as they are, not as patterns."""
    environment = {**os.environ, "GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise CommitFailed("Git is not installed, so nothing was committed; the files are written.") from error
    except subprocess.TimeoutExpired as error:
        raise CommitFailed(
            f"Git took longer than {_SECONDS:.0f} s; the files are written, commit them yourself."
        ) from error
    output = done.stdout.decode("utf-8", "surrogateescape")
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip() or output.strip()
        first = said.splitlines()[0] if said else f"exit code {done.returncode}"
        raise CommitFailed(f"Git would not commit ({first}); the files are written, commit them yourself.")
    return output
