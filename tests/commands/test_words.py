"""What the commands make of words that say too little, too much or something else."""

import contextlib
import gc
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from app.cli.app_arguments import COMMANDS, settings_from_flags
from app.cli.argument_parser import make_app_parser, make_command_parser
from app.cli.command_output import _EscapingStream
from app.cli.main import main
from tests.commands.test_commands import PATCH, Run, document, endpoint, refused
from tests.hygiene.test_imports import modules_after
from tests.terminal.terminal import signoff_command
from tests.wire.server import WireServer

EMPTY = "diff --git a/empty.txt b/empty.txt\nnew file mode 100644\n"


def test_help_lists_every_command_and_each_has_its_function() -> None:
    listed = re.findall(r"^  ([a-z]\S+)", make_app_parser().format_help().partition("commands:")[2], re.MULTILINE)
    [commands] = [each for each in make_command_parser()._actions if each.dest == "command"]
    assert {*listed} == {*COMMANDS} == {*(commands.choices or ())}
    for name in COMMANDS.keys() - {"hook"}:
        assert callable(getattr(import_module(f"app.cli.{COMMANDS[name].module}"), COMMANDS[name].function))


def test_the_gate_option_is_parsed_and_invalid_values_are_wrong_usage(signoff: Run) -> None:
    for gate in ("every-edit:2", "chain:0", "chain:51", "chain:x"):
        done = signoff("run", "hello", "--gate", gate)
        assert done.returncode == 2 and "give every-edit, chain, or chain:N" in done.stderr.splitlines()[-1]
    for gate, steps in (("every-edit", None), ("chain", None), ("chain:7", 7)):
        found = settings_from_flags(Namespace(gate=gate))
        assert (found["gate"], found.get("chain_steps")) == (gate.partition(":")[0], steps)
        assert "--gate" not in refused(signoff("run", "hello", "--gate", gate), 2)
    assert settings_from_flags(Namespace(gate=None))["gate"] is None


def test_an_invalid_argument_is_named_with_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        *((("demo-server", "--tokens-per-second", rate), "a number above 0, or inf") for rate in ("0", "nan", "x")),
        (("demo-server", "--port", "65536"), "argument --port: give a number up to 65535"),
        (("show", ""), "argument ID: this is empty"),
        (("run", "hello", "--session", " "), "argument --session: this is empty"),
        (("proposals", "--origin", ""), "argument --origin: this is empty"),
    ):
        with pytest.raises(SystemExit):
            make_command_parser().parse_args(words)
        assert told in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["lines", "document"])
def test_empty_proposal_list_does_not_load_the_engine(tmp_path: Path, more: list[str]) -> None:
    """A prompt may ask before each line."""
    words = ["proposals", "--workspace", str(tmp_path), *more]
    code = (
        f"import os; os.environ['SIGNOFF_HOME'] = {str(tmp_path / 'home')!r}\n"
        f"from app.cli.main import main\nassert main({words}) == 0"
    )
    assert not modules_after(code) & {"textual", "pydantic", "asyncio", "email", "logging", "watchfiles", "pathspec"}


def test_a_file_without_a_hunk_can_be_asked_about(signoff: Run, server: WireServer) -> None:
    assert signoff("stage", "-", stdin=EMPTY).returncode == 0
    server.say("It is empty.")
    done = signoff("ask", "P1", "why?", *endpoint(server))
    assert (done.returncode, done.stdout) == (0, "It is empty.\n")


def test_an_export_reports_images_that_cannot_be_written(signoff: Run, server: WireServer) -> None:
    server.say("Hello.")
    assert signoff("run", "hi", "--quiet", *endpoint(server)).returncode == 0
    assert "notes.txt cannot be written: " in refused(signoff("export", "latest", "--images", "notes.txt"), 2)


def commit(workspace: Path, *more: str) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "a commit", *more]):
        subprocess.run([*git, *words], cwd=workspace, check=True)


def test_notes_are_reported_as_json(signoff: Run, workspace: Path) -> None:
    commit(workspace)
    commit(workspace, "--allow-empty")
    assert "HEAD changes nothing here" in refused(signoff("stage", "--from", "HEAD"), 3)
    assert "There is no commit 'nope' here" in signoff("notes", "nope").stderr
    for arguments in (("notes",), ("stage", "--from", "HEAD"), ("verify",)):
        assert "Git is not installed" in signoff(*arguments, PATH=str(workspace)).stderr
    signoff("stage", stdin=PATCH)
    assert signoff("approve", "P1").returncode == 0
    commit(workspace)
    people = [f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    said = dict.fromkeys(people, "e@x")
    noted = json.loads(signoff("notes", "--json", **said).stdout)
    assert (noted["decisions"], noted["files"]) == (1, 1)
    # Of a patch nobody knows a model that made it.
    assert json.loads(signoff("notes", "--json", "--git-ai", **said).stdout)["lines"] == 0
    assert json.loads(signoff("notes", "--json", "--if-reviewed", "HEAD~1").stdout)["commits"] == 0
    assert "not JSON" in json.loads(signoff("notes", "--install", "--json").stdout)["error"]
    assert "--yes goes with --install" in refused(signoff("notes", "--yes"), 2)


def test_a_terminal_stream_offers_no_raw_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _EscapingStream(io.StringIO())
    assert not hasattr(shown, "buffer")
    with pytest.raises(AttributeError, match="bytes are not for a terminal"):
        _ = shown.buffer
    assert shown.write("\x1b[31m") == 5 and "\x1b" not in shown.getvalue()


def test_keys_are_printed_as_json(signoff: Run, tmp_path: Path) -> None:
    keys = document(signoff("keys", "--json"))
    assert all({"id", "title", "keys", "scope", "help"} <= one.keys() for one in keys) and len(keys) > 50
    config = tmp_path / "home/config/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[keys]\n"review.approve" = "enter"\n')
    done = signoff("keys", "--json")
    assert document(done) == keys and "review.approve" in done.stderr
    assert "\u2717 config" in (said := signoff("doctor").stdout) and "review.approve" in said


def test_verify_reports_a_written_path_that_is_no_file(signoff: Run, workspace: Path) -> None:
    signoff("stage", stdin=PATCH)
    assert signoff("approve", "P1").returncode == 0
    (workspace / "notes.txt").unlink()
    for make, remove in ((Path.mkdir, Path.rmdir), (os.mkfifo, Path.unlink)):
        make(workspace / "notes.txt")
        done = signoff("log", "--verify")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "  notes.txt has changed since P1")
        remove(workspace / "notes.txt")


def test_a_failed_commit_keeps_the_written_files(signoff: Run, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "home/config").mkdir(parents=True)
    (tmp_path / "home/config/config.toml").write_text("commit = true\n")
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    hook = workspace / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2; exit 1\n")
    hook.chmod(0o755)
    signoff("stage", stdin=PATCH)
    done = signoff("approve", "P1", "--json")
    assert done.returncode == 0 and done.stderr.startswith("signoff: Git did not commit"), done.stderr
    assert f"signoff: {json.loads(done.stdout)['warning']}\n" == done.stderr
    assert (workspace / "notes.txt").read_text() == "ONE\ntwo\nTHREE\n"


def test_an_occupied_port_is_reported_and_ctrl_c_ends_the_demo_server(signoff: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused(signoff("demo-server", "--port", str(taken.getsockname()[1])), 1)
    with subprocess.Popen(signoff_command("demo-server"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


@contextlib.contextmanager
def terminal() -> Iterator[None]:
    """The standard streams are those of a terminal; what the app does to this process at its start is undone."""
    collects, (ours, theirs) = gc.isenabled(), os.openpty()
    with contextlib.ExitStack() as files, pytest.MonkeyPatch.context() as streams:
        files.callback(os.close, ours)
        for name in ("stdin", "stdout", "stderr"):
            stream = os.fdopen(os.dup(theirs), "r" if name == "stdin" else "w")
            streams.setattr(sys, name, files.enter_context(stream))
        os.close(theirs)
        yield
        if collects:
            gc.enable()


def test_an_exception_at_startup_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As where a part of the program was not installed.
    monkeypatch.setitem(sys.modules, "app.cli.open_app", None)
    with terminal(), pytest.raises(ModuleNotFoundError, match=r"app\.cli\.open_app"):
        main([str(tmp_path)])


def test_the_app_needs_all_streams_of_a_terminal(tmp_path: Path) -> None:
    for name in ("stdin", "stdout", "stderr"):
        with terminal(), (tmp_path / "elsewhere").open("w+") as elsewhere, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, name, elsewhere)
            assert main([str(tmp_path)]) == 2
