"""The whole app by mouse alone; texts are found on the screen, as a hand finds them."""

import time
from pathlib import Path

from textual.geometry import Offset

from app.proposals.values.models import ProposalState
from tests.ui.running_app import Running, staged
from tests.wire.server import WireServer


def where(run: Running, text: str, *, last: bool = False) -> Offset:
    """The place of a text on the screen, in cells."""
    found = [Offset(line.index(text), row) for row, line in enumerate(run.text.split("\n")) if text in line]
    assert found, f"{text!r} is not on the screen:\n{run.text}"
    return found[-1 if last else 0]


async def click(run: Running, text: str, *, last: bool = False) -> None:
    """Click on a text."""
    await run.see(text)
    await run.pilot.click(offset=where(run, text, last=last) + Offset(1, 0))
    await run.painted()


async def test_clicks_navigate_and_decide(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        # A hunk marker takes the hunk out and in again.
        review = run.app.workbench.review
        ready = review.readiness
        await run.until(
            lambda: ready.choice_grace_period.is_over and ready.picture_clock.was_on_screen_at(time.monotonic()),
            "the diff",
        )
        await run.pilot.click(offset=where(run, "●›"))
        await run.see("0 of 1 hunks")
        await run.pilot.click(offset=where(run, "○›"))
        await run.until(lambda: "0 of 1 hunks" not in run.text, "the hunk again")
        assert run.app.focused is review.view
        # A click leads to what it shows.
        await run.pilot.press("f2")
        await click(run, "waits for you ·")
        await run.until(lambda: run.app.focused is review.view, "the focus on the diff")
        for text in ("P1", "1 proposal waiting"):
            await run.pilot.press("f2")
            await click(run, text, last=text == "P1")
            await run.until(lambda: run.app.focused is review.approval_pane.queue, "the focus on the approvals")
        assert review.state.current == "P1"
        await click(run, "model must wait")
        await run.screen("GatePolicyPickerScreen")
        await run.pilot.press("escape")
        await click(run, "test-model", last=True)
        await run.screen("ModelPickerScreen")
        # A screen is opened from the palette.
        await run.screen("Workbench", "escape")
        await click(run, "Palette")
        await run.screen("CommandPalette")
        await click(run, "Doctor")
        await run.screen("EndpointDoctorScreen")
        await run.screen("Workbench", "escape")
        # Tabs of a narrow terminal can be clicked.
        await run.pilot.resize_terminal(80, 24)
        for tab, place in (
            ("Approvals", review.approval_pane.queue),
            ("Diff", review.view),
            ("Chat", run.app.workbench.composer.editor),
        ):
            await click(run, tab)
            await run.until(lambda place=place: run.app.focused is place, tab)  # type: ignore[misc]
        await run.pilot.resize_terminal(120, 40)
        # Decision keys are shown once and can be clicked.
        await run.review()
        keys = run.text.lower()
        assert [keys.count(name) for name in ("y  approve ", " deny ", " request changes")] == [1, 1, 1], run.text
        await click(run, "deny", last=True)
        await run.until(lambda: run.proposals[0].state is ProposalState.DENIED, "the denial")
