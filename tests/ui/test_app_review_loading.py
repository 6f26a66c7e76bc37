"""The review comes when something waits in it or the user goes there, and lacks nothing of what was before it."""

from pathlib import Path

import pytest

from app.proposals.values.models import ProposalState
from app.runtime.open_workspace import open_workspace
from tests.ui.running_app import running, staged
from tests.wire.bench import edit
from tests.wire.server import WireServer
from widgets.chat.composer import Composer
from widgets.common.splitter import Splitter


@pytest.mark.parametrize(("key", "place", "size"), [("f3", "diff", (140, 40)), ("f4", "approvals", (80, 24))])
async def test_each_key_for_the_review_opens_it(
    tmp_path: Path, server: WireServer, key: str, place: str, size: tuple[int, int]
) -> None:
    async with running(tmp_path, server, size=size) as run:
        assert not run.reviewed, "nothing waits in it"
        await run.pilot.press(key)
        await run.see("Nothing to review yet.")
        review = run.app.workbench.review
        there = {"diff": review.view, "approvals": review.approval_pane.queue}[place]
        await run.until(lambda: run.app.focused is there, f"the focus in the {place}")
        assert run.app.workbench.shown == place
        assert review.region.right == size[0]
        assert bool(run.app.workbench.query_one(Composer).region) is (size[0] > 100)


async def test_the_review_opens_although_its_drafts_cannot_be_read(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        with run.without("settings"):
            await run.pilot.press("f4")
            await run.told("no such table: settings")
            await run.see("Nothing to review yet.")


async def test_typing_while_the_review_loads_keeps_the_chat(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        bench = run.app.workbench
        bench.show_pane("diff")
        bench.show_pane("chat")
        await run.until(lambda: run.reviewed, "the review")
        assert bench.is_in_composer and bench.shown == "chat"
        await run.write("yes")
        assert bench.composer.draft == "yes"


async def test_a_proposal_staged_behind_a_dialog_can_be_decided(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(140, 40)) as run:
        await run.command("settings")
        await run.screen("SettingsScreen")
        server.call(*edit())
        server.say("Have a look.")
        await run.app.require_session().send("change it")
        await run.until(lambda: run.proposals, "the proposal")
        await run.until(lambda: run.reviewed, "the review")
        await run.pilot.press("escape")
        await run.review()
        assert run.app.workbench.query_one("#parting", Splitter).region
        await run.pilot.press("y")
        await run.until(lambda: run.proposals[0].state is ProposalState.APPLIED, "the decision")


@pytest.mark.parametrize("resume", [True, False])
async def test_drafts_on_decided_proposals_are_restored(tmp_path: Path, server: WireServer, resume: bool) -> None:
    async with staged(tmp_path, server) as run:
        await run.review()
        await run.write_feedback("Say Ahoy")
        await run.until(lambda: run.runtime.sessions.settings("review:"), "them in the store")
        # Another process decides, and this one ends before it hears of it.
        decided = run.runtime.service.get("P1").model_copy(update={"state": ProposalState.SUPERSEDED})
    between = open_workspace(tmp_path / "workspace", {}, {})
    between.proposals.save_proposal(decided)
    between.close()
    async with running(tmp_path, server, resume=resume) as again:
        await again.until(lambda: again.app.workbench.composer.draft == "Say Ahoy", "the words")
