"""The start with three MCP servers compared with none: the composer is usable equally early.

Run with `pytest -n0 -s tests/benchmarks/test_servers_speed.py` to see the figures, which are like those of
`test_start_speed`: the minimum CPU seconds of some interleaved runs. The time until everything is loaded is not
compared, because servers start before that.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.benchmarks.outside import Start
from tests.benchmarks.test_start_speed import (
    NOISE,
    PLACEHOLDER,
    environment,
    format_start,
    minimum_figures,
    workspace,
)
from tests.servers.stage import PLAYER
from tests.terminal.terminal import signoff_command

__all__ = ["environment", "workspace"]
MAX_ECHO_RATIO = 1.05
"""Maximum CPU time until the first key is on the screen, relative to a start without servers."""
pytestmark = pytest.mark.timeout(400)


def test_composer_is_ready_as_early_with_three_servers(workspace: Path, environment: dict[str, str]) -> None:
    servers_home = workspace.parent / "served"
    # Both starts read a configuration.
    for home in (servers_home, Path(environment["SIGNOFF_HOME"])):
        (home / "config").mkdir(parents=True)
    (Path(environment["SIGNOFF_HOME"]) / "config/config.toml").write_text("[keys]\n[headers]\n[price]\n")
    tables = [
        f"[mcp.server{number}]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(PLAYER))}]\n"
        for number in range(3)
    ]
    (servers_home / "config/config.toml").write_text("".join(tables))
    with_servers = {**environment, "SIGNOFF_HOME": str(servers_home)}
    starts = minimum_figures(
        {
            "none": lambda: Start.measure(signoff_command(), PLACEHOLDER, environment, workspace),
            "three": lambda: Start.measure(signoff_command(), PLACEHOLDER, with_servers, workspace),
        }
    )
    none, three = starts["none"], starts["three"]
    print(
        f"\n{format_start('no server', none)}\n{format_start('three servers', three)}: x{three.echo / none.echo:.2f}"
    )
    assert three.echo <= MAX_ECHO_RATIO * NOISE * none.echo
