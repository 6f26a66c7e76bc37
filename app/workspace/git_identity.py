"""Who works here, as git would name them in a commit. Kept apart: the one question that git itself has to answer."""

import getpass
import os
import subprocess
from functools import cache
from pathlib import Path

_SECONDS = 5.0


@cache
def git_identity(root: Path) -> str:
    """`NAME <EMAIL>` of whoever would author a commit in a folder; the account's name where git does not say.

    It is the text of whoever wrote the configuration: make it visible before it reaches a screen.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "var", "GIT_AUTHOR_IDENT"],
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return _account()
    # Behind the address come the seconds and the time zone: https://git-scm.com/docs/git-var
    name, mark, _ = done.stdout.decode("utf-8", "replace").strip().rpartition(">")
    return f"{name}{mark}" if mark and not done.returncode else _account()


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
