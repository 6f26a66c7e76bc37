"""A decision that was carried out but not recorded, because the process ended between the two."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.agent.decision_service import approval_event, decision_event
from app.agent.updates import SessionFailed, Update
from app.conversation.events import DecisionKind, ProposalDecided, ProposalStaged, UserMessage
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.proposal_errors import DecisionMadeButNotRecorded
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.runtime.session_host import SessionHost, SessionlessDecisionService, UnrecordedDecisionRecorder
from app.runtime.unfinished_work import append_decision_and_resulting_changes, recover_interrupted_work
from app.storage import StorageError

REFUSE = "CREATE TRIGGER eio BEFORE INSERT ON decisions BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END"
PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorkspace]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("one\n")
    opened = open_workspace(tmp_path / "ws", {}, {})
    yield opened
    opened.close()


def from_session(runtime: OpenWorkspace) -> tuple[str, str]:
    """A waiting proposal of a session: ids of both."""
    record = runtime.sessions.create()
    runtime.sessions.append_events(record.id, [UserMessage(text="hello")])
    draft = runtime.service.new_draft(record.id)
    draft.write("a.txt", "two\n")
    return record.id, runtime.service.stage(draft, "Count on").id


def events(runtime: OpenWorkspace, session: str) -> list[ProposalDecided]:
    return [event for event in runtime.sessions.events(session) if isinstance(event, ProposalDecided)]


def decisions(runtime: OpenWorkspace, session: str) -> list[DecisionKind]:
    return [event.decision for event in events(runtime, session)]


def test_an_unrecorded_approval_is_recorded_once(runtime: OpenWorkspace) -> None:
    session, proposal = from_session(runtime)
    runtime.service.approve(proposal)
    assert recover_interrupted_work(runtime) == [], "a living process has a moment to say so itself"
    (line,) = recover_interrupted_work(runtime, grace_seconds=-1)
    assert proposal in line
    assert decisions(runtime, session) == [DecisionKind.APPROVED]
    assert [one.decided.decision for one in runtime.sessions.decisions()] == [DecisionKind.APPROVED]
    assert recover_interrupted_work(runtime, grace_seconds=-1) == []


def test_an_unrecorded_decision_is_recorded_after_those_that_were(runtime: OpenWorkspace) -> None:
    session, proposal = from_session(runtime)
    (runtime.workspace.root / "a.txt").write_text("something else\n")
    runtime.service.rebase_pending()
    assert recover_interrupted_work(runtime, grace_seconds=-1) == [], "staging and rebasing are no decisions"
    (runtime.workspace.root / "a.txt").write_text("one\n")
    runtime.service.rebase_pending()
    append_decision_and_resulting_changes(runtime, approval_event(runtime.service.approve(proposal)))
    assert recover_interrupted_work(runtime, grace_seconds=-1) == []
    assert decisions(runtime, session) == [DecisionKind.APPROVED]
    runtime.service.undo(proposal)
    recover_interrupted_work(runtime, grace_seconds=-1)
    assert decisions(runtime, session) == [DecisionKind.APPROVED, DecisionKind.UNDONE]


def test_an_unrecorded_denial_keeps_its_feedback_and_a_reopening_has_none(runtime: OpenWorkspace) -> None:
    session, proposal = from_session(runtime)
    runtime.service.deny(proposal, feedback="Not so.\nOtherwise.")
    recover_interrupted_work(runtime, grace_seconds=-1)
    (event,) = events(runtime, session)
    assert (event.decision, event.feedback) == (DecisionKind.DENIED, "Not so.\nOtherwise.")
    runtime.service.undo(proposal)
    (line,) = recover_interrupted_work(runtime, grace_seconds=-1)
    assert "waiting again" in line
    *_, event = events(runtime, session)
    assert (event.decision, event.feedback) == (DecisionKind.REOPENED, "")


def test_recovered_decisions_keep_their_feedback_and_comments(runtime: OpenWorkspace) -> None:
    session, proposal = from_session(runtime)
    comment = LineComment(path="a.txt", line=1, side="new", quote="+two", text="Three?")
    runtime.service.approve(proposal, feedback="Good, go on.", comments=[comment])
    runtime.service.undo(proposal)
    recover_interrupted_work(runtime, grace_seconds=-1)
    first, second = events(runtime, session)
    assert (first.decision, first.feedback, first.comments) == (DecisionKind.APPROVED, "Good, go on.", (comment,))
    assert (second.decision, second.feedback) == (DecisionKind.UNDONE, "")


def test_an_unrecorded_partial_decision_is_recorded_by_hunk(runtime: OpenWorkspace) -> None:
    (runtime.workspace.root / "a.txt").write_text("".join(f"{number}\n" for number in range(20)))
    draft = runtime.service.new_draft(session := runtime.sessions.create().id)
    draft.write("a.txt", "".join(f"{number if number not in (2, 15) else 'x'}\n" for number in range(20)))
    proposal = runtime.service.stage(draft, "Two")
    runtime.service.deny(proposal.id, ["2"], feedback="Not this one.")
    recover_interrupted_work(runtime, grace_seconds=-1)
    (event,) = events(runtime, session)
    assert (event.decision, event.feedback, event.still_pending) == (DecisionKind.DENIED, "Not this one.", True)
    assert [(fact.landed, fact.reason) for fact in event.hunks] == [
        (False, "still awaits a decision"),
        (False, "denied"),
    ]


def test_forks_receive_a_recovered_decision_once_without_feedback(runtime: OpenWorkspace) -> None:
    session, proposal = from_session(runtime)
    staged = ProposalStaged(proposal=proposal, summary="", files=(), calls=())
    runtime.sessions.append_events(session, [staged])
    fork = runtime.sessions.fork(session)
    again = runtime.sessions.fork(fork.id)
    stranger = runtime.sessions.create()
    result = runtime.service.deny(proposal, feedback="No.")
    append_decision_and_resulting_changes(runtime, decision_event(result, DecisionKind.DENIED, feedback="No."))
    for other in (fork.id, again.id):
        (event,) = events(runtime, other)
        assert (event.decision, event.feedback) == (DecisionKind.DENIED, "")
    assert decisions(runtime, stranger.id) == []
    assert [one.session for one in runtime.sessions.decisions()] == [session]


@pytest.mark.parametrize(
    ("damage", "repair"),
    [(REFUSE, "DROP TRIGGER eio"), ("ALTER TABLE unrecorded RENAME TO x", "ALTER TABLE x RENAME TO unrecorded")],
    ids=["unwritable", "unreadable"],
)
async def test_a_running_app_records_decisions_once_the_store_works(
    runtime: OpenWorkspace, damage: str, repair: str
) -> None:
    def execute(sql: str) -> None:
        with runtime.database.transaction() as connection:
            connection.execute(sql)

    session, proposal = from_session(runtime)
    result = runtime.service.approve(proposal, feedback="Go on.")
    execute(damage)
    with pytest.raises(StorageError):
        append_decision_and_resulting_changes(runtime, approval_event(result, feedback="Go on."))
    told: asyncio.Queue[str] = asyncio.Queue()
    tried = threading.Event()
    left_over = UnrecordedDecisionRecorder(runtime, lambda: tried.set() or "", patience=0.01)  # type: ignore[func-returns-value]

    async def recorded(lines: list[str]) -> None:
        for line in lines:
            told.put_nowait(line)

    running = asyncio.create_task(left_over.run(recorded))
    try:
        left_over.request_check()
        assert await asyncio.to_thread(tried.wait, 20)
        assert decisions(runtime, session) == []
        execute(repair)
        assert "has now" in await told.get() and not running.done()
    finally:
        running.cancel()
    (event,) = events(runtime, session)
    assert (event.decision, event.feedback) == (DecisionKind.APPROVED, "Go on.")


async def test_decision_recorded_without_a_session_is_reported(runtime: OpenWorkspace) -> None:
    _, proposal = from_session(runtime)
    told: asyncio.Queue[Update] = asyncio.Queue()
    opened = SessionHost(runtime, runtime.settings, told.put_nowait)
    opened.unrecorded_decisions = UnrecordedDecisionRecorder(runtime, lambda: "", patience=0.01)
    runtime.service.approve(proposal)
    await opened.start()
    while not isinstance(update := await told.get(), SessionFailed):
        pass
    assert update.message.startswith(f"{proposal} is applied: signoff could not record that at the time")
    await opened.close()


async def test_an_unrecorded_decision_without_a_session_is_reported(runtime: OpenWorkspace) -> None:
    _, proposal = from_session(runtime)
    with runtime.database.transaction() as connection:
        connection.execute(REFUSE)
    changed: list[tuple[str, ...]] = []
    decisions = SessionlessDecisionService(
        runtime, commit=lambda: None, changed=changed.append, notify=lambda line: None
    )
    with pytest.raises(
        DecisionMadeButNotRecorded, match=f"{proposal} is applied, all its files are written; .*disk I/O error"
    ):
        await decisions.approve(proposal)
    assert changed == [(proposal,)]


def test_a_patch_from_elsewhere_has_only_the_audit_trail(runtime: OpenWorkspace) -> None:
    proposal = runtime.service.stage_patch(PATCH)
    runtime.service.approve(proposal.id)
    recover_interrupted_work(runtime, grace_seconds=-1)
    assert [one.decided.proposal for one in runtime.sessions.decisions()] == [proposal.id]
