"""Commands in a real terminal: nothing that a model, a file or a server wrote is acted upon by it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forking import Forking
from tests.terminal.terminal import running_signoff, signoff_command, terminal_environment
from tests.wire.replies import chunk, stream
from tests.wire.server import WireServer

HOSTILE = "ok\x1b[1A\x1b[2K\x1b]52;c;ZXZpbA==\x07\x1b]0;evil\x1b\\\x9b2J\x08\x7f\u202eback\u202c\u200b"
"""Hides a line, takes the clipboard, sets the title, clears the screen, turns text around."""
PATCH = f"--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+{HOSTILE}\r\n+byte ".encode() + b"\xff\x9b31m\n"
ACTED_UPON = [b"\x1b", b"\x07", b"\x08", b"\x7f", b"\x9b2J", b"\x9b31m", "\x9b".encode(), "\u202e".encode(), b"\xff"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "home"


@pytest.fixture
def shown(home: Path, processes: Forking) -> Callable[..., bytes]:
    """What a command sends to a terminal; nothing in it may be acted upon."""

    def run(*arguments: str, **more: str) -> bytes:
        environment = terminal_environment(home, **more)
        folder = home.with_name("ws")
        with running_signoff(processes, *arguments, folder=folder, environment=environment) as terminal:
            terminal.wait_for_exit()
            terminal.read_out()
            raw = bytes(terminal.raw)
        assert not [what for what in ACTED_UPON if what in raw], raw
        return raw

    return run


@pytest.fixture
def piped(home: Path, processes: Forking) -> Callable[..., bytes]:
    def run(*arguments: str, stdin: bytes = b"", **more: str) -> bytes:
        environment, text = terminal_environment(home, **more), stdin.decode(errors="surrogateescape")
        done = processes.run(arguments, folder=home.with_name("ws"), environment=environment, stdin=text)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.encode(errors="surrogateescape")

    return run


def test_patches_are_safe_on_terminals(shown: Callable[..., bytes], piped: Callable[..., bytes]) -> None:
    piped("stage", stdin=PATCH)
    assert "␛[1A␛[2K␛]52;c;".encode() in shown("show", "P1")
    assert HOSTILE.encode() + b"\r\n+byte \xff\x9b31m\n" in piped("show", "P1")
    shown("show", "P1", "--hunks")
    detail = json.loads(shown("show", "P1", "--json"))
    assert detail == json.loads(piped("show", "P1", "--json"))
    assert HOSTILE in detail["files"][0]["hunks"][0]["added"][0]
    shown("deny", "P1", "-m", HOSTILE)
    shown("log")
    shown("log", "--json")


@pytest.mark.parametrize("words", [["show", HOSTILE], ["show", "P1", HOSTILE], [HOSTILE], [f"--{HOSTILE}"]])
def test_errors_do_not_repeat_typed_text(shown: Callable[..., bytes], words: list[str]) -> None:
    shown(*words)


def test_server_text_is_escaped_on_the_terminal(shown: Callable[..., bytes], piped: Callable[..., bytes]) -> None:
    with WireServer() as server:
        server.script([stream(chunk(text=f"{HOSTILE}\n{HOSTILE}"), chunk(finish="stop"))])
        raw = shown("run", HOSTILE, OPENAI_BASE_URL=server.base_url, SIGNOFF_MODEL="m")
    assert "␛]0;evil".encode() in raw
    shown("sessions")
    assert "␛]0;evil".encode() in piped("export", "latest"), "others read it in a terminal"
    shown("export", "latest", "--format", "json")


def test_a_question_stands_once_on_a_terminal(shown: Callable[..., bytes]) -> None:
    with WireServer() as server:
        server.call("ask_user", {"question": "Which of the two?", "options": ["the first"]})
        address = ("--base-url", server.base_url, "--model", "m")
        seen = shown("run", "go", *address, OPENAI_API_KEY="key")
        assert seen.count(b"Which of the two?") == 1
        assert b"1. the first" in seen and b"Answer with" in seen


def test_a_locale_without_the_letters_gets_escapes(tmp_path: Path, home: Path, piped: Callable[..., bytes]) -> None:
    piped("stage", stdin="--- /dev/null\n+++ b/caf\u00e9.txt\n@@ -0,0 +1 @@\n+x\n".encode())
    done = subprocess.run(
        signoff_command("proposals"),
        cwd=tmp_path / "ws",
        env=terminal_environment(home, PYTHONIOENCODING="ascii"),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"") and b"caf\\xe9.txt" in done.stdout
