"""Whoever proposed from outside hears of the decision, wherever it is made, and in full."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from app.agent.decision_service import approval_event, decision_event, undo_event
from app.conversation.events import DecisionKind, ProposalDecided
from app.doors import agent_decisions
from app.doors.agent_decisions import (
    ProposalDecisionStatus,
    format_decision_report,
    read_decision_report,
    read_decision_status,
    wait_for_decision,
)
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import Proposal
from app.proposals.values.proposal_errors import UnknownProposal
from app.runtime.git_proposals import stage_worktree_changes
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.runtime.unfinished_work import append_decision_and_resulting_changes
from app.storage.process_coordination import DatabaseChangeWatch

NUMBERS = [f"{number}\n" for number in range(40)]
WORDS = "Not so.\n\n  But like this:\n\tindented"


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorkspace]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("".join(NUMBERS))
    opened = open_workspace(tmp_path / "ws", {}, {})
    yield opened
    opened.close()


@pytest.fixture
def elsewhere(runtime: OpenWorkspace) -> Iterator[OpenWorkspace]:
    """The same workspace as another process has it open."""
    opened = open_workspace(runtime.workspace.root, {}, {})
    yield opened
    opened.close()


@pytest.fixture
def proposal(runtime: OpenWorkspace) -> Proposal:
    draft = runtime.service.new_draft("")
    draft.write(
        "a.txt", "".join(f"{line.strip()}!\n" if line in ("5\n", "20\n", "35\n") else line for line in NUMBERS)
    )
    return runtime.service.stage(draft, "Three")


def approve(runtime: OpenWorkspace, proposal: Proposal, *hunks: str, feedback: str = "") -> None:
    result = runtime.service.approve(proposal.id, hunks or None, feedback=feedback)
    append_decision_and_resulting_changes(runtime, approval_event(result, feedback=feedback))


def deny(
    runtime: OpenWorkspace,
    proposal: Proposal,
    *hunks: str,
    feedback: str = "",
    comments: tuple[LineComment, ...] = (),
) -> None:
    result = runtime.service.deny(proposal.id, hunks or None, feedback, comments)
    append_decision_and_resulting_changes(
        runtime, decision_event(result, DecisionKind.DENIED, feedback=feedback, comments=comments)
    )


def undo(runtime: OpenWorkspace, proposal: Proposal) -> None:
    append_decision_and_resulting_changes(runtime, undo_event(runtime.service.undo(proposal.id)))


class Waiting:
    """A wait on a thread of its own, which has begun."""

    def __init__(self, runtime: OpenWorkspace, proposal: Proposal, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stop = threading.Event()
        self._looked = threading.Semaphore(0)
        looking = agent_decisions.read_decision_status

        def counted(*arguments: object) -> ProposalDecisionStatus:
            found = looking(*arguments)  # type: ignore[arg-type]
            self._looked.release()
            return found

        monkeypatch.setattr(agent_decisions, "read_decision_status", counted)
        self._pool = ThreadPoolExecutor(1)
        call: Callable[..., ProposalDecisionStatus] = wait_for_decision
        self.ended: Future[ProposalDecisionStatus] = self._pool.submit(
            call, runtime, proposal.id, seconds=60, stop=self.stop
        )
        self.look()

    def look(self) -> None:
        """Return once it has looked again, after the last call of this."""
        assert self._looked.acquire(timeout=30)

    def over(self) -> ProposalDecisionStatus:
        return self.ended.result(30)


@pytest.fixture
def begin(
    runtime: OpenWorkspace, proposal: Proposal, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Waiting]]:
    begun: list[Waiting] = []

    def start() -> Waiting:
        begun.append(Waiting(runtime, proposal, monkeypatch))
        return begun[-1]

    yield start
    for each in begun:
        each.stop.set()
        each.over()


@pytest.mark.parametrize(
    ("decide", "state"),
    [
        (lambda there, one: approve(there, one), "applied"),
        (lambda there, one: deny(there, one), "denied"),
        (lambda there, one: deny(there, one, "2", feedback=WORDS), "pending"),
        (lambda there, one: approve(there, one, "1", feedback="Go on."), "partly_approved"),
    ],
)
def test_a_decision_made_elsewhere_ends_the_wait(
    runtime: OpenWorkspace,
    elsewhere: OpenWorkspace,
    proposal: Proposal,
    begin: Callable[[], Waiting],
    decide: Callable[[OpenWorkspace, Proposal], None],
    state: str,
) -> None:
    call = begin()
    decide(elsewhere, proposal)
    found = call.over()
    assert (found.state, found.is_decided, found.is_recorded) == (state, True, True)


def test_a_silent_part_keeps_it(elsewhere: OpenWorkspace, proposal: Proposal, begin: Callable[[], Waiting]) -> None:
    call = begin()
    approve(elsewhere, proposal, "1")
    call.look()
    assert not call.ended.done()
    deny(elsewhere, proposal, "2", "3")
    assert call.over().state == "applied"


def test_a_wait_lasts_until_the_decision_is_recorded(
    elsewhere: OpenWorkspace, proposal: Proposal, begin: Callable[[], Waiting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_decisions, "RECORD_WAIT_SECONDS", 60.0)
    call = begin()
    result = elsewhere.service.approve(proposal.id)
    call.look()
    assert not call.ended.done()
    append_decision_and_resulting_changes(elsewhere, approval_event(result))
    assert call.over().is_recorded


def test_a_wait_is_ended_from_outside_and_by_its_limit(runtime: OpenWorkspace, proposal: Proposal) -> None:
    stop = threading.Event()
    stop.set()
    for seconds, sign in ((60.0, stop), (0.0, None), (0.05, None)):
        left = wait_for_decision(runtime, proposal.id, seconds=seconds, stop=sign)
        assert (left.state, left.is_decided) == ("pending", False)


def test_unrecorded_ends_it(runtime: OpenWorkspace, proposal: Proposal, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.service.deny(proposal.id, feedback=WORDS)
    monkeypatch.setattr(agent_decisions, "RECORD_WAIT_SECONDS", 0.05)
    found = wait_for_decision(runtime, proposal.id, seconds=60)
    assert (found.is_decided, found.is_recorded) == (True, False)
    text, number = read_decision_report(runtime, proposal.id)
    assert number == 1 and WORDS in text


def test_signal_between_two_waits_is_received(runtime: OpenWorkspace) -> None:
    with DatabaseChangeWatch(runtime.signal) as watch:
        runtime.signal.send()
        assert watch.wait(30)
        runtime.signal.send()
        assert watch.wait(30)


def test_an_unknown_proposal_is_said(runtime: OpenWorkspace) -> None:
    for name in ("", "P", "P99", "7", "Pх", "P" + "9" * 40, "P1; DROP TABLE proposals"):
        with pytest.raises(UnknownProposal):
            read_decision_status(runtime, name)


def test_each_outcome_has_its_words(runtime: OpenWorkspace, proposal: Proposal) -> None:
    def first_line() -> str:
        return read_decision_report(runtime, proposal.id)[0].splitlines()[0]

    assert first_line() == "P1 waits for the user's decision; nothing of it is on disk: a.txt (edit, +3 -3)."
    approve(runtime, proposal, "2")
    assert first_line() == "P1: hunk 2 written, 1 and 3 waiting for the user."
    undo(runtime, proposal)
    deny(runtime, proposal)
    assert first_line() == "P1 is denied; nothing of it was written: a.txt (edit, +3 -3)."
    undo(runtime, proposal)
    approve(runtime, proposal)
    assert first_line() == "P1 is approved and written to disk: a.txt (edit, +3 -3)."
    undo(runtime, proposal)
    assert first_line() == "P1 is undone: the user took back what had been written of it; it is not on disk."


def test_parts_are_named_by_number_with_words_and_text(runtime: OpenWorkspace, proposal: Proposal) -> None:
    comment = LineComment(path="a.txt", line=21, side="new", quote="-20\n+20!", text="Why?\nReally.")
    approve(runtime, proposal, "1", "3")
    deny(runtime, proposal, "2", feedback=WORDS, comments=(comment,))
    text, number = read_decision_report(runtime, proposal.id)
    assert number == 2
    assert text.startswith("P1: hunks 1 and 3 written, 2 denied.\n\n")
    assert f"The user says:\n\n{WORDS}\n\na.txt:21\n```diff\n-20\n+20!\n```\nWhy?\nReally." in text
    assert [line for line in text.splitlines() if line.startswith("- a.txt")] == [
        "- a.txt @@ -6 +6 @@: landed",
        "- a.txt @@ -21 +21 @@: did not land (denied)",
        "- a.txt @@ -36 +36 @@: landed",
    ]
    assert "36\t35!" in text and text.index("Why?") < text.index("36\t35!")
    edited = ProposalDecided(proposal=proposal.id, decision=DecisionKind.EDITED, number=3)
    told = [one.decided for one in runtime.sessions.decisions(proposal.id)]
    after = format_decision_report(runtime.service.get(proposal.id), [*told, edited])
    assert "- a.txt @@ -21 +21 @@: did not land (denied)" in after, "it is no decision on the rest"
    again, _ = read_decision_report(runtime, proposal.id, reported_count=number)
    assert WORDS not in again and again.startswith("P1: hunks 1 and 3 written, 2 denied.")


def test_files_without_hunks_are_told_by_name(runtime: OpenWorkspace) -> None:
    for name in ("old.txt", "gone.txt"):
        (runtime.workspace.root / name).write_text("x\n")
    draft = runtime.service.new_draft("")
    draft.rename("old.txt", "new.txt")
    draft.write("b.txt", "b\n")
    one = runtime.service.stage(draft, "Move")
    deny(runtime, one, "new.txt")
    approve(runtime, one)
    assert read_decision_report(runtime, one.id)[0].startswith("P1: hunk 1 written, old.txt → new.txt denied.")


def test_report_names_kept_and_reverted_hunks_on_disk(runtime: OpenWorkspace) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", "-C", str(runtime.workspace.root)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, *words], check=True)
    changed = "".join(f"{number}{'!' * (number in (5, 35))}\n" for number in range(40))
    (runtime.workspace.root / "a.txt").write_text(changed)
    proposal, _ = stage_worktree_changes(runtime, (), "")
    assert read_decision_report(runtime, proposal.id)[0].startswith(
        "P1: hunks 1 and 2 on disk and waiting for the user."
    )
    approve(runtime, proposal, "1")
    deny(runtime, proposal)
    assert read_decision_report(runtime, proposal.id)[0].startswith("P1: hunk 1 kept, 2 reverted on disk.")


def test_report_names_user_edits_and_superseding_proposals(runtime: OpenWorkspace, proposal: Proposal) -> None:
    runtime.service.replace_proposed_text(proposal.id, "a.txt", "".join(["mine\n", *NUMBERS[1:]]))
    assert "The user changed the proposed text of a.txt by hand" in read_decision_report(runtime, proposal.id)[0]
    draft = runtime.service.new_draft("")
    draft.write("a.txt", "all new\n")
    runtime.service.stage(draft, "Instead", answers=[proposal.id])
    assert read_decision_report(runtime, proposal.id)[0].startswith("P1 no longer waits: P2 stands in its stead.")
    found = wait_for_decision(runtime, proposal.id, seconds=60)
    assert (found.state, found.is_decided) == ("superseded", True)


def test_a_stale_proposal_tells_the_agent_to_propose_again(runtime: OpenWorkspace, proposal: Proposal) -> None:
    (runtime.workspace.root / "a.txt").write_text("".join(f"{line.strip()}?\n" for line in NUMBERS))
    runtime.service.rebase_pending()
    assert wait_for_decision(runtime, proposal.id, seconds=60).state == "stale"
    text = read_decision_report(runtime, proposal.id)[0]
    assert text.startswith("P1 is stale and can't be approved: ") and "propose the change anew" in text
    append_decision_and_resulting_changes(
        runtime, decision_event(runtime.service.deny(proposal.id), DecisionKind.DENIED)
    )
    text = read_decision_report(runtime, proposal.id)[0]
    assert text.startswith("P1 is denied") and "P1 was stale and could not be approved: a.txt changed" in text
    assert "a.txt now contains:" in text and "\t5?" in text
    assert "The user says" not in text
