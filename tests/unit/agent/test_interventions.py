"""What the program tells the model: the right words, once, and only while they apply."""

from app.agent.gate import UnansweredFeedback
from app.agent.interventions import (
    DENIALS_BEFORE_ADVICE,
    UnseenFileChange,
    closing_instruction,
    files_changed_note,
    nudge_instruction,
    pending_proposals_note,
    repeated_denials_note,
    stop_after_staging_instruction,
)
from app.conversation.events import (
    DecisionKind,
    Event,
    EventSource,
    Intervention,
    InterventionKind,
    ProposalChanged,
    ProposalDecided,
    ProposalStaged,
    RequestSent,
    TurnStarted,
)
from app.conversation.proposal_reports import PendingAndDeniedTracker
from app.proposals.text.line_comparison import LineRange
from app.proposals.values.decision_facts import FileDiffStat, LineComment
from app.proposals.values.models import FileChange, FileOperation, Proposal, ProposalState


def proposal(number: int, state: ProposalState = ProposalState.PENDING, reason: str = "") -> Proposal:
    change = FileChange(path=f"f{number}.py", op=FileOperation.EDIT, base=None, result=None, added=2, removed=1)
    return Proposal(
        id=f"P{number}",
        workspace="/w",
        created=0.0,
        summary=f"change {number}",
        state=state,
        files=(change,),
        reason=reason,
    )


def stage(number: int, *paths: str, supersedes: str = "") -> ProposalStaged:
    files = tuple(FileDiffStat(path=path, op="edit", added=1, removed=1) for path in paths)
    return ProposalStaged(proposal=f"P{number}", summary="s", files=files, calls=(), supersedes=supersedes)


def decide(number: int, decision: DecisionKind, *paths: str, still_pending: bool = False) -> ProposalDecided:
    files = tuple(FileDiffStat(path=path, op="edit", added=1, removed=1) for path in paths)
    return ProposalDecided(proposal=f"P{number}", decision=decision, files=files, still_pending=still_pending)


def test_closing_instructions_forbid_tools_and_all_instructions_are_for_one_request() -> None:
    told = stop_after_staging_instruction(["P1", "P2"], ["a.py", "b.py", "a.py"])
    assert (told.kind, told.source) == (InterventionKind.STAGED, EventSource.PROGRAM)
    for words in ("P1, P2", "(a.py, b.py)", "Hand control back", "Nothing is written"):
        assert words in told.text
    for kind in (InterventionKind.STAGED, InterventionKind.STEP_LIMIT, InterventionKind.NO_PROGRESS):
        told = closing_instruction(kind, ["P1"], ["a.py"])
        assert (told.kind, told.scope) == (kind, "request")
        assert "Do not call tools" in told.text
    nudges = [
        nudge_instruction(InterventionKind.EMPTY_RESPONSE),
        nudge_instruction(InterventionKind.TRUNCATED),
        nudge_instruction(InterventionKind.TRUNCATED, calls_cut_off=True),
        nudge_instruction(InterventionKind.NO_PROGRESS),
    ]
    assert {one.scope for one in nudges} == {"request"}
    assert len({one.text for one in nudges}) == 4
    assert "none of its tool calls ran" in nudges[2].text


def test_pending_note_is_one_message_for_this_turn() -> None:
    told = pending_proposals_note(
        [
            proposal(1),
            proposal(2, ProposalState.STALE, "a.py changed"),
            proposal(3, ProposalState.APPLIED),
            proposal(4, ProposalState.PARTLY_APPROVED),
        ]
    )
    assert told is not None
    assert told.scope == "turn"
    assert "- P1: change 1 [f1.py (edit, +2 -1)]" in told.text
    assert "- P2 (stale" in told.text
    assert "a.py changed" in told.text
    assert "- P4 (partly approved)" in told.text
    assert "P3" not in told.text
    assert pending_proposals_note([proposal(3, ProposalState.DENIED)]) is None


def test_denials_in_a_row_are_counted_until_an_approval_or_taken_back() -> None:
    fold = PendingAndDeniedTracker()
    for number in range(1, 7):
        fold.apply(ProposalStaged(proposal=f"P{number}", summary="", files=(), calls=()))
    counts = []
    for event in (
        decide(1, DecisionKind.DENIED),
        decide(2, DecisionKind.DENIED, still_pending=True),
        decide(3, DecisionKind.UNDONE),
        decide(2, DecisionKind.DENIED),
        decide(4, DecisionKind.DENIED),
        decide(5, DecisionKind.PARTLY_APPROVED),
        decide(6, DecisionKind.DENIED),
        decide(1, DecisionKind.REOPENED),
        decide(6, DecisionKind.REOPENED),
        decide(2, DecisionKind.DENIED),
        decide(77, DecisionKind.DENIED),
        decide(78, DecisionKind.APPROVED),
    ):
        fold.apply(event)
        counts.append(fold.denials_in_row)
    assert counts == [1, 1, 1, 2, 3, 0, 1, 1, 0, 1, 1, 1], "a patch of the user's is no answer to the model"
    fold = PendingAndDeniedTracker()
    fold.apply(ProposalStaged(proposal="P1", summary="Say hi", files=(), calls=()))
    fold.apply(decide(1, DecisionKind.DENIED))
    assert not fold.pending
    fold.apply(decide(1, DecisionKind.REOPENED, still_pending=True))
    assert [waits.summary for waits in fold.pending] == ["Say hi"]


def test_the_advice_comes_with_the_third_denial() -> None:
    assert repeated_denials_note(DENIALS_BEFORE_ADVICE - 1) is None
    told = repeated_denials_note(DENIALS_BEFORE_ADVICE)
    assert told is not None
    assert told.scope == "turn"
    assert "ask_user" in told.text


def test_pending_proposals_follow_staging_decisions_and_changes() -> None:
    fold = PendingAndDeniedTracker()

    def waiting() -> list[str]:
        return [one.id for one in fold.pending]

    fold.apply(stage(1, "a.py"))
    fold.apply(stage(2, "a.py"))
    fold.apply(decide(1, DecisionKind.EDITED))
    assert waiting() == ["P1", "P2"]
    fold.apply(decide(1, DecisionKind.PARTLY_APPROVED, still_pending=True))
    fold.apply(ProposalChanged(proposal="P2", state="stale", reason="a.py changed"))
    assert {one.id: (one.partly_decided, one.state) for one in fold.pending} == {
        "P1": (True, "pending"),
        "P2": (False, "stale"),
    }
    fold.apply(decide(1, DecisionKind.APPROVED))
    fold.apply(stage(3, "a.py", supersedes="P2"))
    assert waiting() == ["P3"]
    fold.apply(ProposalChanged(proposal="P3", state="superseded"))
    assert waiting() == []


def told_of(**changed: UnseenFileChange) -> Intervention:
    told = files_changed_note({f"{name}.py": change for name, change in changed.items()})
    assert told is not None
    return told


def test_changed_files_and_lines_are_named_and_many_are_counted() -> None:
    assert files_changed_note({}) is None
    told = told_of(a=UnseenFileChange("2"), b=UnseenFileChange(""))
    assert "rely on them: a.py." in told.text
    assert "gone: b.py" in told.text
    assert told.files == {"a.py": "2", "b.py": ""}
    spans = (LineRange(0, 0), LineRange(2, 5), LineRange(39, 40), LineRange(77, 77))
    lines = "lines gone at the top, lines 3-5, line 40, lines gone after line 77"
    assert f"(different now: {lines})" in told_of(a=UnseenFileChange("2", spans)).text
    many = tuple(LineRange(at, at + 1) for at in range(0, 100, 2))
    told = told_of(a=UnseenFileChange("2", many))
    assert "line 11 and 44 more)" in told.text and "line 13" not in told.text
    told = told_of(**{f"f{number}": UnseenFileChange("2") for number in range(50)})
    assert "and 30 more" in told.text
    assert len(told.files) == 50


DENIED = ProposalDecided(proposal="P1", decision=DecisionKind.DENIED, feedback="Not so.")


def staged(proposal: str, supersedes: str = "") -> ProposalStaged:
    return ProposalStaged(proposal=proposal, summary="", files=(), calls=(), supersedes=supersedes)


def after(*events: Event) -> UnansweredFeedback:
    feedback = UnansweredFeedback()
    for event in events:
        feedback.apply(event)
    return feedback


def test_a_denial_is_delivered_with_its_comments_by_an_open_request() -> None:
    assert after(DENIED).undelivered
    assert after(DENIED, RequestSent(closing=True)).undelivered
    assert not after(DENIED, RequestSent(closing=True), RequestSent()).undelivered
    comment = LineComment(path="a", line=1, side="new", quote="+x", text="Why?")
    assert after(ProposalDecided(proposal="P1", decision=DecisionKind.DENIED, comments=(comment,))).undelivered


def test_feedback_with_an_approval_needs_no_revision_and_without_feedback_nothing_is_delivered() -> None:
    for decision in (DecisionKind.APPROVED, DecisionKind.PARTLY_APPROVED):
        approved = after(ProposalDecided(proposal="P1", decision=decision, feedback="Nice."))
        assert approved.undelivered
        assert approved.unanswered == ()
    for decision in DecisionKind:
        assert not after(ProposalDecided(proposal="P1", decision=decision)).undelivered, decision


def test_a_denial_is_answered_by_its_revision_or_a_new_message() -> None:
    assert after(DENIED, RequestSent()).unanswered == ("P1",)
    assert after(DENIED, RequestSent(), staged("P2")).unanswered == ("P1",)
    assert after(DENIED, RequestSent(), staged("P3", supersedes="P1")).unanswered == ()
    other = ProposalDecided(proposal="P2", decision=DecisionKind.DENIED, feedback="Neither.")
    assert after(DENIED, other).unanswered == ("P2", "P1")
    assert after(DENIED, other, DENIED).unanswered == ("P1", "P2")
    reopened = ProposalDecided(proposal="P1", decision=DecisionKind.REOPENED)
    assert after(DENIED, reopened).undelivered
    assert after(DENIED, RequestSent(), reopened).unanswered == ()
    assert after(DENIED, RequestSent(), TurnStarted(cause="message")).unanswered == ()
    assert after(DENIED, RequestSent(), TurnStarted(cause="answer")).unanswered == ("P1",)
    assert after(DENIED, TurnStarted(cause="message")).unanswered == ("P1",)
