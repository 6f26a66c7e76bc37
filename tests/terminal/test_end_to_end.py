"""The installed command in a real terminal: what is typed, what the screen shows, what is on disk."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.benchmarks.outside import ROOT
from tests.forking import Forking
from tests.terminal.terminal import Terminal, running, running_signoff, signoff_command, terminal_environment

SIZES = pytest.mark.parametrize(
    ("columns", "rows"),
    [pytest.param(80, 24, id="80x24"), pytest.param(160, 45, id="160x45", marks=pytest.mark.soak)],
)

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


@pytest.fixture
def demo(tmp_path: Path, temp: Path, columns: int, rows: int, processes: Forking) -> Iterator[Terminal]:
    """The demo, with its sample repository below `temp`."""
    environment = terminal_environment(tmp_path / "home", TMPDIR=str(temp))
    with running_signoff(
        processes, "--demo", folder=tmp_path, environment=environment, columns=columns, rows=rows
    ) as terminal:
        terminal.wait_for("model may act", "signoff-demo")
        yield terminal


def workspace(temp: Path) -> Path:
    (found,) = temp.glob("signoff-demo-*/*/.git")
    return found.parent


def changed(folder: Path) -> list[str]:
    done = subprocess.run(["git", "status", "--short"], cwd=folder, capture_output=True, text=True, check=True)
    return [line[3:] for line in done.stdout.splitlines()]


def stage(terminal: Terminal) -> None:
    terminal.type("fix the failing tests")
    terminal.press("enter")
    terminal.wait_for("model must wait", "1 proposal waiting")
    # The closing request's answer ends the turn.
    terminal.wait_for("tool calls")


@SIZES
def test_a_staged_edit_is_reviewed_approved_and_undone(demo: Terminal, temp: Path) -> None:
    demo.wait_for("The model proposes, you sign off.", "fix the failing tests", "y approve")
    stage(demo)
    folder = workspace(temp)
    assert changed(folder) == [], "nothing is written before the decision"
    demo.type("yyy nnn")
    demo.wait_for("yyy nnn")
    assert changed(folder) == [], "typing never decides"
    demo.press("f3")
    demo.wait_for("LUNAR_DAY")
    demo.press("f4")
    # On a small screen not all hunks were seen, which is asked about.
    demo.decide("y", lambda: changed(folder) == ["tideline/moon.py", "tideline/tides.py"])
    tests = subprocess.run(["python3", "-m", "unittest"], cwd=folder, capture_output=True, text=True, check=False)
    assert tests.returncode == 0, tests.stderr
    # Nothing waits any more, so the keys are the chat's again.
    demo.press("f4")
    demo.decide("u", lambda: changed(folder) == [])
    demo.press("ctrl+q")
    assert demo.wait_for_exit() == 0
    told = " ".join(demo.text.split())
    assert "sample repository is removed, and this session with it" in told and "signoff FOLDER --demo" in told
    assert list(temp.glob("signoff-demo-*")) == []


@SIZES
def test_a_turn_is_interrupted_and_a_denial_leads_to_another_proposal(demo: Terminal, temp: Path) -> None:
    demo.type("fix the failing tests\r")
    demo.wait_for("interrupts")
    demo.press("escape")
    demo.wait_for("nterrupted")
    demo.type("What can you do?\r")
    demo.wait_for("habit", without=["invalid", "400"])
    stage(demo)
    demo.press("f4")
    demo.decide("r", lambda: "Request changes to P1" in demo.text)
    for words, key in (("Give the number a name,", "ctrl+j"), ("and say why.", "ctrl+j"), ("Thank you.", "")):
        demo.type(words)
        demo.press(key)
    demo.wait_for("Thank you.")
    demo.press("ctrl+s")
    demo.wait_for("Your words are on their")
    demo.press("f4")
    demo.wait_for("P2", "1 proposal waiting", "model must wait")
    assert changed(workspace(temp)) == []
    demo.press("f2")
    demo.wait_for("Thank you.")


def test_nothing_hostile_reaches_the_terminal(tmp_path: Path, processes: Forking) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "evil.py").write_text("x = 1  # \x1b]0;owned\x07\x1b[2J\x9b31m \u202e evil\nanswer = 41\n")
    patch = (
        "--- a/evil.py\n+++ b/evil.py\n@@ -1,2 +1,3 @@\n x = 1  # \x1b]0;owned\x07\x1b[2J\x9b31m \u202e evil\n"
        "-answer = 41\n+answer = 42  # \x1b]52;c;b3duZWQ=\x07 \u2066\n+done = True\n"
    )
    environment = terminal_environment(tmp_path / "home", OPENAI_BASE_URL="http://127.0.0.1:9/v1", SIGNOFF_MODEL="m")
    staged = processes.run(["stage", "-"], folder=folder, environment=environment, stdin=patch)
    assert staged.returncode == 0, staged.stderr
    with running_signoff(processes, ".", folder=folder, environment=environment, columns=160, rows=45) as terminal:
        terminal.wait_for("1 proposal waiting", "answer = 42")
        raw = bytes(terminal.raw).decode(errors="replace")
        assert "\x1b]0;owned" not in raw and "\x1b]52" not in raw
        assert "\u202e" not in raw and "\u2066" not in raw
        assert "␛" in terminal.text, "the reviewer sees what is there"
        terminal.press("ctrl+q")
        assert terminal.wait_for_exit() == 0


def test_without_a_terminal_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        signoff_command(),
        cwd=tmp_path,
        env=terminal_environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr and "Traceback" not in done.stderr


def test_the_external_editor_gets_terminal_and_text_and_gives_it_back(
    tmp_path: Path, temp: Path, processes: Forking
) -> None:
    editor = tmp_path / "ed"
    edits_and_ends_lines_as_windows = f"{editor} -i -e s/draft/letter/ -e 's/$/\\r/'"
    environment = terminal_environment(tmp_path / "home", TMPDIR=str(temp), EDITOR=edits_and_ends_lines_as_windows)
    with running_signoff(processes, "--demo", folder=tmp_path, environment=environment) as terminal:
        terminal.wait_for("model may act", "signoff-demo")
        terminal.type("my first draft")
        terminal.wait_for("my first draft")
        for number, (program, shown) in enumerate(
            (("nothing", "cannot"), ("false", "code 1"), ("sed", "my first letter"))
        ):
            editor.unlink(missing_ok=True)
            editor.symlink_to(f"/bin/{program}")
            terminal.press("\x07")
            terminal.wait_for(shown, "model may act")
            terminal.type("!")
            terminal.wait_for(("draft!", "draft!!", "letter!!!")[number])
        assert list(temp.glob("signoff-edit-*")) == [], "nothing of it is left behind"
        terminal.press("ctrl+q")
        assert terminal.wait_for_exit() == 0


def test_an_unknown_session_is_named(tmp_path: Path, processes: Forking) -> None:
    environment = terminal_environment(tmp_path / "home")
    for words, told in (
        (("--continue",), "signoff: There is no session to continue here."),
        (("--session", "none"), "signoff: There is no session 'none' here"),
    ):
        with running_signoff(processes, *words, folder=tmp_path, environment=environment) as terminal:
            terminal.wait_for(told)
            assert terminal.wait_for_exit() != 0


def test_quitting_prints_how_to_resume_and_what_is_pending(tmp_path: Path, processes: Forking) -> None:
    environment = terminal_environment(tmp_path / "home")
    (folder := tmp_path / "my code").mkdir()
    (folder / "moon.py").write_text("LUNAR_DAY = timedelta(hours=24)\n")

    def opened(*words: str) -> AbstractContextManager[Terminal]:
        return running_signoff(processes, "--demo", "my code", *words, folder=tmp_path, environment=environment)

    with opened() as terminal:
        terminal.wait_for("model may act", "signoff-demo")
        terminal.type("hello\r")
        terminal.wait_for("tok")
        terminal.press("ctrl+q")
        terminal.wait_for("To go on with this session: signoff 'my code' --demo --continue")
        assert terminal.wait_for_exit() == 0
        assert "signoff proposals" not in terminal.text
    with opened() as terminal:
        terminal.wait_for("model may act", "signoff-demo")
        terminal.press("ctrl+q")
        assert terminal.wait_for_exit() == 0
        assert "To go on" not in terminal.text, "there is nothing in it"
    told = processes.run(["sessions", "--json"], folder=folder, environment=environment).stdout
    [first] = [one["id"] for one in json.loads(told)]
    processes.run(
        ["run", "--demo", "fix the bug", "--workspace", "my code"], folder=tmp_path, environment=environment
    )
    # An older session, in which nothing was said since.
    with opened("--session", first) as terminal:
        terminal.wait_for("model may act", "hello")
        terminal.press("ctrl+q")
        assert terminal.wait_for_exit() == 0
        told = " ".join(terminal.text.split())
        assert (
            f"To go on with this session: signoff 'my code' --demo --session {first} (1 proposal waits: signoff"
            in told
        )


def test_ctrl_z_leads_to_the_shell_and_fg_back_to_the_same_picture(tmp_path: Path) -> None:
    environment = terminal_environment(tmp_path / "home", PS1="shell> ")
    shell = ["bash", "--norc", "--noprofile", "-i"]
    with running(shell, folder=tmp_path, environment=environment) as terminal:
        terminal.wait_for("shell>")
        terminal.type(shlex.join(signoff_command("--demo")) + "\r")
        terminal.wait_for("model may act", "signoff-demo", "The model proposes, you sign off.")
        terminal.type("half a sentence")
        terminal.wait_for("half a sentence")
        terminal.settle()
        before = terminal.text
        terminal.press("ctrl+z")
        terminal.wait_for("Stopped", "shell>")
        terminal.type("echo still $((40 + 2))\r")
        terminal.wait_for("still 42")
        terminal.type("fg\r")
        terminal.wait_until(lambda: terminal.text == before, "the picture of before")
        terminal.type(" ends")
        terminal.wait_for("half a sentence ends")
        # What took the key before is on another one.
        terminal.type("\x1f")
        terminal.wait_for("❯", without=["sentence ends"])


WRITE = "\x1b[20~"
"""F9."""
COLUMNS, ROWS = 90, 30


def test_a_row_is_drawn_again_only_when_it_changes_and_all_rows_are_as_drawn_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "tests.benchmarks.flood_program", "stream", "40", "2"]
    environment = terminal_environment(tmp_path, PYTHONPATH=str(ROOT), TEXTUAL_FPS="30")
    with running(command, folder=tmp_path, environment=environment, columns=COLUMNS, rows=ROWS) as terminal:
        terminal.wait_for("Ask for a change")
        terminal.type(WRITE)
        terminal.wait_for("The end of 1.")
        # What was written before the echo is a whole picture. All is drawn once more when the lexer of code has come,
        # and a machine that is busy shows its first lines in more pieces.
        terminal.type("x")
        terminal.wait_for("❯ x")
        assert bytes(terminal.raw).count(b"Section 0") <= 8

        def answer() -> list[str]:
            lines = terminal.text.split("\n")
            return lines[: next(at for at, line in enumerate(lines) if "The end of 1." in line)]

        drawn = answer()
        assert any("Section 0" in line for line in drawn)
        terminal.resize(COLUMNS - 40, ROWS)
        terminal.wait_for("after all.", without=["since that is what answers are made of, after all."])
        terminal.resize(COLUMNS, ROWS)
        terminal.wait_until(lambda: "The end of 1." in terminal.text and answer() == drawn, "the same picture")
