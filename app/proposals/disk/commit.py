"""A git commit of what a proposal wrote, holding just its files; only where the user has asked for it."""

import os
import subprocess
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from app.proposals.errors import CommitFailed
from app.proposals.models import HunkState, Proposal
from app.sandbox.environment import holds_secret

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


def commit_proposal(
    root: Path, proposal: Proposal, paths: Collection[str] | None = None, trailers: Sequence[str] = ()
) -> str:
    """Commit files as they are on disk; whatever else is staged stays staged and out of the commit.

    Args:
        root: The workspace, in a git work tree.
        proposal: Its summary is the message.
        paths: What to commit; None for all that the proposal wrote.
        trailers: Lines that say who assisted and what was reviewed.

    Returns:
        The commit's id.

    Raises:
        CommitFailed: git refused; the files stay as they are.
    """
    names = sorted(written_paths(proposal) if paths is None else paths)
    if not names:
        raise CommitFailed(f"{proposal.id} wrote no files, so there is nothing to commit.")
    message = "\n".join((proposal.summary, "", *trailers, ""))
    git = partial(_git, root)
    present = [name for name in names if os.path.lexists(root / name)]
    if present:
        git("add", "--intent-to-add", "--", *present)
    known = set(git("ls-files", "-z", "--", *names).split("\0"))
    tracked = [name for name in names if name in known]
    if not tracked:
        raise CommitFailed(f"Git does not track any file of {proposal.id}, so there is nothing to commit.")
    git("commit", "--quiet", "--only", "--message", message, "--", *tracked)
    return git("rev-parse", "HEAD").strip()


def _git(root: Path, *arguments: str) -> str:
    """Git's output; paths are taken as they are, not as patterns."""
    # The repository's hooks run, as the user wants it, but learn no key that was meant for signoff.
    environment = {name: value for name, value in os.environ.items() if not holds_secret(name, value)}
    settings = {"GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            # What the repository would have run to look for changes is nobody's wish.
            ["git", "-C", str(root), "-c", "core.fsmonitor=false", *arguments],
            env={**environment, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise CommitFailed("Git is not installed, so nothing was committed; the files are written.") from error
    except OSError as error:
        # Too many names for one command line, say.
        raise CommitFailed(
            f"Git can't be run ({error.strerror}), so nothing was committed; the files are written."
        ) from error
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
