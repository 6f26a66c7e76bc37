"""What the command line says of the record and for a commit."""

import json
from pathlib import Path

import pytest

from app.cli.main import main
from app.runtime.workspace import open_runtime


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace in which P1 was approved whole and P2 in part."""
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "ws"
    root.mkdir()
    text = "".join(f"line {number}\n" for number in range(40))
    (root / "a.txt").write_text(text)
    runtime = open_runtime(root, {}, {})
    draft = runtime.service.draft("session")
    draft.write("b.txt", "b\n")
    runtime.service.approve(runtime.service.stage(draft, "new").id)
    draft = runtime.service.draft("session")
    draft.write("a.txt", text.replace("line 3\n", "three\n").replace("line 33\n", "thirty-three\n"))
    runtime.service.approve(runtime.service.stage(draft, "edit").id, ["1"])
    runtime.close()
    monkeypatch.chdir(root)
    return root


def harm(root: Path) -> None:
    runtime = open_runtime(root, {}, {})
    with runtime.database.transaction() as connection:
        connection.execute("UPDATE record SET body = CAST(replace(CAST(body AS TEXT), 'P1', 'P9') AS BLOB)")
    runtime.close()


def test_a_sound_record_says_so_and_what_has_changed_since(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "b.txt").write_text("mine\n")
    assert main(["log", "--verify"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("2 decisions, each as it was recorded.")
    assert shown[1:] == ["1 of 2 files on disk hold the bytes that were signed last.", "  b.txt has changed since P1"]


def test_a_broken_record_names_the_entry_and_exits_with_3(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harm(root)
    assert main(["log", "--verify", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert [one["number"] for one in document["broken"]] == [1]
    assert main(["log", "--verify"]) == 3
    assert "Entry 1 is not what was written" in capsys.readouterr().err


def test_trailers_are_printed_for_what_was_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trailers", "P1", "P2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Assisted-by: signoff",
        "Reviewed-in: signoff P1 (1/1 hunks)",
        "Reviewed-in: signoff P2 (1/2 hunks)",
    ]
    runtime = open_runtime(root, {}, {})
    draft = runtime.service.draft("session")
    draft.write("c.txt", "c\n")
    name = runtime.service.stage(draft, "waits").id
    runtime.close()
    assert main(["trailers", name]) == 3
    assert f"{name} has written nothing" in capsys.readouterr().err
