"""The keys and chips that decide: what they post, when they are dead, what asks first, and what is said after."""

from typing import Any

import pytest
from textual.widgets import Input

from app.automation.check_results import CheckRunResult, CheckState, ProposalCheckResult, ProposalChecks
from app.keys.actions import actions_in_scopes
from app.proposals.values.models import MatchLevel, ProposalState
from app.tools.base.contract import PermissionRequest
from tests.ui.review_app import BIG, ReviewApp, click_on, ready, reviewing
from tests.ui.sample_diffs import Item, file_diff, proposal, proposed, retry_proposal, stale
from tests.waiting import until
from widgets.common.workbench_bars import KeyBar
from widgets.review import review_messages


def small(name: str = "P1", path: str = "a.py", **facts: Any) -> Item:
    """One hunk that fits on any screen."""
    diffs = [file_diff(path, "one\ntwo\nthree\n", "one\n2\nthree\n")]
    return proposal(name, diffs, **facts), diffs


def two_hunks(name: str = "P1") -> Item:
    old = [f"line {number}" for number in range(30)]
    new = [*old[:3], "changed", *old[4:20], "more", "and more", *old[20:]]
    diffs = [file_diff("b.txt", "\n".join(old) + "\n", "\n".join(new) + "\n")]
    return proposal(name, diffs), diffs


async def test_early_misplaced_and_repeated_keys_decide_nothing() -> None:
    async with reviewing(small()) as (app, pilot):
        # Keys that are pressed without looking decide nothing.
        for key in ("enter", "escape", "space", "tab", "f3", "j", "full_stop"):
            app.review.view.focus()
            await pilot.press(key)
            assert app.posted == [], key
        # Typing in the composer decides nothing.
        app.screen.set_focus(app.query_one(Input))
        app.review.action_approve()
        app.review.action_deny()
        await pilot.press("y", "n", "Y", "N", "u")
        assert app.posted == []
        assert app.query_one(Input).value == "ynYNu"
        # A second press does not decide twice.
        await ready(pilot)
        await pilot.press("y")
        await app.press_later("y", "n")
        assert len(app.posted) == 1


async def test_a_key_without_a_hunk_or_line_at_the_cursor_says_so() -> None:
    moved = file_diff("c.txt", "same\n", "same\n", old_path="b.txt")
    async with reviewing(proposed(small()[1][0], moved)) as (app, pilot):
        for row, text in (
            (0, "No hunk is at the cursor; ] goes to the next one."),
            (-1, "decided with the proposal"),
        ):
            app.review.view.cursor.move_to(row % app.review.view.layout_rows.row_count)
            for key in ("space", "x"):
                await pilot.press("c")
                assert "A comment is on a line; move to one." in app.text()
                await app.press_later(key)
                assert text in app.text(), key
        await pilot.press("c")
        await app.press_later("t")
        assert "decided with the proposal" in app.text()
        assert app.posted == []


async def test_decision_keys_do_nothing_right_after_the_proposal_appeared() -> None:
    app = ReviewApp(small(), small("P2", state=ProposalState.APPLIED))
    app.review.state.last_decided = "P2"
    red = ProposalCheckResult("tests", CheckState.FAILED, outcome=CheckRunResult(CheckState.FAILED, 1))
    async with app.run_test(size=BIG) as pilot:
        app.review.set_checks(ProposalChecks("P1", 1, (red,)))
        await pilot.pause()
        app.review.view.focus()
        await pilot.pause()
        for key in ("y", "n", "Y", "N", "x", "u", "e", "r", "S"):
            assert app.review.is_key_active(key), key
            await pilot.press(key)
            assert app.posted == [], key
            assert app.review.verdict_handler.question is None, key
            assert app.focused is app.review.view, key


async def test_decision_keys_and_chips_are_inactive_briefly_after_a_new_revision() -> None:
    value, diffs = small()
    async with reviewing((value, diffs)) as (app, pilot):
        app.put(value.model_copy(update={"revision": 2}))
        for key in ("y", "r", *"nnany"):
            await until(app.painted, "the picture of what would be decided")
            await pilot.press(key)
            app.clock.now += 0.4
            assert app.posted == [] and app.focused is app.review.view, f"{key}: who types on decides nothing"
        await app.pass_grace()
        await app.change(value.model_copy(update={"revision": 3}))
        await click_on(pilot, " y  approve")
        assert app.posted == []
        await app.press_later("y")
        assert app.posted == [review_messages.Approve("P1", 3, None)]


async def test_a_chip_decides_at_any_focus_but_text_beside_it_does_not() -> None:
    async with reviewing(proposed(file_diff("gone.py", "a = 1\n", None), summary="approve me")) as (app, pilot):
        await click_on(pilot, "approve me")
        await click_on(pilot, "1 file")
        assert app.posted == [] and app.review.verdict_handler.question is None
        app.query_one("#composer").focus()
        await pilot.pause()
        await click_on(pilot, " y  approve")
        assert "P1 deletes gone.py" in app.text()
        await app.pass_grace()
        await click_on(pilot, " y  yes")
        assert app.posted == [review_messages.Approve("P1", 1, None)]


async def test_a_sentence_typed_into_the_review_decides_nothing() -> None:
    async with reviewing(small()) as (app, pilot):
        for words in ("Give the number a name", "make it shorter, and say why", "hm, no"):
            await pilot.press(*("space" if key == " " else key for key in words.replace(",", "")))
            assert app.posted == [], words
            await app.pass_grace()
        await pilot.press("n")
        assert app.posted == [review_messages.Deny("P1")]


async def test_an_inactive_key_is_explained_and_deny_all_asks_once() -> None:
    async with reviewing(small("P1"), small("P2", "b.py")) as (app, pilot):
        # Hint about a dead key goes with its proposal.
        for leave in (lambda: app.review.show_item("P2"), app.query_one(Input).focus):
            app.clock.now -= 1.0
            await pilot.press("y")
            assert "press the key" in app.text()
            leave()
            await until(lambda: "press the key" not in app.text(), "the line to go")
        assert app.posted == []
        # Deny all asks once.
        await ready(pilot)
        await pilot.press("N")
        assert app.posted == []
        await app.press_later("y")
        assert app.posted == [
            review_messages.DenySeveralProposals((review_messages.Deny("P1"), review_messages.Deny("P2")))
        ]


async def test_space_t_and_clicks_exclude_hunks_and_y_approves_the_rest() -> None:
    item = two_hunks()
    first, second = item[0].hunks
    async with reviewing(item) as (app, pilot):
        left_out = app.review.state.hunk_exclusions.left_out
        await pilot.press("t")
        assert left_out["P1"] == {first.id, second.id}, "all of the file"
        await app.press_later("t")
        assert not left_out["P1"]
        line = app.review.view.layout_rows.first_line_of_row(app.review.view.layout_rows.landmarks.hunks[1])
        await pilot.click("DiffView", offset=(0, line))
        assert left_out["P1"] == {second.id}
        await app.press_later("g", "right_square_bracket", "right_square_bracket", "space")
        assert not left_out["P1"]
        await pilot.press("left_square_bracket", "space", "y")
        assert app.posted == [], "the chosen hunks have just changed"
        assert "1 of 2 hunks" in app.text() and "+2 -0" in app.text()
        await app.press_later("y")
        assert app.posted == [review_messages.Approve("P1", 1, (second.id,))]


async def test_a_proposal_is_shown_until_its_decision_which_can_be_undone_from_the_next() -> None:
    (first, diffs), second = small("P1"), small("P2", "b.py")
    app = ReviewApp()
    async with app.run_test(size=BIG) as pilot:
        app.query_one(Input).focus()
        await app.change(first, diffs)
        assert app.focused is app.query_one(Input), "where the user types"
        assert app.review.state.current == "P1"
        app.put(*second)
        app.review.set_diffs("P2", app.diffs["P2"])
        await ready(pilot)
        await pilot.press("y")
        assert app.posted == [review_messages.Approve("P1", 1, None)]
        app.review.show_outcome("P1: wrote 1 file; u undoes")
        await app.change(first.model_copy(update={"state": ProposalState.APPLIED}))
        assert app.review.state.current == "P2" and "P1: wrote 1 file; u undoes" in app.text()
        await pilot.press("y")
        assert len(app.posted) == 1, "the grace period begins anew"
        await app.press_later("u")
        assert app.posted[1:] == [review_messages.Undo("P1")]
        await app.change(first.model_copy(update={"state": ProposalState.UNDONE}))
        await app.press_later("U")
        assert app.posted[2:] == [review_messages.Redo("P1")], "what was taken back, not what was shown before"


@pytest.mark.parametrize("then", ["another proposal", "a permission request", "an undo in another window"])
async def test_the_outcome_of_a_decision_is_shown_once_until_something_else_happens(then: str) -> None:
    value, diffs = small()
    applied = value.model_copy(update={"state": ProposalState.APPLIED}).with_decision("approved")
    app = ReviewApp((value, diffs))
    async with app.run_test(size=BIG) as pilot:
        await pilot.pause()
        assert app.review.approval_pane.has_class("-changed"), "the proposal is new"
        app.put(value)
        app.review.show_outcome("P1 written: a.py. u undoes it.", decided=applied)
        await app.change(applied)
        assert not app.review.approval_pane.has_class("-changed")
        assert app.text().count("P1 written") == 1 and "P1 applied" not in app.text()
        assert "undo" in app.text() and "Nothing waits for you." in app.text()
        if then == "another proposal":
            app.put(*small("P2", "b.py"))
        elif then == "an undo in another window":
            app.put(applied.model_copy(update={"state": ProposalState.UNDONE}).with_decision("undone"))
        else:
            app.review.add_permission_request("c1", PermissionRequest("command", "Run a command?", "make test", "."))
        await pilot.pause()
        assert "P1 written" not in app.text()


async def test_a_confirmation_ends_by_n_escape_a_change_or_a_decision_elsewhere() -> None:
    first, diffs = proposed(file_diff("gone.py", "a = 1\n", None))
    async with reviewing((first, diffs), small("P2")) as (app, pilot):
        for key in ("n", "escape"):
            await pilot.press("y")
            assert "P1 deletes gone.py" in app.text() and "Approve?" in app.text()
            await pilot.press(key)
            assert app.review.verdict_handler.question is None and "Approve?" not in app.text()
            await app.pass_grace()
        for update, lapsed in (
            ({"revision": 2}, "P1 has changed: the question has lapsed"),
            ({"state": ProposalState.APPLIED}, "P1 is applied now: the question has lapsed"),
        ):
            await pilot.press("y")
            assert app.posted == [], "a new question, not a yes to the old one"
            await app.change(first.model_copy(update=update))
            assert lapsed in app.text() and "Approve?" not in app.text()
            await app.pass_grace()


async def test_an_impossible_approval_is_not_offered_and_its_key_says_why() -> None:
    first, diffs = two_hunks()
    for value, words in (
        (first, "choose one, or deny"),
        (stale(first, "b.txt changed on disk"), "cannot be approved"),
    ):
        is_stale = value is not first
        app = ReviewApp((value, diffs))
        app.below = KeyBar()
        async with reviewing(app=app) as (_, pilot):
            assert (" y  approve" in app.text()) is not is_stale
            if not is_stale:
                await pilot.press("space", "right_square_bracket", "space")
            for offered in ("y  approve", "o  approve", "y Approve", "o Approve"):
                assert offered not in app.text(), "here or in the footer"
            assert ("Space" in app.text()) is not is_stale
            assert ("No hunk is chosen: nothing would change" in app.text()) is not is_stale
            await app.press_later("y")
            assert app.posted == []
            assert words in app.text() and ("b.txt changed on disk" in app.text()) is is_stale
            await pilot.press("n")
            assert app.posted == [review_messages.Deny("P1")]


@pytest.mark.parametrize(("key", "approved"), [("y", "P1 P3"), ("Y", "P1 P2 P3")])
async def test_approve_all_leaves_out_doubtful_proposals_unless_confirmed(key: str, approved: str) -> None:
    inexact = [file_diff("loose.py", "a\n", "b\n", rung=MatchLevel.SPACING)]
    async with reviewing(small("P1"), (proposal("P2", inexact), inexact), small("P3", "c.py")) as (app, pilot):
        await pilot.press("Y")
        words = "P2 (inexact match in loose.py, 2 of 2 changed lines were never on screen)"
        assert words in " ".join(app.text().split())
        await app.press_later(key)
        (every,) = app.posted
        assert isinstance(every, review_messages.ApproveSeveralProposals)
        assert sorted(every.approvals, key=repr) == [
            review_messages.Approve(name, 1, None) for name in approved.split()
        ]


async def test_nothing_is_approved_or_denied_by_hunk_before_its_diff_is_on_screen() -> None:
    async with reviewing(small()) as (app, pilot):
        app.review.set_diffs("P1", [file_diff("a.py", "one\ntwo\nthree\n", "one\nevil\nthree\n")])
        await pilot.pause()
        for key in ("y", "x"):
            await app.press_later(key)
            assert app.posted == [], key
        await pilot.press("q")
        assert "There is no proposal on the screen to ask about." in app.text()


async def test_e_edits_the_file_at_the_line_of_the_cursor_and_f_toggles_the_full_screen() -> None:
    async with reviewing(retry_proposal()) as (app, pilot):
        await pilot.press("right_square_bracket", "e", "j", "j", "e", "right_curly_bracket", "e", "f", "f")
        assert app.posted == [
            *(review_messages.EditProposedFile("P1", "app/fetch.py", line) for line in (6, 7)),
            review_messages.EditProposedFile("P1", "tests/test_fetch.py"),
            *(review_messages.FullScreenWanted(on) for on in (True, False)),
        ]


async def test_a_proposal_changed_by_the_user_is_marked_in_the_queue() -> None:
    async with reviewing(proposed(file_diff("a.py", "one\n", "two\n", edited=True))) as (app, _pilot):
        assert "changed by you" in app.text()


def test_every_action_of_the_review_has_its_own_handler() -> None:
    handlers = [action.handler for action in actions_in_scopes("review", "diff")]
    assert len(handlers) == len(set(handlers)), "hints find a key by its handler"
