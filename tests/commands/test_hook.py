"""`signoff hook`: the edits of other agents wait, their turns end, and what the user decides reaches them."""

import io
import json
import os
import shlex
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from app.doors.hook.hook_entry import MAX_CALL_BYTES, run_hook
from app.storage.process_coordination import is_session_open
from tests.command_line import run_command
from tests.commands.agent_calls import AGENTS, Agent, Caller, context, reason, stops
from tests.forking import Forking
from tests.terminal.terminal import signoff_command

WORDS = "Two lines,\nplease."
LINES = "".join(f"line {number:02}\n" for number in range(1, 31))


class Site:
    def __init__(self, folder: Path, processes: Forking) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        (self.workspace / "notes.txt").write_text(LINES)
        self.home = folder / "home"
        self._processes = processes
        clean = {
            key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "SIGNOFF_", "CLAUDE"))
        }
        self.environment = {**clean, "SIGNOFF_HOME": str(self.home)}

    def run(self, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return run_command(
            self._processes, arguments, folder=self.workspace, environment=self.environment, stdin=stdin
        )

    def run_program(self, payload: dict[str, Any], *options: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            signoff_command("hook", *options),
            cwd=self.workspace,
            env=self.environment,
            input=json.dumps(payload),
            capture_output=True,
            text=True,
            check=False,
        )

    def start_program(self, payload: dict[str, Any], *options: str, stdout: Any) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            signoff_command("hook", *options),
            cwd=self.workspace,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=stdout,
            text=True,
        )
        assert process.stdin is not None
        with process.stdin:
            process.stdin.write(json.dumps(payload))
        return process

    def hook(self, agent: Agent, payload: dict[str, Any], *options: str) -> str:
        """What the hook answers; a denial has its own exit code."""
        done = self.run("hook", agent.name, *options, stdin=json.dumps(payload))
        assert done.returncode == (2 if '"deny"' in done.stdout else 0), done.stderr
        return done.stdout

    def denied(self, agent: Agent, call: tuple[str, dict[str, Any]], *options: str) -> str:
        """The reason that a call in a response of its own is denied for."""
        (payload,) = agent.responds(call)
        words = reason(agent, self.hook(agent, payload, *options))
        agent.hears(payload, words)
        return words

    def proposals(self, *options: str) -> list[dict[str, Any]]:
        done = self.run("proposals", "--json", *options)
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def tree(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.workspace.iterdir()}


@pytest.fixture
def site(tmp_path: Path, processes: Forking) -> Site:
    return Site(tmp_path, processes)


@pytest.mark.parametrize("name", AGENTS)
def test_four_attempts_make_one_proposal_and_write_nothing(name: str, site: Site) -> None:
    agent, before = Agent(name, site.workspace), site.tree()
    words = [site.denied(agent, agent.writes("b.txt", "world\n")) for _ in range(4)]
    assert words[0].startswith("P1 is staged in signoff and awaits the user's decision: b.txt.")
    assert all(each.startswith("Refused, and nothing of this call was done: P1") for each in words[1:])
    (proposal,) = site.proposals("--all")
    origin = proposal["origin"]
    assert (origin["kind"], origin["agent"], origin["session"]) == ("agent", name, agent.session)
    assert origin["model"] == {"claude": "claude-opus-5-5", "codex": "gpt-5.5", "gemini": "gemini-2.5-pro"}[name]
    assert [file["path"] for file in proposal["files"]] == ["b.txt"]
    assert site.tree() == before
    assert site.run("approve", "P1").returncode == 0
    assert site.tree() == {**before, "b.txt": b"world\n"}


@pytest.mark.parametrize("name", AGENTS)
def test_the_first_call_after_an_edit_ends_the_turn_if_the_agent_allows_it(name: str, site: Site) -> None:
    agent, ended = Agent(name, site.workspace), []
    edit, read = agent.edits("notes.txt", "line 03", "three"), agent.reads("notes.txt")
    for response in ((edit, read), (read,)):
        for payload in agent.responds(*response):
            out = site.hook(agent, payload)
            assert reason(agent, out)
            ended.append(stops(out))
            agent.hears(payload, "denied")
    assert ended == [False, False, name != "codex"], "until then the agent can say what the edit does"


@pytest.mark.parametrize("name", AGENTS)
def test_calls_of_one_response_make_one_proposal_and_others_are_refused(name: str, site: Site) -> None:
    agent = Agent(name, site.workspace)
    calls = agent.responds(
        agent.writes("b.txt", "world\n"),
        agent.edits("notes.txt", "line 03", "three"),
        agent.edits("notes.txt", "three", "drei"),
        agent.reads("notes.txt"),
    )
    words = []
    for number, payload in enumerate(calls):
        words.append(reason(agent, site.hook(agent, payload)))
        agent.hears(payload, words[-1])
        if number == 1:
            assert len(site.proposals()) == 1, "somebody looks in between"
    assert all(each.startswith("P1 is staged") for each in words[:3]), words
    assert words[3].startswith("Refused")
    (proposal,) = site.proposals()
    assert [file["path"] for file in proposal["files"]] == ["b.txt", "notes.txt"]
    assert site.run("approve", "P1", "--force").returncode == 0
    assert (site.workspace / "notes.txt").read_text() == LINES.replace("line 03\n", "drei\n")


@pytest.mark.parametrize("looks", [False, True], ids=["captured", "staged"])
def test_a_call_that_takes_the_whole_turn_back_is_refused(looks: bool, site: Site) -> None:
    agent = Agent("claude", site.workspace)
    edit, write, back, delete = agent.responds(
        agent.edits("notes.txt", "line 03", "three"),
        agent.writes("b.txt", "world\n"),
        agent.edits("notes.txt", "three", "line 03"),
        agent.edits("b.txt", "world\n", "mundo\n"),
    )
    site.hook(agent, edit)
    assert not looks or len(site.proposals()) == 1
    words = reason(agent, site.hook(agent, back))
    assert words.startswith("Nothing was staged and nothing was written: it takes back all that P1 changes"), words
    assert [file["path"] for file in site.proposals()[0]["files"]] == ["notes.txt"]
    for payload in (write, back, delete):
        assert reason(agent, site.hook(agent, payload)).startswith("P1 is staged")
    assert [file["path"] for file in site.proposals()[0]["files"]] == ["b.txt"], "a part can be taken back"


@pytest.mark.parametrize("name", AGENTS)
def test_a_new_prompt_opens_the_gate(name: str, site: Site) -> None:
    agent = Agent(name, site.workspace)
    site.denied(agent, agent.edits("notes.txt", "line 03", "three"))
    assert site.hook(agent, agent.asks("and line 20")) == "", "nothing is decided yet"
    (payload,) = agent.responds(agent.reads("notes.txt"))
    assert site.hook(agent, payload) == "", "its own rules decide"
    assert site.denied(agent, agent.edits("notes.txt", "line 20", "twenty")).startswith("P2 is staged")
    assert [each["id"] for each in site.proposals()] == ["P1", "P2"]


@pytest.mark.parametrize("name", AGENTS)
def test_the_last_message_of_a_turn_is_the_summary_of_its_proposal(name: str, site: Site) -> None:
    agent, other = Agent(name, site.workspace), Agent(name, site.workspace, "another-session")
    site.denied(agent, agent.edits("notes.txt", "line 03", "three"))
    site.denied(other, other.edits("notes.txt", "line 20", "twenty"))
    assert site.hook(other, other.ends_turn("Twenty in words.\n\n- Look at \ud800 line 20.")) == ""
    assert site.hook(agent, agent.ends_turn("x" * 5000)) == ""
    first, second = (each["summary"] for each in site.proposals())
    assert len(first) == 500 and first.endswith("x…")
    assert second == "Twenty in words. - Look at \ufffd line 20."
    site.hook(other, other.asks("what time is it?"))
    site.hook(other, other.ends_turn("Five o'clock."))
    assert [each["summary"] for each in site.proposals()] == [first, second], "nothing was staged in that turn"


@pytest.mark.parametrize("name", AGENTS)
def test_the_last_message_after_a_decision_changes_nothing(name: str, site: Site) -> None:
    agent = Agent(name, site.workspace)
    site.denied(agent, agent.edits("notes.txt", "line 03", "three"))
    (before,) = site.proposals()
    site.run("approve", "P1", "--force")
    assert site.hook(agent, agent.ends_turn("Done.")) == ""
    (after,) = site.proposals("--all")
    assert after["state"] == "applied" and after["summary"] == before["summary"]
    assert "P1 is approved" in context(site.hook(agent, agent.asks("well?"))), "the decision is still reported"


@pytest.mark.parametrize("name", AGENTS)
def test_decisions_on_hunks_and_feedback_reach_the_agent_once_with_the_next_prompt(name: str, site: Site) -> None:
    agent = Agent(name, site.workspace)
    for payload in agent.responds(
        agent.edits("notes.txt", "line 03", "three"), agent.edits("notes.txt", "line 20", "twenty")
    ):
        site.hook(agent, payload)
    assert site.run("approve", "P1", "--hunks", "2").returncode == 0
    assert (site.workspace / "notes.txt").read_text() == LINES.replace("line 20\n", "twenty\n")
    site.run("deny", "P1", "-m", "Not so.\nWrite it <b>in German</b>.")
    told = context(site.hook(agent, agent.asks("well?")))
    assert "P1: hunk 2 written, 1 denied." in told
    assert "Not so.\nWrite it <b>in German</b>." in told
    assert site.hook(agent, agent.asks("and now?")) == ""
    assert site.denied(agent, agent.edits("notes.txt", "line 03", "drei")).startswith("P2 is staged")
    site.run("deny", "P2")
    told = context(site.hook(agent, agent.asks("and?")))
    assert "P2 is denied; nothing of it was written" in told and "edits are on disk" not in told
    site.denied(agent, agent.edits("notes.txt", "line 03", "trois"))
    site.run("approve", "P3", "--force")
    assert "Approved edits are on disk" in context(site.hook(agent, agent.asks("so?")))
    site.run("undo", "P3")
    told = context(site.hook(agent, agent.asks("now?")))
    assert "P3 is undone" in told and "edits are on disk" not in told


@pytest.mark.parametrize("name", AGENTS)
def test_a_waiting_call_gets_the_decision_and_the_feedback(name: str, site: Site) -> None:
    agent = Agent(name, site.workspace)
    payload, sibling = agent.responds(agent.edits("notes.txt", "line 03", "three"), agent.reads("notes.txt"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(site.run_program, payload, name, "--wait", "120")
        while not site.proposals():
            assert not waiting.done()
        site.run("deny", "P1", "-m", "Two lines,\nplease.")
        answer = waiting.result(60)
    assert "Two lines,\nplease." in reason(agent, answer.stdout), answer.stderr
    assert not stops(answer.stdout), "it goes on with the user's words"
    assert "answer to another of the calls" in reason(agent, site.hook(agent, sibling)), "agents make calls in turn"
    agent.hears(payload, "denied")
    agent.hears(sibling, "denied")
    assert site.denied(agent, agent.edits("notes.txt", "line 03", "drei")).startswith("P2 is staged")
    assert site.hook(agent, agent.asks("well?")) == "", "that was told already"


def test_a_call_waits_until_the_user_has_room_to_read(site: Site) -> None:
    (site.home / "config").mkdir(parents=True)
    (site.home / "config/config.toml").write_text("[reading]\nunseen_lines = 5\n")
    site.denied(Agent("claude", site.workspace, "first"), ("Write", {"file_path": "long.txt", "content": LINES}))
    agent = Agent("claude", site.workspace, "second")
    refused = site.denied(agent, agent.writes("b.txt", "world\n"))
    assert "The reviewer has 30 lines to read; stop here, or wait." in refused
    (payload,) = agent.responds(agent.writes("b.txt", "world\n"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(site.run_program, payload, "claude", "--wait", "120")
        assert [one["id"] for one in site.proposals()] == ["P1"] and not waiting.done()
        site.run("deny", "P1")
        while len(site.proposals("--all")) < 2:
            assert not waiting.done()
        site.run("approve", "P2")
        assert "P2 is approved" in reason(agent, waiting.result(60).stdout)
    (site.home / "config/config.toml").write_text("[reading]\nunseen_lines = 'many'\n")
    (payload,) = Agent("claude", site.workspace, "third").responds(agent.writes("c.txt", "world\n"))
    done = site.run("hook", "claude", stdin=json.dumps(payload))
    assert done.returncode == 2 and "write a whole number above 0" in done.stderr


def test_a_decision_during_a_turn_is_reported_with_the_next_call(site: Site) -> None:
    agent = Agent("codex", site.workspace)
    site.denied(agent, agent.edits("notes.txt", "line 03", "three"))
    site.run("approve", "P1")
    assert site.denied(agent, agent.reads("notes.txt")).startswith("P1 is approved and written to disk")
    (payload,) = agent.responds(agent.reads("notes.txt"))
    assert site.hook(agent, payload) == ""


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("waits", [False, True], ids=["after the decision", "waiting for it"])
def test_only_one_of_several_concurrent_calls_gets_the_feedback(name: str, waits: bool, site: Site) -> None:
    agent = Agent(name, site.workspace)
    if waits:
        calls = agent.responds(*(agent.writes(f"{number}.txt", "world\n") for number in range(3)))
    else:
        site.denied(agent, agent.edits("notes.txt", "line 03", "three"))
        site.run("deny", "P1", "-m", WORDS)
        calls = agent.responds(*(agent.reads("notes.txt") for _ in range(3)))
    with ThreadPoolExecutor(len(calls)) as pool:
        answers = [pool.submit(site.run_program, payload, name, "--wait", "120") for payload in calls]
        if waits:
            while [len(each["files"]) for each in site.proposals()] != [3]:
                assert not any(answer.done() for answer in answers)
            site.run("deny", "P1", "-m", WORDS)
        outputs = [answer.result(60).stdout for answer in answers]
    # A call that came after the report is answered by itself.
    words = [reason(agent, output) for output in outputs if output]
    assert sum(WORDS in each for each in words) == 1, words
    assert sum("on P1, and the answer to another of the calls" in each for each in words) == len(words) - 1, words
    assert site.hook(agent, agent.asks("well?")) == "", "that was told already"


def test_feedback_is_not_lost_if_the_hook_ends_before_the_agent_has_it(site: Site) -> None:
    agent = Agent("claude", site.workspace)
    site.denied(agent, agent.edits("notes.txt", "line 03", "three"))
    site.run("deny", "P1", "-m", WORDS)
    first, second = agent.responds(agent.reads("notes.txt"), agent.reads("notes.txt"))
    with Path("/dev/full").open("w") as full:
        done = site.start_program(first, "claude", stdout=full)
        assert done.wait() == 2
    unread, written = os.pipe()
    os.set_blocking(written, False)
    with suppress(BlockingIOError):
        while os.write(written, b"x" * 4096):
            pass
    os.set_blocking(written, True)
    stuck = site.start_program(first, "claude", stdout=written)
    while not any(map(is_session_open, site.home.glob("state/locks/agent-*"))):
        assert stuck.poll() is None
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(site.run_program, second, "claude")
        stuck.kill()
        stuck.wait()
        assert WORDS in reason(agent, answer.result(60).stdout)
    os.close(unread)
    os.close(written)
    assert site.hook(agent, agent.asks("well?")) == "", "that was told already"


def test_edits_of_two_agents_on_one_file_stack(site: Site) -> None:
    claude, codex = Agent("claude", site.workspace), Agent("codex", site.workspace)
    site.denied(claude, claude.edits("notes.txt", "line 03", "three"))
    site.denied(codex, codex.edits("notes.txt", "line 20", "twenty"))
    first, second = site.proposals()
    assert second["files"][0]["stacked_on"] == [first["id"]]
    assert [each["id"] for each in site.proposals("--origin", "codex")] == ["P2"]
    site.run("deny", "P1")
    assert site.run("approve", "P2", "--force").returncode == 0
    assert (site.workspace / "notes.txt").read_text() == LINES.replace("line 20\n", "twenty\n")


@pytest.mark.parametrize("name", AGENTS)
def test_a_stale_edit_is_reported_once_with_the_next_prompt(name: str, site: Site) -> None:
    agent, before = Agent(name, site.workspace), site.workspace / "notes.txt"
    site.denied(agent, agent.edits("notes.txt", "line 03", "three"))
    before.write_text(LINES.replace("line 03\n", "drei\n"))
    assert [each["state"] for each in site.proposals()] == ["stale"]
    assert site.denied(agent, agent.reads("notes.txt")).startswith("Refused"), "only the user opens the gate"
    told = context(site.hook(agent, agent.asks("well?")))
    assert "P1 is stale and can't be approved" in told and "propose the change anew" in told
    assert "decision" not in told and "edits are on disk" not in told
    assert site.hook(agent, agent.asks("and now?")) == ""


def test_another_session_that_repeats_an_edit_is_told_of_the_proposal_that_waits(site: Site) -> None:
    first, second = Agent("claude", site.workspace), Agent("gemini", site.workspace, "another")
    for staged in (False, True):
        site.denied(first, first.writes("b.txt", "world\n"))
        assert not staged or site.proposals()
        words = site.denied(second, second.writes("b.txt", "world\n"))
        assert words.startswith("Nothing was staged and nothing was written: P1 makes this edit already")
    assert [proposal["id"] for proposal in site.proposals("--all")] == ["P1"]
    assert site.run("deny", "P1").returncode == 0
    assert site.denied(second, second.writes("b.txt", "world\n")).startswith("P2 is staged")


def test_an_edit_that_a_patch_makes_already_gets_no_id_until_the_patch_is_denied(site: Site) -> None:
    agent = Agent("claude", site.workspace)
    patch = "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+world\n"
    assert site.run("stage", "-", stdin=patch + patch.replace("b.txt", "c.txt")).returncode == 0
    words = site.denied(agent, agent.writes("b.txt", "world\n"))
    assert words.startswith("Nothing was staged and nothing was written: P1 makes this edit already")
    assert site.run("deny", "P1").returncode == 0
    assert site.denied(agent, agent.writes("b.txt", "world\n")).startswith("P2 is staged")
    assert [proposal["id"] for proposal in site.proposals()] == ["P2"]


def test_an_edit_that_does_not_apply_is_denied_with_the_reason(site: Site) -> None:
    agent = Agent("claude", site.workspace)
    assert "old_string is not in" in site.denied(agent, agent.edits("notes.txt", "line 99", "x"))
    assert "10 times" in site.denied(agent, agent.edits("notes.txt", "line 2", "x"))
    assert "have this text already" in site.denied(agent, agent.edits("notes.txt", "line 03\n", "line 03\n"))
    assert site.denied(agent, agent.edits("notes.txt", "line 03\n", "three\n")).startswith("P1 is staged")


@pytest.mark.parametrize("name", AGENTS)
def test_an_edit_outside_the_workspace_is_denied(name: str, site: Site) -> None:
    (site.workspace / "link").symlink_to(site.workspace.parent)
    agent = Agent(name, site.workspace)
    for path in ("../outside.txt", ".git/hooks/pre-commit", "link/x.txt"):
        assert "Nothing was staged and nothing was written" in site.denied(agent, agent.writes(path, "x\n"))
    assert site.proposals() == []


@pytest.mark.parametrize("name", AGENTS)
def test_commands_are_allowed_denied_or_asked_by_option_except_decisions(name: str, site: Site) -> None:
    agent = Agent(name, site.workspace)
    shell = "run_shell_command" if name == "gemini" else "Bash"
    commands = ("rm -r .", "cd . && signoff approve P1", "signoff proposals")
    remove, approve, listing = agent.responds(*((shell, {"command": command}) for command in commands))
    assert site.hook(agent, remove) == ""
    assert "does not let this agent run commands" in reason(agent, site.hook(agent, remove, "--commands", "deny"))
    asked = site.hook(agent, remove, "--commands", "ask")
    if name == "claude":
        assert json.loads(asked)["hookSpecificOutput"]["permissionDecision"] == "ask"
    else:
        assert reason(agent, asked), "it can't ask"
    assert "it decides in signoff" in reason(agent, site.hook(agent, approve))
    assert site.hook(agent, approve, "--decisions", "allow") == "", "its own rules decide"
    assert site.hook(agent, listing) == ""


@pytest.mark.parametrize("command", ["apply_patch", "applypatch"])
def test_codex_is_told_to_use_its_patch_tool_and_gets_reason_and_exit_code(command: str, site: Site) -> None:
    agent = Agent("codex", site.workspace)
    patch = f"{command} <<'EOF'\n*** Begin Patch\n*** Add File: b.txt\n+x\n*** End Patch\nEOF"
    assert "call apply_patch as a tool" in site.denied(agent, ("Bash", {"command": patch}))
    (payload,) = agent.responds(agent.writes("b.txt", "world\n"))
    done = site.run("hook", "codex", stdin=json.dumps(payload))
    assert done.returncode == 2 and done.stderr == f"{reason(agent, done.stdout)}\n"


@pytest.mark.parametrize("name", AGENTS)
def test_calls_without_a_response_id_are_separate_proposals(name: str, site: Site) -> None:
    agent = Agent(name, site.workspace)
    calls = agent.responds(agent.writes("a.txt", "one\n"), agent.writes("b.txt", "two\n"))
    # Gemini's prompts have a name in its transcript alone, and a pipe must not block.
    prompt = {"prompt_id": agent.prompt} if name == "gemini" else {}
    os.mkfifo(pipe := site.workspace.parent / "pipe")
    paths = ({**prompt, "transcript_path": path} for path in (str(pipe), ""))
    words = [reason(agent, site.hook(agent, call | path)) for call, path in zip(calls, paths, strict=True)]
    assert words[0].startswith("P1 is staged") and words[1].startswith("Refused")
    assert [file["path"] for file in site.proposals()[0]["files"]] == ["a.txt"]


def test_a_new_prompt_without_an_id_opens_the_gate(site: Site) -> None:
    agent = Agent("claude", site.workspace)

    def unnamed(payload: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in payload.items() if key != "prompt_id"}

    (edit,) = agent.responds(agent.edits("notes.txt", "line 03", "three"))
    assert "P1 is staged" in reason(agent, site.hook(agent, unnamed(edit)))
    agent.hears(edit, "denied")
    (read,) = agent.responds(agent.reads("notes.txt"))
    assert reason(agent, site.hook(agent, unnamed(read))).startswith("Refused")
    agent.hears(read, "refused")
    assert site.hook(agent, unnamed(agent.asks("and now?"))) == ""
    (read,) = agent.responds(agent.reads("notes.txt"))
    assert site.hook(agent, unnamed(read)) == ""


def test_edit_arguments_of_the_wrong_type_stage_nothing(site: Site) -> None:
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("claude", "Write", {"file_path": None, "content": "x"}),
        ("claude", "Write", {"file_path": ["notes.txt"], "content": "x"}),
        ("claude", "Write", {"file_path": "notes.txt", "content": None}),
        ("claude", "Edit", {"file_path": "notes.txt", "old_string": "line 03", "new_string": 3}),
        ("claude", "MultiEdit", {"file_path": "notes.txt", "edits": "line 03"}),
        ("gemini", "write_file", {"file_path": "notes.txt", "content": {"a": 1}}),
        ("gemini", "replace", {"file_path": "notes.txt", "old_string": "line 03", "new_string": ["three"]}),
        ("codex", "apply_patch", {"command": {"a": 1}}),
    ]
    for name, tool, arguments in calls:
        told = site.denied(Agent(name, site.workspace), (tool, arguments))
        assert "Nothing was staged" in told
        assert "has to be a" in told or tool == "apply_patch"
    assert site.proposals("--all") == []


def test_half_of_a_surrogate_pair_is_written_as_agents_write_it(site: Site) -> None:
    agent = Agent("claude", site.workspace)
    assert site.denied(agent, agent.writes("\ud83d.txt", "a\udc00\U0001f600\n")).startswith("P1 is staged")
    assert site.run("approve", "P1").returncode == 0
    assert (site.workspace / "\ufffd.txt").read_text() == "a\ufffd\U0001f600\n"


@pytest.mark.parametrize("name", AGENTS)
def test_calls_that_cannot_be_read_or_stored_are_denied(name: str, site: Site) -> None:
    for stdin in ("", "{", "[]", '{"hook_event_name": "PreToolUse"}', '{"hook_event_name": "SessionEnd"}'):
        done = site.run("hook", name, stdin=stdin)
        assert done.returncode == 2, stdin
        assert done.stderr.startswith("Denied, and nothing was written:")
    agent = Agent(name, site.workspace)
    (payload,) = agent.responds(agent.edits("notes.txt", "line 03", "three"))
    for folder in ("", ".", "workspace", 7):
        done = site.run("hook", name, stdin=json.dumps({**payload, "cwd": folder}))
        assert done.returncode == 2 and "where the agent works" in done.stderr
    for words in (("vim",), (name, "--wait", "long")):
        assert site.run("hook", *words, stdin="{}").returncode == 2
    asked = site.run("hook", "--help")
    assert asked.returncode == 0 and "--commands" in asked.stdout
    site.home.write_text("in the way")
    done = site.run("hook", name, stdin=json.dumps(payload))
    assert done.returncode == 2 and "SIGNOFF_HOME" in done.stderr
    for payload in (agent.asks("well?"), agent.ends_turn("Done.")):
        done = site.run("hook", name, stdin=json.dumps(payload))
        assert (done.returncode, done.stdout) == (0, ""), "the user's words are not taken away, the agent ends"


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "<&- >&- 2>&-", ">/dev/full", "--help >/dev/full"])
def test_an_agent_that_reads_no_output_is_denied_by_exit_code(streams: str, site: Site) -> None:
    agent = Agent("claude", site.workspace)
    (payload,) = agent.responds(agent.edits("notes.txt", "line 03", "three"))
    line = f"{shlex.join(signoff_command('hook', 'claude'))} {streams}"
    stdin = json.dumps(payload).encode() if streams == ">/dev/full" else b"{}"
    done = subprocess.run(["sh", "-c", line], env=site.environment, input=stdin, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    if streams == ">/dev/full":
        reason = b"the answer can't be written: No space left on device."
        assert done.stderr == b"Denied, and nothing was written: " + reason + b"\n"


def test_the_hook_without_the_launcher_denies_by_exit_code(site: Site) -> None:
    calls = "from app.doors.hook.hook_entry import run_hook; from tests.commands.agent_calls import Caller"
    program = f"import sys; {calls}; sys.exit(run_hook(['claude'], Caller()))"
    line = f"{shlex.join([sys.executable, '-c', program])} 2>/dev/full"
    done = subprocess.run(["sh", "-c", line], input="{}", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_locked_store_denies_in_time_and_stays_consistent(site: Site) -> None:
    agent, before = Agent("claude", site.workspace), site.tree()
    assert site.proposals() == []
    (payload,) = agent.responds(agent.writes("b.txt", "world\n"))
    (database,) = site.home.rglob("*.db")
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = site.run("hook", "claude", "--limit", "1", stdin=json.dumps(payload))
        assert (done.returncode, done.stdout) == (2, "")
        assert "no answer within 1 s." in done.stderr
        prompt = site.run("hook", "claude", "--limit", "1", stdin=json.dumps(agent.asks("well?")))
        assert prompt.returncode == 0, "the user's words are not taken away"
    assert site.tree() == before and site.proposals() == []
    assert site.denied(agent, agent.writes("b.txt", "world\n"), "--wait", "1").startswith("P1 is staged")


def test_an_oversized_call_is_denied_unread_but_not_a_prompt(site: Site) -> None:
    agent = Agent("claude", site.workspace)
    (payload,) = agent.responds(agent.writes("b.txt", "x" * MAX_CALL_BYTES * 3))
    command, pipe = signoff_command("hook", "claude"), subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=site.environment) as process:
        assert process.stdin and process.stdout and process.stderr
        # To whoever writes to a program that has ended this is an error, which may count as one of the hook.
        process.stdin.write(json.dumps(payload).encode())
        process.stdin.close()
        assert process.stdout.read() == b""
        assert b"It is larger than 16 MiB, and was not read" in process.stderr.read()
    assert process.returncode == 2
    assert site.proposals() == []
    done = site.run("hook", "claude", stdin=json.dumps(agent.asks("x" * MAX_CALL_BYTES)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_waiting_time_counts_from_the_start_of_the_process(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, late = Agent("claude", site.workspace), Caller(time.monotonic() - 3_601)
    (payload,) = agent.responds(agent.writes("b.txt", "world\n"))
    monkeypatch.setenv("SIGNOFF_HOME", str(site.home))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(payload).encode())))
    assert run_hook(["claude", "--wait", "3600"], late) == 0
    assert reason(agent, late.answers[0].decode()).startswith("P1 is staged")


def test_concurrent_calls_of_one_response_make_one_complete_proposal(site: Site) -> None:
    agent = Agent("claude", site.workspace)
    calls = agent.responds(*(agent.edits("notes.txt", f"line {at:02}", f"L{at}") for at in range(5, 30, 4)))
    with ThreadPoolExecutor(len(calls)) as pool:
        answers = list(pool.map(lambda payload: site.run_program(payload, "claude"), calls))
    words = [reason(agent, answer.stdout) for answer in answers if answer.returncode == 2]
    assert len(words) == len(calls) and all(each.startswith("P1 is staged") for each in words), words
    (proposal,) = site.proposals()
    assert proposal["files"][0]["added"] == len(calls)
