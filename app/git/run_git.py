"""Run git with limits on time and output, without prompts, from a neutral folder."""

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from app.proposals.values.proposal_errors import ProposalError
from app.sandbox.environment import (
    absolute_search_path,
    environment_without_workspace,
    remove_signoff_api_keys,
)

SECONDS = 60.0
"""Timeout of a git command that needs no network."""
_MAX_FILE_BYTES = 2 << 30
"""Maximum bytes of a file that git may write; it limits what a server can send."""
_MAX_ERROR_CHARACTERS = 300


class GitFailed(ProposalError):
    """Git is not installed, failed or took too long; nothing has changed."""


def run_git(
    folder: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    data: bytes = b"",
    seconds: float = SECONDS,
    max_exit_code: int = 0,
    refused_warning: re.Pattern[bytes] | None = None,
) -> bytes:
    """Run git and return its standard output.

    Args:
        environment: The whole environment; git gets it without the API keys of endpoints.
        max_exit_code: The highest exit code that is an answer rather than a failure.
        refused_warning: A warning that is a failure.

    Raises:
        GitFailed: git cannot start, takes too long or fails; the message has git's error.
    """
    program = find_git(environment)
    try:
        with subprocess.Popen(
            [program, *arguments],
            cwd=folder,
            env=remove_signoff_api_keys(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            _limit_file_size(process.pid)
            try:
                output, errors = process.communicate(data, seconds)
            except BaseException:
                # Also kill the processes that git has started: a transport helper or `git index-pack`.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                raise
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"Git took longer than {seconds:.0f} s; nothing was done.") from error
    except OSError as error:
        raise GitFailed(f"Git can't be run ({error.strerror}).") from error
    if not 0 <= process.returncode <= max_exit_code or (refused_warning and refused_warning.search(errors)):
        raise GitFailed(_format_git_error(errors) or f"Git failed with {process.returncode}.")
    return output


def _format_git_error(stderr: bytes) -> str:
    """Return git's error output as one sentence."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    error_lines = [
        line for line in lines if line.startswith(("fatal: ", "error: ", "! ", "remote: error: "))
    ] or lines
    if not error_lines:
        return ""
    error = error_lines[0].removeprefix("fatal: ").removeprefix("error: ").removeprefix("warning: ")
    error = error if len(error) <= _MAX_ERROR_CHARACTERS else f"{error[:_MAX_ERROR_CHARACTERS]}…"
    return f"Git says: {error.rstrip('.')}."


def find_git(environment: Mapping[str, str]) -> str:
    """Return the full path of git, from an absolute folder in PATH.

    Raises:
        GitFailed: git is not installed.
    """
    git = shutil.which("git", path=absolute_search_path(environment))
    if git is None:
        raise GitFailed("Git is not installed; install it, or stage a diff: `signoff stage FILE`.")
    return git


def _limit_file_size(process: int) -> None:
    import resource

    # The process may have ended already. Only Linux can limit another process.
    if hasattr(resource, "prlimit"):
        with suppress(OSError):
            resource.prlimit(process, resource.RLIMIT_FSIZE, (_MAX_FILE_BYTES, _MAX_FILE_BYTES))


_SETTING_SECONDS = 5.0
_CONFIG_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})
"""Variables that locate the git configuration of the user and of the system."""


@cache
def read_git_author_identity(root: Path) -> str:
    """Return `NAME <EMAIL>` that git would record as author in a folder; the account's name where git has none.

    The text is untrusted: escape it before it reaches a screen.
    """
    try:
        output = run_git(
            root, ["var", "GIT_AUTHOR_IDENT"], environment_without_workspace(root), seconds=_SETTING_SECONDS
        )
    except GitFailed:
        return _account_name()
    # The seconds and the time zone follow the address: https://git-scm.com/docs/git-var
    name, bracket, _ = output.decode("utf-8", "replace").strip().rpartition(">")
    return f"{name}{bracket}" if bracket else _account_name()


def read_user_git_setting(key: str, environment: Mapping[str, str], *options: str) -> str:
    """Return a setting of the user's or the system's git configuration; empty if it is not set.

    A repository's configuration is ignored: another person may have written it.

    Args:
        environment: Locates the configuration of the user.
        options: Further options of `git config`.
    """
    kept = {
        name: value for name, value in environment.items() if not name.startswith("GIT_") or name in _CONFIG_VARIABLES
    }
    for scope in ("--global", "--system"):
        with suppress(GitFailed):
            # Outside any repository, because an `includeIf` on its folder or branch could choose the value.
            arguments = ["config", "--includes", scope, *options, "--get", key]
            output = run_git(Path("/"), arguments, {**kept, "GIT_DIR": os.devnull}, seconds=_SETTING_SECONDS)
            if value := os.fsdecode(output).strip():
                return value
    return ""


def _account_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
