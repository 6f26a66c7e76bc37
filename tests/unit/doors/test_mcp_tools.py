"""What an agent can do through the server: propose, be held at the gate, and hear what the user decided."""

import errno
import gc
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from app.cli.main import main
from app.doors.mcp import door_server, proposal_tools
from app.doors.mcp.door_server import TOOL_NAMES, TOOL_SCHEMAS, McpCaller, identify_caller
from app.doors.mcp.proposal_tools import ProposalStatusArguments, ProposeEditArguments, ProposePatchArguments
from app.proposals.text.document import MAX_COMPARED_LINES
from app.proposals.text.file_warnings import describe_file_facts
from app.proposals.values.models import Proposal, ProposalState
from app.proposals.values.proposal_errors import MAX_PROPOSAL_FILES
from app.runtime.open_workspace import OpenWorkspace
from app.tools.base.contract import ToolError, arguments_json_schema
from tests.examples import scale_examples
from tests.unit.doors.mcp_host import Host

TEXT = "".join(f"line {number}\n" for number in range(1, 41))
TWO_LINES = "Not so.\n  Say goodbye instead."


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    return folder


@pytest.fixture
def host(root: Path) -> Iterator[Host]:
    started = Host(root)
    started.greet()
    yield started
    started.server.shut_down()


@pytest.fixture
def user(host: Host) -> Iterator[OpenWorkspace]:
    runtime = host.runtime()
    yield runtime
    runtime.close()


def signoff(root: Path, *words: str) -> int:
    return main([words[0], "--workspace", str(root), *words[1:]])


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def only(user: OpenWorkspace) -> Proposal:
    (proposal,) = user.service.all()
    return proposal


# What is proposed


def test_one_call_stages_several_files_as_one_proposal(host: Host, root: Path, user: OpenWorkspace) -> None:
    for name in ("gone.txt", "old.txt"):
        (root / name).write_text(TEXT)
    before = contents(root)
    text, failed = host.call(
        "propose_edit",
        files=[
            {"path": "a.txt", "edits": [{"old": "line 3\n", "new": "three\n"}, {"old": "line 30\n", "new": ""}]},
            {"path": str(root / "sub/new.txt"), "content": "new\n"},
            {"path": "gone.txt", "delete": True},
            {"path": "old.txt", "new_path": "moved.txt", "edits": [{"old": "line 7\n", "new": "seven\n"}]},
        ],
        summary="All\nat once",
    )
    assert not failed and contents(root) == before
    fact = json.loads(text.splitlines()[0])
    assert (fact["status"], fact["proposal"], fact["applied"]) == ("staged", "P1", False)
    assert "Nothing is written" in text and "End your turn now" in text
    proposal = only(user)
    assert [(change.path, change.op.value) for change in proposal.files] == [
        ("a.txt", "edit"),
        ("gone.txt", "delete"),
        ("moved.txt", "rename"),
        ("sub/new.txt", "create"),
    ]
    assert (proposal.summary, proposal.origin.kind, proposal.origin.agent) == ("All at once", "agent", "claude")
    assert signoff(root, "approve", "P1") == 0
    assert contents(root) == {
        "a.txt": TEXT.replace("line 3\n", "three\n").replace("line 30\n", "").encode(),
        "sub/new.txt": b"new\n",
        "moved.txt": TEXT.replace("line 7\n", "seven\n").encode(),
    }


@pytest.mark.parametrize(
    "patch",
    [
        "--- a/a.txt\n+++ b/a.txt\n@@ -2,3 +2,3 @@\n line 2\n-line 3\n+three\n line 4\n",
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-line 3\n+three\n*** Delete File: b.txt\n*** End Patch",
    ],
)
def test_a_patch_in_either_form_becomes_a_proposal(host: Host, root: Path, user: OpenWorkspace, patch: str) -> None:
    (root / "b.txt").write_text("b\n")
    before = contents(root)
    text, failed = host.call("propose_patch", patch=patch, summary="Three")
    assert not failed and '"proposal": "P1"' in text
    assert contents(root) == before
    assert only(user).summary == "Three" and only(user).files[0].added == 1


CODEX = {"x-codex-turn-metadata": {"turn_id": "t1", "session_id": "s1", "model": "gpt-5.5"}}


def test_the_caller_is_identified_by_what_the_host_says_its_environment_or_its_program() -> None:
    environment = {"CLAUDE_CODE_SESSION_ID": "s7"}
    found = [identify_caller({"name": name}, {}, environment) for name in ("claude-code", "zed")]
    assert [(each.agent, each.session) for each in found] == [("claude", "s7"), ("zed", "")]
    stateless = {"io.modelcontextprotocol/clientInfo": {"name": "gemini-cli-mcp-client"}}
    assert identify_caller({}, stateless, environment).agent == "gemini"
    assert identify_caller({"name": 7}, {"x-codex-turn-metadata": [1]}, {}, lambda: "") == McpCaller()
    agents = {name: identify_caller({"name": name}, {}, {}, lambda: "kimi").agent for name in ("mcp", "", "cursor")}
    assert agents == {"mcp": "kimi", "": "kimi", "cursor": "cursor"}


def test_proposal_keeps_agent_model_session_and_prompt(root: Path) -> None:
    host = Host(root)
    host.greet("codex-mcp-client", "2025-06-18")
    host.edit("a.txt", "line 3\n", "three\n", meta=CODEX)
    runtime = host.runtime()
    origin = only(runtime).origin
    runtime.close()
    host.server.shut_down()
    found = (origin.kind, origin.agent, origin.model, origin.session, origin.prompt)
    assert found == ("agent", "codex", "gpt-5.5", "s1", "t1")


# What is refused


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "files is missing"),
    ({"files": []}, "files: "),
    ({"path": "a.txt", "old": "x", "new": "y"}, "path is not an argument here"),
    ({"files": [{"path": "a.txt"}]}, "give `edits`, `content`, `delete` or `new_path`"),
    ({"files": [{"path": "a.txt", "edits": [{"old": "x"}]}]}, "files.0.edits.0.new is missing"),
    (
        {"files": [{"path": "a.txt", "content": "", "delete": True}]},
        "- files.0: a.txt: `delete` goes with nothing else\n",
    ),
    ({"files": [{"path": "a.txt", "content": "", "edits": [{"old": "x", "new": "y"}]}]}, "not both"),
    ({"files": [{"path": "a.txt", "content": "x"}], "wait_seconds": -1}, "wait_seconds"),
    ({"files": [{"path": "a.txt", "delete": True}, {"path": "./a.txt", "delete": True}]}, "named twice"),
    ({"files": [{"path": "../b.txt", "content": "x"}]}, "leads out of the workspace"),
    ({"files": [{"path": ".git/config", "content": "x"}]}, ".git"),
    ({"files": [{"path": "/etc/passwd", "content": "x"}]}, "outside the workspace"),
    ({"files": [{"path": "none.txt", "delete": True}]}, "does not exist"),
    ({"files": [{"path": "a.txt", "content": TEXT}]}, "already has exactly this content"),
    ({"files": [{"path": "a.txt", "edits": [{"old": "line 333\n", "new": ""}]}]}, "line 33"),
    ({"files": [{"path": "a.txt", "edits": [{"old": "line", "new": "row"}]}]}, "a.txt"),
    (
        {"files": [{"path": "b.txt", "content": ""}, {"path": "a.txt", "edits": [{"old": "no", "new": "x"}]}]},
        "a.txt",
    ),
]


def test_a_refusal_stages_nothing_and_leaves_gate_open(host: Host, user: OpenWorkspace) -> None:
    for arguments, words in REFUSED:
        text, failed = host.call("propose_edit", **arguments)
        assert failed and words in text and "Traceback" not in text and "build on" not in text
        assert "list_files" not in text, "signoff's own model has that tool"
        assert user.service.all() == []
    assert host.edit("a.txt", "line 3\n", "three\n")[1] is False


def test_a_refusal_quotes_no_secret(host: Host, root: Path) -> None:
    (root / ".env").write_text("TOKEN=abc123secret\nNAME=x\n")
    text, failed = host.edit(".env", "TOKEN=abc123sekret\n", "TOKEN=\n")
    assert failed and "abc123secret" not in text and ".env" in text and "looks like a secret" in text
    patch = "--- a/.env\n+++ b/.env\n@@ -1,2 +1,1 @@\n-TOKEN=abc\n NAME=y\n"
    text, failed = host.call("propose_patch", patch=patch)
    assert failed and "abc123secret" not in text
    assert host.edit(".env", "NAME=x\n", "NAME=y\n")[1] is False
    assert signoff(root, "approve", "P1") == 0
    assert "abc123secret" not in host.call("proposal_status")[0]


def test_edit_stacks_on_pending_proposals_and_names_them(host: Host, root: Path, user: OpenWorkspace) -> None:
    draft = user.service.new_draft("")
    draft.write("a.txt", TEXT.replace("line 3\n", "three\n"))
    user.service.stage(draft, "Theirs")
    text, failed = host.edit("a.txt", "line 3\n", "drei\n")
    assert failed and "New edits of a.txt build on the pending changes of P1, which are not on disk yet" in text
    assert text.endswith("With them it reads:\n     3|three")
    text, failed = host.call("propose_edit", files=[{"path": "a.txt", "content": "mine\n"}])
    assert failed and "pending changes of P1" in text and "Send `edits`" in text
    assert text.count("Nothing was staged") == 1
    assert host.edit("a.txt", "line 30\n", "thirty\n")[1] is False
    assert signoff(root, "approve", "P2") == 0
    assert (root / "a.txt").read_text() == TEXT.replace("line 30\n", "thirty\n")


def test_pending_changes_without_lines_are_named(host: Host, root: Path, user: OpenWorkspace) -> None:
    (root / "gone.txt").write_text("x\n")
    (root / "moved.txt").write_text("x\n")
    draft = user.service.new_draft("")
    draft.delete("gone.txt")
    draft.write("new.txt", "first\n")
    draft.write("moved.txt", "")
    user.service.stage(draft, "Theirs")
    said = {name: host.edit(name, "none\n", "y\n") for name in ("gone.txt", "new.txt", "moved.txt")}
    assert all(failed for _, failed in said.values())
    assert said["gone.txt"][0].endswith("not on disk yet. With them it is gone.")
    assert said["new.txt"][0].endswith("With them it reads:\n     1|first")
    assert said["moved.txt"][0].endswith("not on disk yet.")


def test_only_what_was_written_is_quoted(host: Host, root: Path) -> None:
    for name in ("denied.txt", "gone.txt", "lost.txt"):
        (root / name).write_text("before\n")
    edits = [{"old": "before\n", "new": "after\n"}]
    files: list[dict[str, Any]] = [{"path": name, "edits": edits} for name in ("denied.txt", "lost.txt")]
    more: list[dict[str, Any]] = [{"path": "gone.txt", "delete": True}, {"path": "kept.txt", "content": "kept\n"}]
    assert host.call("propose_edit", files=files + more)[1] is False
    assert signoff(root, "approve", "P1", "--hunks", "2,3,4", "--force") == 0
    assert signoff(root, "deny", "P1", "-m", TWO_LINES) == 0
    (root / "lost.txt").unlink()
    text, _ = host.call("proposal_status")
    assert "kept.txt reads now:\nkept" in text
    assert "reads now" not in text.replace("kept.txt reads now", "")


def test_a_defect_is_told_to_the_agent_and_the_next_call_works(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> str:
        raise ZeroDivisionError("by nothing")

    def missing() -> None:
        raise ModuleNotFoundError("No module named 'app.doors'")

    with monkeypatch.context() as patch:
        patch.setattr(host.server, "_load_tools", missing)
        text, failed = host.edit("a.txt", "line 3\n", "x\n")
        assert failed and "nothing was staged or written: No module named" in text
    with monkeypatch.context() as patch:
        patch.setattr(proposal_tools, "add_file_changes_to_draft", broken)
        text, failed = host.edit("a.txt", "line 3\n", "x\n")
        assert failed and "propose_edit failed: ZeroDivisionError: by nothing" in text
        assert "nothing was written" in text
        assert host.said[-1] == "propose_edit failed: ZeroDivisionError: by nothing", "to the user, too"
    assert not host.edit("a.txt", "line 3\n", "x\n")[1]


@pytest.mark.parametrize("table", ["proposals", "agent_turns"])
def test_a_call_that_cannot_be_stored_stages_nothing(host: Host, user: OpenWorkspace, table: str) -> None:
    with user.database.transaction() as connection:
        connection.execute(
            f"CREATE TRIGGER full BEFORE INSERT ON {table} BEGIN SELECT raise(ABORT, 'disk full'); END"
        )
    text, failed = host.edit("a.txt", "line 3\n", "x\n")
    assert failed and "nothing was staged or written" in text and "disk full" in text
    assert user.service.all() == []
    with user.database.transaction() as connection:
        connection.execute("DROP TRIGGER full")
    assert not host.edit("a.txt", "line 3\n", "x\n")[1]
    text, failed = host.edit("a.txt", "line 5\n", "y\n")
    assert failed and "awaits the user's decision" in text, "the gate is closed"


def test_a_cancelled_call_stages_nothing(host: Host, user: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go, draft_files = threading.Event(), threading.Event(), proposal_tools.add_file_changes_to_draft

    def slow(*arguments: Any) -> str:
        entered.set()
        go.wait(30)
        raise ToolError("It does not fit.")

    monkeypatch.setattr(proposal_tools, "add_file_changes_to_draft", slow)
    first = host.begin_call("propose_edit", files=[{"path": "b.txt", "content": "x"}])
    entered.wait(30)
    monkeypatch.setattr(proposal_tools, "add_file_changes_to_draft", draft_files)
    second = host.begin_call("propose_edit", files=[{"path": "c.txt", "content": "x"}])
    host.notify("notifications/cancelled", requestId=second)
    go.set()
    assert host.called(first)[1] is True
    host.server.shut_down()
    assert user.service.all() == []


def test_agents_pile_up_no_more_proposals_than_a_person_looks_through(
    host: Host, root: Path, user: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposal_tools, "MAX_WAITING_PROPOSALS", 2)
    turns = [{"x-codex-turn-metadata": {"turn_id": str(number)}} for number in range(4)]
    edits = [{"path": f"{number}.txt", "content": "new\n"} for number in range(4)]
    for number in range(2):
        assert not host.call("propose_edit", turns[number], files=[edits[number]])[1]
    text, failed = host.call("propose_edit", turns[2], files=[edits[2]])
    assert failed and "2 proposals of agents await the user's decision" in text
    assert [each.id for each in user.service.pending()] == ["P1", "P2"]
    assert signoff(root, "deny", "P1", "-m", "No.") == 0
    text, failed = host.call("propose_edit", turns[3], files=[edits[3]])
    assert failed and "No." in text
    assert not host.call("propose_edit", turns[3], files=[edits[3]])[1]


def test_a_proposal_has_a_limit_of_files(host: Host, user: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    text, failed = host.call("propose_edit", files=[{"path": "b.txt", "content": "x\n"}] * (MAX_PROPOSAL_FILES + 1))
    assert failed and f"{MAX_PROPOSAL_FILES}" in text
    monkeypatch.setattr(proposal_tools, "MAX_PROPOSAL_FILES", 1)
    patch = "".join(f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n" for name in ("b.txt", "c.txt"))
    text, failed = host.call("propose_patch", patch=patch)
    assert failed and "names more than 1 file" in text
    assert user.service.all() == []


def test_a_huge_file_is_staged_whole_and_a_huge_patch_refused(host: Host, user: OpenWorkspace) -> None:
    text, failed = host.call(
        "propose_patch", patch=f"--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n{'+x' * 10}" + "\n" * 3_000_000
    )
    assert failed and "3,000,003 lines" in text
    assert not host.call("propose_edit", files=[{"path": "b.txt", "content": "\n" * (MAX_COMPARED_LINES + 1)}])[1]
    (change,) = only(user).files
    assert change.binary and not change.hunks
    assert "text of over 1,000,000 lines: nothing → 1.0 MB" in next(describe_file_facts(change))


def test_ids_run_once_and_calls_are_limited(host: Host, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_server, "MAX_RUNNING_CALLS", 1)
    name = waiting(host)
    host.line(json.dumps({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": CALL}))
    assert "is still running" in host.sent[-1]["error"]["message"] and host.sent[-1]["id"] is None
    refused = host.begin("tools/call", CALL)
    assert "1 calls run already" in host.answer(refused)["error"]["message"]
    before = len(host.sent)
    host.line(" \t")
    host.notify("notifications/progress", requestId=name)
    assert len(host.sent) == before, "what means nothing here is passed over"
    assert signoff(root, "deny", "P1", "-m", TWO_LINES) == 0
    assert TWO_LINES in host.called(name)[0]


def test_an_unusable_workspace_is_named_and_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    host = Host(tmp_path / "ws")
    text, failed = host.call("propose_edit", files=[{"path": "a.txt", "content": "x\n"}])
    assert failed and "can't be opened: No such file" in text and "nothing was staged" in text
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / ".signoff.toml").write_text("nonsense")
    assert host.call("proposal_status")[1] is True
    (tmp_path / "ws" / ".signoff.toml").unlink()
    assert host.call("propose_edit", files=[{"path": "a.txt", "content": "x\n"}])[1] is False
    host.server.shut_down()


CALL = {"name": "proposal_status", "arguments": {}}

# The gate


def test_the_gate_stages_one_of_four_attempts(host: Host, root: Path, user: OpenWorkspace) -> None:
    answers = [host.edit("a.txt", f"line {number}\n", "x\n") for number in (3, 3, 5, 30)]
    assert [failed for _, failed in answers] == [False, True, True, True]
    assert all("P1" in text and "End your turn now" in text for text, _ in answers)
    assert all("Refused, and nothing of this call was staged" in text for text, _ in answers[1:])
    assert only(user).id == "P1" and contents(root) == {"a.txt": TEXT.encode()}
    assert signoff(root, "deny", "P1", "-m", TWO_LINES) == 0
    text, failed = host.edit("a.txt", "line 3\n", "goodbye\n")
    assert failed and TWO_LINES in text, "the words come first"
    text, failed = host.edit("a.txt", "line 3\n", "goodbye\n")
    assert not failed and TWO_LINES not in text, "and once"
    _, second = user.service.all()
    assert (second.supersedes, second.version) == ("P1", 2), "it answers the feedback"


def test_a_new_turn_opens_the_gate_if_the_agent_names_its_turns(host: Host) -> None:
    host.edit("a.txt", "line 3\n", "x\n", meta=CODEX)
    assert host.edit("a.txt", "line 5\n", "x\n", meta=CODEX, on_top_of="P1")[1] is True
    later = {"x-codex-turn-metadata": {"turn_id": "t2", "session_id": "s2"}}
    assert "P1 waits for the user's decision" in host.call("proposal_status", meta=later)[0], "in another session"
    assert host.edit("a.txt", "line 5\n", "x\n", meta=later)[1] is False
    assert host.edit("a.txt", "line 7\n", "x\n", meta=later)[1] is True


def test_edit_on_top_of_a_named_proposal_is_allowed(host: Host) -> None:
    host.edit("a.txt", "line 3\n", "x\n")
    assert host.edit("a.txt", "line 5\n", "x\n", on_top_of="P7")[1] is True
    assert host.edit("a.txt", "line 5\n", "x\n", on_top_of="p1")[1] is False
    assert host.edit("a.txt", "line 7\n", "x\n", on_top_of="P1")[1] is True


def test_the_gate_and_the_words_of_a_denial_outlive_the_process(host: Host, root: Path, user: OpenWorkspace) -> None:
    host.edit("a.txt", "line 3\n", "x\n")
    host.server.shut_down()
    again, other = Host(root), Host(root)
    again.greet()
    other.greet("another-agent")
    assert "P1 waits for the user's decision" in again.call("proposal_status")[0]
    text, failed = again.edit("a.txt", "line 5\n", "y\n")
    assert failed and "P1, which you proposed before, awaits the user's decision" in text
    assert other.call("proposal_status")[1], "it has proposed nothing"
    assert signoff(root, "deny", "P1", "-m", TWO_LINES) == 0
    again.server.shut_down()
    once_more = Host(root)
    once_more.greet()
    text, failed = once_more.edit("a.txt", "line 5\n", "y\n")
    assert failed and TWO_LINES in text and only(user).id == "P1"
    text, failed = once_more.edit("a.txt", "line 5\n", "y\n")
    assert not failed and TWO_LINES not in text
    for each in (other, once_more):
        each.server.shut_down()


def test_words_that_the_host_did_not_take_are_given_again(host: Host, root: Path) -> None:
    host.edit("a.txt", "line 3\n", "x\n")
    assert signoff(root, "deny", "P1", "-m", TWO_LINES) == 0
    host.is_gone = True
    host.begin_call("proposal_status")
    host.server.shut_down()
    again = Host(root)
    again.greet()
    names = [again.begin_call("propose_edit", files=[{"path": f"{n}.txt", "content": "x"}]) for n in range(5)]
    assert [TWO_LINES in again.called(name)[0] for name in names].count(True) == 1
    again.server.shut_down()


def test_words_that_were_read_are_not_given_again_with_later_ones(host: Host, root: Path) -> None:
    edits = [{"old": f"line {number}\n", "new": f"LINE {number}\n"} for number in (3, 20)]
    host.call("propose_edit", files=[{"path": "a.txt", "edits": edits}])
    for hunk, words, other in (("1", "No capitals.", "Why?"), ("2", "Why?", "No capitals.")):
        assert signoff(root, "deny", "P1", "--hunks", hunk, "-m", words) == 0
        text, failed = host.edit("a.txt", "line 5\n", "five\n")
        assert failed and words in text and other not in text
    text = host.call("proposal_status")[0]
    assert "No capitals." in text and "Why?" in text, "it is asked for"


def test_a_plain_denial_ends_the_turn(host: Host, root: Path) -> None:
    host.edit("a.txt", "line 3\n", "x\n", meta=CODEX)
    assert signoff(root, "deny", "P1") == 0
    text, _ = host.call("proposal_status")
    assert "The user gave no reason. End your turn now, and ask" in text
    text, failed = host.edit("a.txt", "line 3\n", "y\n", meta=CODEX)
    assert failed and "without a reason" in text
    later = {"x-codex-turn-metadata": {"turn_id": "t2"}}
    assert host.edit("a.txt", "line 3\n", "y\n", meta=later)[1] is False
    assert signoff(root, "deny", "P2", "-m", TWO_LINES) == 0
    host.call("proposal_status")
    assert host.edit("a.txt", "line 3\n", "z\n", meta=later)[1] is False, "words are to be acted on at once"


def test_after_three_denials_the_agent_is_told_to_ask(host: Host, root: Path) -> None:
    for number in (1, 2, 3):
        host.edit("a.txt", "line 3\n", f"{number}\n")
        assert signoff(root, "deny", f"P{number}", "-m", "No.") == 0
        told = "proposals in a row. Do not propose another edit yet" in host.call("proposal_status")[0]
        assert told is (number == 3)


def test_two_agents_on_one_file_stack_with_separate_gates(host: Host, root: Path, user: OpenWorkspace) -> None:
    other = Host(root)
    other.greet("gemini-cli-mcp-client", "2025-06-18")
    assert host.edit("a.txt", "line 3\n", "three\n")[1] is False
    assert other.edit("a.txt", "line 30\n", "thirty\n")[1] is False
    assert host.edit("a.txt", "line 5\n", "x\n")[1] is True
    first, second = user.service.all()
    assert second.files[0].stacked_on == ("P1",)
    assert (first.origin.agent, second.origin.agent) == ("claude", "gemini")
    assert signoff(root, "deny", "P1", "-m", TWO_LINES) == 0
    assert signoff(root, "approve", "P2", "--force") == 0
    assert (root / "a.txt").read_text() == TEXT.replace("line 30\n", "thirty\n")
    assert TWO_LINES in host.call("proposal_status")[0]
    assert TWO_LINES not in other.call("proposal_status")[0]
    other.server.shut_down()


def test_concurrent_calls_pass_once(host: Host, user: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    both, draft_files = threading.Barrier(2), proposal_tools.add_file_changes_to_draft

    def slow(*arguments: Any) -> str:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)
        return draft_files(*arguments)

    monkeypatch.setattr(proposal_tools, "add_file_changes_to_draft", slow)
    edits = [{"old": "line 3\n", "new": "x\n"}]
    names = [
        host.begin_call("propose_edit", files=[{"path": "a.txt", "edits": edits}, {"path": name, "content": "x"}])
        for name in "bcdefgh"
    ]
    assert sorted(host.called(name)[1] for name in names) == [False] + [True] * 6
    assert only(user).id == "P1"


# Waiting


def waiting(host: Host, **more: Any) -> Any:
    """A proposing call that waits, once it does."""
    edits = [{"old": f"line {number}\n", "new": f"LINE {number}\n"} for number in (3, 20, 38)]
    name = host.begin_call(
        "propose_edit", {"progressToken": "t"}, files=[{"path": "a.txt", "edits": edits}], wait_seconds=600, **more
    )
    host.until(lambda: progress(host) or None)
    return name


def progress(host: Host) -> list[dict[str, Any]]:
    return [
        each["params"]
        for each in host.sent
        if isinstance(each, dict) and each.get("method") == "notifications/progress"
    ]


@pytest.mark.parametrize("part", [False, True])
def test_a_decision_reaches_the_waiting_call_with_its_words_and_hunks(host: Host, root: Path, part: bool) -> None:
    name = waiting(host)
    if part:
        assert signoff(root, "approve", "P1", "--hunks", "2") == 0
    written = TEXT.replace("line 20\n", "LINE 20\n") if part else TEXT
    assert contents(root) == {"a.txt": written.encode()}
    assert signoff(root, "deny", "P1", "-m", TWO_LINES) == 0
    text, failed = host.called(name)
    start = "P1: hunk 2 written, 1 and 3 denied." if part else "P1 is denied; nothing of it was written"
    assert not failed and text.startswith(start) and f"The user says:\n\n{TWO_LINES}" in text
    assert ("20\tLINE 20" in text) is part
    assert "files still read as before" not in text, "it is decided"
    assert contents(root) == {"a.txt": written.encode()}


def test_a_waiting_call_blocks_no_other(host: Host, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposal_tools, "PROGRESS_SECONDS", 0.05)
    name = waiting(host)
    assert host.ask("ping") == {}
    assert "P1 waits for the user's decision" in host.call("proposal_status")[0]
    assert host.edit("a.txt", "line 5\n", "x\n")[1] is True
    host.until(lambda: len(progress(host)) >= 3 or None)
    done = [each["progress"] for each in progress(host)]
    assert done == sorted(set(done)) and {each["progressToken"] for each in progress(host)} == {"t"}
    assert {each["total"] for each in progress(host)} == {600}
    assert signoff(root, "approve", "P1") == 0
    assert host.called(name)[0].startswith("P1 is approved and written to disk")


def test_a_cancelled_call_gets_no_answer_and_its_proposal_stays_pending(host: Host, user: OpenWorkspace) -> None:
    name = waiting(host)
    host.notify("notifications/cancelled", requestId=name, reason="escape")
    host.notify("notifications/cancelled", requestId="unknown")
    host.server.shut_down()
    assert only(user).state is ProposalState.PENDING
    assert not [each for each in host.sent if each.get("id") == name]


def test_staging_works_without_watches(host: Host, user: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "no more files can be watched")

    monkeypatch.setattr("watchfiles._rust_notify.RustNotify", full)
    text, failed = host.edit("a.txt", "line 3\n", "x\n", wait_seconds=600)
    assert not failed and '"status": "staged"' in text and "no more files can be watched" in text
    assert only(user).state is ProposalState.PENDING


def test_wait_that_ends_when_the_host_leaves_reports_written_hunks(host: Host, root: Path) -> None:
    name = waiting(host)
    assert signoff(root, "approve", "P1", "--hunks", "2") == 0
    host.server.shut_down()
    text, failed = host.called(name)
    assert not failed and text.startswith("P1: hunk 2 written, 1 and 3 waiting for the user.")
    assert "P1 awaits the user's decision" in text and "Nothing is written" not in text


def test_the_server_can_have_every_call_wait(root: Path) -> None:
    host = Host(root, wait=600)
    name = host.begin_call(
        "propose_edit", {"progressToken": 0}, files=[{"path": "a.txt", "edits": [{"old": "line 3\n", "new": "x\n"}]}]
    )
    host.until(lambda: progress(host) or None)
    assert signoff(root, "approve", "P1") == 0
    assert host.called(name)[0].startswith("P1 is approved")
    text, _ = host.edit("a.txt", "line 5\n", "x\n", wait_seconds=0)
    assert "P2 awaits the user's decision" in text
    host.server.shut_down()


# The status


def test_the_status_contains_decision_feedback_and_text(host: Host, root: Path, user: OpenWorkspace) -> None:
    assert host.call("proposal_status") == (
        "You have proposed nothing yet. Give the id of a proposal as `proposal`, such as P7.",
        True,
    )
    host.edit("a.txt", "line 3\n", "three\n")
    text, _ = host.call("proposal_status")
    assert text.startswith("P1 waits for the user's decision") and "End your turn now" in text
    user.service.replace_proposed_text("P1", "a.txt", TEXT.replace("line 3\n", "drei\n"))
    assert signoff(root, "approve", "--force", "P1") == 0
    text, failed = host.call("proposal_status", proposal="p1")
    assert not failed and text.startswith("P1 is approved and written to disk")
    assert "The user changed the proposed text of a.txt by hand" in text
    assert "a.txt reads now:\nline 1\nline 2\ndrei\nline 4\n" in text
    assert host.call("proposal_status", proposal="P99")[1] is True


def test_a_long_files_status_gives_its_length(host: Host, root: Path) -> None:
    (root / "long.txt").write_text("line\n" * 20_000)
    host.call("propose_edit", files=[{"path": "long.txt", "content": "new\n" + "line\n" * 20_000}])
    assert signoff(root, "approve", "P1") == 0
    text, _ = host.call("proposal_status")
    assert "long.txt has 20,001 lines now" in text and len(text) < 1000


def test_the_status_waits_for_a_decision_not_reported_yet(host: Host, root: Path) -> None:
    name = waiting(host)
    assert signoff(root, "approve", "P1", "--hunks", "2") == 0
    host.notify("notifications/cancelled", requestId=name)
    later = host.begin_call("proposal_status", {"progressToken": "s"}, wait_seconds=600)
    host.until(lambda: [each for each in progress(host) if each["progressToken"] == "s"] or None)
    assert signoff(root, "deny", "P1", "-m", TWO_LINES) == 0
    text, failed = host.called(later)
    assert not failed and TWO_LINES in text and "hunk 2 written, 1 and 3 denied" in text


# What the hosts are told


@pytest.mark.parametrize(
    ("tool", "model"),
    zip(TOOL_SCHEMAS, (ProposeEditArguments, ProposePatchArguments, ProposalStatusArguments), strict=True),
)
def test_the_schemas_are_those_of_the_arguments(tool: dict[str, Any], model: type[BaseModel]) -> None:
    def bare(schema: Any) -> Any:
        match schema:
            case dict():
                # The names of properties are names, also `description`; their order is nothing.
                kept = {key: bare(value) for key, value in schema.items() if key != "description"}
                return {**kept, "required": sorted(schema["required"])} if "required" in schema else kept
            case list():
                return [bare(each) for each in schema]
        return schema

    assert bare(tool["inputSchema"]) == bare(arguments_json_schema(model))


def test_the_annotations_are_honest_and_the_supported_versions_named(
    host: Host, root: Path, user: OpenWorkspace
) -> None:
    hints = {tool["name"]: tool["annotations"] for tool in host.ask("tools/list")["tools"]}
    assert list(hints) == list(TOOL_NAMES)
    assert [hints[name]["readOnlyHint"] for name in TOOL_NAMES] == [False, False, True]
    assert not any(hints[name]["openWorldHint"] for name in TOOL_NAMES)
    host.edit("a.txt", "line 3\n", "x\n")
    before = user.proposals.change_counter()
    host.call("proposal_status")
    assert user.proposals.change_counter() == before
    error = host.answer(host.begin("tools/list", {"_meta": {door_server.VERSION_KEY: "1999-01-01"}}))["error"]
    assert error["data"]["requested"] == "1999-01-01" and error["data"]["supported"]


@settings(deadline=None, max_examples=scale_examples(25))
@given(
    old=st.text(max_size=12),
    new=st.text(max_size=12),
    path=st.text(max_size=8) | st.sampled_from(["a.txt", "b/c.txt", ".git/x", "a.txt/x"]),
    summary=st.text(max_size=10),
)
def test_no_proposal_writes_to_disk(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str, path: str, summary: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "ws").mkdir()
    (folder / "ws" / "a.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGNOFF_HOME", str(folder / "home"))
        host = Host(folder / "ws")
        host.edit(path, old, new, summary=summary)
        host.call("propose_edit", files=[{"path": path, "content": new}], on_top_of="P1")
        host.call("propose_patch", patch=old)
        host.server.shut_down()
    assert contents(folder / "ws") == {"a.txt": TEXT.encode()} and host.said == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors")
def test_a_workspace_that_cannot_be_recovered_is_not_opened(host: Host, root: Path, user: OpenWorkspace) -> None:
    with user.database.transaction() as connection:
        connection.execute("ALTER TABLE journal RENAME TO gone")
    collects = gc.isenabled()
    # What is left open is closed with the garbage, whenever that is looked for.
    gc.disable()
    try:
        counts = []
        for _ in range(3):
            text, failed = host.edit("a.txt", "line 3\n", "three\n")
            assert failed and text.startswith("signoff can't do it, and nothing was staged or written: ")
            counts.append(len(list(Path("/proc/self/fd").iterdir())))
        assert counts[-1] <= counts[0]
    finally:
        if collects:
            gc.enable()
    with user.database.transaction() as connection:
        connection.execute("ALTER TABLE gone RENAME TO journal")
    assert '"status": "staged"' in host.edit("a.txt", "line 3\n", "three\n")[0]
