"""Runs one check on the workspace as it would be; what it writes there is thrown away."""

import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from app.checks.findings import failures, findings
from app.checks.results import Outcome, State
from app.config.check_command import FILES
from app.config.settings import Check
from app.sandbox.changes import Pending
from app.sandbox.mode import SandboxMode
from app.sandbox.process import Ended, StartFailed
from app.sandbox.sandbox import Sandbox
from app.tools.command.output import HeadAndTail, PlainText
from app.workspace.ignore import IgnoreFile, compile_patterns

NICENESS = 10
_CANNOT_RUN = {126: "not executable", 127: "command not found"}
"""What a shell's exit codes mean that it uses for itself."""


def files_for(check: Check, files: Sequence[str]) -> tuple[str, ...] | None:
    """Those of a proposal's files that a check is about; None if it is not about the proposal at all."""
    rules = IgnoreFile(compile_patterns("\n".join(check.files)))
    chosen = tuple(path for path in files if not check.files or rules.verdict(path, path.rpartition("/")[2], False))
    # A tool that is given no file would look at all there are.
    return chosen if chosen or not (check.files or names_files(check)) else None


def names_files(check: Check) -> bool:
    """Whether its command is given the files."""
    return FILES in check.run


async def why_not(sandbox: Sandbox) -> str:
    """Why checks can't be run here; empty if they can."""
    probe = await sandbox.probe()
    return f"checks need a layer over the files: {probe.why_not}" if probe.mode is SandboxMode.IN_PLACE else ""


async def run_on(
    sandbox: Sandbox, root: Path, check: Check, tree: Pending, files: Sequence[str], progress: Callable[[str], None]
) -> Outcome:
    """Run a check on one tree.

    Args:
        sandbox: Of the workspace; one that can lay it over the disk.
        root: Of the workspace.
        check: Which.
        tree: What lies over the disk.
        files: What `{files}` stands for.
        progress: Takes the last line of its output as it grows.
    """
    if reason := await why_not(sandbox):
        # In place it would run on the user's own files, and not on what is proposed.
        return Outcome(State.BROKEN, reason=reason)
    plain, kept = PlainText(), HeadAndTail()

    def take(data: bytes) -> None:
        text = plain.feed(data)
        kept.feed(text)
        if line := text.strip().rpartition("\n")[2].rpartition("\r")[2].strip():
            progress(line[:200])

    command = check.run.replace(FILES, shlex.join(_as_arguments(files)))
    try:
        async with sandbox.open(tree) as run:
            ended = await run.execute(
                [*_nice(), "/bin/sh", "-c", command], folder=".", seconds=check.seconds, output=take
            )
    except (StartFailed, OSError) as error:
        return Outcome(State.BROKEN, reason=f"could not be run: {error}")
    kept.feed(plain.feed(b"", final=True))
    return _outcome(ended, kept.text(), root)


def _outcome(ended: Ended, output: str, root: Path) -> Outcome:
    if ended.limit:
        return Outcome(State.BROKEN, ended.code, ended.seconds, output, reason=f"stopped: {ended.limit}")
    if ended.timed_out:
        return Outcome(State.TIMED_OUT, ended.code, ended.seconds, output, findings(output, root))
    if ended.code == 0:
        return Outcome(State.PASSED, 0, ended.seconds, output)
    if reason := _CANNOT_RUN.get(ended.code):
        return Outcome(State.BROKEN, ended.code, ended.seconds, output, reason=reason)
    return Outcome(State.FAILED, ended.code, ended.seconds, output, findings(output, root), failures(output))


def _as_arguments(files: Sequence[str]) -> list[str]:
    """Paths that no command takes for an option."""
    return [f"./{path}" if path.startswith("-") else path for path in files]


def _nice() -> list[str]:
    nice = shutil.which("nice", path="/usr/bin:/bin")
    return [nice, "-n", str(NICENESS)] if nice else []
