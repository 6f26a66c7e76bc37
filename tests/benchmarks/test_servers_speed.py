"""Starting with three MCP servers against starting with none: the composer is usable as early.

Run with `pytest -n0 -s tests/benchmarks/test_servers_speed.py` to see the figures, which are as those of
`test_start_speed`: CPU seconds, the least of some interleaved runs. What it takes until all is loaded is not
compared: servers are started then.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.benchmarks.outside import Start
from tests.benchmarks.test_start_speed import NOISE, PLACEHOLDER, environment, format_start, least, workspace
from tests.servers.stage import PLAYER
from tests.terminal.terminal import signoff_command

__all__ = ["environment", "workspace"]
AS_EARLY = 1.05
"""The most CPU until the first key is on the screen, in units of a start without servers."""
pytestmark = pytest.mark.timeout(400)


def test_the_composer_is_there_as_early_with_three_servers(workspace: Path, environment: dict[str, str]) -> None:
    served = workspace.parent / "served"
    # Both have a configuration to read.
    for home in (served, Path(environment["SIGNOFF_HOME"])):
        (home / "config").mkdir(parents=True)
    (Path(environment["SIGNOFF_HOME"]) / "config/config.toml").write_text("[keys]\n[headers]\n[price]\n")
    tables = [
        f"[mcp.server{number}]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(PLAYER))}]\n"
        for number in range(3)
    ]
    (served / "config/config.toml").write_text("".join(tables))
    with_servers = {**environment, "SIGNOFF_HOME": str(served)}
    found = least(
        {
            "none": lambda: Start.of(signoff_command(), PLACEHOLDER, environment, workspace),
            "three": lambda: Start.of(signoff_command(), PLACEHOLDER, with_servers, workspace),
        }
    )
    none, three = found["none"], found["three"]
    print(
        f"\n{format_start('no server', none)}\n{format_start('three servers', three)}: x{three.echo / none.echo:.2f}"
    )
    assert three.echo <= AS_EARLY * NOISE * none.echo
