"""Has an installed agent make an edit in a scratch folder, and says whether its hook held the edit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from app.doors.agents import Agent
from app.doors.hook.options import HookOptions
from app.doors.settings import toml_hooks, with_hook
from app.doors.trial.scratch import AgentScratch
from app.doors.trial.scripted_model import ScriptedModel
from app.workspace.reading import read_file

SECONDS = 120
"""How long an agent may take for one edit."""
_FILE, _TEXT = "tried.txt", "An edit by which signoff tries a door.\n"
_LARGEST = 65_536
"""Bytes of the settings in the scratch folder that are read."""
_Verdict = Literal["held", "not held", "not tried"]


class Trial(NamedTuple):
    """The result of one edit."""

    edit: str
    """`an edit`, or how else it was made."""
    verdict: _Verdict
    why: str
    """What was seen, in a line."""


def try_door(agent: Agent, program: str, options: HookOptions) -> Iterator[Trial]:
    """Try each way in which the agent edits that works without a screen.

    Args:
        agent: Which.
        program: Where it is installed.
        options: Those of its hook; `wait` is ignored, since nobody decides.
    """
    yield Trial("an edit", *_try_edit(agent, program, options, code_mode=False))
    if agent.name == "codex":
        yield Trial("an edit in Code Mode", *_try_edit(agent, program, options, code_mode=True))


def _try_edit(agent: Agent, program: str, options: HookOptions, *, code_mode: bool) -> tuple[_Verdict, str]:
    if shutil.which("signoff") is None:
        return "not tried", "signoff is not on the PATH, where the agent looks for it: every call would be denied"
    try:
        with tempfile.TemporaryDirectory(prefix="signoff-door-", ignore_cleanup_errors=True) as name:
            with ScriptedModel() as model:
                scratch = AgentScratch(agent.name, Path(name).resolve(), model.url, code_mode=code_mode)
                put_hook(agent, scratch, options._replace(wait=0))
                # A repository, also where the system's temporary folder lies in another one.
                (scratch.workspace / ".git").mkdir()
                model.script.append([scratch.write_call(_FILE, _TEXT)])
                ending = _run([program, *scratch.arguments("Make the edit.")], scratch)
            if (scratch.workspace / _FILE).exists():
                return "not held", "the agent wrote the file, though it had signoff's hook"
            if _FILE in _staged_paths(scratch):
                return "held", "nothing was written, and the edit waited as a proposal"
            if not model.made:
                return "not tried", f"the agent never called the scripted model; {ending}"
            return "not tried", f"the edit was neither written nor staged; {ending}"
    except (OSError, ValueError) as error:
        return "not tried", " ".join(str(error).split())


def put_hook(agent: Agent, scratch: AgentScratch, options: HookOptions) -> None:
    """Write signoff's hook into the settings of an agent in its scratch folder."""
    if agent.form == "toml":
        path = Path(scratch.environment["HOME"]) / str(agent.user_settings)
        path.write_text(f"{read_file(path, _LARGEST)[0].decode()}\n{toml_hooks(agent, options)}")
        return
    path = scratch.workspace / agent.settings
    path.parent.mkdir(parents=True)
    path.write_text(with_hook(agent, "", options))


def _run(command: list[str], scratch: AgentScratch) -> str:
    """Run the agent and say how it ended."""
    with subprocess.Popen(
        command,
        cwd=scratch.workspace,
        env=scratch.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            lines = process.communicate(timeout=SECONDS)[0].decode("utf-8", "replace").split("\n")
        except subprocess.TimeoutExpired:
            return f"it did not end within {SECONDS} seconds"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"it exited with {process.returncode}; its last line: {last or '(nothing)'}"


def _staged_paths(scratch: AgentScratch) -> list[str]:
    """The files of all proposals in the scratch folder."""
    command = [sys.executable, "-P", "-m", "signoff", "proposals", "--all", "--json"]
    done = subprocess.run(
        command,
        cwd=scratch.workspace,
        env=scratch.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return [file["path"] for one in json.loads(done.stdout or "[]") for file in one["files"]]
