"""What the review knows and decides, without a screen: the queue, the choice, the verdicts, and the words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.updates import EventRecorded
from app.automation.check_results import CheckRunResult, CheckState, ProposalCheckResult, ProposalChecks
from app.conversation.events import SideAnswer
from app.proposals.stack.hunk_splitting import HunkPart
from app.proposals.values.models import (
    FileOperation,
    HunkState,
    MatchLevel,
    Proposal,
    ProposalState,
    ReopenableHunkDenial,
)
from app.review.hunk_lines import changed_line_count
from app.review.review_state import ReviewQueueState, UnseenPartsSummary
from app.review.unfinished_review import UnfinishedReview, UnsentComment, quote_lines
from app.review.verdicts import (
    ActionAllowedAtOnce,
    ActionNeedsConfirmation,
    ActionRefused,
    describe_unseen_parts,
    judge_approval,
    judge_approve_all,
    judge_denial,
    judge_denial_with_feedback,
    judge_deny_all,
)
from app.tools.base.contract import PermissionRequest
from tests.ui.sample_diffs import file_diff, proposal, retry_proposal, stale
from widgets.review.ask_panel import SideThreads
from widgets.review.decision_keys import (
    DECIDING_ACTIONS,
    find_current_key_title,
    is_action_available,
)
from widgets.review.review_wording import check_lines, current_item_lines, permission_row, proposal_row


def one(name: str, **facts: Any) -> Proposal:
    return proposal(name, [file_diff("a.py", "a\n", "b\n")], **facts)


def seen(state: ReviewQueueState, *values: Proposal) -> ReviewQueueState:
    """The state after everything in these was on screen."""
    for value in values:
        shown = state.seen_tracker.seen_lines(value)
        for change in value.files:
            if not change.hunks:
                shown.mark_file_seen(change.path)
            for hunk in change.hunks:
                for number in range(changed_line_count(hunk)):
                    shown.mark_seen(hunk, number)
    return state


def asked_of_all(state: ReviewQueueState) -> str:
    """The question that comes before everything is approved."""
    verdict = judge_approve_all(state)
    assert isinstance(verdict, ActionNeedsConfirmation)
    return verdict.question


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(list(ProposalState))), max_size=12))
def test_the_shown_proposal_stays_while_it_waits(steps: list[tuple[int, ProposalState]]) -> None:
    state = ReviewQueueState()
    known: dict[str, Proposal] = {}
    for number, to in steps:
        before = state.proposal
        known[f"P{number}"] = one(f"P{number}", state=to)
        state.update_proposals(known.values())
        if before is not None and before.state.is_pending and known[before.id].state.is_pending:
            assert state.current == before.id
        if any(item.state.is_pending for item in known.values()):
            assert state.proposal is not None and state.proposal.state.is_pending, "something that waits is shown"
        assert {*state.listed_keys} == {*known}


def state_with_stale(*others: Proposal, **update: bool) -> ReviewQueueState:
    """P1 was shown first, and turned stale while nobody was in the review; then the others came."""
    state = ReviewQueueState()
    state.update_proposals([one("P1")], attended=False)
    state.update_proposals([(gone := stale(one("P1"), "a.py changed"))], attended=False)
    assert state.current == "P1", "the only one stays in view, and says why"
    state.update_proposals([gone, *others], **update)
    return state


def test_approvable_proposals_come_before_stale_ones() -> None:
    assert state_with_stale(one("P2"), one("P3"), attended=False).current == "P2"
    assert state_with_stale(stale(one("P2"), "so did b.py"), attended=False).current == "P1"
    assert state_with_stale(one("P2"), attended=True).current == "P1", "nothing goes from under the user's eyes"
    opened = ReviewQueueState()
    opened.update_proposals([stale(one("P1"), "a.py changed"), one("P2")])
    assert opened.current == "P2"


@pytest.mark.parametrize("state", [ProposalState.STALE, ProposalState.APPLIED])
def test_a_proposal_that_the_user_chose_or_writes_about_stays_shown(state: ProposalState) -> None:
    gone, new = one("P1", state=state), one("P2")
    for picked in (True, False):
        review = ReviewQueueState()
        review.update_proposals([gone], attended=False)
        if picked:
            review.current, review.is_picked_by_user = "P1", True
        else:
            review.feedback_drafts.set_feedback("P1", "Do it anew.")
        review.update_proposals([gone, new], attended=False)
        assert review.current == "P1" or not (picked or state is ProposalState.STALE)
    review = ReviewQueueState()
    review.update_proposals([one("P1"), new], attended=False)
    review.current, review.is_picked_by_user = "P1", True
    review.update_proposals([gone, new], attended=False)
    assert review.current == "P2", "what was chosen could be approved"


@given(st.lists(st.integers(0, 5), max_size=10))
def test_line_counts_are_those_of_the_chosen_hunks(toggles: list[int]) -> None:
    value, _ = retry_proposal()
    state = ReviewQueueState(waiting=[value], current="P1")
    for number in toggles:
        state.hunk_exclusions.toggle(value, [value.hunks[number % len(value.hunks)]])
    choice = state.hunk_exclusions.approval_selection(value)
    left = [
        hunk for number, hunk in enumerate(value.hunks) if [n % len(value.hunks) for n in toggles].count(number) % 2
    ]
    assert set(choice.hunks) == {hunk.id for hunk in value.hunks} - {hunk.id for hunk in left}
    assert choice.added == value.added - sum(hunk.new_count for hunk in left)
    assert choice.removed == value.removed - sum(hunk.old_count for hunk in left)


def test_decided_hunks_are_not_in_the_approval_selection() -> None:
    value, _ = retry_proposal()
    change = value.files[0]
    hunks = (change.hunks[0].model_copy(update={"state": HunkState.DENIED}), *change.hunks[1:])
    partly = value.model_copy(update={"files": (change.model_copy(update={"hunks": hunks}), value.files[1])})
    state = ReviewQueueState(waiting=[partly])
    state.hunk_exclusions.toggle(partly, [hunks[0]])
    assert state.hunk_exclusions.approval_selection(partly).total == len(value.hunks) - 1
    assert state.hunk_exclusions.approval_selection(partly).is_all
    state.restore_notes("P1", UnfinishedReview(left_out=(hunks[1].id,)))
    assert state.hunk_exclusions.approval_selection(partly).hunks == tuple(hunk.id for hunk in value.hunks[2:]), (
        "nothing was chosen since"
    )


def test_files_with_only_excluded_hunks_would_not_change() -> None:
    value = proposal("P1", [file_diff("a.py", "a\n", "b\n"), file_diff("b.py", "a\n", "b\n")])
    state = seen(ReviewQueueState(), value)
    state.update_proposals([value])
    assert "2 files" in current_item_lines(state, str)[0].plain
    state.hunk_exclusions.toggle(value, value.files[1].hunks)
    assert "1 file " in f"{current_item_lines(state, str)[0].plain} "
    state.update_proposals(
        [proposal("P1", [file_diff("a.py", "a\n", "b\n"), file_diff("run.sh", "a\n", "a\n", op=FileOperation.MODE)])]
    )
    assert "2 files" in current_item_lines(state, str)[0].plain, "the one that has no hunks, too"


def test_counts_of_waiting_proposals_leave_out_decided_ones() -> None:
    landed = file_diff("a.py", "a\n", "b\nb\n").change
    landed = landed.model_copy(
        update={
            "state": HunkState.APPLIED,
            "hunks": tuple(hunk.model_copy(update={"state": HunkState.APPLIED}) for hunk in landed.hunks),
        }
    )
    value = proposal("P1", [file_diff("b.py", "a\n", "b\n")], state=ProposalState.PARTLY_APPROVED)
    value = value.model_copy(update={"files": (landed, *value.files)})
    choice = ReviewQueueState().hunk_exclusions.approval_selection(value)
    assert (choice.files, choice.added, choice.removed) == (1, 1, 1)
    assert (value.added, value.removed) == (1, 1)
    decided = value.model_copy(
        update={"files": (landed, value.files[1].model_copy(update={"state": HunkState.DENIED}))}
    )
    assert (decided.added, decided.removed) == (2, 1), "what was approved counts, what was denied does not"


def test_an_action_is_allowed_or_refused_by_the_proposals_state() -> None:
    value = one("P1")
    state = ReviewQueueState(waiting=[value], current="P1")
    assert isinstance(judge_approval(state, value), ActionNeedsConfirmation), "its hunk was never on screen"
    seen(state, value)
    assert judge_approval(state, value) == ActionAllowedAtOnce("approve", ("P1",))
    assert isinstance(judge_approval(state, value, is_diff_shown=False), ActionRefused)
    assert isinstance(judge_approval(state, value, compares_versions=True), ActionRefused)
    for decided in (ProposalState.APPLIED, ProposalState.STALE, ProposalState.SUPERSEDED):
        other = value.model_copy(update={"state": decided})
        assert isinstance(judge_approval(state, other), ActionRefused)
        if not other.state.is_pending:
            gone = ActionRefused("P1 is not waiting any more.")
            assert judge_approval(state, other) == judge_denial(state, other) == gone


def test_a_proposal_on_disk_is_not_denied_after_the_file_changed() -> None:
    value = proposal("P1", [file_diff("a.py", "a\n", "b\n", on_disk=True)])
    state, gone = seen(ReviewQueueState(), value), stale(value, "a.py changed")
    for denied in (judge_denial, judge_denial_with_feedback):
        assert denied(state, value) == ActionAllowedAtOnce("deny", ("P1",))
        assert denied(state, gone) == ActionRefused("P1 is stale and cannot be taken back: a.py changed")


def test_a_bulk_approval_names_each_doubtful_proposal() -> None:
    loose = proposal("P2", [file_diff("b.py", "a\n", "b\n", rung=MatchLevel.LINE_HINT)])
    moved = proposal("P3", [file_diff("c.py", "a\n", "b\n", rebased=True)])
    gone = proposal("P4", [file_diff("d.py", "a\n", None)])
    stale = one("P5", state=ProposalState.STALE)
    deceives = file_diff("f.py", "a\n", "b\n", warnings=("A letter that looks like another.",))
    doubtful = [
        loose,
        moved,
        gone,
        stale,
        proposal("P6", [file_diff("e.sh", "a\n", "b\n", mode=0o755)]),
        proposal("P7", [deceives]),
        proposal("P8", [file_diff("g.py", "a\n", "b\n", repeat_of="P0")]),
        proposal("P9", [file_diff("h.py", "a\n", "b\n", rung=MatchLevel.TRAILING_SPACE)]),
    ]
    questions = []
    for waiting, named in ((doubtful, ("P2", "P3", "P4", "P6")), (doubtful[5:], ("P7", "P8"))):
        verdict = judge_approve_all(ReviewQueueState(waiting=[one("P1"), *waiting]))
        assert isinstance(verdict, ActionNeedsConfirmation)
        assert verdict.ids == ("P1", "P9"), "a trailing space is not doubtful"
        assert verdict.named == named and all(name in verdict.question for name in named)
        questions.append(verdict.question)
    assert "P6 (mode 644 → 755 of e.sh" in questions[0] and "P5" not in questions[0]
    assert "Left out in any case: P7 and P8." in questions[0]
    assert "P7 (deceiving text in f.py" in questions[1]
    assert "P8 (repeats in g.py what you denied in P0" in questions[1]


def test_deny_all_works_with_one_proposal_but_not_with_none() -> None:
    assert isinstance(judge_deny_all(ReviewQueueState()), ActionRefused)
    assert isinstance(judge_approve_all(ReviewQueueState()), ActionRefused)
    assert judge_deny_all(ReviewQueueState(waiting=[one("P1")])) == ActionAllowedAtOnce("deny", ("P1",))


def test_text_of_others_is_never_markup_or_escape_sequences() -> None:
    hostile = "x[/]y [bold]b[/bold] [@click=app.quit]c[/] \x1b]0;title\x07 \u202e"
    value = one(
        "P1", summary=hostile, reason=hostile, state=ProposalState.STALE, files=(file_diff(hostile, "a", "b").change,)
    )
    state = ReviewQueueState(waiting=[value], current="P1")
    rows = [proposal_row(state, value), *current_item_lines(state, lambda action: "y")]
    state.permissions.asked["c1"] = PermissionRequest("command", hostile, hostile, hostile)
    rows.append(permission_row(state, "c1"))
    for row in rows:
        assert not set(row.plain) & set("\x1b\x07\u202e")
        assert not any("click" in str(span.style) for span in row.spans)
    assert any("[@click=app.quit]" in row.plain for row in rows)


def test_a_quote_has_the_surrounding_lines_with_their_signs() -> None:
    diff = file_diff("a.py", "1\n2\n3\n4\n5\n", "1\n2\nthree\n4\n5\n")
    assert quote_lines(diff, UnsentComment("a.py", "old", 2, "?")) == " 1\n 2\n-3\n+three\n 4\n 5"
    assert quote_lines(diff, UnsentComment("a.py", "new", 4, "?")) == "-3\n+three\n 4\n 5"


def test_a_file_without_hunks_counts_as_unseen() -> None:
    value = proposal("P1", [file_diff("run.sh", "a\n", "a\n", op=FileOperation.MODE, rebased=True)])
    state = ReviewQueueState(waiting=[value])
    assert state.unseen_parts(value) == UnseenPartsSummary(0, 0, ("run.sh",))
    assert describe_unseen_parts("P1", state.unseen_parts(value)) == "run.sh of P1 was never on screen"
    assert asked_of_all(state) == "Left out: P1 (re-based run.sh, run.sh never on screen)."
    assert not seen(state, value).unseen_parts(value)
    assert asked_of_all(state) == "Left out: P1 (re-based run.sh)."


def test_approve_all_leaves_out_what_builds_on_a_doubtful_proposal_and_names_four() -> None:
    gone = [proposal(f"P{number}", [file_diff(f"{number}.py", "a\n", None)]) for number in range(1, 8)]
    above = proposal("P8", [file_diff("8.py", "a\n", "b\n", stacked_on=("P1",))])
    state = seen(ReviewQueueState(waiting=[gone[0], above, one("P9"), one("P10"), *gone[1:]]), gone[0], above)
    assert asked_of_all(state) == (
        "Approve P9 and P10 (+2 -2)? 4 of 4 changed lines of P9 and P10 were never on screen (a.py). "
        "Not with them: P1 (deletes 1.py); P8 (builds on P1); "
        "P2 (deletes 2.py, 1 of 1 changed line was never on screen); "
        "P3 (deletes 3.py, 1 of 1 changed line was never on screen). Left out in any case: P4, P5, P6 and P7."
    )
    verdict = judge_approve_all(state)
    assert isinstance(verdict, ActionNeedsConfirmation)
    assert verdict.ids == ("P9", "P10") and verdict.named == ("P1", "P8", "P2", "P3")


def test_a_file_without_hunks_is_approved_alone_once_every_hunk_is_excluded() -> None:
    mode = file_diff("run.sh", "a\n", "a\n", op=FileOperation.MODE)
    value = proposal("P1", [file_diff("a.py", "a\n", "b\n"), mode])
    state = seen(ReviewQueueState(waiting=[value], current="P1"), value)
    state.hunk_exclusions.toggle(value, value.hunks)
    assert judge_approval(state, value) == ActionAllowedAtOnce("approve", ("P1",))
    assert state.hunk_exclusions.approval_selection(value).decided_hunks == ("run.sh",)
    (*_, keys) = current_item_lines(state, lambda action: "y")
    assert "approve the chosen" in keys.plain and "1 file" in current_item_lines(state, lambda action: "y")[0].plain


def test_an_excluded_hunk_stays_excluded_when_its_id_changes() -> None:
    value, _ = retry_proposal()
    state = ReviewQueueState()
    state.update_proposals([value])
    state.hunk_exclusions.toggle(value, [value.hunks[0]])
    change = value.files[0]
    joined = change.hunks[0].model_copy(update={"id": "joined"})
    files = (change.model_copy(update={"hunks": (joined, *change.hunks[1:])}), *value.files[1:])
    after = value.model_copy(update={"files": files, "revision": 2})
    state.update_proposals([after])
    assert "joined" not in state.hunk_exclusions.approval_selection(after).hunks
    assert len(state.hunk_exclusions.approval_selection(after).hunks) == len(value.hunks) - 1


def test_excluded_lines_can_be_included_again_and_stay_seen() -> None:
    whole = file_diff("a.py", "a\nb\n", "A\nB\n")
    value = proposal("P1", [whole])
    (hunk,) = value.hunks
    pieces = [
        hunk.model_copy(update={"id": name, "old_start": at, "old_count": 1, "new_start": at, "new_count": 1})
        for at, name in enumerate("xy")
    ]
    parts = [HunkPart(hunk.id, piece, piece.id == "y") for piece in pieces]
    state = ReviewQueueState(waiting=[value], current="P1")
    state.seen_tracker.seen_lines(value).mark_seen(hunk, 1)
    state.select_split_parts(value, parts, ())
    assert state.hunk_exclusions.left_out["P1"] == {"y"}
    assert [state.seen_tracker.seen_lines(value).is_seen(piece, 0) for piece in pieces] == [False, True]
    state.hunk_exclusions.left_out["P1"] = {hunk.id}
    state.select_split_parts(value, parts, ())
    assert state.hunk_exclusions.left_out["P1"] == {"x"}, "the rest of what was left out stays out"


def test_a_denied_hunk_of_a_pending_proposal_can_be_reopened() -> None:
    value, _ = retry_proposal()
    change = value.files[0]
    part = ReopenableHunkDenial(decision=1, hunks=(change.hunks[0].id,), before=change.result, after=change.base)
    denied = value.model_copy(update={"files": (change.model_copy(update={"denied": (part,)}), *value.files[1:])})
    for shown, offered in ((value, False), (denied, True)):
        state = ReviewQueueState(waiting=[shown], current=shown.id)
        assert (state.undo_target is shown) is offered
        assert is_action_available("undo", state, None) is offered


def test_the_shown_permission_stays_when_proposals_arrive() -> None:
    state = ReviewQueueState()
    for key in ("c1", "c2"):
        state.permissions.asked[key] = PermissionRequest("command", "Run a command", "make", ".")
    state.current = "c2"
    state.update_proposals([one("P1")])
    assert state.current == "c2"
    assert [state.queue_number(key) for key in ("c1", "c2", "P1", "P2")] == [1, 2, 3, 0]


def test_a_waiting_permission_is_mentioned_before_a_decided_proposal() -> None:
    state = ReviewQueueState(recent=[one("P1", state=ProposalState.APPLIED)], current="P1")
    assert "Nothing waits for you." in current_item_lines(state, str)[1].plain
    state.permissions.asked["c1"] = PermissionRequest("command", "Run a command", "make test", ".")
    assert "your permission is needed: make test" in current_item_lines(state, str)[1].plain


def test_only_a_command_can_be_allowed_by_its_form() -> None:
    state = ReviewQueueState(current="c1")
    for kind in ("secret", "changes", "server", "command"):
        state.permissions.asked["c1"] = PermissionRequest(kind, "May I?", "make", ".")
        assert (state.form is not None) is is_action_available("allow_project", state, None) is (kind == "command")


def test_during_a_confirmation_keys_have_the_titles_of_its_answers() -> None:
    state, question = (
        ReviewQueueState(),
        ActionNeedsConfirmation("Sure?", "approve_all", (one("P1"), one("P2")), ("P2",)),
    )
    state.update_proposals([one("P1"), one("P2")])
    titles = {
        action: find_current_key_title(action, state, question, is_comparing_versions=False)
        for action in DECIDING_ACTIONS
    }
    assert {action: title for action, title in titles.items() if title} == {
        "approve": "Yes",
        "approve_all": "All of them",
        "deny": "No",
    }


def test_checks_are_on_one_line_if_there_is_room() -> None:
    results = tuple(
        ProposalCheckResult(name, CheckState.FAILED, outcome=CheckRunResult(CheckState.FAILED, 1))
        for name in ("lint", "tests")
    )
    state = ReviewQueueState(checks={"P1": ProposalChecks("P1", 1, results)})
    assert check_lines(ReviewQueueState(checks={"P1": ProposalChecks("P1", 1)}), "P1", str, 80) == []
    assert [len(check_lines(state, "P1", str, width)) for width in (200, 60, 0)] == [1, 2, 1]
    assert all(line.cell_length <= 60 for line in check_lines(state, "P1", str, 60))
    checked = one("P1")
    state.update_proposals([checked])
    assert check_lines(state, "P1", str, 200)
    state.hunk_exclusions.toggle(checked, checked.hunks)
    assert not check_lines(state, "P1", str, 200), "no hunk is chosen, so that there is nothing to check"


def test_an_answer_to_an_unknown_question_is_ignored() -> None:
    threads = SideThreads()
    assert threads.handle_update(EventRecorded(SideAnswer(question="q", proposal="P1", text="So."))) is None
    assert threads.exchanges_about("P1") == []


def test_seen_lines_are_forgotten_with_their_proposal() -> None:
    state, first, second = ReviewQueueState(), one("P1"), one("P2")
    state.update_proposals([first, second])
    seen(state, first, second)
    assert not state.seen_tracker.unseen_parts(first, ())
    state.update_proposals([second])
    assert state.seen_tracker.unseen_parts(first, ())
    assert not state.seen_tracker.unseen_parts(second, ())
