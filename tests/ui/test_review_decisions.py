"""The keys that decide: what they post, when they are dead, and what asks first."""

from collections.abc import Sequence
from typing import Any

import pytest
from textual.widgets import Input

from app.automation.check_results import CheckOutcome, CheckResult, CheckState, ProposalChecks
from app.proposals.values.models import FileDiff, HunkState, MatchLevel, Proposal, ProposalState
from tests.ui.review_app import BIG, ReviewApp, ready, reviewing
from tests.ui.sample_diffs import file_diff, proposal, retry_proposal, stale
from tests.waiting import until
from widgets.common.workbench_bars import KeyBar
from widgets.review import review_messages

Item = tuple[Proposal, Sequence[FileDiff]]


def small(name: str = "P1", path: str = "a.py", **facts: Any) -> Item:
    """One hunk that fits on any screen."""
    diffs = [file_diff(path, "one\ntwo\nthree\n", "one\n2\nthree\n")]
    return proposal(name, diffs, **facts), diffs


def two_hunks(name: str = "P1") -> Item:
    """Two hunks in one file."""
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
        await app.pass_grace()
        await pilot.press("y", "n")
        assert len(app.posted) == 1


async def test_decision_keys_do_nothing_right_after_the_proposal_appeared() -> None:
    app = ReviewApp(small(), small("P2", state=ProposalState.APPLIED))
    app.review.state.last_decided = "P2"
    red = CheckResult("tests", CheckState.FAILED, outcome=CheckOutcome(CheckState.FAILED, 1))
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


async def test_typing_after_an_early_key_decides_nothing() -> None:
    item = small()
    async with reviewing(item) as (app, pilot):
        app.put(item[0].model_copy(update={"revision": 2}))
        for key in ("r", *"nnany"):
            await until(app.painted, "the picture of what would be decided")
            await pilot.press(key)
            app.clock.now += 0.4
            assert app.posted == [] and app.focused is app.review.view, key
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
        await app.pass_grace()
        await pilot.press("y")
        assert app.posted == [review_messages.DenyAll((review_messages.Deny("P1"), review_messages.Deny("P2")))]


async def test_decision_keys_are_inactive_briefly_after_a_new_revision() -> None:
    item = small()
    async with reviewing(item) as (app, pilot):
        app.put(item[0].model_copy(update={"revision": 2}))
        await pilot.press("y")
        assert app.posted == []
        await app.pass_grace()
        await pilot.press("y")
        assert app.posted == [review_messages.Approve("P1", 2, None)]


async def test_space_excludes_a_hunk_and_y_approves_the_rest() -> None:
    item = two_hunks()
    _, second = item[0].hunks
    async with reviewing(two_hunks()) as (app, pilot):
        # Decision keys are dead after the chosen hunks changed.
        await pilot.press("space", "y")
        assert app.posted == []
        # Space takes a hunk out and y approves the rest.
        assert "1 of 2 hunks" in app.text()
        assert "+2 -0" in app.text()
        await app.pass_grace()
        await pilot.press("y")
        assert app.posted == [review_messages.Approve("P1", 1, (second.id,))]


async def test_the_focus_stays_where_the_user_types_when_a_proposal_arrives() -> None:
    app = ReviewApp()
    async with app.run_test(size=BIG) as pilot:
        app.query_one(Input).focus()
        item = small()
        app.put(*item)
        await pilot.pause()
        assert app.focused is app.query_one(Input)
        assert app.review.state.current == "P1"


async def test_the_first_proposal_stays_shown_when_another_arrives() -> None:
    async with reviewing(small("P1")) as (app, pilot):
        app.put(*small("P2", "b.py"))
        app.review.set_diffs("P2", app.diffs["P2"])
        await pilot.press("y")
        assert app.posted == [review_messages.Approve("P1", 1, None)]


async def test_the_next_proposal_is_shown_when_the_first_is_decided() -> None:
    first, second = small("P1"), small("P2", "b.py")
    async with reviewing(first, second) as (app, pilot):
        app.put(first[0].model_copy(update={"state": ProposalState.APPLIED}))
        await pilot.pause()
        assert app.review.state.current == "P2"
        await pilot.press("y")
        assert app.posted == [], "the grace period begins anew"


async def test_t_toggles_a_files_hunks_a_click_one_and_x_denies_it() -> None:
    item = two_hunks()
    async with reviewing(item) as (app, pilot):
        # T takes all hunks of the file.
        await pilot.press("t")
        assert app.review.state.hunk_exclusions.left_out["P1"] == {hunk.id for hunk in item[0].hunks}
        await app.pass_grace()
        await pilot.press("t")
        assert not app.review.state.hunk_exclusions.left_out["P1"]
        # A click on the mark toggles the hunk.
        line = app.review.view.layout_rows.first_line_of_row(app.review.view.layout_rows.landmarks.hunks[1])
        await pilot.click("DiffView", offset=(0, line))
        assert app.review.state.hunk_exclusions.left_out["P1"] == {item[0].hunks[1].id}
        # X denies one hunk.
        await app.pass_grace()
        await pilot.press("g", *["right_square_bracket"] * 2, "x")
        assert app.posted == [review_messages.Deny("P1", (item[0].hunks[1].id,))]


async def test_unseen_hunks_are_counted_and_confirmed_once() -> None:
    old = [f"line {number}" for number in range(400)]
    new = [f"{line}!" if number % 100 == 50 else line for number, line in enumerate(old)]
    diffs = [file_diff("long.txt", "\n".join(old), "\n".join(new))]
    async with reviewing((proposal("P1", diffs), diffs), size=(100, 24)) as (app, pilot):
        unseen = app.review.state.unseen_parts(app.proposals["P1"])
        assert 0 < unseen.lines < unseen.total == 8
        await pilot.press("y")
        assert app.posted == []
        await pilot.pause()
        assert f"{unseen.lines} of 8 changed lines of P1 were never on screen (long.txt)" in app.text()
        await pilot.press("y")
        assert app.posted == [], "the question has a grace period of its own"
        await app.pass_grace()
        await pilot.press("y")
        assert app.posted == [review_messages.Approve("P1", 1, None)]


async def test_hunks_scrolled_over_count_as_seen() -> None:
    old = [f"line {number}" for number in range(400)]
    new = [f"{line}!" if number % 100 == 50 else line for number, line in enumerate(old)]
    diffs = [file_diff("long.txt", "\n".join(old), "\n".join(new))]
    async with reviewing((proposal("P1", diffs), diffs), size=(100, 24)) as (app, pilot):
        for _ in range(4):
            await pilot.press("right_square_bracket")
        await app.pass_grace()
        await pilot.press("y")
        assert app.posted == [review_messages.Approve("P1", 1, None)]


async def test_a_confirmation_is_cancelled_by_n_and_by_a_change() -> None:
    diffs = [file_diff("gone.py", "a = 1\n", None)]
    first = proposal("P1", diffs)
    async with reviewing((first, diffs)) as (app, pilot):
        # Deleting a file asks once and n leaves the question.
        await pilot.press("y")
        assert "P1 deletes gone.py" in app.text()
        await pilot.press("n")
        assert app.review.verdict_handler.question is None
        assert app.posted == []
        # A question lapses when its proposal changes.
        await app.pass_grace()
        await pilot.press("y")
        app.put(first.model_copy(update={"revision": 2}))
        await pilot.pause()
        assert "P1 has changed: the question has lapsed" in app.text()
        await app.pass_grace()
        await pilot.press("y")
        assert app.posted == [], "that was a new question, not a yes to the old one"


@pytest.mark.parametrize("left", [0, 1])
async def test_a_confirmation_lapses_when_its_proposal_is_decided_elsewhere(left: int) -> None:
    diffs = [file_diff("gone.py", "a = 1\n", None)]
    first = proposal("P1", diffs)
    others = [small("P2"), small("P3")][:left]
    async with reviewing((first, diffs), *others) as (app, pilot):
        await pilot.press("y")
        assert "Approve?" in app.text()
        app.put(first.model_copy(update={"state": ProposalState.APPLIED}))
        await pilot.pause()
        assert "P1 is applied now: the question has lapsed" in app.text()
        assert "Approve?" not in app.text()


@pytest.mark.parametrize("why", ["no hunk", "stale", "versions"])
async def test_an_impossible_approval_is_not_offered_and_its_key_says_why(why: str) -> None:
    first, diffs = two_hunks()
    if why == "stale":
        first = first.model_copy(update={"state": ProposalState.STALE, "reason": "b.txt changed on disk"})
    if why == "versions":
        first = first.model_copy(update={"supersedes": "P0", "version": 2})
    app = ReviewApp((first, diffs))
    app.versions["P1"] = list(diffs)
    app.below = KeyBar()
    async with app.run_test(size=BIG) as pilot:
        await ready(pilot)
        if why != "stale":
            assert "y  approve" in app.text() and "y Approve" not in app.text(), "the footer has other keys"
        match why:
            case "no hunk":
                for key in ("space", "right_square_bracket", "space"):
                    await pilot.press(key)
            case "versions":
                await pilot.press("V")
        await pilot.pause()
        assert "y  approve" not in app.text() and "o  approve" not in app.text()
        assert "y Approve" not in app.text() and "o Approve" not in app.text()
        assert ("Space" in app.text()) is (why != "stale")
        assert ("No hunk is chosen: nothing would change" in app.text()) is (why == "no hunk")
        await app.pass_grace()
        await pilot.press("y")
        assert app.posted == []
        said = {"no hunk": "choose one, or deny", "stale": "cannot be approved", "versions": "compares two versions"}
        assert said[why] in app.text()


async def test_approve_all_names_and_leaves_out_doubtful_proposals() -> None:
    inexact = [file_diff("loose.py", "a\n", "b\n", rung=MatchLevel.SPACING)]
    async with reviewing(small("P1"), (proposal("P2", inexact), inexact), small("P3", "c.py")) as (app, pilot):
        await pilot.press("Y")
        assert "P2 (inexact match in loose.py, 2 of 2 changed lines were never on screen)" in " ".join(
            app.text().split()
        )
        await app.pass_grace()
        await pilot.press("y")
        assert app.posted == [
            review_messages.ApproveAll(
                (review_messages.Approve("P1", 1, None), review_messages.Approve("P3", 1, None))
            )
        ]


async def test_approve_all_includes_doubtful_proposals_if_confirmed() -> None:
    gone = [file_diff("gone.py", "a\n", None)]
    async with reviewing(small("P1"), (proposal("P2", gone), gone)) as (app, pilot):
        await pilot.press("Y")
        await app.pass_grace()
        await pilot.press("Y")
        assert app.posted == [
            review_messages.ApproveAll(
                (review_messages.Approve("P1", 1, None), review_messages.Approve("P2", 1, None))
            )
        ]


async def test_a_stale_proposal_cannot_be_approved_but_denied() -> None:
    value, diffs = small()
    async with reviewing((stale(value, "a.py changed on disk at line 2"), diffs)) as (app, pilot):
        await pilot.press("y")
        assert app.posted == []
        assert "a.py changed on disk at line 2" in app.text()
        await pilot.press("n")
        assert app.posted == [review_messages.Deny("P1")]


@pytest.mark.parametrize("key", ["y", "x"])
async def test_nothing_is_approved_or_denied_by_hunk_before_its_diff_is_on_screen(key: str) -> None:
    value, diffs = small()
    async with reviewing((value, diffs)) as (app, pilot):
        other = [file_diff("a.py", "one\ntwo\nthree\n", "one\nevil\nthree\n")]
        app.review.set_diffs("P1", other)
        await pilot.pause()
        await app.pass_grace()
        await pilot.press(key)
        assert app.posted == []
        await pilot.press("q")
        assert "There is no proposal on the screen to ask about." in app.text()


async def test_undo_applies_to_the_last_approval_while_the_next_proposal_is_shown() -> None:
    first, second = small("P1"), small("P2", "b.py")
    async with reviewing(first, second) as (app, pilot):
        await pilot.press("y")
        app.put(first[0].model_copy(update={"state": ProposalState.APPLIED}))
        app.review.show_outcome("P1: wrote 1 file; u undoes")
        await pilot.pause()
        await app.pass_grace()
        assert "P1: wrote 1 file; u undoes" in app.text()
        await pilot.press("u")
        assert app.posted[-1:] == [review_messages.Undo("P1")]
        app.put(first[0].model_copy(update={"state": ProposalState.UNDONE}))
        await pilot.pause()
        await app.pass_grace()
        await pilot.press("U")
        assert app.posted[-1:] == [review_messages.Redo("P1")], "what was taken back, not what was shown before"


async def test_an_undone_proposal_can_be_redone() -> None:
    value, diffs = small()
    async with reviewing((value.model_copy(update={"state": ProposalState.UNDONE}), diffs)) as (app, pilot):
        await pilot.press("U")
        assert app.posted == [review_messages.Redo("P1")]


async def test_e_edits_the_file_at_the_cursor() -> None:
    async with reviewing(retry_proposal()) as (app, pilot):
        await pilot.press("right_curly_bracket", "e")
        assert app.posted == [review_messages.EditProposedFile("P1", "tests/test_fetch.py")]


async def test_decision_keys_work_from_the_approvals_list() -> None:
    async with reviewing(small("P1"), small("P2", "b.py")) as (app, pilot):
        app.review.approval_pane.queue.focus()
        await pilot.press("j")
        assert app.review.state.current == "P2"
        await app.pass_grace()
        await pilot.press("y")
        assert app.posted == [review_messages.Approve("P2", 1, None)]


async def test_applied_hunks_are_not_chosen_again() -> None:
    value, diffs = two_hunks()
    change = diffs[0].change
    hunks = (change.hunks[0].model_copy(update={"state": HunkState.APPLIED}), change.hunks[1])
    partly = value.model_copy(
        update={
            "state": ProposalState.PARTLY_APPROVED,
            "files": (change.model_copy(update={"hunks": hunks}),),
        }
    )
    async with reviewing((partly, diffs)) as (app, pilot):
        await pilot.press("space")
        assert not app.review.state.hunk_exclusions.left_out.get("P1")
        await pilot.press("y")
        assert app.posted == [review_messages.Approve("P1", 1, None)]


async def test_f_toggles_the_full_screen() -> None:
    async with reviewing(small()) as (app, pilot):
        await pilot.press("f", "f")
        assert app.posted == [review_messages.FullScreenToggled(True), review_messages.FullScreenToggled(False)]
