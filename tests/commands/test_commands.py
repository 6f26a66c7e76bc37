"""The command line as scripts use it: documents on standard output, exit codes, one line on standard error."""

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.runtime.model_connection import save_picked_model
from app.runtime.open_workspace import open_workspace
from app.sandbox import run_folders
from app.sandbox.run_folders import versions_kept_for_workspace
from app.storage.process_coordination import SessionLock
from tests.terminal.terminal import signoff_command
from tests.wire.replies import STALL, Turn, chunk, stream
from tests.wire.server import WireServer

Run = Callable[..., "subprocess.CompletedProcess[str]"]

PATCH = """--- a/notes.txt
+++ b/notes.txt
@@ -1,3 +1,3 @@
-one
+ONE
 two
-three
+THREE
"""


def document(done: "subprocess.CompletedProcess[str]") -> Any:
    """The one JSON document on standard output."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(done: "subprocess.CompletedProcess[str]", code: int) -> str:
    """The one line on standard error of a command that said no."""
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("signoff: "), done.stderr
    return done.stderr


def endpoint(server: WireServer) -> tuple[str, ...]:
    return ("--base-url", server.base_url, "--model", "m")


def run_by_a_shell(workspace: Path, home: Path, command: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
    """Run an installed command, with redirections, in a process of its own."""
    line = f"exec {shlex.join(signoff_command())} {command}"
    environment = {**os.environ, "SIGNOFF_HOME": str(home), "LC_ALL": "C.UTF-8"}
    return subprocess.run(["bash", "-c", line], cwd=workspace, env=environment, capture_output=True, **more)


def test_a_patch_is_staged_shown_and_approved(signoff: Run, workspace: Path) -> None:
    assert document(signoff("proposals", "--json")) == []
    staged = document(signoff("stage", "-", "--json", stdin=PATCH))
    assert staged["id"] == "P1" and staged["state"] == "pending"
    (file,) = staged["files"]
    assert [file[name] for name in ("path", "op", "added", "removed")] == ["notes.txt", "edit", 2, 2]
    assert file["warnings"] == file["notes"] == file["inexact"] == [] and not file["rebased"]
    assert (workspace / "notes.txt").read_text() == "one\ntwo\nthree\n"
    shown = document(signoff("show", "p1", "--json"))
    assert [hunk["number"] for hunk in shown["files"][0]["hunks"]] == [1, 2]
    assert shown["files"][0]["hunks"][0]["removed"] == ["one"]
    assert shown["order"] == ["notes.txt"] and shown["files"][0]["reasons"] == []
    diff = signoff("show", "P1").stdout
    checked = subprocess.run(
        ["git", "apply", "--check", "-"], input=diff, cwd=workspace, text=True, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert document(signoff("approve", "P1", "--json"))["state"] == "applied"
    assert (workspace / "notes.txt").read_text() == "ONE\ntwo\nTHREE\n"
    assert document(signoff("undo", "P1", "--json"))["state"] == "undone"
    assert (workspace / "notes.txt").read_text() == "one\ntwo\nthree\n"
    assert document(signoff("redo", "P1", "--json"))["state"] == "applied"
    assert [line["decision"] for line in document(signoff("log", "--json"))] == ["approved", "undone", "redone"]


def test_decisions_on_hunks_and_whole_proposals_are_undone_and_redone(signoff: Run, workspace: Path) -> None:
    signoff("stage", stdin=PATCH)
    signoff("deny", "P1", "-m", "Not so.")
    assert document(signoff("undo", "P1", "--json"))["state"] == "pending"
    assert [line["id"] for line in document(signoff("proposals", "--json"))] == ["P1"]
    assert document(signoff("redo", "P1", "--json"))["state"] == "denied"
    assert signoff("undo", "P1").stdout == "P1 reopened: notes.txt; it waits for your decision again.\n"
    assert document(signoff("approve", "P1", "--hunks", "2", "--json"))["state"] == "partly_approved"
    assert (workspace / "notes.txt").read_text() == "one\ntwo\nTHREE\n"
    assert document(signoff("approve", "P1", "--hunks", "1", "--json"))["state"] == "applied"
    assert (workspace / "notes.txt").read_text() == "ONE\ntwo\nTHREE\n"
    assert "in part" not in signoff("proposals", "--all").stdout
    decisions = [line["decision"] for line in document(signoff("log", "--json"))]
    assert decisions == ["denied", "reopened", "denied", "reopened", "partly_approved", "approved"]


@pytest.mark.parametrize(("verb", "fact"), [("approve", "all its files are written"), ("deny", "P1 is denied")])
def test_an_unrecorded_decision_is_recorded_by_the_next_command(
    signoff: Run, workspace: Path, tmp_path: Path, verb: str, fact: str
) -> None:
    signoff("stage", "-", stdin=PATCH)
    database = sqlite3.connect(tmp_path / "home" / "state" / "signoff.db")
    database.execute("CREATE TRIGGER eio BEFORE INSERT ON decisions BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END")
    database.commit()
    done = signoff(verb, "P1", "--json")
    assert done.returncode == 0
    [line] = done.stderr.splitlines()
    for part in (fact, "disk I/O error", "could not be recorded", "as soon as that works"):
        assert part in line
    assert f"signoff: {json.loads(done.stdout)['warning']}" == line
    written = (workspace / "notes.txt").read_text() == "ONE\ntwo\nTHREE\n"
    assert written == (verb == "approve")
    # Ten seconds later it counts as left over.
    database.execute("UPDATE unrecorded SET time = 0")
    database.commit()
    assert "not recorded yet" in signoff("show", "P1").stderr
    database.execute("DROP TRIGGER eio")
    database.commit()
    database.close()
    assert "could not record that at the time, and has now" in signoff("show", "P1").stderr
    assert signoff("show", "P1").stderr == ""
    assert json.loads(signoff("log", "--json").stdout)[0]["proposal"] == "P1"


def test_a_store_failure_during_an_approval_restores_every_file(
    signoff: Run, workspace: Path, tmp_path: Path
) -> None:
    signoff("stage", "-", stdin=PATCH)
    database = sqlite3.connect(tmp_path / "home" / "state" / "signoff.db")
    database.execute(
        "CREATE TRIGGER full BEFORE UPDATE ON journal WHEN NEW.state = 'done' BEGIN"
        " SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    database.commit()
    line = refused(signoff("approve", "P1"), 3)
    assert "The approval of P1 failed, every file is as it was" in line
    assert "disk is full" in line
    assert [path.name for path in workspace.iterdir()] == ["notes.txt"]
    assert (workspace / "notes.txt").read_text() == "one\ntwo\nthree\n"
    database.execute("DROP TRIGGER full")
    database.commit()
    database.close()
    assert signoff("approve", "P1").returncode == 0
    assert (workspace / "notes.txt").read_text() == "ONE\ntwo\nTHREE\n"


@pytest.mark.parametrize("first", ["approve", "deny"])
def test_a_partly_denied_proposal_is_listed_as_applied_in_part(signoff: Run, workspace: Path, first: str) -> None:
    signoff("stage", stdin=PATCH)
    if first == "deny":
        assert document(signoff("deny", "P1", "--hunks", "1", "--json"))["state"] == "pending"
        assert "in part" not in signoff("export", "P1", "--review").stdout + signoff("proposals", "--all").stdout
        assert document(signoff("approve", "P1", "--json"))["state"] == "applied"
    else:
        signoff("approve", "P1", "--hunks", "2")
        assert document(signoff("deny", "P1", "--json"))["state"] == "applied"
    assert "P1  applied in part" in signoff("proposals", "--all").stdout
    assert "State: Applied in part" in signoff("export", "P1", "--review").stdout
    assert (workspace / "notes.txt").read_text() == "one\ntwo\nTHREE\n"


def test_a_stale_proposal_shows_its_conflict_before_the_patch(signoff: Run, workspace: Path) -> None:
    signoff("stage", stdin=PATCH)
    (workspace / "notes.txt").write_text("uno\ntwo\nthree\n")
    shown = signoff("show", "P1").stdout
    assert shown.startswith(
        "# P1 is stale: notes.txt changed at line 1, where the proposal changes it too\n"
        "# notes.txt, line 1:\n"
        "# <<<<<<< on disk now\n# uno\n# ||||||| before\n# one\n# =======\n# ONE\n# >>>>>>> proposed\n"
        "diff --git "
    )
    (file,) = document(signoff("show", "P1", "--json"))["files"]
    assert file["conflicts"] == [{"line": 1, "base": ["one"], "disk": ["uno"], "proposed": ["ONE"]}]
    (workspace / "notes.txt").write_text("one\ntwo\nthree\n")
    assert signoff("show", "P1").stdout.startswith("diff --git ")
    assert document(signoff("show", "P1", "--json"))["files"][0]["conflicts"] == []


def test_content_changed_in_the_store_is_never_written(signoff: Run, workspace: Path, tmp_path: Path) -> None:
    signoff("stage", stdin=PATCH)
    with sqlite3.connect(tmp_path / "home/state/signoff.db") as connection:
        connection.execute("UPDATE blobs SET data = CAST('evil' || data AS BLOB)")
    connection.close()
    assert "damaged" in refused(signoff("show", "P1"), 3)
    assert "damaged" in refused(signoff("approve", "P1"), 3)
    assert (workspace / "notes.txt").read_text() == "one\ntwo\nthree\n"
    assert [line["id"] for line in document(signoff("proposals", "--json"))] == ["P1"]
    assert document(signoff("deny", "P1", "--json"))["state"] == "denied"
    staged = document(signoff("stage", "-", "--json", stdin=PATCH))
    assert "+ONE" in signoff("show", staged["id"]).stdout, "the same content, staged anew, puts it right"


def test_odd_file_names_are_flagged_and_escape_characters_shown(signoff: Run) -> None:
    staged = signoff("stage", stdin="--- /dev/null\n+++ b/NUL.txt\n@@ -0,0 +1 @@\n+\x1b]0;evil\x07\n")
    assert staged.returncode == 0
    assert "'NUL.txt' is a device" in staged.stderr
    [file] = document(signoff("show", "P1", "--json"))["files"]
    assert "'NUL.txt' is a device" in "".join(file["warnings"])
    listed = signoff("show", "P1", "--hunks").stdout
    assert "\x1b" not in listed and "␛]0;evil␇" in listed
    assert "+\x1b]0;evil\x07\n" in signoff("show", "P1").stdout, "a patch is exact"
    told = signoff("show", "P9\x1b[2J")
    assert told.returncode and "\x1b" not in told.stderr and "P9␛[2J" in told.stderr


def test_a_hunk_that_changes_only_the_last_newline_shows_it(signoff: Run) -> None:
    diff = "--- a/notes.txt\n+++ b/notes.txt\n@@ -3 +3 @@\n-three\n+three\n\\ No newline at end of file\n"
    signoff("stage", stdin=diff)
    listed = signoff("show", "P1", "--hunks").stdout.splitlines()
    assert listed[3:] == ["-three", "+three", "\\ No newline at the end"]


def test_listed_hunk_numbers_fit_approve_and_others_are_wrong_usage(signoff: Run) -> None:
    signoff("stage", stdin=PATCH)
    listed = signoff("show", "P1", "--hunks").stdout.splitlines()
    assert listed[0] == "notes.txt (edit, +2 -2)"
    assert listed[1:4] == ["hunk 1, pending: @@ -1,1 +1,1 @@", "-one", "+ONE"]
    assert listed[4] == "hunk 2, pending: @@ -3,1 +3,1 @@"
    assert "signoff show P1 --hunks" in refused(signoff("approve", "P1", "--hunks", "7"), 2)
    for hunks in ("3", "0", "x", "1,", "2-1", "1-9", "", "9" * 5_000, f"1-{'9' * 5_000}", "0" * 4_999 + "9"):
        assert len(refused(signoff("approve", "P1", "--hunks", hunks), 2)) < 200
    signoff("approve", "P1", "--hunks", "2")
    assert signoff("show", "P1", "--hunks").stdout.splitlines()[-1] == "hunk 2, applied"


def test_an_impossible_decision_exits_with_3(signoff: Run, workspace: Path) -> None:
    assert "P9" in refused(signoff("approve", "P9"), 3)
    signoff("stage", stdin=PATCH)
    (workspace / "notes.txt").write_text("uno\ndos\ntres\n")
    refused(signoff("approve", "P1"), 3)
    assert (workspace / "notes.txt").read_text() == "uno\ndos\ntres\n"
    assert document(signoff("proposals", "--json"))[0]["state"] == "stale"
    assert document(signoff("deny", "P1", "--json"))["state"] == "denied"
    refused(signoff("approve", "P1"), 3)
    refused(signoff("redo", "P1"), 3)


def test_a_patch_that_does_not_apply_exits_with_3(signoff: Run) -> None:
    for patch in (
        "nothing of the kind",
        PATCH.replace("notes.txt", "../outside.txt"),
        PATCH.replace("notes.txt", ".git/hooks/pre-commit"),
        PATCH.replace("-one", "-eins"),
    ):
        assert refused(signoff("stage", "-", stdin=patch), 3).startswith("signoff: The patch was not staged: "), patch
    assert document(signoff("proposals", "--all", "--json")) == []


def test_invalid_configurations_are_named(signoff: Run, workspace: Path, tmp_path: Path) -> None:
    assert "$SIGNOFF_GATE: gate: " in refused(signoff("proposals", SIGNOFF_GATE="open"), 2)
    (workspace / ".signoff.toml").write_text("modle = 'x'\n")
    assert "modle" in refused(signoff("proposals"), 2)
    (workspace / ".signoff.toml").unlink()
    wrong, right = tmp_path / "home/config.toml", tmp_path / "home/config/config.toml"
    right.parent.mkdir(parents=True, exist_ok=True)
    wrong.write_text('model = "mine"\n')
    done = signoff("proposals")
    assert done.returncode == 2
    assert str(wrong) in done.stderr and str(right) in done.stderr
    wrong.rename(right)
    assert signoff("proposals").returncode == 0


def test_the_workspace_cannot_redirect_the_key(signoff: Run, workspace: Path, server: WireServer) -> None:
    with WireServer() as trap:
        server.say("Hello.")
        (workspace / ".signoff.toml").write_text(f'base_url = "{trap.base_url}"\napi_key = "x"\n')
        keys = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": server.base_url}
        done = signoff("run", "hello", "--json", "--model", "m", **keys)
        assert document(done)["text"] == "Hello."
        assert trap.requests == [] and trap.visits == []
        assert "sk-secret" not in done.stdout + done.stderr


@pytest.mark.parametrize("path", ["/v1", "/anthropic"])
def test_anthropics_key_is_sent_only_to_its_host_and_the_doctor_names_the_key(
    signoff: Run, server: WireServer, path: str
) -> None:
    server.always(Turn("ok"))
    address = ("--base-url", f"{server.url}{path}", "--model", "claude")
    one = signoff("doctor", "--json", *address, ANTHROPIC_API_KEY="sk-ant-secret")
    both = signoff("doctor", "--json", *address, ANTHROPIC_API_KEY="sk-ant-secret", OPENAI_API_KEY="sk-secret")
    sent = [*server.requests, *server.visits]
    assert server.requests and not any("sk-ant-secret" in str(request.headers) for request in sent)
    assert not any("secret" in done.stdout + done.stderr for done in (one, both))
    said = [{line["name"]: line["detail"] for line in json.loads(done.stdout)["checks"]} for done in (one, both)]
    assert [checks["key"] for checks in said] == ["none needed", "accepted: the one in $OPENAI_API_KEY"]


def test_a_turn_without_a_terminal_stages_and_prints(signoff: Run, workspace: Path, server: WireServer) -> None:
    calls = [
        ("read_file", {"path": "no\x1b[31m.txt"}),
        ("edit_file", {"path": "notes.txt", "edits": [{"old": "two\n", "new": "TWO\n"}]}),
    ]
    server.turn(text="I will edit.", calls=[("read_file", {"path": "notes.txt"}), *calls])
    server.say("Have a look.")
    done = signoff("run", "-", "--json", *endpoint(server), stdin="\ufeffshout two")
    turn = document(done)
    assert (turn["stopped"], turn["proposals"], turn["text"]) == ("staged", ["P1"], "Have a look.")
    assert "I will edit." in done.stderr
    assert "· read_file notes.txt: 3 lines" in done.stderr and "\x1b" not in done.stderr
    assert (workspace / "notes.txt").read_text() == "one\ntwo\nthree\n"
    assert server.last.messages[1]["content"] == "shout two"
    for words in (("run", "-"), ("deny", "P1", "-m", "-")):
        assert "not UTF-8 text" in refused(signoff(*words, stdin="caf\udce9"), 2)
    signoff("deny", "P1", "-m", "Not so\nloud.")
    server.say("All right.")
    again = document(signoff("run", "go on", "--continue", "--json", *endpoint(server)))
    assert again["session"] == turn["session"] and again["stopped"] == "answer"
    said = [message["content"] for message in server.last.messages if message["role"] == "user"]
    assert sum("Not so\nloud." in text for text in said) == 1
    record = signoff("export", turn["session"]).stdout
    for expected in ("shout two", "Have a look.", "+TWO", "Not so", "denied"):
        assert expected in record
    exported = document(signoff("export", "latest", "--format", "json"))
    assert exported[0]["type"] == "turn_started"
    decided = [one for one in exported if one["type"] == "ladder_move"]
    assert decided[0]["rung"] == "last response" and decided[0]["audience"] == "nobody"
    assert [line["id"] for line in document(signoff("sessions", "--json"))] == [turn["session"]]
    found = document(signoff("search", "not", "so", "loud", "--json"))
    assert [(line["session"], line["kind"], line["text"]) for line in found] == [
        (turn["session"], "decision", "Not so\nloud.")
    ]
    assert "Not so loud." in signoff("search", "loud").stdout
    assert signoff("search", "elsewhere").stdout == "Nowhere.\n"


def test_a_question_of_the_model_is_in_the_json_output(signoff: Run, server: WireServer, tmp_path: Path) -> None:
    server.call("ask_user", {"question": "Which?", "options": ["a", "b"]})
    turn = document(signoff("run", "do it", "--json", *endpoint(server)))
    assert (turn["stopped"], turn["question"], turn["options"]) == ("question", "Which?", ["a", "b"])
    answer = ("run", "b", "--session", turn["session"], "--json", *endpoint(server))
    lock = SessionLock(tmp_path / "home" / "state" / "locks" / f"session-{turn['session']}.lock")
    assert lock.acquire()
    try:
        done = signoff(*answer)
        assert done.returncode == 3 and "open in another window" in done.stderr
    finally:
        lock.release()
    server.say("b it is.")
    document(signoff(*answer))
    assert server.last.messages[-1] == {**server.last.messages[-1], "role": "tool", "content": "b"}


def test_a_failed_request_exits_with_1_and_one_line(signoff: Run, server: WireServer) -> None:
    done = signoff("run", "hello", "--quiet", "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "127.0.0.1:9" in done.stderr
    server.require_key("another")
    done = signoff("run", "hello", "--json", *endpoint(server), OPENAI_API_KEY="sk-wrong")
    assert done.returncode == 1
    turn = json.loads(done.stdout)
    assert turn["stopped"] == "failed" and "key" in turn["error"].lower()
    assert "sk-wrong" not in done.stdout + done.stderr


def test_a_command_of_the_model_runs_headless_only_with_permission(
    signoff: Run, workspace: Path, server: WireServer
) -> None:
    server.call("run_command", {"command": "touch ran"})
    server.say("It was not allowed.")
    assert document(signoff("run", "run it", "--json", *endpoint(server)))["stopped"] == "answer"
    assert not (workspace / "ran").exists()
    assert not any("The user says" in str(message["content"]) for message in server.last.messages)
    server.call("run_command", {"command": "echo made > made.txt; echo said"})
    server.say("It is done.")
    turn = document(signoff("run", "it", "--json", *endpoint(server), "--commands", "allow", "--in-place"))
    assert turn["stopped"] == "staged" and len(turn["proposals"]) == 1
    assert "said" in str(server.last.messages)
    assert not (workspace / "made.txt").exists()
    assert "+made" in signoff("show", turn["proposals"][0]).stdout
    assert signoff("approve", turn["proposals"][0]).returncode == 0
    assert (workspace / "made.txt").read_text() == "made\n"


@pytest.mark.layer
def test_held_ignored_files_are_not_written_without_a_screen(
    signoff: Run, workspace: Path, tmp_path: Path, server: WireServer
) -> None:
    (workspace / ".gitignore").write_text("build/\n")
    (tmp_path / "home/config").mkdir(parents=True)
    (tmp_path / "home/config/config.toml").write_text('ignored = "hold"\n')
    server.call("run_command", {"command": "mkdir build; echo 1 > build/a"})
    server.say("It is done.")
    done = signoff("run", "run it", "--json", *endpoint(server), "--commands", "allow")
    assert "[thrown away, ignored by git: build/, 1 file]" in str(server.last.messages)
    turn = document(done)
    assert (done.returncode, turn["stopped"], turn["proposals"], turn["error"]) == (0, "answer", [], None)
    assert "! not allowed without the screen: Write what git ignores? build/, 1 file\n" in done.stderr
    assert "exit 0, thrown away, ignored by git: build/, 1 file\n" in done.stderr
    assert not (workspace / "build").exists()


def test_kept_ignored_files_are_listed_by_folder_and_pruned_by_age(
    signoff: Run, workspace: Path, tmp_path: Path
) -> None:
    kept = versions_kept_for_workspace(workspace, tmp_path / "home/state/kept")
    older, newer = kept.new_folder(), kept.new_folder()
    for folder in (older, newer):
        (folder / ".env").write_text("B=2\n")
    moment = time.time() - 2 * 86_400
    os.utime(older, (moment, moment))
    listed = [line.split("  ")[1] for line in signoff("sessions").stdout.splitlines() if "  " in line]
    words = "4 bytes of ignored files that a command could not write"
    assert listed == [f"{words}: {newer}", f"{words}: {older}"]
    assert "the kept ignored files of 1 command, " in signoff("sessions", "--prune", "1").stdout
    assert not older.exists() and (newer / ".env").read_text() == "B=2\n"
    assert "the kept ignored files of 1 command, " in signoff("sessions", "--prune", "0").stdout
    assert not newer.exists()


def test_the_newest_kept_files_are_not_pruned(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folders, "MAX_KEPT_BYTES", 10)
    kept, folders = versions_kept_for_workspace(workspace, tmp_path / "kept"), []
    for age in (31, 3, 2, 1):
        folder = kept.new_folder()
        (folder / ".env").write_bytes(b"x" * 6)
        moment = time.time() - age * 86_400
        os.utime(folder, (moment, moment))
        folders.append(folder)
    assert [folder.exists() for folder in folders] == [False, False, True, True]
    newest = kept.new_folder()
    assert [path for _, _, path in kept.list_folders()] == [newest, folders[-1]]


def test_completion_offers_commands_and_options_but_no_internal_ones(signoff: Run, tmp_path: Path) -> None:
    scripts = {shell: signoff("completion", shell).stdout for shell in ("bash", "zsh", "fish")}
    for text in scripts.values():
        assert "approve" in text and "--hunks" in text.replace("-l hunks", "--hunks")
        assert "until-stdin-closes" not in text
    (tmp_path / "signoff.bash").write_text(scripts["bash"])
    (tmp_path / "my-work").mkdir()
    ask = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_signoff; echo "${COMPREPLY[@]}"'
    for words, expected in (
        ("--the", "--theme"),
        ("appr", "approve"),
        ("my-", "my-work"),
        ("approve --hu", "--hunks"),
        ("run x --image sig", "signoff.bash"),
    ):
        command = ["bash", "-c", ask, "bash", str(tmp_path / "signoff.bash"), "signoff", *words.split()]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.stdout.split() == [expected], done.stderr


def test_a_missing_folder_is_named(signoff: Run) -> None:
    for word, hint in (("aprove P1", "signoff approve"), ("no/such/folder", "--help"), ("a" * 300, "--help")):
        line = refused(signoff(*word.split()), 2)
        assert word.split()[0] in line and hint in line
    for words in ("proposals", "approve P1", "stage", "sessions", "keys", "run x"):
        assert "nowhere is not a folder" in refused(signoff(*words.split(), "--workspace", "nowhere"), 2)


def test_a_folder_whose_name_is_not_utf8_can_be_used(signoff: Run, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    (folder / "notes.txt").write_text("one\ntwo\nthree\n")
    assert document(signoff("stage", "-", "--json", "--workspace", str(folder), stdin=PATCH))["id"] == "P1"
    assert signoff("approve", "P1", "--force", "--workspace", str(folder)).returncode == 0
    assert (folder / "notes.txt").read_text() != "one\ntwo\nthree\n"


@pytest.mark.parametrize("words", ["proposals", "verify", "run hello", "--plain"])
def test_a_deleted_current_folder_is_named(workspace: Path, tmp_path: Path, words: str) -> None:
    line = f"mkdir gone; cd gone; rmdir ../gone; exec {shlex.join(signoff_command())} {words}"
    environment = {**os.environ, "SIGNOFF_HOME": str(tmp_path / "home")}
    done = subprocess.run(["bash", "-c", line], cwd=workspace, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "folder" in done.stderr and "can be opened" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_refusal_is_one_line_or_one_json_document(signoff: Run) -> None:
    signoff("stage", stdin=PATCH)
    far = "--base-url http://127.0.0.1:9/v1 --model m"
    for words, code, told in (
        ("approve P9", 3, "no proposal P9"),
        ("show P9", 3, "no proposal P9"),
        ("stage missing.diff", 2, "missing.diff"),
        ("run hello", 2, "No model is set up"),
        ("run ", 2, "There is nothing to say"),
        ("run hello --max-steps 0 --model m", 2, "--max-steps takes a number from 1 to 1000"),
        ("run hello --max-steps 1001 --model m", 2, "--max-steps takes a number from 1 to 1000"),
        (f"run x --continue {far}", 2, "no session to continue"),
        (f"run x --session 0ff {far}", 2, "no session '0ff'"),
        ("sessions --prune -1", 2, "0 or more"),
        ("doors install", 2, "Say for which agent: `signoff doors install claude`"),
        ("doors remove claude", 1, "signoff is not hooked in by .claude/settings.json here"),
        ("check P1", 2, "There is no check: add a [[check]] table"),
        ("checks suggest", 1, "No tool was found here that is not a check already"),
        ("trailers", 2, "Name proposals, or give --staged"),
        ("trailers P1 --staged", 2, "Name proposals, or give --staged"),
        ("export latest", 2, "There are no sessions here yet"),
        ("export p1", 2, "`signoff export P1 --review`"),
        ("export P2", 2, "no session 'P2'"),
        ("--theme textual-dark nowhere", 2, "nowhere"),
    ):
        line = refused(signoff(*words.split(" ")), code)
        assert told in line
        if words.startswith(("trailers", "export", "--theme")):
            continue  # These have no --json.
        done = signoff(*words.split(" "), "--json")
        assert (done.returncode, done.stderr) == (code, line)
        said = json.loads(done.stdout)
        assert said["code"] == code and f"signoff: {said['error']}\n" == line
        assert said["error"].startswith(("-", "signoff ")) or said["error"][0].isupper()
        assert said["error"].endswith((".", "?"))


ODD_PATCH = """diff --git a/notes.txt b/notes.txt
--- a/notes.txt
+++ b/notes.txt
@@ -1,3 +1,3 @@
   one
-  two
+  pаssword = 2
   three
diff --git a/run.sh b/run.sh
new file mode 100755
--- /dev/null
+++ b/run.sh
@@ -0,0 +1 @@
+echo
diff --git a/tool b/tool
old mode 100644
new mode 100755
--- a/tool
+++ b/tool
@@ -1 +1 @@
-a
+b
"""


def test_stage_names_every_change_that_an_approval_would_write(signoff: Run, workspace: Path) -> None:
    tool, helper = workspace / "tool", workspace / "helper"
    for file, mode in ((tool, 0o644), (helper, 0o4755)):
        file.write_text("a\n")
        file.chmod(mode)
    patches = [ODD_PATCH, "--- a/helper\n+++ b/helper\n@@ -1 +1 @@\n-a\n+b\n"]
    for patch in patches:
        assert signoff("stage", stdin=patch).returncode == 0
    (workspace / "notes.txt").write_text("zero\n\n\n\none\ntwo\nthree\n")
    expected = [
        ("notes.txt", "look-alike letters in pаssword (not password). A name may not be the name it looks like."),
        ("notes.txt", "Line 1 was found ignoring indentation"),
        ("notes.txt", "Re-based: this edit was written for another version of the file."),
        ("run.sh", "The new file can be executed: its mode is 755."),
        ("tool", "Mode changes from 644 to 755, which lets it be executed, with whichever hunk is approved."),
        ("helper", "The file stays setuid (mode 4755)."),
    ]
    first, second = document(signoff("proposals", "--json"))
    files = [*first["files"], *second["files"]]
    told = [(file["path"], text) for file in files for text in file["warnings"]]
    assert len(told) == len(expected)
    assert all(path == name and words in text for (path, text), (name, words) in zip(told, expected, strict=True))
    notes, run, changed = first["files"]
    assert notes["rebased"] and [match["how"] for match in notes["inexact"]] == ["indentation"]
    assert (run["old_mode"], run["mode"]) == (None, "755")
    assert (changed["old_mode"], changed["mode"]) == ("644", "755")
    detail = document(signoff("show", "P1", "--json"))["files"]
    assert [file["warnings"] for file in detail] == [file["warnings"] for file in first["files"]]
    surfaces = [
        signoff("proposals").stdout,
        signoff("show", "P1").stdout + signoff("show", "P2").stdout,
        signoff("show", "P1", "--hunks").stdout + signoff("show", "P2", "--hunks").stdout,
    ]
    for text in surfaces:
        assert all(words in text for _, words in expected), text
    for command in (["git", "apply", "--check"], ["patch", "-p1", "--dry-run"]):
        done = subprocess.run(
            command, input=signoff("show", "P1").stdout, cwd=workspace, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done
    again = signoff("show", "P2").stdout
    signoff("deny", "P2")
    assert signoff("stage", stdin=again).returncode == 0, "signoff takes its own diff"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_a_session_that_can_be_continued(
    signoff: Run, workspace: Path, tmp_path: Path, server: WireServer, number: int, code: int
) -> None:
    server.script([stream(chunk(text="Half a sen"), STALL)])
    running = subprocess.Popen(
        signoff_command("run", "begin", "--json", *endpoint(server)),
        cwd=workspace,
        env={**os.environ, "SIGNOFF_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stderr is not None
    assert running.stderr.read(10) == b"Half a sen"
    running.send_signal(number)
    out, _ = running.communicate(timeout=30)
    assert running.returncode == code
    turn = json.loads(out)
    assert (turn["stopped"], turn["text"]) == ("aborted", "Half a sen")
    server.say("And on.")
    again = document(signoff("run", "go on", "--continue", "--json", *endpoint(server)))
    assert (again["session"], again["text"]) == (turn["session"], "And on.")
    assert [one["content"] for one in server.last.messages if one["role"] == "user"] == ["begin", "go on"]


def test_a_closed_pipe_shows_in_the_exit_code_only(workspace: Path, tmp_path: Path, server: WireServer) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    for words in ("proposals", "keys", "export --help"):
        done = run_by_a_shell(workspace, tmp_path / "home", f"{words} >&{writing}", pass_fds=[writing])
        assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
    server.call("list_files", {})
    server.say("Seen.")
    command = f"run {shlex.join(endpoint(server))} 2>&{writing}"
    done = run_by_a_shell(workspace, tmp_path / "home", command, input="café?".encode(), pass_fds=[writing])
    os.close(writing)
    assert (done.returncode, done.stdout) == (0, b"Seen.\nNothing staged.\n")
    assert server.last.messages[1]["content"] == "café?"


def test_pruning_reports_what_it_removed(signoff: Run) -> None:
    signoff("stage", stdin=PATCH)
    signoff("deny", "P1")
    assert "1 decided proposal" in signoff("sessions", "--prune", "0").stdout
    assert document(signoff("proposals", "--all", "--json")) == []
    assert [line["decision"] for line in document(signoff("log", "--json"))] == ["denied"]
    assert document(signoff("sessions", "--prune", "0", "--json")) == []


def test_the_doctor_without_a_model_reports_the_rest(signoff: Run, workspace: Path) -> None:
    (workspace / ".claude").mkdir()
    signoff("doors", "install", "claude")
    assert signoff("approve", "P1").returncode == 0
    done = signoff("doctor")
    assert done.returncode == 2
    names = [line.split()[1] for line in done.stdout.splitlines()]
    assert names == ["commands", "checks", "agents", "config"]
    assert "hooked in: Claude Code" in done.stdout and "`signoff checks suggest` proposes some" in done.stdout
    [why] = done.stderr.splitlines()
    assert why.startswith("signoff: The endpoint was not checked. No model is set up: set OPENAI_API_KEY or")
    done = signoff("doctor", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], told["endpoint"]) == (2, False, "")
    assert "set OPENAI_API_KEY" in told["error"]
    assert {"name": "endpoint", "ok": None, "detail": "not checked"} in told["checks"]
    assert {"commands", "checks", "agents", "config"} < {one["name"] for one in told["checks"]}


def test_the_doctor_lists_the_models_if_none_is_chosen(signoff: Run, server: WireServer) -> None:
    server.require_key("right")
    server.models = ["large", "small"]
    address = ("--base-url", server.base_url)
    unchosen = signoff("doctor", *address, OPENAI_API_KEY="right")
    assert unchosen.returncode == 2 and "has large, small: give --model" in unchosen.stderr
    unknown = signoff("doctor", *address, OPENAI_API_KEY="wrong")
    assert unknown.returncode == 1 and "does not accept the API key" in unknown.stderr
    assert "`signoff doctor` lists" in refused(signoff("run", "hello", *address, OPENAI_API_KEY="right"), 2)


def test_the_model_picked_in_the_app_is_used(
    signoff: Run, workspace: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(workspace.parent / "home"))
    server.models = ["large", "small"]
    server.always(Turn("ok"))
    runtime = open_workspace(workspace)
    save_picked_model(runtime.sessions, server.base_url, "small")
    runtime.close()
    address = ("--base-url", server.base_url)

    def model_line(*words: str, **environment: str) -> Any:
        checks = json.loads(signoff("doctor", "--json", *address, *words, **environment).stdout)["checks"]
        return next(check["detail"] for check in checks if check["name"] == "model")

    assert document(signoff("run", "hello", "--json", *address))["text"] == "ok"
    assert server.last.body["model"] == "small"
    assert model_line() == "small, from your last pick in the app"
    assert model_line(SIGNOFF_MODEL="large") == "large, from $SIGNOFF_MODEL"
    assert model_line("--model", "other") == "other answers, though it is not listed (as test-model), from --model"
    signoff("stage", stdin=PATCH)
    assert signoff("ask", "P1", "why?", "--hunk", "1", *address).returncode == 0
    assert server.last.body["model"] == "small"


def test_the_users_profile_overrides_are_not_stored_as_learned(
    signoff: Run, workspace: Path, server: WireServer
) -> None:
    (workspace.parent / "home/config").mkdir(parents=True)
    config = workspace.parent / "home/config/config.toml"
    config.write_text("context_window = 12345\n[profile]\nstream_usage = false\n")
    server.always(Turn("ok"))
    said = json.loads(signoff("doctor", "--json", *endpoint(server)).stdout)
    assert said["endpoint"] == server.base_url
    database = sqlite3.connect(workspace.parent / "home/state/signoff.db")
    [(learned,)] = database.execute("SELECT value FROM settings WHERE key LIKE 'profile:%'")
    database.close()
    assert "12345" not in learned and "stream_usage" not in json.loads(learned)
    config.write_text("[profile]\nno_such_field = 1\n")
    done = signoff("doctor", *endpoint(server))
    assert done.returncode == 2 and "no_such_field" in done.stderr


def test_running_in_a_subfolder_names_the_workspace(signoff: Run, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    assert signoff("proposals", "--workspace", "sub").stdout == "Nothing waits for you here.\n"
    signoff("stage", stdin=PATCH)
    assert f"but in {workspace.resolve()} (--workspace)" in signoff("proposals", "--workspace", "sub").stdout


def test_stage_errors_contain_no_advice_for_models(signoff: Run, workspace: Path) -> None:
    other = PATCH.replace(" two", " elsewhere")
    done = refused(signoff("stage", stdin=other), 3)
    assert "is not in the file" in done and "Nearest" not in done and "Give the lines" not in done
    (workspace / "notes.txt").write_text("ONE\ntwo\nTHREE\n")
    staged = signoff("stage", stdin=PATCH)
    assert staged.returncode == 0 and "It is on disk: " in staged.stdout
    assert "`signoff deny P1` reverts it" in staged.stdout


def test_staging_a_diff_twice_names_the_pending_proposal(signoff: Run) -> None:
    for number, patch in enumerate(
        (
            PATCH,
            "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n",
            "--- a/notes.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n",
            "diff --git a/notes.txt b/moved.txt\nsimilarity index 100%\nrename from notes.txt\nrename to moved.txt\n",
        ),
        1,
    ):
        assert signoff("stage", stdin=patch).returncode == 0
        assert f"P{number} is already pending with the same changes" in refused(signoff("stage", stdin=patch), 3)
        assert len(document(signoff("proposals", "--json"))) == 1
        signoff("deny", f"P{number}")


def test_arguments_that_are_not_utf_8_are_wrong_usage(signoff: Run) -> None:
    signoff("stage", stdin=PATCH)
    commands = ("export", "show", "approve", "deny P1 -m", "run", "run x --model")
    for done in (signoff(*command.split(), "\udcff") for command in commands):
        assert done.returncode == 2 and "not UTF-8 text" in done.stderr and "Traceback" not in done.stderr


def test_a_surplus_argument_shows_the_usage_of_the_command(signoff: Run) -> None:
    for command, *words in (("show", "P1", "P2"), ("keys", "P2"), ("proposals", "P2"), ("show", "P1", "--P2")):
        done = signoff(command, *words)
        usage, *_, problem = done.stderr.splitlines()
        assert done.returncode == 2 and usage.startswith(f"usage: signoff {command} [-h]")
        assert problem.startswith(f"signoff {command}: error: ") and "P2" in problem


def test_closed_standard_streams_cause_no_traceback(signoff: Run, workspace: Path, tmp_path: Path) -> None:
    signoff("stage", stdin=PATCH)
    for command, code, told in (
        ("run <&-", 2, b"There is nothing to say"),
        ("stage - <&-", 3, b"The diff is empty"),
        ("show P1 >&-", 1, b"Standard output cannot be written"),
        ("show P9 2>&-", 3, b""),
        ("approve P1 <&- >&- 2>&-", 1, b""),
        (">&-", 2, b"needs a terminal"),
        ("<&-", 2, b"needs a terminal"),
    ):
        done = run_by_a_shell(workspace, tmp_path / "home", command)
        assert done.returncode == code and told in done.stderr, command
        assert len(done.stderr.splitlines()) == bool(told), command
        assert signoff("log", "--verify").returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_plain_review_ends_where_its_output_cannot_be_written(
    signoff: Run, workspace: Path, tmp_path: Path
) -> None:
    signoff("stage", stdin=PATCH)
    ends = os.openpty()
    environment = {**os.environ, "SIGNOFF_HOME": str(tmp_path / "home"), "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            signoff_command("review", "--plain"),
            cwd=workspace,
            env=environment,
            stdin=ends[1],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    for end in ends:
        os.close(end)
    assert (done.returncode, done.stderr) == (
        1,
        b"signoff: Standard output cannot be written: No space left on device.\n",
    )


def test_a_turn_in_the_home_folder_needs_the_workspace_option(
    signoff: Run, workspace: Path, server: WireServer
) -> None:
    server.say("Hello.")
    words = ("run", "hi", *endpoint(server))
    told = refused(signoff(*words, HOME=str(workspace)), 3)
    assert "your home folder" in told and f"--workspace {workspace}" in told and not server.requests
    named = signoff(*words, "--workspace", str(workspace), "--quiet", HOME=str(workspace))
    assert named.returncode == 0 and "your home folder" in named.stderr.splitlines()[0]
    assert signoff("proposals", HOME=str(workspace)).returncode == 0


NEW = "--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+text\n"


def test_several_proposals_are_decided_at_once(signoff: Run, workspace: Path) -> None:
    for name in "abc":
        signoff("stage", stdin=NEW.format(name=name))
    done = document(signoff("approve", "P2", "p1", "P2", "--json"))
    assert [(each["id"], each["state"]) for each in done] == [("P2", "applied"), ("P1", "applied")]
    assert (workspace / "a").exists() and (workspace / "b").exists() and not (workspace / "c").exists()
    done = signoff("undo", "P1", "P2")
    assert done.stdout == "P1 undone: a.\nP2 undone: b.\n"
    assert [each["id"] for each in document(signoff("redo", "P1", "P2", "--json"))] == ["P1", "P2"]
    assert "P9" in refused(signoff("deny", "P3", "P9"), 3), "a name that is wrong decides nothing"
    assert document(signoff("deny", "P3", "--json"))["state"] == "denied"


def test_decisions_before_a_refused_one_are_named(signoff: Run, workspace: Path) -> None:
    for name in "ab":
        signoff("stage", stdin=NEW.format(name=name))
    (workspace / "b").write_text("mine\n")
    done = signoff("approve", "P1", "P2", "--json")
    refusal = json.loads(done.stdout)
    assert (done.returncode, refusal["code"], refusal["done"]) == (3, 3, ["P1"])
    assert "P2 is stale" in refusal["error"] and (workspace / "a").exists()
    assert "--hunks goes with one proposal" in refused(signoff("approve", "P1", "P2", "--hunks", "1"), 2)


@pytest.mark.parametrize("way", ["show", "force"])
def test_changed_proposal_is_approved_after_show_or_with_force(signoff: Run, workspace: Path, way: str) -> None:
    (workspace / "notes.txt").write_text("one\ntwo\nthree\nx\ny\n")
    signoff("stage", stdin=PATCH)
    (workspace / "notes.txt").write_text("one\ntwo\nthree\nx\ny\nend\n")
    signoff("proposals")
    for _ in range(2):
        assert "has changed since it was shown" in refused(signoff("approve", "P1"), 3), "a list shows no change"
    if way == "show":
        signoff("show", "P1")
    assert signoff("approve", "P1", *(["--force"] if way == "force" else [])).returncode == 0
    assert (workspace / "notes.txt").read_text() == "ONE\ntwo\nTHREE\nx\ny\nend\n"


def test_stage_names_only_new_relations_to_other_proposals(signoff: Run, workspace: Path) -> None:
    (workspace / "notes.txt").write_text("".join(f"line {number}\n" for number in range(30)))
    edit = "--- a/notes.txt\n+++ b/notes.txt\n@@ -{at},1 +{at},1 @@\n-line {line}\n+LINE {line}\n"
    for line in (2, 20):
        assert signoff("stage", stdin=edit.format(at=line + 1, line=line)).returncode == 0
    signoff("stage", stdin=edit.format(at=3, line=2).replace("line 2", "LINE 2").replace("+LINE 2", "+Line two"))
    said = signoff("deny", "P1").stdout.splitlines()
    assert [line.split(" now")[0] for line in said] == ["P1 denied: notes.txt.", "P3 is stale"]


def test_line_counts_match_the_shown_patch(signoff: Run, workspace: Path) -> None:
    series = PATCH + PATCH.replace("-one\n+ONE", "-ONE\n+Once").replace("-three\n+THREE", " THREE")
    (workspace / "a").write_text("1\n2\n")
    (workspace / "b").write_text("3\n")
    swap = "".join(
        f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"
        for old, new in (("a", "b"), ("b", "a"))
    )
    for number, patch in enumerate((series, swap), 1):
        staged = signoff("stage", stdin=patch)
        assert staged.returncode == 0, staged.stderr
        counted = subprocess.run(
            ["git", "apply", "--numstat", "-"],
            input=signoff("show", f"P{number}").stdout,
            cwd=workspace,
            text=True,
            capture_output=True,
            check=True,
        ).stdout.splitlines()
        added, removed = (sum(int(line.split("\t")[side]) for line in counted) for side in (0, 1))
        assert f"+{added} -{removed}" in staged.stdout


def test_commands_do_not_run_in_place_without_the_option(workspace: Path, tmp_path: Path, server: WireServer) -> None:
    """In a namespace in which there may be no more of them, as in a container."""
    words = signoff_command("run", "go", "--workspace", str(workspace), *endpoint(server), "--commands", "allow")
    script = f"echo 0 > /proc/sys/user/max_user_namespaces || exit 77; exec {shlex.join(words)}"
    environment = {**os.environ, "SIGNOFF_HOME": str(tmp_path / "other-home"), "OPENAI_API_KEY": "k"}
    command = ["unshare", "-Ur", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 3 and "--in-place" in done.stderr
    assert not server.requests
