"""Who works here, as git would name them in a commit. Kept apart: it asks of no repository, only of the settings."""

import getpass
import os
from functools import cache
from pathlib import Path

from app.git.running import GitFailed, run_git

_SECONDS = 5.0


@cache
def git_identity(root: Path) -> str:
    """`NAME <EMAIL>` of whoever would author a commit in a folder; the account's name where git does not say.

    It is the text of whoever wrote the configuration: make it visible before it reaches a screen.
    """
    try:
        said = run_git(root, ["var", "GIT_AUTHOR_IDENT"], os.environ, seconds=_SECONDS)
    except GitFailed:
        return _account()
    # Behind the address come the seconds and the time zone: https://git-scm.com/docs/git-var
    name, mark, _ = said.decode("utf-8", "replace").strip().rpartition(">")
    return f"{name}{mark}" if mark else _account()


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
