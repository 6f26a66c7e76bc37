"""The demo from its first request to the decisions on three agents' proposals: the screen, the disk, the agents."""

import math
from pathlib import Path

from app.demo.demo_server import create_sample_workspace, demo_server
from app.proposals.values.models import ProposalState
from tests.ui.running_app import Running, running

WORDS = "Keep the test: it still passes."


async def decide(run: Running, proposal: str, key: str, state: ProposalState) -> None:
    """Decide on the proposal that the review shows."""
    await run.until(lambda: getattr(run.app.workbench.review.state.proposal, "id", "") == proposal, proposal)
    await run.ready_to_decide()
    if key == "r":
        await run.write_feedback(WORDS, "ctrl+s")
    else:
        await run.pilot.press(key)
    await run.until(lambda: run.runtime.service.get(proposal).state is state, f"{proposal} {state}")


async def test_three_agents_propose_and_each_receives_its_decision(tmp_path: Path) -> None:
    sample = create_sample_workspace(tmp_path).rename(tmp_path / "workspace")
    async with (
        demo_server(math.inf, sample=sample) as settings,
        running(tmp_path, size=(160, 60), **settings) as run,
    ):
        await run.until(lambda: run.app.current_session is not None, "the session")
        root = run.runtime.workspace.root
        table = (root / "tests/test_table.py").read_bytes()
        await run.say("fix the failing tests")
        await run.see("After that, send me this", "bring in two agents")
        await run.pilot.press("f4")
        await decide(run, "P1", "y", ProposalState.APPLIED)

        await run.say("bring in two agents")
        await run.see("Claude Code proposes P2", "what were they told?")
        assert [(each.id, each.origin.name) for each in run.proposals] == [
            ("P1", "signoff-demo"),
            ("P2", "claude"),
            ("P3", "codex"),
            ("P4", "signoff-demo"),
        ]
        listed = [
            " P3   +1 -5    codex  Feet are exact",
            " P2   +1 -1    claude  A harbour",
            " P4   +4 -0    signoff  Test",
        ]
        await run.see(*listed)
        assert listed == sorted(listed, key=run.text.index)
        await run.pilot.press("f4")
        # How many were on the screen already depends on how fast they came.
        for _ in listed:
            await run.ready_to_decide("right_parenthesis")
        await run.see("read 12 of 12 lines")
        await run.pilot.press("O")
        await run.see("only claude: 2 more")
        await run.pilot.press("O")
        await run.see("only codex: 2 more", "Removes 1 test")
        await decide(run, "P3", "r", ProposalState.DENIED)
        await decide(run, "P2", "y", ProposalState.APPLIED)
        await decide(run, "P4", "y", ProposalState.APPLIED)
        assert (root / "tests/test_table.py").read_bytes() == table
        assert "3.28084" in (root / "tideline/units.py").read_text()
        assert "name.strip().casefold()" in (root / "tideline/harbours.py").read_text()
        assert "a_week_on" in (root / "tests/test_tides.py").read_text()

        await run.say("what were they told?")
        await run.see("Codex is told", "P3 is denied", WORDS, "Claude Code is told", "P2 is approved")
        await run.say("what were they told?")
        await run.see("Nothing new")
        await run.say("bring in two agents")
        await run.see("They have proposed what they had")
        assert len(run.proposals) == 4
