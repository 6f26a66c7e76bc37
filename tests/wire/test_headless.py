"""The command line as scripts use it, within this process: what it says where, and with which exit code."""

import contextlib
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from app.cli.approve_deny_undo import deny_proposals
from app.cli.main import main
from app.copies import replace
from app.runtime import unfinished_work
from app.runtime.open_workspace import open_workspace
from tests.wire.bench import FILE, edit, of_role
from tests.wire.replies import STALL, Call, Reply, Turn, chunk, error, stream
from tests.wire.server import Request, WireServer


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "greet.py").write_text(FILE)


def told(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_wrong_usage_is_reported_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ("show", "--json"),
        ("approve", "--json"),
        ("run", "Hi", "--json", "--no-such-option"),
        ("stage", "--json", "--from"),
    ):
        assert main(words) == 2
        document, err = told(capsys)
        assert document["code"] == 2 and document["error"] and f"error: {document['error']}" in err
    assert main(("--json", "nothing", "proposals")) == 2
    assert not capsys.readouterr().out, "no command, so no document"


def test_a_request_runs_no_program_of_the_workspace(server: WireServer, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("uname", "git", "sh", "lsb_release"):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\n")
        (tmp_path / "bin" / name).chmod(0o755)
    server.say("Hello.")
    words = ("run", "Hi", "--base-url", server.base_url, "--model", "m")
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    subprocess.run([sys.executable, "-m", "app.launcher", *words], cwd=tmp_path, env=environment, check=True)
    assert len(server.requests) == 1 and not (tmp_path / "ran").exists()


def test_a_continued_answer_is_joined_or_an_error(server: WireServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an answer in two parts, standard output had the second."""
    words = ("--base-url", server.base_url, "--model", "m")
    server.script([Turn("It begins", finish="length"), Turn(" and it ends.")])
    assert main(["run", "Hi", *words]) == 0
    said = capsys.readouterr()
    assert said.out == "It begins and it ends.\nNothing staged.\n" and "signoff:" not in said.err
    server.script([Turn("It begins", finish="length"), Turn(" and goes on", finish="length")])
    assert main(["run", "Hi", *words]) == 0
    said = capsys.readouterr()
    assert said.out == "It begins and goes on\nNothing staged.\n"
    assert "signoff: The response was cut off twice." in said.err
    server.script([Turn("Reading.", calls=(Call("list_files", {}),)), Turn("Three files.")])
    assert main(["run", "Hi", "--json", *words]) == 0
    document, _ = told(capsys)
    assert (document["text"], document["error"]) == ("Three files.", None)
    server.script([stream(chunk("It begins"), STALL), Turn("Time is up.")])
    assert main(["run", "Hi", "--json", "--max-time", "2s", *words]) == 4
    document, err = told(capsys)
    assert (document["text"], document["limit"]) == ("Time is up.", "time") and "beginsTime" not in err


def test_feedback_of_a_denial_that_was_killed_is_in_the_next_request(server: WireServer, tmp_path: Path) -> None:
    words = ("--base-url", server.base_url, "--model", "m", "--quiet")
    server.script([Turn("Editing.", (Call(*edit()),)), Turn("Waiting."), Turn("I see.")])
    assert main(["run", "Hi", *words]) == 0
    with contextlib.closing(open_workspace(tmp_path)) as runtime:
        runtime.service.deny("P1", None, "Not so.")
        with runtime.database.transaction() as connection:
            connection.execute("UPDATE unrecorded SET time = time - 8")
    assert main(["run", "Go on.", "--continue", *words]) == 0
    assert of_role(server.last, "user") == ["Hi", "Not so.\n\nGo on."]


def test_ctrl_c_ends_the_wait_for_a_decision_of_another_process(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--base-url", server.base_url, "--model", "m", "--quiet")
    server.script([Turn("Editing.", (Call(*edit()),)), Turn("Waiting.")])
    assert main(["run", "Hi", *words]) == 0
    with contextlib.closing(open_workspace(tmp_path)) as runtime:
        runtime.service.deny("P1", None, "Not so.")
    looks = []

    def look(*_: Any, **more: Any) -> list[str]:
        looks.append(more)
        if len(looks) == 1:
            signal.raise_signal(signal.SIGINT)
        return []

    monkeypatch.setattr(unfinished_work, "record_unrecorded_decisions", look)
    assert main(["run", "Go on.", "--continue", *words]) == 128 + signal.SIGINT
    assert len(looks) == 1


def test_a_decision_of_another_process_during_the_run_is_shown(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def respond(request: Request) -> Turn:
        if request.closing:
            with contextlib.closing(open_workspace(tmp_path)) as runtime:
                deny_proposals(runtime, Namespace(ids=["P1"], hunks=None, message="No.", force=False, json=False))
            return Turn("Waiting for you.")
        return Turn("I see.") if request.number else Turn("Editing.", (Call(*edit()),))

    server.model(respond)
    assert main(["run", "Hi", "--base-url", server.base_url, "--model", "m"]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("I see.\nP1 is denied.\n") and said.err.endswith("\nWaiting for you.\nI see.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
@pytest.mark.parametrize(
    "words", [("sessions",), ("sessions", "--json"), ("completion", "zsh"), ("demo-server",), ("run", "Hi")]
)
def test_a_full_disk_is_reported_in_one_line(
    server: WireServer, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = ("--quiet", "--base-url", server.base_url, "--model", "m") if words[0] == "run" else ()
    for text in ("Hello.", "Hello.\n" * 20_000) if endpoint else ("",):
        server.always(Turn(text))
        with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
            patch.setattr("sys.stdout", full)
            assert main([*words, *endpoint]) == 1
        assert capsys.readouterr().err == "signoff: Standard output cannot be written: No space left on device.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
@pytest.mark.parametrize(
    ("words", "code"), [("show P9 --json", 3), ("--help", 1), ("run --help", 1), ("--version", 1)]
)
def test_unwritable_output_without_a_buffer_is_reported(
    words: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        # As with PYTHONUNBUFFERED.
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(full, write_through=True))
        assert main(words.split()) == code
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("words", "code"), [(["show", "P9", "--json"], 3), (["show", "--json"], 2)])
@pytest.mark.parametrize("name", ["closed pipe", "/dev/full"])
def test_unwritable_standard_error_changes_nothing(
    name: str, words: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "closed pipe":
        reader, writer = os.pipe()
        os.close(reader)
    elif Path(name).exists():
        writer = os.open(name, os.O_WRONLY)
    else:
        pytest.skip("needs a disk that is always full")
    with os.fdopen(writer, "w", buffering=1) as unwritable, monkeypatch.context() as patch:
        patch.setattr("sys.stderr", unwritable)
        assert main(words) == code
    assert json.loads(capsys.readouterr().out)["code"] == code


def test_a_failed_closing_request_is_reported_too(server: WireServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.turn(calls=[edit()], prompt_tokens=100, completion_tokens=10)
    server.always(error(400, "Not today"))
    assert main(["run", "Be brief", "--json", "--base-url", server.base_url, "--model", "m"]) == 0
    document, _ = told(capsys)
    assert (document["stopped"], document["proposals"]) == ("staged", ["P1"])
    assert "Not today" in document["error"]
    assert document["spent"] == {"input": 100, "cached": 0, "output": 10, "cost": None}


@pytest.mark.parametrize(
    ("call", "summary"),
    [
        (("run_command", {"command": "ls"}), "· run_command ls: not allowed: `--commands allow` lets it run\n"),
        (("read_file", {"path": ".env"}), "· read_file .env: not allowed: `signoff --session "),
    ],
    ids=["command", "secret"],
)
def test_a_permission_that_nobody_can_give_is_not_called_a_denial(
    call: tuple[str, dict[str, Any]],
    summary: str,
    server: WireServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / ".env").write_text("TOKEN=1\n")
    server.turn(calls=[call])
    server.say("As you like.")
    assert main(["run", "Look", "--base-url", server.base_url, "--model", "m"]) == 0
    said = capsys.readouterr()
    assert summary in said.err
    assert said.out == "As you like.\nNothing staged.\n"
    [result] = of_role(server.last, "tool")
    assert "nobody could be asked to allow it, so this is no decision of the user's (`" in result
    assert summary.partition("not allowed: ")[2].strip() in result
    for text in (said.err, result):
        assert "denied" not in text and "did not allow" not in text and "did not let" not in text


def test_a_headless_run_names_what_it_waits_for(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.cli.headless_run._QUIET_SECONDS", 0.1)
    slow = Turn("Hello.").reply()
    server.script([error(429, "Slow down", headers={"retry-after": "0.5"}), replace(slow, delay=0.8)])
    words = ("--base-url", server.base_url, "--model", "m")
    assert main(["run", "Hello", *words]) == 0
    told = capsys.readouterr().err
    assert "trying again in 1 s: 127.0.0.1" in told or "trying again in 0 s: 127.0.0.1" in told
    assert f"waiting for m at {server.base_url}, 0 s so far" in told
    assert told.count("Slow down") == 1


def test_a_second_ctrl_c_quits(server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt_twice(request: Request) -> Reply:
        # As long as nothing can be written the turn can't end, so that both come while it runs.
        with contextlib.closing(sqlite3.connect(tmp_path / "home/state/signoff.db")) as database:
            database.execute("BEGIN IMMEDIATE")
            for _ in range(2):
                # To this thread, which has it before the next is sent; the loop hears of it all the same.
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return stream(chunk("Well"), STALL)

    server.model(interrupt_twice)
    try:
        code = main(["run", "Hi", "--json", "--base-url", server.base_url, "--model", "m"])
    except KeyboardInterrupt:
        pytest.fail("it would end with a traceback")
    assert (code, capsys.readouterr().out) == (128 + signal.SIGINT, "")


def test_the_debug_file_has_no_texts(server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.always(Turn("An answer."))
    words = ("run", "A question", "--json", "--base-url", server.base_url, "--model", "m")
    for _ in range(2):
        assert main([*words, "--debug", str(tmp_path / "debug.jsonl")]) == 0
        told(capsys)
    text = (tmp_path / "debug.jsonl").read_text()
    kinds = [json.loads(line)["type"] for line in text.splitlines()]
    assert kinds.count("turn_started") == 2 and kinds.count("ladder_move") == 4
    assert "question" not in text and "answer." not in text
    assert main([*words, "--debug", str(tmp_path)]) == 2
    assert "--debug" in told(capsys)[0]["error"]
