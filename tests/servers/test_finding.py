"""Many tools go behind one search: what is offered stays small, and what is found can be called."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.mcp_client.mcp_servers import SHARE
from tests.servers.stage import player, stage
from tests.wire.server import WireServer

SUBJECTS = ("issue", "branch", "release", "label", "comment", "webhook", "milestone", "runner")
MANY: list[dict[str, Any]] = [
    {"name": f"{verb}_{subject}", "description": f"Will {verb} a {subject}. " + "More of it. " * 20}
    for subject in SUBJECTS
    for verb in ("create", "delete", "list", "update")
]
WINDOW = 8_000


def many() -> dict[str, Any]:
    """A server with many tools besides one that answers."""
    echo = {"name": "echo", "description": "Repeat a text."}
    return player(env={"TOOLS": json.dumps({"tools": [*MANY, echo]})})


@pytest.mark.layer
async def test_they_are_searched_and_called_by_name(wire: WireServer, tmp_path: Path) -> None:
    async with stage(wire, tmp_path, {"play": many()}, context_window=WINDOW) as on:
        await on.ready("play")
        found = await on.say(("find_tool", {"words": "open new issues"}))
        assert "play__create_issue" in found.split("\n")[1] or "play__list_issue" in found
        assert not [name for name in on.offered if name.startswith("play__")]
        theirs = [tool for tool in wire.last.body["tools"] if tool["function"]["name"] in ("find_tool", "call_tool")]
        assert len(json.dumps(theirs)) < WINDOW * 4 / SHARE
        assert on.asked == []
        assert await on.say(("call_tool", {"name": "play__echo", "arguments": {"text": "one"}})) == "one"
        assert on.asked[-1].detail == "echo\ntext: one"
        # Some models call by the name that they have found, or write the arguments out as text.
        assert await on.say(("play__echo", {"text": "two"})) == "two"
        assert await on.say(("call_tool", {"name": "play__echo", "arguments": '{"text": "three"}'})) == "three"
        for arguments in ('{"text": ', "[1]", [1]):
            said = await on.say(("call_tool", {"name": "play__echo", "arguments": arguments}))
            assert said == "The arguments of a tool are an object."
        assert on.called == ["echo"] * 3
        assert "no tool 'nope'" in await on.say(("call_tool", {"name": "nope"}))
        assert "No tool has these words" in await on.say(("find_tool", {"words": "zebra"}))


async def test_in_a_large_context_they_are_all_offered(wire: WireServer, tmp_path: Path) -> None:
    async with stage(wire, tmp_path, {"play": many()}, context_window=200_000) as on:
        await on.ready("play")
        await on.say()
        assert "find_tool" not in on.offered
        assert len([name for name in on.offered if name.startswith("play__")]) == len(MANY) + 1
        first = wire.last.body["tools"]
        await on.say()
        assert wire.last.body["tools"] == first
