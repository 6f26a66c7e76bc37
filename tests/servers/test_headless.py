"""`signoff run` with an MCP server: its tools are offered, and called where the user has allowed commands."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.forking import Forking
from tests.servers.stage import PLAYER
from tests.wire.bench import FILE, of_role
from tests.wire.endpoints import OBEYS
from tests.wire.server import WireServer


async def run(
    processes: Forking, wire: WireServer, tmp_path: Path, *options: str, more: str = ""
) -> tuple[dict[str, Any], str]:
    """A turn without the screen: what it came to, and what was said meanwhile; `more` is of the server's table."""
    root, config = tmp_path / "workspace", tmp_path / "home/config"
    root.mkdir()
    config.mkdir(parents=True)
    (root / "greet.py").write_text(FILE)
    table = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(PLAYER))}]\n"
    (config / "config.toml").write_text(f'base_url = "{wire.base_url}"\nmodel = "m"\n[mcp.play]\n{table}{more}')
    wire.behave(OBEYS)
    path = str(root / "new.txt")
    wire.turn(calls=[("play__write", {"path": path, "text": "written\n"})])
    wire.say("Done.")
    words = ["run", "Do it.", "--json", *options]
    done = await asyncio.to_thread(processes.run, words, folder=root, environment=os.environ)
    assert done.returncode == 0, done.stderr
    assert not Path(path).exists()
    return json.loads(done.stdout), done.stderr


@pytest.mark.layer
async def test_what_a_server_writes_waits(processes: Forking, wire: WireServer, tmp_path: Path) -> None:
    outcome, _ = await run(processes, wire, tmp_path, "--commands", "allow")
    assert outcome["proposals"] == ["P1"]


async def test_nothing_is_called_that_nobody_allowed(processes: Forking, wire: WireServer, tmp_path: Path) -> None:
    outcome, said = await run(processes, wire, tmp_path)
    assert outcome["proposals"] == []
    assert "not allowed without the screen: write" in said
    assert "· play__write new.txt" in said.replace(f"{tmp_path / 'workspace'}/", "")
    assert "not allowed: `--commands allow` lets it run" in said and "denied" not in said
    [result] = of_role(wire.last, "tool")
    assert "nobody could be asked" in result and "The user did not" not in result


@pytest.mark.layer
async def test_one_that_writes_without_review_is_not_called_unwatched(
    processes: Forking, wire: WireServer, tmp_path: Path
) -> None:
    _, said = await run(processes, wire, tmp_path, "--commands", "allow", more="layer = false\n")
    assert "not allowed without the screen: write" in said
    assert "not allowed: `--in-place` lets it run" in said


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
async def test_no_server_outlives_it(processes: Forking, wire: WireServer, tmp_path: Path) -> None:
    await run(processes, wire, tmp_path)
    folders = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    environments = []
    for folder in folders:
        try:
            environments.append((folder / "environ").read_bytes())
        except OSError:
            continue
    assert not [each for each in environments if str(tmp_path).encode() in each and b"SIGNOFF_COMMAND_ID" in each]
