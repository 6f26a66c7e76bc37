"""`signoff import`: what it prints, and what the model is sent when such a session goes on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.main import main
from tests.unit.conversation import transcripts
from tests.unit.conversation.transcripts import CLAUDE_SAID, CODEX_SAID, OPENAI_SAID, PROGRAM
from tests.wire.server import WireServer


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    monkeypatch.chdir(tmp_path / "ws")


@pytest.mark.parametrize(
    ("write", "program", "said"),
    [
        (transcripts.claude, "Claude Code", CLAUDE_SAID),
        (transcripts.codex, "Codex", CODEX_SAID),
        (transcripts.openai, "OpenAI messages", OPENAI_SAID),
    ],
)
@pytest.mark.parametrize("wire", ["", "anthropic", "responses"])
def test_an_imported_session_can_be_continued(
    write: Callable[[Path], Path],
    program: str,
    said: list[str],
    wire: str,
    tmp_path: Path,
    server: WireServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write(tmp_path / "history.jsonl")
    assert main(["import", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["program"], document["title"]) == (program, "Fix the tide tables")
    if wire:
        config = tmp_path / "home/config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "config.toml").write_text(f'wire = "{wire}"\n')
    server.say("Going on.")
    endpoint = ("--base-url", server.base_url, "--model", "m")
    assert main(["run", "Go on", "--session", document["session"], "--json", *endpoint]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "Going on."
    assert server.last.wire == (wire or "chat")
    sent = [text for role, text in server.last.said if role == "user"]
    assert "\n\n".join(sent).split("\n\n") == "\n\n".join([*said, "Go on"]).split("\n\n")
    if program != "OpenAI messages":
        assert PROGRAM not in json.dumps(server.last.body, ensure_ascii=False)
    assert "held in another program" in json.dumps(server.last.body)


def test_import_reports_repairs_and_how_to_continue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(transcripts.openai(tmp_path / "m.json"))]) == 0
    first, repaired, last = capsys.readouterr().out.splitlines()
    assert "OpenAI messages: 2 messages of yours, 2 responses, 1 tool result." in first
    assert repaired == "Repaired or left out: old or repeated system prompts (1), results without a call (1)."
    session = first.split()[1]
    assert last == f"Go on with `signoff --session {session}`."
    assert main(["sessions", "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == [session]
    assert main(["export", session]) == 0
    exported = capsys.readouterr().out
    assert "Imported from OpenAI messages" in exported and ": ok\n" in exported


def test_failed_import_leaves_no_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("{}")
    assert main(["import", str(tmp_path / "x.json"), "--json"]) == 3
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["code"] == 3 and "is no transcript that signoff reads" in document["error"]
    assert said.err.count("\n") == 1
    for path in (tmp_path / "missing.json", tmp_path):
        assert main(["import", str(path)]) == 2
        assert capsys.readouterr().err.startswith(f"signoff: Cannot read {path}: ")
    assert main(["sessions", "--json"]) == 0
    assert capsys.readouterr().out.strip() == "[]"
