"""The cost of `signoff hook` and `signoff mcp`: agents call the hook before each tool, and start the server in each
session.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.commands.agent_calls import AGENTS, Agent

RATIO = 5.0
"""Maximum CPU time, relative to a bare Python with the imports that every hook needs. Measured: 2.6 to 3.4."""
ROUNDS = 7


def cost(command: list[str], text: str, folder: Path, environment: Mapping[str, str]) -> float:
    """Return the CPU seconds of a hook call, or of a bare Python without `text`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, input=text, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 2 and "is staged" in done.stdout if text else done.returncode == 0
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("name", AGENTS)
def test_hook_cost_of_an_edit_in_1000_lines(name: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "big.py").write_text("".join(f"value_{number} = {number}\n" for number in range(1_000)))
    environment = {**os.environ, "SIGNOFF_HOME": str(tmp_path / "home")}
    signoff = shutil.which("signoff")
    assert signoff is not None
    ours, theirs = [], []
    for number in range(ROUNDS):
        agent = Agent(name, workspace, f"session-{number}")
        (payload,) = agent.responds(agent.edits("big.py", "value_500 = 500", "value_500 = 501"))
        ours.append(cost([signoff, "hook", name], json.dumps(payload), workspace, environment))
        theirs.append(cost([sys.executable, "-c", "import json, sqlite3"], "", workspace, environment))
    ratio = min(ours) / min(theirs)
    print(f"\n{name}: {min(ours):.3f} s, python {min(theirs):.3f} s: {ratio:.1f}")
    assert ratio < RATIO


GREETING = "".join(
    json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    for message in (
        {"id": 0, "method": "server/discover"},
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    )
)


def cpu(command: Sequence[str], folder: Path) -> float:
    """Return the CPU seconds of a greeting."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "SIGNOFF_HOME": str(folder / "home")}
    subprocess.run(command, input=GREETING, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_mcp_cost_of_start_and_greeting(tmp_path: Path) -> None:
    signoff = shutil.which("signoff")
    assert signoff is not None
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(cpu([signoff, "mcp"], tmp_path))
        theirs.append(cpu([sys.executable, "-c", "import json, sqlite3"], tmp_path))
    ratio = min(ours) / min(theirs)
    print(f"\n{min(ours):.3f} s, python {min(theirs):.3f} s: {ratio:.1f}")
    assert ratio < RATIO
