"""Proposals of other agents in the open app: whose they are, the filter by that, and what the agent hears."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.conversation.events import ProposalDecided
from app.doors.hook.delivery import set_summary_from_last_message
from app.proposals.values.models import ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from tests.ui.review_app import ready, reviewing
from tests.ui.review_states import Item
from tests.ui.running_app import Running, running
from tests.ui.test_review_decisions import small
from tests.unit.doors.mcp_host import Host
from tests.unit.images.pictures import png
from tests.wire.server import WireServer
from widgets.review import review_messages

WORDS = "Not so.\n  Say hail, as in @shot.png."


@asynccontextmanager
async def with_a_waiting_call(
    folder: Path, server: WireServer | None = None
) -> AsyncIterator[tuple[Running, Host, int]]:
    """The app, and a call of Claude Code's that waits for the decision on P1."""
    async with running(folder, server) as run:
        host = Host(run.runtime.workspace.root)
        host.greet()
        edits = [{"old": "def greet", "new": "def hail"}]
        name = host.begin_call("propose_edit", files=[{"path": "greet.py", "edits": edits}], wait_seconds=600)
        try:
            yield run, host, name
        finally:
            await asyncio.to_thread(host.server.shut_down)


async def test_an_agents_last_message_is_shown_and_a_denial_reaches_it_only(
    tmp_path: Path, server: WireServer
) -> None:
    async with with_a_waiting_call(tmp_path, server) as (run, host, name):
        await run.see("P1", "claude")
        await run.review()
        root = run.runtime.workspace.root
        for words in ("I renamed [b]greet[/b].", "It is hail now.", "Look at its callers."):
            await asyncio.to_thread(set_summary_from_last_message, root, "P1", words)
            await run.see(f"P1 {words}")
        # It gets the names of images, and the user is told so.
        (root / "shot.png").write_bytes(png())
        await run.write_feedback(WORDS, "ctrl+s")
        text, failed = await asyncio.to_thread(host.called, name)
        assert not failed and text.startswith("P1 is denied") and f"The user says:\n\n{WORDS}" in text
        await run.until(lambda: run.proposals[0].state is ProposalState.DENIED, "the denial")
        await run.see("Your words go to Claude")
        await run.notified("Claude Code gets only the name shot.png")
        assert not server.requests, "signoff's own model has no part in it"
        assert not any(isinstance(event, ProposalDecided) for event in run.app.require_session().log.events)


@pytest.mark.parametrize("key", ["y", "n"])
async def test_proposals_can_be_decided_without_a_model(tmp_path: Path, key: str) -> None:
    async with with_a_waiting_call(tmp_path) as (run, host, name):
        await run.see("Welcome to signoff")
        await run.pilot.press("escape")
        await run.see("P1")
        await run.review(key)
        text, _ = await asyncio.to_thread(host.called, name)
        assert text.startswith("P1 is approved and written to disk: greet.py" if key == "y" else "P1 is denied")
        assert ("def hail" in run.file) is (key == "y")
        await run.see("P1 written: greet.py" if key == "y" else "P1 denied; nothing was written")
        await run.until(lambda: not run.proposals[0].state.is_pending, "the decision")
        await run.pilot.press("f4")
        await run.ready_to_decide("u")
        await run.see("P1 undone: greet.py" if key == "y" else "P1 waits again")
        assert "def greet" in run.file and run.proposals[0].state == ("undone" if key == "y" else "pending")


CLAUDE = ProposalOrigin(kind=OriginKind.AGENT, agent="claude", model="claude-opus-4-8", session="5f0c77aa-1")


def of(name: str, origin: ProposalOrigin, **named: Any) -> Item:
    return small(name, created=int(name[1:]), origin=origin, **named)


async def test_the_list_and_the_diff_name_the_agent_and_proposals_are_filtered_by_it() -> None:
    own = ProposalOrigin(model="qwen3")
    async with reviewing(of("P1", CLAUDE), of("P2", own), of("P3", CLAUDE)) as (app, pilot):
        state, queue = app.review.state, app.review.approval_pane.queue
        rows = [line for line in app.text().splitlines() if "+" in line and "●" in line]
        assert ["claude" in row for row in rows] == [True, False, True]
        assert "signoff" in rows[1]
        assert "From Claude Code, claude-opus-4-8, session 5f0c77aa." in app.text()
        app.review.show_item("P2")
        await ready(pilot)
        assert app.text().startswith(" qwen3  a.py:2")
        assert "From " not in app.text(), "signoff's own needs no line"
        # What is filtered out is not decided.
        await pilot.press("O")
        assert list(queue.items) == ["P1", "P3"]
        assert "only claude: 1 more" in app.text()
        await app.pass_grace()
        await pilot.press("N")
        await app.pass_grace()
        await pilot.press("y")
        (denied,) = [message for message in app.posted if isinstance(message, review_messages.DenySeveralProposals)]
        assert [denial.proposal_id for denial in denied.denials] == ["P1", "P3"]
        # The key goes through all origins.
        listed = []
        for _ in range(3):
            await pilot.press("O")
            listed.append(state.listed_keys)
        assert listed == [["P2"], ["P1", "P2", "P3"], ["P1", "P3"]]
        # The filter ends when nothing of its origin waits; if all that waits is signoff's own, no row says so.
        await pilot.press("O")
        assert state.listed_keys == ["P2"]
        app.review.set_proposals(
            [of("P1", CLAUDE)[0], of("P2", own, state=ProposalState.APPLIED)[0], of("P3", CLAUDE)[0]]
        )
        await pilot.pause()
        assert list(queue.items)[:2] == ["P1", "P3"]
        app.review.set_proposals([of("P1", own)[0], of("P2", own)[0]])
        await pilot.pause()
        rows = [line for line in app.text().splitlines() if "●" in line]
        assert len(rows) >= 2 and not any("signoff" in line for line in rows)
