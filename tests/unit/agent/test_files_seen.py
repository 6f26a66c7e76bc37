"""The versions of files that the model knows, by the order of what happened to them."""

from app.agent.interventions import FileVersionsSeen
from app.conversation.events import (
    CallOutcome,
    DecisionKind,
    Event,
    Intervention,
    InterventionKind,
    ProposalDecided,
    ProposalStaged,
    ToolResult,
)
from app.proposals.values.decision_facts import FileDiffStat
from app.proposals.values.origin import OriginKind, ProposalOrigin


def read(version: str, path: str = "a.py") -> ToolResult:
    return ToolResult(call="c1.0", outcome=CallOutcome.OK, text="", reads={path: version})


def staged(proposal: str, version: str | None, *, supersedes: str = "", by: OriginKind = OriginKind.MODEL) -> Event:
    stat = FileDiffStat(path="a.py", op="edit", added=1, removed=1)
    versions = {} if version is None else {"a.py": version}
    return ProposalStaged(
        proposal=proposal,
        summary="s",
        files=(stat,),
        calls=(),
        supersedes=supersedes,
        origin=ProposalOrigin(kind=by),
        versions=versions,
    )


def decided(proposal: str, decision: DecisionKind) -> ProposalDecided:
    return ProposalDecided(proposal=proposal, decision=decision)


def known(*events: Event) -> tuple[str, ...]:
    fold = FileVersionsSeen()
    for event in events:
        fold.apply(event)
    return fold.versions.get("a.py", ())


def test_a_pending_edit_and_the_read_version_are_both_known() -> None:
    assert known(read("1"), staged("P1", "2")) == ("1", "2")
    assert known(read("1"), staged("P1", "2"), decided("P1", DecisionKind.APPROVED)) == ("2",)
    assert known(read("1"), staged("P1", "2"), decided("P1", DecisionKind.DENIED)) == ("1",)


def test_a_revision_or_a_stacked_edit_keeps_both_versions_known() -> None:
    answered = (read("1"), staged("P1", "2"), decided("P1", DecisionKind.DENIED), staged("P2", "3", supersedes="P1"))
    assert known(*answered) == ("1", "3")
    assert known(*answered, decided("P2", DecisionKind.APPROVED)) == ("3",)
    stacked = (read("1"), staged("P1", "2"), staged("P2", "3"), decided("P2", DecisionKind.APPROVED))
    assert known(*stacked) == ("3",)
    assert known(*stacked, decided("P1", DecisionKind.DENIED)) == ("1", "3")


def test_a_read_makes_all_before_it_old_unless_something_waits() -> None:
    assert known(read("1"), staged("P1", "2"), decided("P1", DecisionKind.APPROVED), read("3")) == ("3",)
    assert known(read("1"), staged("P1", "2"), read("3"), decided("P1", DecisionKind.DENIED)) == ("1", "3")


def test_unknown_versions_are_not_guessed_and_their_number_is_bounded() -> None:
    assert known(staged("P1", "2", by=OriginKind.COMMAND)) == ()
    assert known(staged("P1", "2")) == ("2",)
    assert known(staged("P1", "2"), decided("P1", DecisionKind.DENIED)) == ()
    assert known(read("1"), staged("P1", None)) == ()
    assert len(known(read("0"), *(staged(f"P{number}", str(number)) for number in range(1, 100)))) == 12
    told = Intervention(kind=InterventionKind.FILES_CHANGED, text="", files={"a.py": ""})
    assert known(read("1"), told) == ("",)
