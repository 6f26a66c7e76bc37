"""From what a hook has taken to a proposal."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.agent.updates import Update
from app.doors.hook import hook_messages
from app.doors.hook.delivery import answer_call_with_decision_or_refusal, stage_edits_and_wait_for_decision
from app.doors.hook.hook_entry import HookContext, stage_edit_or_answer_call
from app.doors.hook.hook_messages import HookCallAnswer, parse_call
from app.proposals.values.models import ProposalState
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.runtime.session_host import SessionHost
from app.runtime.unfinished_work import stage_hook_edits_and_list_failures
from app.storage.captured_edit_store import CapturedAgentTurn, CapturedEditStore, CapturedFileEdit
from app.storage.process_coordination import DecisionReportClaim

BEFORE = b"".join(b"line %02d\n" % number for number in range(1, 31))


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorkspace]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "a.txt").write_bytes(BEFORE)
    opened = open_workspace(root)
    yield opened
    opened.close()


def capture(runtime: OpenWorkspace, old: bytes, new: bytes, prompt: str = "1", proposal: str = "") -> str:
    turn = CapturedAgentTurn("claude", "s", prompt, "r", "opus", proposal)
    known = {file.path: file for file in runtime.captured_edits.captured_files(proposal)} if proposal else {}
    file = known.get("a.txt", CapturedFileEdit("a.txt", BEFORE, 0o755, BEFORE))
    assert file.after is not None
    return runtime.captured_edits.store_edits(
        turn, [file._replace(after=file.after.replace(old, new))], [*known.values()]
    )


def test_captured_edits_are_staged_once_and_extended_by_a_later_call(runtime: OpenWorkspace) -> None:
    name = capture(runtime, b"line 03\n", b"three\n")
    stage_hook_edits_and_list_failures(runtime)
    files = runtime.captured_edits.captured_files(name)
    runtime.captured_edits.store_edits(CapturedAgentTurn("claude", "s", "1", "r", "opus", name), files, files)
    stage_hook_edits_and_list_failures(runtime)
    assert runtime.service.get(name).revision == 1
    assert runtime.captured_edits.proposals_to_stage() == []
    assert capture(runtime, b"line 20\n", b"twenty\n", proposal=name) == name
    assert stage_hook_edits_and_list_failures(runtime) == []
    (proposal,) = runtime.service.pending()
    assert (proposal.id, proposal.revision, len(proposal.hunks)) == (name, 2, 2)
    runtime.service.approve(name)
    wanted = BEFORE.replace(b"line 03\n", b"three\n").replace(b"line 20\n", b"twenty\n")
    assert (runtime.workspace.root / "a.txt").read_bytes() == wanted


@pytest.mark.parametrize("seen", [True, False])
def test_edits_captured_after_a_decision_become_another_proposal(runtime: OpenWorkspace, seen: bool) -> None:
    name = capture(runtime, b"line 03\n", b"three\n")
    stage_hook_edits_and_list_failures(runtime)
    if not seen:
        # The user decides between the hook's look and the staging.
        assert capture(runtime, b"line 20\n", b"twenty\n", proposal=name) == name
    runtime.service.approve(name)
    if seen:
        assert capture(runtime, b"line 20\n", b"twenty\n", proposal=name) == "P2"
    assert stage_hook_edits_and_list_failures(runtime) == []
    (other,) = runtime.service.pending()
    assert other.id != name
    runtime.service.approve(other.id)
    wanted = BEFORE.replace(b"line 03\n", b"three\n").replace(b"line 20\n", b"twenty\n")
    assert (runtime.workspace.root / "a.txt").read_bytes() == wanted
    assert runtime.captured_edits.turn_of_proposal(other.id) is not None, "its decision is told to the agent, too"


def test_a_repeated_edit_is_the_proposal_that_is_waiting(runtime: OpenWorkspace) -> None:
    captured = runtime.captured_edits
    assert capture(runtime, b"line 03\n", b"three\n") == "P1"
    stage_hook_edits_and_list_failures(runtime)
    assert capture(runtime, b"line 03\n", b"three\n", prompt="2") == "P1"
    assert captured.latest_turn("claude", "s", "1") is None
    turn = captured.latest_turn("claude", "s", "2")
    assert turn is not None and turn.closed and turn.proposal == "P1"
    runtime.service.approve("P1")
    assert [each.proposal for each in captured.turns_to_report("claude", "s", None)] == ["P1"]
    assert capture(runtime, b"line 03\n", b"three\n", prompt="3") == "P2", "it may be undone on disk"


def test_an_answer_to_feedback_is_the_next_version(runtime: OpenWorkspace) -> None:
    first = capture(runtime, b"line 03\n", b"three\n")
    stage_hook_edits_and_list_failures(runtime)
    runtime.service.deny(first, feedback="In German.")
    second = capture(runtime, b"line 03\n", b"drei\n", prompt="2")
    stage_hook_edits_and_list_failures(runtime)
    proposal = runtime.service.get(second)
    assert (proposal.supersedes, proposal.version) == (first, 2)


def test_a_captured_edit_is_staged_although_the_file_changed_since_and_stale_where_it_did(
    runtime: OpenWorkspace,
) -> None:
    path = runtime.workspace.root / "a.txt"
    name = capture(runtime, b"line 03\n", b"three\n")
    path.write_bytes(b"// head\n" + BEFORE)
    stage_hook_edits_and_list_failures(runtime)
    runtime.service.approve(name)
    assert path.read_bytes() == b"// head\n" + BEFORE.replace(b"line 03\n", b"three\n")
    name = capture(runtime, b"line 20\n", b"twenty\n", prompt="2")
    path.write_bytes(BEFORE.replace(b"line 20\n", b"zwanzig\n"))
    stage_hook_edits_and_list_failures(runtime)
    assert runtime.service.get(name).state is ProposalState.STALE


def test_captured_edit_already_on_disk_is_a_line_and_staged_if_it_is_made_again(runtime: OpenWorkspace) -> None:
    path = runtime.workspace.root / "a.txt"
    capture(runtime, b"line 03\n", b"three\n")
    path.write_bytes(BEFORE.replace(b"line 03\n", b"three\n"))
    path.chmod(0o755)
    (line,) = stage_hook_edits_and_list_failures(runtime)
    assert line.startswith("P1, which another agent proposed, can't be staged: The workspace has all of this already")
    assert stage_hook_edits_and_list_failures(runtime) == [] and runtime.service.all() == []
    path.write_bytes(BEFORE)
    name = capture(runtime, b"line 03\n", b"three\n", prompt="2")
    assert stage_hook_edits_and_list_failures(runtime) == []
    assert [each.id for each in runtime.service.pending()] == [name]


def test_a_failed_staging_is_a_line_and_retried(runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    name = capture(runtime, b"line 03\n", b"three\n")
    with monkeypatch.context() as disk:
        disk.setattr(runtime.service, "stage", full)
        (line,) = stage_hook_edits_and_list_failures(runtime)
        assert line.startswith(f"{name}, which another agent proposed, can't be staged: ") and "No space" in line
    assert stage_hook_edits_and_list_failures(runtime) == [] and [each.id for each in runtime.service.all()] == [name]
    with runtime.database.transaction() as connection:
        connection.execute("DROP TABLE captured")
    (line,) = stage_hook_edits_and_list_failures(runtime)
    assert line.startswith("What other agents proposed can't be staged: ")


def test_old_captured_edits_are_removed_once_staged(runtime: OpenWorkspace) -> None:
    first = capture(runtime, b"line 03\n", b"three\n")
    with runtime.database.transaction() as connection:
        connection.execute("UPDATE agent_turns SET time = 5")
    second = capture(runtime, b"line 20\n", b"twenty\n", prompt="2")
    assert runtime.captured_edits.proposals_to_stage() == [first, second], "what nobody has looked at stays"
    stage_hook_edits_and_list_failures(runtime)
    capture(runtime, b"line 25\n", b"25\n", prompt="3")
    assert [turn.proposal for turn in runtime.captured_edits.turns_of_session("claude", "s")] == [second, "P3"]
    assert runtime.captured_edits.captured_files(first) == []
    assert [each.id for each in runtime.service.pending()] == [first, second]


def test_a_waiting_agent_is_told_that_its_edit_could_not_be_staged(runtime: OpenWorkspace) -> None:
    name = capture(runtime, b"line 03\n", b"three\n")
    # A folder where the lock should be.
    (runtime.dirs.locks / f"{runtime.signal.path.name}.lock").mkdir()
    staged = HookCallAnswer("deny", f"{name} is staged.", proposal=name)
    claim = DecisionReportClaim(runtime.dirs.locks, runtime.name)
    answer = stage_edits_and_wait_for_decision(runtime.workspace.root, staged, 0, claim)
    assert answer.words.startswith(f"{name}, which another agent proposed, can't be staged: ")


def test_an_unknown_proposal_has_no_news(runtime: OpenWorkspace) -> None:
    refusal = HookCallAnswer("deny", "Refused: P7 waits.", proposal="P7")
    turn = CapturedAgentTurn("claude", "s", "1", "r", "opus", "P7")
    claim = DecisionReportClaim(runtime.dirs.locks, runtime.name)
    assert answer_call_with_decision_or_refusal(runtime.workspace.root, turn, refusal, claim) == refusal


def test_the_later_of_two_overlapping_calls_is_refused(runtime: OpenWorkspace) -> None:
    met: list[str] = []

    class Meeting(CapturedEditStore):
        """Whose caller has looked when another call of the turn is taken."""

        def latest_turn(self, agent: str, session: str, prompt: str) -> CapturedAgentTurn | None:
            found = super().latest_turn(agent, session, prompt)
            if not met:
                met.append(capture(runtime, b"line 03\n", b"three\n"))
            return found

    root = str(runtime.workspace.root)
    words = {"hook_event_name": "PreToolUse", "session_id": "s", "prompt_id": "1", "cwd": root, "tool_name": "Write"}
    call = parse_call("claude", json.dumps({**words, "tool_input": {"file_path": f"{root}/b.txt", "content": "b"}}))
    door = HookContext(runtime.workspace, Meeting(runtime.database, runtime.name, runtime.signal))
    assert stage_edit_or_answer_call(door, call) == hook_messages.deny_call_after_staged_edit("P1", ends_turn=True)
    assert [file.path for file in runtime.captured_edits.captured_files("P1")] == ["a.txt"]


async def test_own_writes_do_not_trigger_a_check_for_changes(
    runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: asyncio.Queue[None] = asyncio.Queue()
    loop, look = asyncio.get_running_loop(), runtime.database.foreign_write_counter

    def counted() -> int:
        loop.call_soon_threadsafe(looks.put_nowait, None)
        return look()

    monkeypatch.setattr(runtime.database, "foreign_write_counter", counted)
    told: list[Update] = []
    opened = SessionHost(runtime, runtime.settings, told.append)
    assert await opened.start() == []
    lock = runtime.dirs.locks / f"{runtime.signal.path.name}.lock"
    lock.unlink()
    lock.mkdir()
    capture(runtime, b"line 03\n", b"three\n")
    # To begin with, once it hears, and then for each of these, after all that the one before has led to.
    for number in range(4):
        await looks.get()
        if number:
            runtime.signal.send()
    assert told == []
    await opened.close()
