"""A permission that a tool waits for has the keys; the answer to it reaches the tool, and no word is lost."""

import pytest
from textual.widgets import TextArea

from app.tools.base.contract import PermissionAnswer, PermissionRequest
from tests.ui.review_app import BIG, ReviewApp, ready, reviewing
from tests.ui.test_review_decisions import small
from widgets.review import review_messages

COMMAND = PermissionRequest("command", "Run a command", "pytest -q tests", ".")


async def test_a_waiting_permission_takes_the_decision_keys() -> None:
    async with reviewing(small("P1"), small("P2", "b.py")) as (app, pilot):
        await pilot.press("J")
        app.review.add_permission_request("c1", COMMAND)
        await pilot.pause()
        assert app.review.state.permission_request is COMMAND
        assert app.review.title_of("approve") == "Allow once", "what the footer calls it"
        await pilot.press("y")
        assert app.posted == [], "the keys are dead for a moment"
        await app.press_later("u", "x", "Y", "N", "o", "e", "space")
        assert app.posted == []
        assert app.review.verdict_handler.question is None
        await pilot.press("y")
        assert app.posted == [], "some of these mean nothing here: they may be words for the chat"
        await app.press_later("y")
        assert app.posted == [review_messages.PermissionAnswered("c1", PermissionAnswer(allowed=True))]
        await pilot.pause()
        assert app.review.state.current == "P2", "what was read before is shown again"
        assert app.review.title_of("approve") == ""


async def test_many_changes_ask_whether_to_stage_them() -> None:
    async with reviewing(small("P1")) as (app, pilot):
        app.review.add_permission_request("c1", PermissionRequest("changes", "Stage 600 changed files?", "a\nb", "."))
        await pilot.pause()
        assert "y  stage all    n  throw away    r  throw away and say why" in app.text()
        assert [app.review.title_of(action) for action in ("approve", "deny")] == ["Stage all", "Throw away"]
        assert "session" not in app.text(), "the next changes are asked about anew"
        await app.press_later("a")
        assert app.posted == []


async def test_a_proposal_can_be_read_but_not_decided_while_a_permission_waits() -> None:
    async with reviewing(small()) as (app, pilot):
        app.review.add_permission_request("c1", COMMAND)
        for key in "ynraYNox":
            app.review.show_item("P1")
            await ready(pilot)
            assert app.review.state.current == "P1"
            below = app.text().split("2 of 2 waiting")[1]
            assert "your permission is needed" in below and "approve" not in below
            assert app.text().count("pytest -q tests") == 1, "in the list, where it can be picked"
            await pilot.press(key)
            assert app.posted == [], key
            assert not app.review.feedback_field.is_open
            if key in "ynra":
                assert app.review.state.permission_request is COMMAND, key


async def test_a_permission_replaces_a_confirmation_and_waits_for_the_feedback_field() -> None:
    async with reviewing(small("P1"), small("P2", "b.py")) as (app, pilot):
        await pilot.press("r", "h")
        app.review.add_permission_request("c1", COMMAND)
        await pilot.press("m")
        assert app.review.state.current == "P1"
        await pilot.press("escape")
        assert app.review.state.permission_request is COMMAND
        assert app.review.state.feedback_drafts.drafts["P1"] == "hm"
        app.review.remove_permission_request("c1")
        await app.press_later("N")
        assert app.review.verdict_handler.question is not None
        app.review.add_permission_request("c2", COMMAND)
        await pilot.pause()
        await app.press_later("y")
        assert app.posted == [review_messages.PermissionAnswered("c2", PermissionAnswer(allowed=True))]


@pytest.mark.parametrize("left_open", [False, True])
async def test_feedback_on_a_permission_is_sent_with_the_denial_or_returned(left_open: bool) -> None:
    app = ReviewApp()
    async with app.run_test(size=BIG) as pilot:
        app.review.add_permission_request("c1", COMMAND)
        app.review.add_permission_request("c2", COMMAND)
        await ready(pilot)
        for key in "ny":
            await pilot.press("r", "h", "m")
            if left_open:
                app.review.approval_pane.queue.focus()
            else:
                await pilot.press("escape")
            await pilot.pause()
            await app.press_later(key)
            await app.pass_grace()
        if left_open:
            app.review.feedback_field.query_one(TextArea).focus()
            await pilot.press("escape")
        await pilot.pause()
        assert sorted(app.posted, key=repr) == [
            review_messages.FeedbackOrphaned("hm"),
            review_messages.PermissionAnswered("c1", PermissionAnswer(allowed=False, feedback="hm")),
            review_messages.PermissionAnswered("c2", PermissionAnswer(allowed=True)),
        ]


async def test_feedback_on_a_withdrawn_permission_is_returned() -> None:
    async with reviewing() as (app, pilot):
        for before, after in ((["escape"], []), ([], ["ctrl+s"])):
            app.review.add_permission_request("c1", COMMAND)
            await ready(pilot)
            await pilot.press("r", "h", "m", *before)
            app.review.remove_permission_request("c1")
            await pilot.press(*after)
            await pilot.pause()
            assert app.posted == [review_messages.FeedbackOrphaned("hm")]
            app.posted.clear()
