"""MCP servers on the screen: list, switches, permission question, and trust in a workspace's servers."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from app.mcp_client.mcp_server import McpServer, McpServerState
from tests.servers.stage import ENVIRONMENT, player
from tests.ui.running_app import Running, running
from tests.wire.server import WireServer

SIZES = pytest.mark.parametrize(
    "size", [pytest.param((140, 44), id="wide"), pytest.param((80, 24), id="narrow", marks=pytest.mark.soak)]
)


def server_of(run: Running, name: str) -> McpServer:
    servers = run.app.current.host.mcp.servers
    assert servers is not None
    return next(each for each in servers.servers if each.name == name)


async def ready(run: Running, name: str) -> None:
    mcp = run.app.current.host.mcp
    await run.until(
        lambda: mcp.servers is not None and server_of(run, name).state is McpServerState.READY, f"{name} ready"
    )


@SIZES
async def test_servers_screen_lists_switches_and_shows_details(size: Any, wire: WireServer, tmp_path: Path) -> None:
    servers = {"play": player(), "gone": {"command": "no-such-program"}}
    async with running(tmp_path, wire, size=size, mcp=servers) as run:
        await ready(run, "play")
        await run.command("mcp")
        await run.screen("McpServersScreen")
        await run.see("play", "6 tools", "1 of 2 ready", "Say it again.")
        await run.write("zzz")
        await run.until(lambda: "Say it again." not in run.text, "nothing to look into")
        await run.pilot.press(*["backspace"] * 3, "ctrl+l")
        await run.see("here I am")
        with run.without("settings"):
            await run.pilot.press("enter")
            await run.told("no such table: settings")
        assert server_of(run, "play").state is McpServerState.READY
        await run.pilot.press("enter")
        await run.until(lambda: server_of(run, "play").state is McpServerState.OFF, "the switch")
        await run.see("0 of 2 ready")
        await run.pilot.press("down", "ctrl+l")
        await run.see("there is no program 'no-such-program'")
        await run.pilot.press("escape")
        await run.say("Hello.")
        assert not [each for each in wire.last.body["tools"] if "__" in each["function"]["name"]]
    async with running(tmp_path, wire, size=size, mcp=servers) as again:
        # The switch was stored, and the same key reverts it without a restart.
        await again.until(lambda: again.app.current.host.mcp.servers is not None, "the servers")
        assert server_of(again, "play").state is McpServerState.OFF
        await again.command("mcp")
        await again.screen("McpServersScreen")
        await again.see("0 of 2 ready")
        await again.pilot.press("enter")
        await again.see("1 of 2 ready")
        await again.pilot.press("escape")
        await again.say("Hello.")
        assert [each for each in wire.last.body["tools"] if each["function"]["name"] == "play__echo"]


async def test_servers_screen_is_empty_without_configuration(wire: WireServer, tmp_path: Path) -> None:
    async with running(tmp_path, wire) as run:
        await run.command("mcp")
        await run.screen("McpServersScreen")
        await run.see("No MCP server is configured")
        await run.pilot.press("enter", "ctrl+r", "ctrl+s")
        await run.told("This server needs no sign-in.")


async def ask(run: Running, wire: WireServer, text: str) -> None:
    """Make the model call a tool, and wait for the permission question."""
    wire.turn(calls=[("play__echo", {"text": text})])
    wire.say("Done.")
    await run.app.wait_until_open()
    run.app.workbench.composer.draft = "Call it."
    await run.pilot.press("enter")
    await run.until(lambda: bool(run.app.require_session().permission_requests.open_requests), "the question")


def results(run: Running) -> list[str]:
    return [event.text for event in run.app.require_session().log.events if event.type == "tool_result"]


@pytest.mark.layer
@SIZES
async def test_a_call_asks_with_arguments_and_can_be_allowed(size: Any, wire: WireServer, tmp_path: Path) -> None:
    async with running(tmp_path, wire, size=size, mcp={"play": player()}) as run:
        await ready(run, "play")
        await ask(run, wire, "hi \x1b]0;evil\x07 \u202eleaks [bold]markup[/]")
        await run.review()
        await run.see("Call a tool of play?", "echo", "Careful: the arguments hold")
        assert "\x1b" not in run.text
        assert "\u202e" not in run.text
        await run.pilot.press("n")
        await run.settled()
        assert "did not allow" in results(run)[-1]
        await ask(run, wire, "two")
        await run.review()
        await run.see("any arguments", "What it changes in your files will wait")
        await run.pilot.press("A")
        await run.settled()
        assert results(run)[-1] == "two"
        wire.turn(calls=[("play__echo", {"text": "three"})])
        wire.say("Done.")
        await run.say("Again.")
        assert results(run)[-1] == "three"
    async with running(tmp_path, wire, mcp={"play": player()}) as again:
        await ready(again, "play")
        wire.turn(calls=[("play__echo", {"text": "four"})])
        wire.say("Done.")
        await again.say("Again.")
        assert results(again)[-1] == "four"
    # The permission does not apply to another program with the same server name.
    async with running(tmp_path, wire, mcp={"play": player("other")}) as other:
        await ready(other, "play")
        await ask(other, wire, "five")


@pytest.mark.layer
async def test_servers_of_a_workspace_start_only_once_they_are_trusted(wire: WireServer, tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    started = tmp_path / "shared/started"
    started.parent.mkdir()
    code = f"open({str(started)!r}, 'a').write('x')"
    file = root / ".mcp.json"
    table = {"command": "${PYTHON}", "args": ["-c", code]}
    environment = {**ENVIRONMENT, "PYTHON": sys.executable}
    file.write_text(json.dumps({"mcpServers": {"theirs": table}}))
    async with running(tmp_path, wire, environment=environment, command_writable=[str(started.parent)]) as run:
        await run.see(".mcp.json names MCP servers")
        assert not started.exists()
        await run.command("trust")
        await run.screen("ConfigTrustScreen")
        await run.see("theirs", "${PYTHON}")
        await run.pilot.press("y")
        await run.until(started.exists, "the start")
    started.unlink()
    file.write_text(json.dumps({"mcpServers": {"theirs": {**table, "env": {"A": "b"}}}}))
    async with running(tmp_path, wire, environment=environment, command_writable=[str(started.parent)]) as changed:
        await changed.see(".mcp.json names MCP servers")
        assert not started.exists()
