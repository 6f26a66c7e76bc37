"""Pictures of the review for whoever reviews how it looks: what it can hold once wide, a few states narrow.

What keys do to it, and what must stay readable in every size and theme, is asserted in tests/ui and tests/unit.
"""

from collections.abc import Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from tests.ui.review_app import ReviewApp
from tests.ui.review_states import STATES, app_in

WIDE = ("queue", "kinds", "hostile", "stale", "approve_all", "revised", "command", "tried")


async def still(pilot: Pilot[None], keys: tuple[str, ...]) -> None:
    """Press the keys that lead to a state, and wait until nothing changes any more."""
    app = pilot.app
    assert isinstance(app, ReviewApp)
    for area in app.query(TextArea):
        area.cursor_blink = False
    for line in app.query(Input):
        line.cursor_blink = False
    await pilot.pause()
    app.review.view.focus()
    await pilot.pause()
    await app.pass_grace()
    await pilot.press(*keys)
    app.review.approval_pane.remove_class("-changed")
    await app.review.view.workers.wait_for_complete()
    await pilot.pause()


@pytest.mark.parametrize(
    ("state", "size", "theme"),
    [
        *((state, (160, 44), "textual-dark") for state in WIDE),
        *((state, (80, 24), "textual-dark") for state in ("waiting", "queue", "wrapped")),
        ("kinds", (100, 40), "ansi-dark"),
    ],
    ids=lambda value: f"{value[0]}x{value[1]}" if isinstance(value, tuple) else value,
)
def test_review(snap_compare: Callable[..., bool], state: str, size: tuple[int, int], theme: str) -> None:
    keys = STATES[state][1]
    assert snap_compare(app_in(state, theme), terminal_size=size, run_before=lambda pilot: still(pilot, keys))
