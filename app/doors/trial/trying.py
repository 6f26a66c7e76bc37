"""Has an installed agent make an edit in a scratch folder, and says whether its hook held it."""

import json
import os
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
from app.doors.settings import with_hook
from app.doors.trial.scripted_model import ScriptedModel
from app.doors.trial.surroundings import Surroundings

SECONDS = 120
"""How long an agent may take."""
_FILE, _TEXT = "tried.txt", "An edit by which signoff tries a door.\n"


class Trial(NamedTuple):
    """What came of one edit."""

    edit: str
    """`an edit`, or how else it was made."""
    verdict: Literal["held", "not held", "not tried"]
    why: str
    """What was seen, in a line."""


def try_door(agent: Agent, program: str, options: HookOptions) -> Iterator[Trial]:
    """Try each way in which the agent edits that can be tried without a screen.

    Args:
        agent: Which.
        program: Where it is installed.
        options: With which its hook is called; nobody is waited for.
    """
    yield Trial("an edit", *_tried(agent, program, options, code_mode=False))
    if agent.name == "codex":
        yield Trial("an edit in Code Mode", *_tried(agent, program, options, code_mode=True))


def _tried(
    agent: Agent, program: str, options: HookOptions, *, code_mode: bool
) -> tuple[Literal["held", "not held", "not tried"], str]:
    try:
        with tempfile.TemporaryDirectory(prefix="signoff-door-", ignore_cleanup_errors=True) as name:
            with ScriptedModel() as model:
                place = Surroundings(agent.name, Path(name).resolve(), model.url, code_mode=code_mode)
                settings = place.workspace / agent.settings
                settings.parent.mkdir()
                settings.write_text(with_hook(agent, "", options._replace(wait=0)))
                # Also where the system's folder for such things lies in a repository, this is one of its own.
                (place.workspace / ".git").mkdir()
                model.script.append([place.writes(_FILE, _TEXT)])
                printed = _run([program, *place.words("Make the edit.")], place)
            if (place.workspace / _FILE).exists():
                return "not held", "the file was written at once"
            if _FILE in _staged(place):
                return "held", "nothing was written, and the edit waited as a proposal"
            if not model.made:
                return "not tried", f"it did not ask the scripted model for an edit: {printed}"
            return "not tried", f"the edit was neither written nor staged: {printed}"
    except (OSError, ValueError) as error:
        return "not tried", " ".join(str(error).split())


def _run(command: list[str], place: Surroundings) -> str:
    """Run the agent; the last line that it printed."""
    with subprocess.Popen(
        command,
        cwd=place.workspace,
        env=place.environment,
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
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")


def _staged(place: Surroundings) -> list[str]:
    """The files of all proposals in the scratch folder."""
    command = [sys.executable, "-P", "-m", "signoff", "proposals", "--all", "--json"]
    done = subprocess.run(
        command,
        cwd=place.workspace,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return [file["path"] for one in json.loads(done.stdout or "[]") for file in one["files"]]
