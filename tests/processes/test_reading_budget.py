"""The reading budget: three agents in one repository never have more unread lines than the budget plus one edit."""

import io
import json
import shutil
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.cli.main import main
from app.doors.hook.hook_entry import run_hook
from app.proposals.values.models import HunkState, Proposal
from app.proposals.values.proposal_errors import TooManyUnreadLinesToStage
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.runtime.unfinished_work import stage_hook_edits_and_list_failures
from app.storage.captured_edit_store import CapturedAgentTurn, CapturedFileEdit
from tests.commands.agent_calls import Agent, Caller
from tests.examples import scale_examples
from tests.unit.doors.mcp_host import Host
from tests.waiting import MAX_WAIT_SECONDS

BUDGET = 20
SENTENCE = "lines to read; stop here, or wait."


def limit_reading(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Return a workspace whose user has the budget."""
    patch.setenv("SIGNOFF_HOME", str(folder / "home"))
    patch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    (folder / "home/config").mkdir(parents=True)
    (folder / "home/config/config.toml").write_text(f"[reading]\nunseen_lines = {BUDGET}\n")
    (folder / "ws").mkdir()
    return folder / "ws"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return limit_reading(tmp_path, monkeypatch)


@pytest.fixture
def reader(root: Path) -> Iterator[OpenWorkspace]:
    """The workspace as the reviewer opens it."""
    opened = open_workspace(root, {}, {})
    yield opened
    opened.close()


def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(count))


def waiting_lines(runtime: OpenWorkspace) -> int:
    pending_hunks = [
        hunk for proposal in runtime.service.pending() for hunk in proposal.hunks if hunk.state is HunkState.PENDING
    ]
    return sum(hunk.old_count + hunk.new_count for hunk in pending_hunks)


def mark_as_read(runtime: OpenWorkspace, proposal: Proposal, count: int) -> None:
    seen = {
        hunk.id: bytes(number < count for number in range(hunk.old_count + hunk.new_count)) for hunk in proposal.hunks
    }
    runtime.seen_lines_store.add_seen({proposal.id: seen})


def stage(runtime: OpenWorkspace, path: str, count: int, session: str = "") -> Proposal:
    """Stage a file as signoff's own model does."""
    draft = runtime.service.new_draft(session)
    draft.write(path, lines(count))
    return runtime.service.stage(draft, "")


def call_hook(agent: Agent, path: str, count: int, *options: str) -> tuple[int, str]:
    """Make an edit of another agent through the hook; return the exit code and the answer."""
    (payload,) = agent.responds(agent.writes(path, lines(count)))
    caller = Caller()
    real_stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(json.dumps(payload).encode()))
    try:
        code = run_hook([agent.name, *options], caller)
    finally:
        sys.stdin = real_stdin
    return code, b"".join(caller.answers).decode()


class ThreeAgents:
    """An agent with a hook, one with the MCP server, and signoff's own model; each edit is a new turn."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.host = Host(root)
        self.host.greet("codex-mcp-client")
        self.own = open_workspace(root, {}, {})
        self._number = 0

    def edit(self, agent_index: int, count: int) -> bool:
        """Propose a file with `count` lines; return whether it was accepted."""
        self._number += 1
        path = f"{self._number}.txt"
        match agent_index:
            case 0:
                _, out = call_hook(Agent("claude", self._root, f"session {self._number}"), path, count)
                assert ("is staged" in out) is not (SENTENCE in out)
                return "is staged" in out
            case 1:
                meta = {"x-codex-turn-metadata": {"session_id": "s", "turn_id": str(self._number)}}
                text, failed = self.host.call("propose_edit", meta, files=[{"path": path, "content": lines(count)}])
                assert failed is (SENTENCE in text), text
                return not failed
            case _:
                with suppress(TooManyUnreadLinesToStage):
                    stage(self.own, path, count)
                    return True
        return False

    def close(self) -> None:
        self.host.server.shut_down()
        self.own.close()


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["edit", "edit", "edit", "read", "approve", "deny"]), st.integers(0, 2), st.integers(1, 30)
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=scale_examples(15))
@example([("edit", 0, 30), ("edit", 0, 1), ("edit", 1, 1), ("edit", 2, 1), ("read", 0, 30), ("edit", 1, 21)])
@example([("edit", 1, 30), ("edit", 0, 1), ("edit", 1, 1), ("edit", 2, 1), ("deny", 0, 1), ("edit", 2, 21)])
@given(ACTIONS)
def test_unread_lines_never_exceed_the_budget_and_one_edit(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("budget")
    with pytest.MonkeyPatch.context() as patch:
        root = limit_reading(folder, patch)
        runtime, agents = open_workspace(root, {}, {}), ThreeAgents(root)
        try:
            for action, agent_index, count in actions:
                before = runtime.seen_lines_store.unread_line_count()
                if action == "edit":
                    accepted = agents.edit(agent_index, count)
                    assert accepted is (before <= BUDGET)
                    assert runtime.seen_lines_store.unread_line_count() == before + (count if accepted else 0)
                    assert runtime.seen_lines_store.unread_line_count() <= BUDGET + count or before > BUDGET
                    continue
                assert stage_hook_edits_and_list_failures(runtime) == []
                assert runtime.seen_lines_store.unread_line_count() == before, "captured edits count like proposals"
                if not (pending := runtime.service.pending()):
                    continue
                match action:
                    case "read":
                        mark_as_read(runtime, pending[agent_index % len(pending)], count)
                    case "approve":
                        runtime.service.approve(pending[0].id)
                    case _:
                        runtime.service.deny(pending[0].id)
                assert runtime.seen_lines_store.unread_line_count() <= before
        finally:
            agents.close()
            runtime.close()
            shutil.rmtree(folder)


@pytest.mark.parametrize("attempt", range(3))
def test_only_one_of_several_simultaneous_edits_passes_the_budget(root: Path, attempt: int) -> None:
    agents = [open_workspace(root, {}, {}) for _ in range(3)]
    begin = threading.Barrier(6)

    def capture_edit(number: int, runtime: OpenWorkspace) -> bool:
        turn = CapturedAgentTurn("claude", f"session {number}", "p")
        begin.wait(MAX_WAIT_SECONDS)
        with suppress(TooManyUnreadLinesToStage):
            return bool(
                runtime.captured_edits.store_edits(
                    turn, [CapturedFileEdit(f"c{number}.txt", None, 0, lines(30).encode())], unread_limit=BUDGET
                )
            )
        return False

    def stage_edit(number: int, runtime: OpenWorkspace) -> bool:
        begin.wait(MAX_WAIT_SECONDS)
        with suppress(TooManyUnreadLinesToStage):
            return bool(stage(runtime, f"s{number}.txt", 30))
        return False

    try:
        with ThreadPoolExecutor(6) as pool:
            jobs: list[Future[bool]] = []
            for number, runtime in enumerate(agents):
                jobs += (pool.submit(capture_edit, number, runtime), pool.submit(stage_edit, number, runtime))
            assert sum(job.result(MAX_WAIT_SECONDS) for job in jobs) == 1
        assert agents[0].seen_lines_store.unread_line_count() == 30
    finally:
        for runtime in agents:
            runtime.close()


def test_hook_denies_until_enough_lines_are_read(root: Path, reader: OpenWorkspace) -> None:
    full = stage(reader, "full.txt", 30)
    code, out = call_hook(Agent("claude", root, "first"), "a.txt", 3)
    assert code == 0 and f"The reviewer has 30 {SENTENCE}" in out and json.loads(out)["continue"] is False
    assert len(reader.service.pending()) == 1
    mark_as_read(reader, full, 30)
    assert reader.seen_lines_store.unread_line_count() == 0
    assert call_hook(Agent("claude", root, "third"), "a.txt", 3)[1].count("is staged") == 1


def test_run_is_refused_before_the_first_request(root: Path, reader: OpenWorkspace) -> None:
    stage(reader, "full.txt", 30)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["run", "--workspace", str(root), "--demo", "Be less formal"])
    assert code == 3 and f"The reviewer has 30 {SENTENCE}" in err.getvalue() and not out.getvalue()
