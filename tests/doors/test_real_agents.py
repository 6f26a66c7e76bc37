"""The hook in the real agents, with the settings that `signoff doors install` proposes.

npm install --prefix AGENTS @anthropic-ai/claude-code @openai/codex @google/gemini-cli
SIGNOFF_AGENTS=AGENTS uv run pytest -n0 tests/doors -rs
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.doors.hook.agent_trial import ScriptedCall as Call
from app.doors.hook.agent_trial import ScriptedModel, try_agent_edits
from app.doors.hook.agents import HookOptions, find_agent
from tests.doors.driving import FOLDER, PACKAGES, Driven, program

pytestmark = pytest.mark.timeout(600)
PATCH = "*** Begin Patch\n*** Add File: {}\n+world\n*** End Patch\n"
LINES = "".join(f"line {number:02}\n" for number in range(1, 31))


@pytest.fixture(params=PACKAGES)
def driven(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driven]:
    name = request.param
    if program(name) is None:
        pytest.skip(f"{name} is not installed: npm install --prefix FOLDER {PACKAGES[name]}, and {FOLDER}=FOLDER")
    with ScriptedModel() as model:
        one = Driven(name, tmp_path, model)
        one.commit({"a.txt": LINES})
        yield one


def test_without_the_hook_the_agent_writes(driven: Driven) -> None:
    printed = driven.says("change it", [driven.writes("b.txt", "world\n")])
    assert driven.changed() == ["b.txt"], printed


def test_four_tries_are_one_proposal_and_what_is_decided_reaches_the_agent(driven: Driven) -> None:
    driven.install()
    tries = [[driven.writes("b.txt", "world\n")]] * 4
    printed = driven.says("change it", *tries)
    assert driven.changed() == [], printed
    (proposal,) = driven.proposals()
    assert [file["path"] for file in proposal["files"]] == ["b.txt"]
    assert driven.model.made == (2 if find_agent(driven.agent).denial.ends_turn else 4), (
        "where that is safe the first call after it ends the turn"
    )
    if driven.agent == "droid":
        return  # `droid exec --session-id` exits here with 1 and without a word, with the hook and without it.
    name = proposal["id"]
    driven.signoff("deny", name, "-m", "Not so.\nSay it in <German>.")
    # Some agents hear of it with their first call, not with the prompt.
    printed = driven.says("well?", *([[driven.reads("a.txt")]] if find_agent(driven.agent).hears_with_call else []))
    sent = driven.sent()
    assert "Not so.\\nSay it in <German>." in sent or "Not so.\\nSay it in &lt;German&gt;." in sent, printed
    if driven.agent != "gemini":
        # Gemini drops from its history what a turn had that was stopped.
        assert f"{name} is staged in signoff and awaits" in sent
    driven.says("and now?")
    # Copilot sends what stood beside a call only once.
    times = sent.count("Not so.")
    assert driven.sent().count("Not so.") in ((0, times) if driven.agent == "copilot" else (times,)), (
        "it is told once"
    )


def test_the_calls_of_one_response_are_one_proposal_and_a_hunk_of_it_is_written_alone(driven: Driven) -> None:
    driven.install()
    calls = [
        driven.edits("a.txt", "line 03", "three"),
        driven.edits("a.txt", "line 20", "twenty"),
        driven.writes("b.txt", "world\n"),
        driven.reads("a.txt"),
    ]
    printed = driven.says("change it", calls)
    assert driven.changed() == [], printed
    (proposal,) = driven.proposals()
    assert [file["path"] for file in proposal["files"]] == ["a.txt", "b.txt"], printed
    driven.signoff("approve", proposal["id"], "--hunks", "2")
    assert driven.changed() == ["a.txt"]
    assert (driven.workspace / "a.txt").read_text() == LINES.replace("line 20\n", "twenty\n")


def test_what_the_agent_says_after_its_edit_is_the_summary(driven: Driven) -> None:
    if not find_agent(driven.agent).after_turn:
        pytest.skip("it does not call the hook at the end of a turn")
    driven.install()
    printed = driven.says("change it", [driven.writes("b.txt", "world\n"), driven.reads("a.txt")])
    (proposal,) = driven.proposals()
    assert proposal["summary"] == "Done.", printed


def test_a_new_prompt_is_a_new_turn(driven: Driven) -> None:
    driven.install()
    driven.says("change it", [driven.edits("a.txt", "line 03", "three")])
    driven.says("more", [driven.reads("a.txt")], [driven.edits("a.txt", "line 20", "twenty")])
    first, second = driven.proposals()
    assert second["files"][0]["stacked_on"] == [first["id"]]


@pytest.mark.parametrize("ends", ["kill -9 $$", "kill -PIPE $$", "exit 1"])
def test_a_hook_that_is_killed_or_gone_lets_nothing_through(ends: str, driven: Driven) -> None:
    driven.install()
    away = driven.workspace.parent / "away"
    away.mkdir()
    (away / "signoff").write_text(f"#!/bin/sh\n{ends}\n")
    (away / "signoff").chmod(0o755)
    driven.put_first(away)
    printed = driven.says("change it", [driven.writes("b.txt", "world\n")])
    assert driven.changed() == [], printed
    assert driven.model.made == 1


def test_a_store_that_is_locked_lets_nothing_through(driven: Driven) -> None:
    driven.install("--limit", "5")
    driven.proposals()  # makes the store, also where the installation did not
    (database,) = (driven.workspace.parent / "signoff").rglob("*.db")
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        printed = driven.says("change it", [driven.writes("b.txt", "world\n")])
    assert driven.changed() == [], printed
    assert driven.model.made == 1 and driven.proposals() == []


def test_what_the_shell_prints_when_it_starts_lets_nothing_through(driven: Driven) -> None:
    driven.install()
    driven.start_shells_with("echo hello")
    printed = driven.says("change it", [driven.writes("b.txt", "world\n")])
    assert driven.changed() == [], printed
    assert [file["path"] for file in driven.proposals()[0]["files"]] == ["b.txt"]


def test_an_edit_above_the_size_is_not_written(driven: Driven) -> None:
    driven.install()
    # In lines of usual length: with millions of empty ones Gemini takes minutes before it calls the hook.
    printed = driven.says("change it", [driven.writes("b.txt", ("x" * 1_023 + "\n") * 17 * 1_024)])
    assert driven.changed() == [], printed
    assert driven.model.made == 1 and driven.proposals() == []


def test_the_shell_does_not_decide_in_the_place_of_the_user(driven: Driven) -> None:
    driven.install()
    driven.says("change it", [driven.writes("b.txt", "world\n")])
    name = driven.proposals()[0]["id"]
    printed = driven.says("go on", [driven.commands(f"cd . && signoff approve {name}")])
    assert driven.changed() == [], printed
    assert driven.proposals()[0]["state"] == "pending" and driven.model.made >= 2


def test_autopilot_of_copilot_goes_on_in_the_same_turn(tmp_path: Path) -> None:
    """It writes prompts by itself, and calls the hook for them as for those of the user."""
    if program("copilot") is None:
        pytest.skip("copilot is not installed")
    with ScriptedModel() as model:
        driven = Driven("copilot", tmp_path, model)
        driven.commit({"a.txt": LINES})
        driven.install()
        model.script[:] = [[driven.writes("b.txt", "1\n")], [], [driven.writes("c.txt", "2\n")]]
        printed = driven.runs("--autopilot", "--max-autopilot-continues", "2", "--allow-all-tools", "-p", "change it")
        (proposal,) = driven.proposals()
        assert [file["path"] for file in proposal["files"]] == ["b.txt"], printed
        assert model.made == 3 and driven.changed() == []


def test_codex_starts_no_shell_into_which_it_writes_a_decision(tmp_path: Path) -> None:
    """It calls no hook for `write_stdin`."""
    if program("codex") is None:
        pytest.skip(f"codex is not installed: npm install --prefix FOLDER {PACKAGES['codex']}, and {FOLDER}=FOLDER")
    with ScriptedModel() as model:
        driven = Driven("codex", tmp_path, model)
        driven.commit({"a.txt": LINES})
        driven.install()
        started = Call("exec_command", {"cmd": "bash", "tty": True, "yield_time_ms": 250})
        printed = driven.says("change it", [started], [driven.commands("bash -c 'echo ran'")])
        assert "it starts a shell that takes commands from its input" in driven.sent(), printed
        assert "running with session ID" not in driven.sent() and "ran\\n" in driven.sent()


def test_in_code_mode_each_inner_call_passes_the_hook(tmp_path: Path) -> None:
    if program("codex") is None:
        pytest.skip(f"codex is not installed: npm install --prefix FOLDER {PACKAGES['codex']}, and {FOLDER}=FOLDER")
    attempts = "".join(
        f"try {{ {call} }} catch (error) {{ text(String(error)) }}\n"
        for call in (
            *(f"await tools.apply_patch({json.dumps(PATCH.format(name))})" for name in ("b.txt", "c.txt", "d.txt")),
            'await tools.exec_command({cmd: "echo > e.txt"})',
        )
    )
    with ScriptedModel() as model:
        driven = Driven("codex", tmp_path, model, code_mode=True)
        driven.commit({"a.txt": LINES})
        driven.install()
        printed = driven.says("change it", [Call("exec", {}, attempts)])
        assert driven.changed() == [], printed
        (proposal,) = driven.proposals()
        assert [file["path"] for file in proposal["files"]] == ["b.txt"]
        assert driven.sent().count("Refused, and nothing of this call was done") == 3, printed


@pytest.mark.parametrize("agent", PACKAGES)
def test_the_door_is_tried(agent: str, tmp_path: Path) -> None:
    found = program(agent)
    if found is None:
        pytest.skip(f"{agent} is not installed: npm install --prefix FOLDER {PACKAGES[agent]}, and {FOLDER}=FOLDER")
    trials = list(try_agent_edits(find_agent(agent), found, HookOptions(wait=600)))
    assert {trial.verdict for trial in trials} == {"held"}, trials
    assert len(trials) == (2 if agent == "codex" else 1)


def test_what_was_read_before_an_edit_is_known_where_the_hook_sees_it(driven: Driven) -> None:
    driven.commit({"a.py": LINES, "b.py": LINES})
    driven.install()
    # Not only a part of a line: Codex makes a patch of it.
    printed = driven.says("change it", [driven.reads("a.py")], [driven.edits("b.py", "line 03", "three")])
    (proposal,) = driven.proposals()
    (file,) = json.loads(driven.signoff("show", proposal["id"], "--json"))["files"]
    sees = bool(find_agent(driven.agent).reads)
    assert ("Edits the file without having read it." in file["reasons"]) is sees, printed
    driven.signoff("deny", proposal["id"])
    if not sees:
        return
    printed = driven.says("again", [driven.reads("b.py")], [driven.edits("b.py", "line 03", "drei")])
    (file,) = json.loads(driven.signoff("show", "P3", "--json"))["files"]
    assert not [reason for reason in file["reasons"] if "read" in reason], printed
