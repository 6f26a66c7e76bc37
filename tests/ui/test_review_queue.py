"""The list of the approvals: a line each for what waits, one for all that was decided."""

from app.proposals.values.models import ProposalState
from tests.ui.review_app import BIG, ReviewApp, click_on, ready, reviewing
from tests.ui.sample_diffs import stale
from tests.ui.test_review_decisions import small
from widgets.review import review_messages


def with_history(waiting: int = 2, decided: int = 14) -> ReviewApp:
    return ReviewApp(
        *(small(f"P{number}", created=number, state=ProposalState.APPLIED) for number in range(1, decided + 1)),
        *(small(f"P{number}", created=number) for number in range(decided + 1, decided + waiting + 1)),
    )


def listed(app: ReviewApp) -> list[str]:
    return list(app.review.approval_pane.queue.items)


async def test_keys_do_nothing_without_proposals() -> None:
    app = ReviewApp()
    moves = ("up", "down", "home", "end", "pageup", "pagedown", "enter")
    async with app.run_test(size=BIG) as pilot:
        app.review.approval_pane.queue.focus()
        await pilot.press(*moves)
        app.review.view.focus()
        await pilot.press(*moves, "V", "]", "}", "z", "Z", "w", "v", "c", "*", "space", "t", "e", "q", "full_stop")
        assert app.posted == [] and app.focused is app.review.view
        assert "Nothing to review yet." in app.text()


async def test_decided_proposals_are_one_foldable_line() -> None:
    async with reviewing(app=with_history()) as (app, pilot):
        assert listed(app) == ["P15", "P16", "decided"]
        assert "▸ 14 decided" in app.text()
        app.review.approval_pane.queue.focus()
        await pilot.press("j", "j", "enter")
        assert len(listed(app)) == 17 and "▾ 14 decided" in app.text()
        assert app.review.state.current == "P16", "to open the fold shows nothing else"
        await pilot.press("j")
        assert app.review.state.current == "P14", "the latest comes first"
        await pilot.press("k", "enter")
        assert listed(app) == ["P15", "P16", "decided"]
        # The fold opens by a click.
        await ready(pilot)
        await click_on(pilot, "14 decided")
        assert len(listed(app)) == 17
        assert app.posted == []
        # A key on the line of the history decides what is shown.
        app.review.approval_pane.queue.focus()
        await pilot.press("home", "j", "j")
        await app.press_later("y")
        assert app.posted == [review_messages.Approve("P16", 1, None)]


async def test_the_history_is_open_if_nothing_waits() -> None:
    async with reviewing(app=with_history(waiting=0)) as (app, pilot):
        app.review.approval_pane.queue.focus()
        await pilot.press("enter")
        assert len(listed(app)) == 15


async def test_in_a_small_terminal_the_diff_keeps_its_room_and_keys_are_complete_or_left_out() -> None:
    """The sizes are what tabs, status bar and footer leave of 80x24 and 60x20, with this test's two lines below."""
    async with reviewing(app=with_history(waiting=3)) as (app, pilot):
        for width, height in ((80, 21), (60, 17)):
            await pilot.resize_terminal(width, height + 2)
            assert app.review.diff_pane.size.height >= height * 2 / 3
            assert app.review.approval_pane.size.height >= 4
        for width in (*range(40, 100, 10), 110):
            await pilot.resize_terminal(width, 24)
            (line,) = [line for line in app.text().split("\n") if "approve" in line and "deny" in line]
            assert "…" not in line and "n  deny" in line, width
        assert "hunk in/out" in app.text(), "there is room for all of them again"


async def test_a_long_queue_is_scrolled_by_keys_and_mouse() -> None:
    proposal, diffs = small("P1")
    many = (proposal.model_copy(update={"id": f"P{number}", "created": number}) for number in range(1, 301))
    async with reviewing(*((one, diffs) for one in many)) as (app, pilot):
        app.review.approval_pane.queue.focus()
        rows = app.review.approval_pane.queue.size.height
        assert "1 of 300 waiting" in app.text() and "P2 " in app.text()
        assert len(listed(app)) == 300 and rows <= 10
        await pilot.press("end")
        assert app.review.state.current == "P300"
        assert "300 of 300 waiting" in app.text() and "P299" in app.text()
        await pilot.press("pageup")
        assert app.review.state.current == f"P{300 - rows}"
        await pilot.press("home", "up")
        assert app.review.state.current == "P300", "above the first is the last"
        await pilot.press("down")
        assert app.review.state.current == "P1"
        await app.change(app.proposals["P3"].model_copy(update={"summary": "Quite another summary"}))
        assert "Quite another summary" in app.text()
        # A click picks the line under the pointer.
        await ready(pilot)
        app.review.approval_pane.queue.focus()
        await pilot.press("end")
        await click_on(pilot, "P298")
        assert app.review.state.current == "P298"
        assert app.review.approval_pane.queue.has_focus and app.posted == []


async def test_a_new_proposal_replaces_a_stale_one_unless_it_is_in_focus() -> None:
    async with reviewing(app=with_history(waiting=1, decided=0)) as (app, pilot):
        app.query_one("#composer").focus()
        await pilot.pause()
        app.put(stale(app.proposals["P1"], "a.py changed on disk"))
        await app.pass_grace()
        assert "Stale: a.py changed on disk" in app.text()
        await app.change(*small("P2", created=2))
        assert "P2  2 of 2 waiting" in app.text() and app.focused is app.query_one("#composer")
        await pilot.press("y")
        assert app.posted == []
        await ready(pilot)
        app.put(stale(app.proposals["P2"], "b.txt changed on disk"))
        app.put(*small("P3", created=3))
        assert app.review.state.current == "P2", "nothing goes from under the user's eyes"
        await pilot.press("y")
        await app.press_later("y")
        assert app.posted == [] and "P2 is stale" in app.text()


async def test_keys_that_have_nothing_to_act_on_say_why() -> None:
    async with reviewing(small()) as (app, pilot):
        for key, why in (
            ("R", "no check"),
            ("O", "same origin"),
            ("S", "No check has found"),
            ("C", "no check"),
            ("equals_sign", "a command has made"),
            ("u", "no decision to undo"),
            ("U", "Nothing was undone"),
        ):
            await pilot.press(key)
            assert why in app.text() and app.posted == [], key
        await app.change(app.proposals["P1"].model_copy(update={"state": ProposalState.APPLIED}))
        for key in "yc":
            await pilot.press(key)
            assert f"P1 is applied: {key} does nothing for it." in app.text() and app.posted == []


async def test_undo_without_a_recent_decision_says_how_to_undo_an_earlier_one() -> None:
    async with reviewing(app=with_history(waiting=1, decided=1)) as (app, pilot):
        await pilot.press("u")
        assert "show it first: J leads there" in app.text() and app.posted == []
        app.review.approval_pane.queue.focus()
        assert listed(app) == [], "what waits alone needs no list"
        await pilot.press("enter")
        assert listed(app) == ["P2", "decided", "P1"]
        await pilot.press("j", "j")
        assert app.review.state.current == "P1"
        await app.press_later("u")
        assert [type(message).__name__ for message in app.posted] == ["Undo"]
