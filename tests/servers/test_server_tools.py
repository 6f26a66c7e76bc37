"""Tools of servers: offering, search, calls with permission, in the app and headless."""

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from app.conversation.events import CallOutcome
from app.copies import replace
from app.mcp_client.mcp_servers import CONTEXT_SHARE_DIVISOR
from tests.forking import Forking
from tests.servers.stage import NO, PLAYER, YES, open_server_session, player
from tests.wire.bench import FILE, edit, of_role
from tests.wire.endpoints import IGNORES_TOOL_CHOICE, OBEYS, REJECTS_TOOL_CHOICE, Behaviour
from tests.wire.replies import Call, Turn
from tests.wire.server import WireServer


@pytest.mark.layer
async def test_server_tool_is_offered_and_called_after_permission(wire: WireServer, tmp_path: Path) -> None:
    echo = ("play__echo", {"text": "hello\nthere"})
    async with open_server_session(wire, tmp_path, {"play": player()}) as on:
        on.answers = lambda asked: NO
        assert "did not allow" in await on.run_turn(echo)
        assert on.called_tools == []
        on.answers = lambda asked: YES
        assert await on.run_turn(echo) == "hello\nthere"
        assert "play__echo" in on.offered_tools
        asked = on.permission_requests[0]
        assert (asked.kind, asked.detail) == ("server", "echo\ntext: hello\n│ there")
        assert "says that it only reads" in " ".join(asked.notes)
        assert on.called_tools == ["echo"]
        listing = on.server("play").listing
        listing.tools = tuple(replace(each, description="Sends it elsewhere.") for each in listing.tools)
        await on.run_turn(echo)
        first, same, other = (asked.form for asked in on.permission_requests)
        assert first == same != other, "a permission holds for a tool as described"


@pytest.mark.parametrize("behaviour", (IGNORES_TOOL_CHOICE, REJECTS_TOOL_CHOICE), ids=lambda each: each.name)
async def test_a_closed_gate_stops_server_calls(behaviour: Behaviour, wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"play": player()}, behaviour=behaviour) as on:
        wire.always(Turn(calls=(Call("play__echo", {"text": "hello"}),)))
        await on.run_turn(edit(), last="")
        assert "play__echo" in on.offered_tools
        assert on.called_tools == []
        assert on.permission_requests == []
        assert (on.root / "greet.py").read_text() == FILE


@pytest.mark.layer
async def test_writes_of_a_server_are_staged_and_close_the_gate(wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"play": player()}, behaviour=IGNORES_TOOL_CHOICE) as on:
        path = str(on.root / "new/file.txt")
        await on.run_turn(
            ("play__write", {"path": path, "text": "written\n"}), ("play__echo", {"text": "x"}), last=""
        )
        assert not Path(path).exists()
        assert on.called_tools == ["write"]
        staged, refused = on.results
        assert '"status": "staged"' in staged.text
        assert refused.outcome is CallOutcome.REFUSED
        proposal = on.host.runtime.proposals.recent_proposals()[0]
        assert [change.path for change in proposal.files] == ["new/file.txt"]
        # The server sees pending changes, and after the decision the content of the disk.
        await on.host.decisions.approve(proposal.id)
        assert Path(path).read_text() == "written\n"
        Path(path).write_text("by hand\n")
        assert await on.run_turn(("play__read", {"path": path})) == "by hand"


async def run(
    processes: Forking, wire: WireServer, tmp_path: Path, *options: str, more: str = ""
) -> tuple[dict[str, Any], str]:
    """Run a headless turn; return its JSON result and its messages. `more` is added to the server's table."""
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
async def test_headless_writes_of_a_server_are_staged(processes: Forking, wire: WireServer, tmp_path: Path) -> None:
    outcome, _ = await run(processes, wire, tmp_path, "--commands", "allow")
    assert outcome["proposals"] == ["P1"]


async def test_headless_calls_need_permission_and_end(processes: Forking, wire: WireServer, tmp_path: Path) -> None:
    outcome, output = await run(processes, wire, tmp_path)
    assert outcome["proposals"] == []
    assert "not allowed without the screen: write" in output
    assert "· play__write new.txt" in output.replace(f"{tmp_path / 'workspace'}/", "")
    assert "not allowed: `--commands allow` lets it run" in output and "denied" not in output
    [result] = of_role(wire.last, "tool")
    assert "nobody could be asked" in result and "The user did not" not in result
    environments = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            environments.append(file.read_bytes())
    assert not [each for each in environments if str(tmp_path).encode() in each and b"SIGNOFF_COMMAND_ID" in each]


@pytest.mark.layer
async def test_headless_unreviewed_server_needs_in_place(
    processes: Forking, wire: WireServer, tmp_path: Path
) -> None:
    _, output = await run(processes, wire, tmp_path, "--commands", "allow", more="layer = false\n")
    assert "not allowed without the screen: write" in output
    assert "not allowed: `--in-place` lets it run" in output


SUBJECTS = ("issue", "branch", "release", "label", "comment", "webhook", "milestone", "runner")
MANY: list[dict[str, Any]] = [
    {"name": f"{verb}_{subject}", "description": f"Will {verb} a {subject}. " + "More of it. " * 20}
    for subject in SUBJECTS
    for verb in ("create", "delete", "list", "update")
]
WINDOW = 8_000


def many_tools_server() -> dict[str, Any]:
    echo = {"name": "echo", "description": "Repeat a text."}
    return player(env={"TOOLS": json.dumps({"tools": [*MANY, echo]})})


@pytest.mark.layer
async def test_more_tools_than_an_endpoint_accepts_are_searched(wire: WireServer, tmp_path: Path) -> None:
    tools = [{"name": f"tool_{number}"} for number in range(120)]
    server = player(env={"TOOLS": json.dumps({"tools": tools})})
    async with open_server_session(wire, tmp_path, {"play": server}, context_window=1_000_000) as on:
        await on.wait_until_ready("play")
        await on.run_turn()
        assert "find_tool" in on.offered_tools and len(on.offered_tools) <= 128


@pytest.mark.layer
async def test_tools_are_searched_and_called_by_name(wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"play": many_tools_server()}, context_window=WINDOW) as on:
        await on.wait_until_ready("play")
        found = await on.run_turn(("find_tool", {"words": "open new issues"}))
        assert "play__create_issue" in found.split("\n")[1] or "play__list_issue" in found
        assert not [name for name in on.offered_tools if name.startswith("play__")]
        theirs = [tool for tool in wire.last.body["tools"] if tool["function"]["name"] in ("find_tool", "call_tool")]
        assert len(json.dumps(theirs)) < WINDOW * 4 / CONTEXT_SHARE_DIVISOR
        assert on.permission_requests == []
        assert await on.run_turn(("call_tool", {"name": "play__echo", "arguments": {"text": "one"}})) == "one"
        assert on.permission_requests[-1].detail == "echo\ntext: one"
        # Some models call a tool by the name that they have found, or write the arguments as text.
        assert await on.run_turn(("play__echo", {"text": "two"})) == "two"
        assert await on.run_turn(("call_tool", {"name": "play__echo", "arguments": '{"text": "three"}'})) == "three"
        for arguments in ('{"text": ', "[1]", [1]):
            answer = await on.run_turn(("call_tool", {"name": "play__echo", "arguments": arguments}))
            assert answer == "The arguments of a tool are an object."
        assert on.called_tools == ["echo"] * 3
        assert "no tool 'nope'" in await on.run_turn(("call_tool", {"name": "nope"}))
        assert "No tool has these words" in await on.run_turn(("find_tool", {"words": "zebra"}))


async def test_all_tools_are_offered_in_a_large_context(wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"play": many_tools_server()}, context_window=200_000) as on:
        await on.wait_until_ready("play")
        await on.run_turn()
        assert "find_tool" not in on.offered_tools
        assert len([name for name in on.offered_tools if name.startswith("play__")]) == len(MANY) + 1
        first = wire.last.body["tools"]
        await on.run_turn()
        assert wire.last.body["tools"] == first
