"""What the approval pane says and offers: chips to click on, questions to leave, outcomes that pass."""

from textual.pilot import Pilot

from app.keys.actions import actions_of_scopes
from app.proposals.values.models import ProposalState
from tests.ui.review_app import BIG, ReviewApp, ready, reviewing
from tests.ui.sample_diffs import file_diff, proposal
from tests.ui.test_review_decisions import small, two_hunks
from widgets.review import review_messages


async def click_on(pilot: Pilot[None], text: str) -> None:
    """Click on the first place where a text stands on the screen."""
    app = pilot.app
    assert isinstance(app, ReviewApp)
    for y, line in enumerate(app.text().split("\n")):
        if text in line:
            await pilot.click(offset=(line.index(text) + 1, y))
            return
    raise AssertionError(f"{text!r} is not on the screen:\n{app.text()}")


async def test_a_click_on_a_chip_is_ignored_like_its_key() -> None:
    async with reviewing(small()) as (app, pilot):
        app.put(small(revision=2)[0])
        await pilot.pause()
        await click_on(pilot, " y  approve")
        assert app.posted == []
        await app.pass_grace()
        await click_on(pilot, " n  deny")
        assert app.posted == [review_messages.Deny("P1")]


async def test_a_chip_decides_at_any_focus_but_text_beside_it_does_not() -> None:
    async with reviewing(small(summary="approve me")) as (app, pilot):
        # Words beside the chips decide nothing.
        await click_on(pilot, "approve me")
        await click_on(pilot, "1 file")
        assert app.posted == []
        # A click on a chip decides from wherever the focus is.
        app.query_one("#composer").focus()
        await pilot.pause()
        await click_on(pilot, " y  approve")
        assert app.posted == [review_messages.Approve("P1", 1, None)]


async def test_a_confirmation_is_answered_by_a_click() -> None:
    diffs = [file_diff("gone.py", "a = 1\n", None)]
    async with reviewing((proposal("P1", diffs), diffs)) as (app, pilot):
        await pilot.press("y")
        await app.pass_grace()
        await click_on(pilot, " y  yes")
        assert app.posted == [review_messages.Approve("P1", 1, None)]


async def test_escape_cancels_a_confirmation() -> None:
    async with reviewing(small("P1"), small("P2", "b.py")) as (app, pilot):
        await pilot.press("N")
        assert "Deny all 2" in app.text()
        await pilot.press("escape")
        assert "Deny all 2" not in app.text()
        assert "1 of 2 waiting" in app.text()
        assert app.posted == []


async def test_escape_reaches_the_app_without_a_confirmation() -> None:
    app = ReviewApp(small())
    heard: list[str] = []
    app.bind("escape", "heard")
    app.action_heard = lambda: heard.append("escape")  # type: ignore[attr-defined]
    async with app.run_test(size=BIG) as pilot:
        await ready(pilot)
        await pilot.press("escape")
        assert heard == ["escape"]


async def test_a_sentence_typed_into_the_review_decides_nothing() -> None:
    async with reviewing(small()) as (app, pilot):
        for words in ("Give the number a name", "make it shorter, and say why", "hm, no"):
            await pilot.press(*("space" if key == " " else key for key in words.replace(",", "")))
            assert app.posted == [], words
            await app.pass_grace()
        await pilot.press("n")
        assert app.posted == [review_messages.Deny("P1")]


async def test_the_outcome_of_a_denial_disappears_when_the_model_answers() -> None:
    first = small("P1")
    async with reviewing(first) as (app, pilot):
        app.put(first[0].model_copy(update={"state": ProposalState.DENIED}))
        app.review.show_outcome("P1 denied; your words are on their way")
        await pilot.pause()
        assert "on their way" in app.text()
        app.put(*small("P2", "b.py"))
        await pilot.pause()
        assert "on their way" not in app.text()


async def test_the_outcome_of_an_approval_stays_while_the_next_proposal_is_shown() -> None:
    first = small("P1")
    async with reviewing(first, small("P2", "b.py")) as (app, pilot):
        app.review.show_outcome("P1 written: a.py. u undoes it.")
        app.put(first[0].model_copy(update={"state": ProposalState.APPLIED}))
        await pilot.pause()
        assert "P1 written: a.py. u undoes it." in app.text()


async def test_a_decided_proposal_is_not_marked_as_changed() -> None:
    value, diffs = small()
    app = ReviewApp((value, diffs))
    async with app.run_test(size=BIG) as pilot:
        await pilot.pause()
        assert app.review.approval_pane.has_class("-changed"), "the proposal is new"
        app.put(value.model_copy(update={"state": ProposalState.APPLIED}))
        await pilot.pause()
        assert not app.review.approval_pane.has_class("-changed")


async def test_a_proposal_changed_by_the_user_is_marked_in_the_queue() -> None:
    value, diffs = small()
    change = value.files[0].model_copy(update={"edited": True})
    async with reviewing((value.model_copy(update={"files": (change,)}), diffs)) as (app, _pilot):
        assert "changed by you" in app.text()


async def test_the_editor_is_opened_at_the_line_of_the_cursor() -> None:
    async with reviewing(two_hunks()) as (app, pilot):
        await pilot.press("right_square_bracket", "e", "j", "e")
        assert app.posted == [review_messages.EditProposedFile("P1", "b.txt", line) for line in (20, 21)]


def test_every_action_of_the_review_has_its_own_handler() -> None:
    handlers = [action.handler for action in actions_of_scopes("review", "diff")]
    assert len(handlers) == len(set(handlers)), "hints find a key by its handler"
