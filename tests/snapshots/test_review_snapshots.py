"""Pictures of the review for whoever reviews how it looks: what it can hold once wide, a few states narrow.

What keys do to it, and what must stay readable in every size and theme, is asserted in tests/ui and tests/unit.
"""

from collections.abc import Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from tests.ui.review_app import ReviewApp
from tests.ui.review_states import STATES, app_in

SIZES = {"narrow": (80, 24), "wide": (160, 44)}
WIDE = ("waiting", "queue", "kinds", "hostile", "stale", "approve_all", "revised", "command", "tried")
NARROW = ("waiting", "queue", "wrapped", "tried")


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


class TestReview:
    """The whole review."""

    @pytest.mark.parametrize(
        ("state", "size"), [*((state, "wide") for state in WIDE), *((state, "narrow") for state in NARROW)]
    )
    def test_state(self, snap_compare: Callable[..., bool], state: str, size: str) -> None:
        keys = STATES[state][1]
        assert snap_compare(app_in(state), terminal_size=SIZES[size], run_before=lambda pilot: still(pilot, keys))

    @pytest.mark.parametrize("theme", ["ansi-dark"])
    def test_theme(self, snap_compare: Callable[..., bool], theme: str) -> None:
        app = app_in("kinds", theme)
        assert snap_compare(app, terminal_size=(100, 40), run_before=lambda pilot: still(pilot, ()))
