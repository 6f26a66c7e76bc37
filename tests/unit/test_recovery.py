"""A decision that was carried out but not recorded, because the process ended between the two."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.agent.deciding import approval, decided
from app.conversation.events import Decision, ProposalDecided, UserMessage
from app.runtime.recovery import record_decision, recover
from app.runtime.workspace import Runtime, open_runtime

PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("one\n")
    opened = open_runtime(tmp_path / "ws", {}, {})
    yield opened
    opened.close()


def from_session(runtime: Runtime) -> tuple[str, str]:
    """A waiting proposal of a session: ids of both."""
    record = runtime.sessions.create()
    runtime.sessions.append(record.id, [UserMessage(text="hello")])
    draft = runtime.desk.draft(record.id)
    draft.write("a.txt", "two\n")
    return record.id, runtime.desk.stage(draft, "Count on").id


def decisions(runtime: Runtime, session: str) -> list[Decision]:
    return [event.decision for event in runtime.sessions.events(session) if isinstance(event, ProposalDecided)]


def test_an_unrecorded_approval_is_recorded_once(runtime: Runtime) -> None:
    session, proposal = from_session(runtime)
    runtime.desk.approve(proposal)
    assert recover(runtime) == [], "a living process has a moment to say so itself"
    (line,) = recover(runtime, patience=-1)
    assert proposal in line
    assert decisions(runtime, session) == [Decision.APPROVED]
    assert [one.decided.decision for one in runtime.sessions.decisions()] == [Decision.APPROVED]
    assert recover(runtime, patience=-1) == []


def test_an_unrecorded_denial_keeps_its_feedback(runtime: Runtime) -> None:
    session, proposal = from_session(runtime)
    runtime.desk.deny(proposal, feedback="Not so.\nOtherwise.")
    recover(runtime, patience=-1)
    (event,) = [one for one in runtime.sessions.events(session) if isinstance(one, ProposalDecided)]
    assert (event.decision, event.feedback) == (Decision.DENIED, "Not so.\nOtherwise.")


def test_an_unrecorded_undo_is_recorded_after_its_approval(runtime: Runtime) -> None:
    session, proposal = from_session(runtime)
    record_decision(runtime, approval(runtime.desk.approve(proposal)))
    runtime.desk.undo(proposal)
    recover(runtime, patience=-1)
    assert decisions(runtime, session) == [Decision.APPROVED, Decision.UNDONE]


def test_an_unrecorded_reopening_is_recorded_without_the_words_of_the_denial(runtime: Runtime) -> None:
    session, proposal = from_session(runtime)
    record_decision(
        runtime, decided(runtime.desk.deny(proposal, feedback="Not so."), Decision.DENIED, feedback="Not so.")
    )
    runtime.desk.undo(proposal)
    (line,) = recover(runtime, patience=-1)
    assert "waiting again" in line
    *_, event = [one for one in runtime.sessions.events(session) if isinstance(one, ProposalDecided)]
    assert (event.decision, event.feedback) == (Decision.REOPENED, "")


def test_what_was_recorded_is_left_alone(runtime: Runtime) -> None:
    session, proposal = from_session(runtime)
    record_decision(runtime, decided(runtime.desk.deny(proposal), Decision.DENIED))
    assert recover(runtime, patience=-1) == []
    assert decisions(runtime, session) == [Decision.DENIED]


def test_a_patch_from_elsewhere_has_only_the_audit_trail(runtime: Runtime) -> None:
    proposal = runtime.desk.stage_patch(PATCH)
    runtime.desk.approve(proposal.id)
    recover(runtime, patience=-1)
    assert [one.decided.proposal for one in runtime.sessions.decisions()] == [proposal.id]


def test_staging_and_re_basing_are_no_decisions(runtime: Runtime) -> None:
    from_session(runtime)
    (runtime.workspace.root / "a.txt").write_text("something else\n")
    runtime.desk.refresh()
    assert recover(runtime, patience=-1) == []
