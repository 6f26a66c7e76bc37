"""`signoff hook` is killed at a random instant: it writes no file, denies the call, and the store stays intact."""

import json
import os
import random
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from app.doors.hook.agents import HookOptions, find_agent
from app.doors.hook.hook_installation import make_hook_command
from tests.commands.agent_calls import AGENTS, Agent

MAX_SECONDS = 0.25
"""Maximum delay of a kill in seconds; an idle machine answers a call within this time."""


def call_hook_and_kill(
    instant: float, payload: str, workspace: Path, environment: Mapping[str, str], agent: str
) -> None:
    """Call the hook as the agent's settings do, kill it after `instant` seconds, and assert the denial."""
    # The hook is the child of the shell that the agent starts: the shell prints its id first.
    line = make_hook_command(find_agent(agent), HookOptions()).replace(
        "signoff hook", "sh -c 'echo $$; exec signoff hook \"$@\"' -"
    )
    process = subprocess.Popen(
        ["sh", "-c", line],
        cwd=workspace,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    hook = int(process.stdout.readline())
    process.stdin.write(payload)
    process.stdin.close()
    process.stdin = None
    try:
        _, errors = process.communicate(timeout=instant)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.kill(hook, 9)
        _, errors = process.communicate()
    assert process.returncode == 2 and "Denied by signoff." in errors


@pytest.mark.parametrize("instants", [3, pytest.param(50, marks=pytest.mark.marathon)], ids=["a few", "fifty"])
def test_hook_killed_at_random_instants_writes_nothing_and_denies(instants: int, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    text = "".join(f"line {number:02}\n" for number in range(1_000))
    (workspace / "notes.txt").write_text(text)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SIGNOFF_", "CLAUDE"))}
    environment["SIGNOFF_HOME"] = str(tmp_path / "home")
    dice = random.Random(instants)
    for number in range(instants):
        agent = Agent(AGENTS[number % len(AGENTS)], workspace, f"session-{number}")
        (payload,) = agent.responds(agent.edits("notes.txt", "line 03", f"three {number}"))
        call_hook_and_kill(dice.uniform(0, MAX_SECONDS), json.dumps(payload), workspace, environment, agent.name)
        assert {path.name for path in workspace.iterdir()} == {"notes.txt"}
        assert (workspace / "notes.txt").read_text() == text
    done = subprocess.run(
        ["signoff", "proposals", "--json"], cwd=workspace, env=environment, capture_output=True, text=True, check=True
    )
    proposals = json.loads(done.stdout)
    assert len(proposals) <= instants
    assert all([file["path"] for file in proposal["files"]] == ["notes.txt"] for proposal in proposals)
