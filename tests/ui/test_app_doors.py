"""What an agent proposes through a door is decided in the open app, and the agent hears of it at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.conversation.events import ProposalDecided
from app.proposals.values.models import ProposalState
from tests.ui.running_app import Running, running
from tests.ui.test_app_aftermath import write_feedback
from tests.unit.doors.mcp_host import Host
from tests.unit.images.pictures import png
from tests.wire.server import WireServer

WORDS = "Not so.\n  Say hail."


@asynccontextmanager
async def with_a_waiting_call(folder: Path, server: WireServer) -> AsyncIterator[tuple[Running, Host, int]]:
    """The app with one proposal of Claude Code's on the screen, whose call waits."""
    async with running(folder, server) as run:
        host = Host(run.runtime.workspace.root)
        host.greet()
        edits = [{"old": "def greet", "new": "def hail"}]
        name = host.begin_call("propose_edit", files=[{"path": "greet.py", "edits": edits}], wait_seconds=600)
        try:
            await run.see("P1", "claude")
            await run.review()
            yield run, host, name
        finally:
            await asyncio.to_thread(host.server.end)


async def test_an_approval_in_the_app_ends_the_wait(tmp_path: Path, server: WireServer) -> None:
    async with with_a_waiting_call(tmp_path, server) as (run, host, name):
        await run.pilot.press("y")
        text, failed = await asyncio.to_thread(host.called, name)
        assert not failed and text.startswith("P1 is approved and written to disk: greet.py")
        assert "def hail" in run.file


async def test_a_denial_in_the_app_reaches_the_agent_whole_and_no_other_model(
    tmp_path: Path, server: WireServer
) -> None:
    async with with_a_waiting_call(tmp_path, server) as (run, host, name):
        first, second = WORDS.split("\n")
        await write_feedback(run, first)
        await run.pilot.press("ctrl+j")
        await run.write(second)
        await run.pilot.press("ctrl+s")
        text, failed = await asyncio.to_thread(host.called, name)
        assert not failed and text.startswith("P1 is denied") and f"The user says:\n\n{WORDS}" in text
        await run.until(lambda: run.proposals[0].state is ProposalState.DENIED, "the denial")
        await run.see("Your words go to Claude")
        assert not server.requests, "signoff's own model has no part in it"
        assert not any(isinstance(event, ProposalDecided) for event in run.app.session().log.events)


async def test_an_agent_gets_the_names_of_images_and_the_user_is_told_so(tmp_path: Path, server: WireServer) -> None:
    async with with_a_waiting_call(tmp_path, server) as (run, host, name):
        (run.runtime.workspace.root / "shot.png").write_bytes(png())
        await write_feedback(run, "As in @shot.png")
        await run.pilot.press("ctrl+s")
        text, _ = await asyncio.to_thread(host.called, name)
        assert "As in @shot.png" in text
        await run.until(
            lambda: any("Claude Code gets the name shot.png" in one.message for one in run.app._notifications)
        )


@pytest.mark.parametrize("key", ["y", "n"])
async def test_who_has_no_model_can_decide_on_what_others_propose(tmp_path: Path, key: str) -> None:
    async with running(tmp_path) as run:
        host = Host(run.runtime.workspace.root)
        edits = [{"old": "def greet", "new": "def hail"}]
        name = host.begin_call("propose_edit", files=[{"path": "greet.py", "edits": edits}], wait_seconds=600)
        try:
            await run.see("Welcome to signoff")
            await run.pilot.press("escape")
            await run.see("P1")
            await run.review()
            await run.pilot.press(key)
            text, _ = await asyncio.to_thread(host.called, name)
            assert text.startswith("P1 is approved" if key == "y" else "P1 is denied")
            assert ("def hail" in run.file) is (key == "y")
            await run.see("P1 written: greet.py" if key == "y" else "P1 denied; nothing was written")
            await run.until(lambda: not run.proposals[0].state.is_pending, "the decision")
            await run.pilot.press("f4")
            await run.until(run.can_decide, "the picture")
            await run.pilot.press("u")
            await run.see("P1 undone: greet.py" if key == "y" else "P1 waits again")
            assert "def greet" in run.file and run.proposals[0].state == ("undone" if key == "y" else "pending")
        finally:
            await asyncio.to_thread(host.server.end)
