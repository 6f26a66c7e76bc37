"""`signoff ask` as scripts use it: the answer, what it took, and what is wrong with a question."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.commands.test_commands import PATCH, Run
from tests.wire.replies import END, Call, chunk, error, stream
from tests.wire.server import WireServer
from tests.wire.test_side_questions import asked_aside


@pytest.fixture
def model(signoff: Run) -> "dict[str, str]":
    assert signoff("stage", "-", stdin=PATCH).returncode == 0
    return {"OPENAI_API_KEY": "key", "SIGNOFF_MODEL": "test-model"}


def test_ask_prints_the_answer_only(
    signoff: Run, model: dict[str, str], workspace: Path, tmp_path: Path, server: WireServer
) -> None:
    where = {**model, "OPENAI_BASE_URL": server.base_url}
    server.say("It is **louder**.\n\nThat is all.", prompt_tokens=700)
    done = signoff("ask", "P1", "what is it?", "--hunk", "2", **where)
    assert (done.returncode, done.stdout, done.stderr) == (0, "It is **louder**.\n\nThat is all.\n", "")
    assert asked_aside(server.last) and "+THREE" in str(server.last.body)
    server.turn("Look.", calls=[Call("read_file", {"path": "notes.txt"})])
    done = signoff("ask", "P1", "and why?", "--hunk", "2", "--json", **where)
    expected = {"proposal": "P1", "path": "notes.txt", "hunk": 2, "question": "and why?", "state": "complete"}
    assert expected.items() <= json.loads(done.stdout).items()
    assert "what is it?" in [text for role, text in server.last.said if role == "user"], "it is the same thread"
    server.script([error(500, "Oops"), error(402, "No credit"), stream(chunk(text="It is "), END)])
    done = signoff("ask", "P1", "and now?", "--hunk", "1", **where)
    assert (done.returncode, done.stdout) == (1, "") and "Ask again" in done.stderr
    done = signoff("ask", "P1", "and now?", "--hunk", "1", **where)
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.endswith("Check its plan and credit.\n")
    done = signoff("ask", "P1", "and now?", "--hunk", "1", **where)
    assert (done.returncode, done.stdout) == (0, "It is \n") and "was cut off" in done.stderr
    assert (workspace / "notes.txt").read_text() == "one\ntwo\nthree\n"
    assert [one["state"] for one in json.loads(signoff("proposals", "--json").stdout)] == ["pending"]
    database = sqlite3.connect(tmp_path / "home" / "state" / "signoff.db")
    database.execute(
        "CREATE TRIGGER eio BEFORE INSERT ON events WHEN NEW.type = 'side_answer'"
        " BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END"
    )
    database.commit()
    database.close()
    server.say("It is louder.")
    done = signoff("ask", "P1", "why?", "--hunk", "1", **where)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "signoff: The answer could not be kept.\n")


def test_an_impossible_question_is_reported_in_one_line(signoff: Run, model: dict[str, str]) -> None:
    for words, code, said in (
        (("P1", "why?"), 2, "has 2 hunks: name one with --hunk N"),
        (("P1", "why?", "--hunk", "9"), 2, "has no hunk 9"),
        (("P1", " "), 2, "nothing to ask"),
        (("P9", "why?"), 3, "P9"),
    ):
        done = signoff("ask", *words, OPENAI_BASE_URL="http://127.0.0.1:9/v1", **model)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1) and said in done.stderr
    done = signoff("ask", "P1", "why?", "--hunk", "1")
    assert done.returncode == 2 and "No model is set up" in done.stderr
