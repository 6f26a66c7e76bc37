"""The cost of `signoff hook` and `signoff mcp`: agents call the hook before each tool, and start the server in each
session.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.outside import children_cpu
from tests.commands.agent_calls import AGENTS, Agent

RATIO = 5.0
"""Maximum CPU time, relative to a bare Python with the imports that every hook needs. Measured: 2.6 to 3.4."""
ROUNDS = 7
SIGNOFF = str(Path(sys.executable).with_name("signoff"))


def measure(name: str, ours: list[tuple[list[str], dict[str, Any]]], folder: Path) -> None:
    """Compare the CPU time of calls with that of a bare Python with the imports that all of them need."""
    bare = [sys.executable, "-c", "import json, sqlite3"]
    theirs = min(children_cpu(bare, cwd=folder)[0] for _ in range(ROUNDS))
    environment = {**os.environ, "SIGNOFF_HOME": str(folder.parent / "home")}
    options: dict[str, Any] = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
    best = min(children_cpu(command, check=False, **options, **more)[0] for command, more in ours)
    print(f"\n{name}: {best:.3f} s, python {theirs:.3f} s: {best / theirs:.1f}")
    assert best / theirs < RATIO


@pytest.mark.parametrize("name", AGENTS)
def test_hook_cost_of_an_edit_in_1000_lines(name: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "big.py").write_text("".join(f"value_{number} = {number}\n" for number in range(1_000)))
    ours: list[tuple[list[str], dict[str, Any]]] = []
    for number in range(ROUNDS):
        agent = Agent(name, workspace, f"session-{number}")
        (payload,) = agent.responds(agent.edits("big.py", "value_500 = 500", "value_500 = 501"))
        ours.append(([SIGNOFF, "hook", name], {"input": json.dumps(payload)}))
    measure(name, ours, workspace)
    environment = {**os.environ, "SIGNOFF_HOME": str(tmp_path / "home")}
    listed = subprocess.run([SIGNOFF, "proposals"], cwd=workspace, env=environment, capture_output=True, check=True)
    assert b"P1" in listed.stdout


GREETING = "".join(
    json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    for message in (
        {"id": 0, "method": "server/discover"},
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    )
)


def test_mcp_cost_of_start_and_greeting(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    measure("mcp", [([SIGNOFF, "mcp"], {"input": GREETING})] * ROUNDS, tmp_path / "workspace")
