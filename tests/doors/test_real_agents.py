"""The hook in real agents, with the settings that `signoff doors install` proposes.

npm install --prefix AGENTS @anthropic-ai/claude-code @openai/codex @google/gemini-cli
SIGNOFF_AGENTS=AGENTS uv run pytest -n0 tests/doors -rs
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.doors.hook.agent_trial import ScriptedModelServer, try_agent_edits
from app.doors.hook.agent_trial import ScriptedToolCall as Call
from app.doors.hook.agents import HookOptions, find_agent
from tests.doors.driving import FOLDER, PACKAGES, DrivenAgent, program

pytestmark = pytest.mark.timeout(600)
PATCH = "*** Begin Patch\n*** Add File: {}\n+world\n*** End Patch\n"
LINES = "".join(f"line {number:02}\n" for number in range(1, 31))


@pytest.fixture(params=PACKAGES)
def driven(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DrivenAgent]:
    name = request.param
    if program(name) is None:
        pytest.skip(f"{name} is not installed: npm install --prefix FOLDER {PACKAGES[name]}, and {FOLDER}=FOLDER")
    with ScriptedModelServer() as model:
        agent = DrivenAgent(name, tmp_path, model)
        agent.commit({"a.txt": LINES})
        yield agent


def test_agent_writes_without_the_hook(driven: DrivenAgent) -> None:
    printed = driven.send_prompt("change it", [driven.write_call("b.txt", "world\n")])
    assert driven.changed_paths() == ["b.txt"], printed


def test_repeated_edits_make_one_proposal_and_the_decision_reaches_the_agent(driven: DrivenAgent) -> None:
    driven.install()
    tries = [[driven.write_call("b.txt", "world\n")]] * 4
    printed = driven.send_prompt("change it", *tries)
    assert driven.changed_paths() == [], printed
    (proposal,) = driven.proposals()
    assert [file["path"] for file in proposal["files"]] == ["b.txt"]
    assert driven.model.made == (2 if find_agent(driven.agent).denial.ends_turn else 4), (
        "if it is safe, the next call ends the turn"
    )
    if driven.agent == "droid":
        return  # `droid exec --session-id` exits here with 1 and prints nothing, with and without the hook.
    name = proposal["id"]
    driven.signoff("deny", name, "-m", "Not so.\nSay it in <German>.")
    # Some agents receive the decision with their first call, not with the prompt.
    printed = driven.send_prompt(
        "well?", *([[driven.read_call("a.txt")]] if find_agent(driven.agent).hears_with_call else [])
    )
    sent = driven.last_request()
    assert "Not so.\\nSay it in <German>." in sent or "Not so.\\nSay it in &lt;German&gt;." in sent, printed
    if driven.agent != "gemini":
        # Gemini removes a stopped turn from its history.
        assert f"{name} is staged in signoff and awaits" in sent
    driven.send_prompt("and now?")
    # Copilot sends text beside a call only once.
    times = sent.count("Not so.")
    assert driven.last_request().count("Not so.") in ((0, times) if driven.agent == "copilot" else (times,)), (
        "the decision is sent once"
    )


def test_calls_of_one_response_make_one_proposal_and_one_hunk_can_be_approved(driven: DrivenAgent) -> None:
    driven.install()
    calls = [
        driven.edit_call("a.txt", "line 03", "three"),
        driven.edit_call("a.txt", "line 20", "twenty"),
        driven.write_call("b.txt", "world\n"),
        driven.read_call("a.txt"),
    ]
    printed = driven.send_prompt("change it", calls)
    assert driven.changed_paths() == [], printed
    (proposal,) = driven.proposals()
    assert [file["path"] for file in proposal["files"]] == ["a.txt", "b.txt"], printed
    driven.signoff("approve", proposal["id"], "--hunks", "2")
    assert driven.changed_paths() == ["a.txt"]
    assert (driven.workspace / "a.txt").read_text() == LINES.replace("line 20\n", "twenty\n")


def test_agent_text_after_its_edit_becomes_the_summary(driven: DrivenAgent) -> None:
    if not find_agent(driven.agent).after_turn:
        pytest.skip("it does not call the hook at the end of a turn")
    driven.install()
    printed = driven.send_prompt("change it", [driven.write_call("b.txt", "world\n"), driven.read_call("a.txt")])
    (proposal,) = driven.proposals()
    assert proposal["summary"] == "Done.", printed


def test_edit_after_a_new_prompt_is_a_new_proposal(driven: DrivenAgent) -> None:
    driven.install()
    driven.send_prompt("change it", [driven.edit_call("a.txt", "line 03", "three")])
    driven.send_prompt("more", [driven.read_call("a.txt")], [driven.edit_call("a.txt", "line 20", "twenty")])
    first, second = driven.proposals()
    assert second["files"][0]["stacked_on"] == [first["id"]]


@pytest.mark.parametrize("ends", ["kill -9 $$", "kill -PIPE $$", "exit 1"])
def test_killed_or_failing_hook_blocks_edits(ends: str, driven: DrivenAgent) -> None:
    driven.install()
    fake_folder = driven.workspace.parent / "fake_folder"
    fake_folder.mkdir()
    (fake_folder / "signoff").write_text(f"#!/bin/sh\n{ends}\n")
    (fake_folder / "signoff").chmod(0o755)
    driven.prepend_to_path(fake_folder)
    printed = driven.send_prompt("change it", [driven.write_call("b.txt", "world\n")])
    assert driven.changed_paths() == [], printed
    assert driven.model.made == 1


def test_locked_store_blocks_edits(driven: DrivenAgent) -> None:
    driven.install("--limit", "5")
    driven.proposals()  # Creates the store, if the installation did not.
    (database,) = (driven.workspace.parent / "signoff").rglob("*.db")
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        printed = driven.send_prompt("change it", [driven.write_call("b.txt", "world\n")])
    assert driven.changed_paths() == [], printed
    assert driven.model.made == 1 and driven.proposals() == []


def test_output_of_shell_startup_does_not_unblock_edits(driven: DrivenAgent) -> None:
    driven.install()
    driven.start_shells_with("echo hello")
    printed = driven.send_prompt("change it", [driven.write_call("b.txt", "world\n")])
    assert driven.changed_paths() == [], printed
    assert [file["path"] for file in driven.proposals()[0]["files"]] == ["b.txt"]


def test_edit_above_the_size_limit_is_blocked(driven: DrivenAgent) -> None:
    driven.install()
    # Lines have the usual length: with millions of empty lines, Gemini takes minutes before it calls the hook.
    printed = driven.send_prompt("change it", [driven.write_call("b.txt", ("x" * 1_023 + "\n") * 17 * 1_024)])
    assert driven.changed_paths() == [], printed
    assert driven.model.made == 1 and driven.proposals() == []


def test_agent_shell_cannot_approve_a_proposal(driven: DrivenAgent) -> None:
    driven.install()
    driven.send_prompt("change it", [driven.write_call("b.txt", "world\n")])
    name = driven.proposals()[0]["id"]
    printed = driven.send_prompt("go on", [driven.command_call(f"cd . && signoff approve {name}")])
    assert driven.changed_paths() == [], printed
    assert driven.proposals()[0]["state"] == "pending" and driven.model.made >= 2


def test_copilot_autopilot_continues_in_the_same_turn(tmp_path: Path) -> None:
    """Copilot writes prompts itself, and calls the hook for them as for the user's prompts."""
    if program("copilot") is None:
        pytest.skip("copilot is not installed")
    with ScriptedModelServer() as model:
        driven = DrivenAgent("copilot", tmp_path, model)
        driven.commit({"a.txt": LINES})
        driven.install()
        model.script[:] = [[driven.write_call("b.txt", "1\n")], [], [driven.write_call("c.txt", "2\n")]]
        printed = driven.run_agent(
            "--autopilot", "--max-autopilot-continues", "2", "--allow-all-tools", "-p", "change it"
        )
        (proposal,) = driven.proposals()
        assert [file["path"] for file in proposal["files"]] == ["b.txt"], printed
        assert model.made == 3 and driven.changed_paths() == []


def test_codex_cannot_start_an_interactive_shell(tmp_path: Path) -> None:
    """Codex calls no hook for `write_stdin`."""
    if program("codex") is None:
        pytest.skip(f"codex is not installed: npm install --prefix FOLDER {PACKAGES['codex']}, and {FOLDER}=FOLDER")
    with ScriptedModelServer() as model:
        driven = DrivenAgent("codex", tmp_path, model)
        driven.commit({"a.txt": LINES})
        driven.install()
        started = Call("exec_command", {"cmd": "bash", "tty": True, "yield_time_ms": 250})
        printed = driven.send_prompt("change it", [started], [driven.command_call("bash -c 'echo ran'")])
        assert "it starts a shell that takes commands from its input" in driven.last_request(), printed
        assert "running with session ID" not in driven.last_request() and "ran\\n" in driven.last_request()


def test_codex_code_mode_calls_the_hook_for_each_inner_call(tmp_path: Path) -> None:
    if program("codex") is None:
        pytest.skip(f"codex is not installed: npm install --prefix FOLDER {PACKAGES['codex']}, and {FOLDER}=FOLDER")
    attempts = "".join(
        f"try {{ {call} }} catch (error) {{ text(String(error)) }}\n"
        for call in (
            *(f"await tools.apply_patch({json.dumps(PATCH.format(name))})" for name in ("b.txt", "c.txt", "d.txt")),
            'await tools.exec_command({cmd: "echo > e.txt"})',
        )
    )
    with ScriptedModelServer() as model:
        driven = DrivenAgent("codex", tmp_path, model, code_mode=True)
        driven.commit({"a.txt": LINES})
        driven.install()
        printed = driven.send_prompt("change it", [Call("exec", {}, attempts)])
        assert driven.changed_paths() == [], printed
        (proposal,) = driven.proposals()
        assert [file["path"] for file in proposal["files"]] == ["b.txt"]
        assert driven.last_request().count("Refused, and nothing of this call was done") == 3, printed


@pytest.mark.parametrize("agent", PACKAGES)
def test_door_trial_holds_edits(agent: str, tmp_path: Path) -> None:
    executable = program(agent)
    if executable is None:
        pytest.skip(f"{agent} is not installed: npm install --prefix FOLDER {PACKAGES[agent]}, and {FOLDER}=FOLDER")
    trials = list(try_agent_edits(find_agent(agent), executable, HookOptions(wait=600), tmp_path))
    assert {trial.verdict for trial in trials} == {"held"}, trials
    assert len(trials) == (2 if agent == "codex" else 1)


def test_reads_before_an_edit_are_known_if_the_hook_receives_them(driven: DrivenAgent) -> None:
    driven.commit({"a.py": LINES, "b.py": LINES})
    driven.install()
    # Replace a whole line: Codex makes a patch of it.
    printed = driven.send_prompt(
        "change it", [driven.read_call("a.py")], [driven.edit_call("b.py", "line 03", "three")]
    )
    (proposal,) = driven.proposals()
    (file,) = json.loads(driven.signoff("show", proposal["id"], "--json"))["files"]
    sees_reads = bool(find_agent(driven.agent).reads)
    assert ("Edits the file without having read it." in file["reasons"]) is sees_reads, printed
    driven.signoff("deny", proposal["id"])
    if not sees_reads:
        return
    printed = driven.send_prompt("again", [driven.read_call("b.py")], [driven.edit_call("b.py", "line 03", "drei")])
    (file,) = json.loads(driven.signoff("show", "P3", "--json"))["files"]
    assert not [reason for reason in file["reasons"] if "read" in reason], printed
