"""What the user wrote and did not send: every decision takes it along, asks first, or leaves it."""

from itertools import product

from textual.pilot import Pilot
from textual.widgets import TextArea

from app.proposals.values.models import ProposalState
from app.review.unfinished_review import FeedbackWithComments
from tests.ui.review_app import ReviewApp, ready, reviewing
from tests.ui.test_review_decisions import small, two_hunks
from widgets.review import review_messages


async def show_next(app: ReviewApp, pilot: Pilot[None], number: int) -> str:
    """Show another proposal, once the one before is decided; return its name."""
    name = f"P{number}"
    if number > 1:
        before = app.proposals.pop(f"P{number - 1}")
        app.put(before.model_copy(update={"state": ProposalState.APPLIED}))
        app.posted.clear()
        app.put(*small(name))
        app.review.show_item(name)
        await ready(pilot)
    return name


async def test_feedback_on_a_proposal_decided_meanwhile_is_returned() -> None:
    async with reviewing(small()) as (app, pilot):
        for number, (begin, leave) in enumerate(product("rc", ("ctrl+s", "escape")), 1):
            name = await show_next(app, pilot, number)
            await pilot.press(begin, "h", "m")
            await app.change(app.proposals[name].model_copy(update={"state": ProposalState.APPLIED}))
            app.tell()
            await pilot.press("m")
            assert app.posted == [], "it is still being written"
            await pilot.press(leave)
            words = "hmm" if begin == "r" else "a.py:2  hmm"
            assert app.posted == [review_messages.FeedbackOrphaned(words)], (begin, leave)
            assert "Your text was not sent" in app.text()
        await show_next(app, pilot, 5)
        await pilot.press("c", "h", "m")
        app.proposals.clear()
        app.tell()
        await pilot.press("ctrl+s")
        assert app.posted == [review_messages.FeedbackOrphaned("hm")], "it is not even listed any more"


async def test_the_diff_that_the_user_writes_about_stays_when_another_window_decides() -> None:
    async with reviewing(small("P1"), small("P2", "b.py"), small("P3", "c.py")) as (app, pilot):
        for key, name, then in (("r", "P1", "P2"), ("c", "P2", "P3")):
            await pilot.press(key, "h")
            await app.change(app.proposals[name].model_copy(update={"state": ProposalState.APPLIED}))
            assert app.review.state.current == name
            await pilot.press("escape")
            app.tell()
            await ready(pilot)
            assert app.review.state.current == then


async def test_unsent_feedback_is_returned_when_another_process_decides() -> None:
    value, diffs = small()
    async with reviewing((value, diffs)) as (app, pilot):
        await pilot.press("r", "h", "m", "escape", "c", "o", "ctrl+s")
        await app.change(value.model_copy(update={"state": ProposalState.APPLIED}))
        app.tell()
        await pilot.pause()
        assert app.posted == [review_messages.FeedbackOrphaned("hm\n\na.py:2  o")]


async def test_comments_are_sent_with_the_decision() -> None:
    async with reviewing(small()) as (app, pilot):
        for number, (key, kind) in enumerate((("y", review_messages.Approve), ("n", review_messages.Deny)), 1):
            name = await show_next(app, pilot, number)
            await pilot.press("j", "c", "w", "ctrl+s")
            await app.pass_grace()
            assert "approve with 1 comment" in app.text() and "deny with 1 comment" in app.text()
            await pilot.press(key)
            (decided,) = app.posted
            assert isinstance(decided, review_messages.Approve | review_messages.Deny) and type(decided) is kind
            (comment,) = decided.feedback.comments
            assert comment.text == "w" and "+2" in comment.quote
            assert app.review.state.feedback_drafts.feedback_for(app.proposals[name]) == FeedbackWithComments(), (
                "once"
            )


async def test_unsent_feedback_needs_confirmation_before_it_is_sent() -> None:
    async with reviewing(small()) as (app, pilot):
        for number, (begin, key, kind) in enumerate(
            (
                ("rhm", "o", review_messages.Approve),
                ("rhm|", "n", review_messages.Deny),
                ("chm", "n", review_messages.Deny),
                ("chm|", "o", review_messages.Approve),
            ),
            1,
        ):
            name = await show_next(app, pilot, number)
            await pilot.press(*("escape" if one == "|" else one for one in begin))
            await pilot.pause()
            app.review.approval_pane.queue.focus()
            await pilot.pause()
            assert ("deny with your words" in app.text()) is (begin == "rhm|")
            await app.press_later(key)
            assert app.posted == []
            assert "our unsent words go with it to the model, “hm”" in app.text()
            await pilot.press("escape")
            assert app.review.verdict_handler.question is None
            assert app.review.state.feedback_drafts.describe_unsent(app.proposals[name]) == ["hm"]
            await app.press_later(key)
            await app.press_later("y")
            (decided,) = app.posted
            assert isinstance(decided, review_messages.Approve | review_messages.Deny) and type(decided) is kind
            assert (decided.feedback.feedback or decided.feedback.comments[0].text) == "hm"
            assert not isinstance(decided, review_messages.Approve) or decided.model_continues == (key == "o")
            await pilot.pause()
            assert not app.review.is_writing
            assert app.review.state.feedback_drafts.describe_unsent(app.proposals[name]) == []


async def test_writing_more_feedback_cancels_the_confirmation() -> None:
    async with reviewing(small()) as (app, pilot):
        await pilot.press("r", "h", "m")
        app.review.approval_pane.queue.focus()
        await pilot.pause()
        await app.press_later("n")
        assert app.review.verdict_handler.question is not None
        app.review.feedback_field.query_one(TextArea).focus()
        await pilot.press("m")
        assert app.review.verdict_handler.question is None
        assert app.review.state.feedback_drafts.drafts["P1"] == "hmm"


async def test_a_decision_on_a_hunk_sends_only_its_comments() -> None:
    item = two_hunks()
    async with reviewing(item) as (app, pilot):
        await pilot.press("c", "a", "ctrl+s", "right_square_bracket", "c", "b", "ctrl+s")
        await app.press_later("r", "d", "escape")
        await app.press_later("x")
        (denied,) = app.posted
        assert isinstance(denied, review_messages.Deny)
        assert denied.hunks == (item[0].hunks[1].id,)
        assert [comment.text for comment in denied.feedback.comments] == ["b"]
        left = app.review.state.feedback_drafts.feedback_for(app.proposals["P1"])
        assert left.feedback == "d" and [comment.text for comment in left.comments] == ["a"]


async def test_feedback_of_a_failed_decision_is_restored() -> None:
    async with reviewing(small()) as (app, pilot):
        await pilot.press("c", "w", "ctrl+s")
        await app.press_later("r", "h", "m", "ctrl+s")
        (denied,) = app.posted
        assert isinstance(denied, review_messages.Deny)
        app.review.restore_feedback("P1", denied.feedback)
        app.review.show_outcome("The disk is full.", problem=True)
        await pilot.pause()
        assert "▌ w" in app.text()
        await app.press_later("r")
        assert isinstance(app.focused, TextArea) and app.focused.text == "hm"
        await pilot.press("ctrl+s")
        assert app.posted[1] == denied
        await app.press_later("r", "o")
        app.review.restore_feedback("P1", denied.feedback)
        app.review.show_outcome("The disk is full.", problem=True)
        await pilot.press("k", "ctrl+s")
        again = app.posted[2]
        assert isinstance(again, review_messages.Deny)
        assert again.feedback.feedback == "hm\n\nok", "also if the next text is written already"


async def test_approve_all_and_deny_all_name_the_feedback_to_be_sent() -> None:
    async with reviewing(small("P1"), small("P2", "b.py")) as (app, pilot):
        await pilot.press("c", "w", "ctrl+s")
        for key in "YN":
            await pilot.pause()
            await app.press_later(key)
            assert "What you wrote about P1 goes to the model" in " ".join(app.text().split()), key
            await pilot.press("escape")
        await app.press_later("Y")
        await app.press_later("y")
        (every,) = app.posted
        assert isinstance(every, review_messages.ApproveSeveralProposals)
        assert [[comment.text for comment in one.feedback.comments] for one in every.approvals] == [["w"], []]
