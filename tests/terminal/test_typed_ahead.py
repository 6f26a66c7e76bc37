"""The terminal before the app is loaded: its first picture, and what is typed; the command is held until then."""

import os
import shutil
import signal
import sys
import termios
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyte
import pytest

from tests.terminal.terminal import Terminal, endpoint_environment, running, signoff_command, terminal_environment
from tests.wire.server import WireServer

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "Ask for a change"
NO_MODEL = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "SIGNOFF_MODEL": "none"}
HELD = """
import os, select, signal, sys

# Tests that run in the background inherit that it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

class Gate:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["GATED"]:
            sys.meta_path.remove(self)
            gate = os.open(os.environ["GATE"], os.O_RDONLY)
            # By and by, so that Python sees a signal that came just before the wait.
            while not select.select([gate], [], [], 0.05)[0]:
                pass

sys.meta_path.insert(0, Gate())
from signoff import main
sys.exit(main())
"""
"""The command, which waits before it loads one of its modules until the gate is closed."""


IN_BACKGROUND = """
import os, signal, sys

if child := os.fork():
    os.setpgid(child, child)

    def end(*_):
        os.kill(child, signal.SIGKILL)
        sys.exit()

    signal.signal(signal.SIGTERM, end)
    if os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1]):
        os.kill(child, signal.SIGKILL)
        open(os.environ["GATE"]).close()
        sys.exit("stopped by the system")
else:
    os.setpgid(0, 0)
""" + textwrap.indent(HELD, "    ")
"""The same as a job in the background."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


@contextmanager
def held(
    folder: Path, *arguments: str, before: str = "app.cli.open_app", program: str = HELD, **environment: str
) -> Iterator[tuple[Terminal, int]]:
    """The command as it waits, and the gate: closing it lets it go on."""
    gate = folder.parent / "gate"
    os.mkfifo(gate)
    gates = {"GATE": str(gate), "GATED": before, "PYTHONPATH": str(ROOT)}
    variables = terminal_environment(folder.parent / "home", **gates, **environment)
    with running([sys.executable, "-c", program, *arguments], folder=folder, environment=variables) as terminal:
        descriptors: list[int] = []

        def waits() -> bool:
            with suppress(OSError):
                descriptors.append(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
            return bool(descriptors)

        terminal.wait_until(waits, "the command to wait at the gate")
        yield terminal, descriptors[0]


def test_enter_before_the_first_picture_sends(folder: Path) -> None:
    with WireServer() as server:
        server.say("Hello yourself.")
        with held(folder, **endpoint_environment(server)) as (terminal, gate):
            terminal.type("helloo\x7f\nthere\rand then")
            os.close(gate)
            terminal.wait_for("Hello yourself.", "❯ and then")
            # Nor has the terminal shown it, where the cursor stood by chance.
            assert not terminal.raw.startswith(b"h")
        assert server.last.messages[-1] == {"role": "user", "content": "hello\nthere"}


def test_enter_before_the_terminal_gives_single_keys_sends_too(folder: Path) -> None:
    with WireServer() as server:
        server.say("Hello yourself.")
        variables = {**endpoint_environment(server), "EDITOR": "true"}
        with held(folder, before="app.runtime.terminal_at_start", **variables) as (terminal, gate):
            assert terminal.modes[3] & termios.ICANON
            terminal.type("\x1b[Awhat's é-1?o\x7f\rand then")
            os.close(gate)
            terminal.wait_for("Hello yourself.", "❯ and then")
            # The terminal is asked again after an editor; what was typed then is not sent again.
            terminal.press("\x07")
            terminal.wait_until(lambda: terminal.raw.count(b"\x1b[?1049h") == 2, "the editor to have been there")
            terminal.press("!")
            terminal.wait_for("❯ and then!")
        assert [request.messages[-1] for request in server.requests] == [{"role": "user", "content": "what's é-1?"}]


def test_line_feed_is_ctrl_j_once_single_keys_are_read(folder: Path) -> None:
    with WireServer() as server:
        server.say("Hello yourself.")
        with held(folder, before="app.runtime.terminal_at_start", **endpoint_environment(server)) as (terminal, gate):
            terminal.make_raw()
            terminal.type("hello\nthere\r")
            os.close(gate)
            terminal.wait_for("Hello yourself.")
        assert server.last.messages[-1] == {"role": "user", "content": "hello\nthere"}


def test_in_the_background_the_terminal_is_left_as_it_is(folder: Path) -> None:
    """Whoever changes it there is stopped by the system."""
    with held(folder, program=IN_BACKGROUND) as (terminal, gate):
        assert terminal.modes == fresh_modes()
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait_for_exit() == 0
        os.close(gate)


@pytest.fixture(scope="module")
def first_picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the first picture that one start of the app has left."""
    home = tmp_path_factory.mktemp("pictured")
    environment = terminal_environment(home, PYTHONPATH=str(ROOT), **NO_MODEL)
    with running(signoff_command(), folder=home, environment=environment) as terminal:
        terminal.wait_for("model may act")
        terminal.press("ctrl+q")
        assert terminal.wait_for_exit() == 0
    (picture,) = (home / "state" / "first-pictures").iterdir()
    return picture


@pytest.fixture
def picture(folder: Path, first_picture: Path) -> str:
    """The screen as the first picture of an earlier start has it."""
    pictures = folder.parent / "home" / "state" / "first-pictures"
    pictures.mkdir(parents=True)
    shutil.copy(first_picture, pictures)
    screen = pyte.Screen(120, 40)
    pyte.ByteStream(screen).feed(first_picture.read_bytes())
    return "\n".join(line.rstrip() for line in screen.display)


@pytest.mark.usefixtures("picture")
@pytest.mark.parametrize(
    ("leave", "code"),
    [
        (lambda terminal, gate: terminal.type("\x03"), 128 + signal.SIGINT),
        (lambda terminal, gate: os.kill(terminal.pid, signal.SIGTERM), 128 + signal.SIGTERM),
        (lambda terminal, gate: os.close(gate), 2),
    ],
    ids=["ctrl+c", "SIGTERM", "unusable settings"],
)
def test_a_start_that_ends_restores_terminal(folder: Path, leave: Callable[[Terminal, int], None], code: int) -> None:
    config = folder.parent / "home" / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("no_such_setting = 1\n")
    with held(folder) as (terminal, gate):
        terminal.wait_for(PROMPT)
        assert not terminal.modes[3] & (termios.ICANON | termios.ECHO)
        leave(terminal, gate)
        assert terminal.wait_for_exit() == code
        assert terminal.modes == fresh_modes()
        entered, left = (terminal.raw.rindex(mode) for mode in (b"\x1b[?1049h", b"\x1b[?1049l"))
        assert entered < left
        assert terminal.raw.rindex(b"\x1b[?25l") < terminal.raw.rindex(b"\x1b[?25h")


def test_a_picture_is_shown_until_the_app_is_loaded_and_keeps_nothing_typed(folder: Path, picture: str) -> None:
    with held(folder, **NO_MODEL) as (terminal, gate):
        terminal.wait_for(PROMPT)
        assert terminal.text == picture
        # It can be typed, but not suspended, and nothing is shown in a wrong place.
        terminal.type("for \x1b[200~your eyes\x1b[201~ only")
        terminal.settle()
        assert terminal.text == picture
        os.close(gate)
        terminal.wait_for("❯ for your eyes only", "model may act")
        # xterm would clear the picture if it were asked for the screen twice.
        assert terminal.raw.count(b"\x1b[?1049h") == 1
        terminal.press("ctrl+q")
        assert terminal.wait_for_exit() == 0
        assert terminal.raw.count(b"\x1b[?1049l") == 1
    pictures = (folder.parent / "home" / "state" / "first-pictures").iterdir()
    assert not any(b"eyes" in one.read_bytes() or b"only" in one.read_bytes() for one in pictures)


@pytest.mark.usefixtures("picture")
def test_ctrl_z_suspends_once_the_app_can_leave_the_screen(folder: Path) -> None:
    with held(folder, **NO_MODEL) as (terminal, gate):
        terminal.wait_for(PROMPT)
        terminal.type("\x1ahello")
        os.close(gate)
        terminal.wait_until(lambda: b"\x1b[?1049l" in terminal.raw, "the app to leave the screen")
        terminal.wait_until(lambda: stopped(terminal.pid), "the app to stop")
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.wait_for("❯ hello", "model may act")


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_ctrl_c_before_anything_is_loaded_brings_no_traceback(folder: Path) -> None:
    with held(folder, before="app.cli.main") as (terminal, _):
        terminal.type("\x03")
        assert terminal.wait_for_exit() == 128 + signal.SIGINT
        terminal.read_out()
        assert "Traceback" not in terminal.text


def test_an_editor_gets_the_terminal_as_it_was_before_the_start(folder: Path) -> None:
    with running(["stty", "-g"], folder=folder, environment=terminal_environment(folder)) as terminal:
        terminal.wait_for(":")
        before = terminal.text.split()
    seen = folder / "seen"
    with held(folder, "--demo", EDITOR=f"sh -c 'stty -g > {seen}; echo back > $0'") as (terminal, gate):
        os.close(gate)
        terminal.wait_for("model may act", "signoff-demo")
        terminal.press("\x07")
        terminal.wait_for("❯ back")
        terminal.press("ctrl+q")
        assert terminal.wait_for_exit() == 0
        assert terminal.modes == fresh_modes()
    assert seen.read_text().split() == before


def fresh_modes() -> list[Any]:
    """Of a terminal in which nothing has run yet."""
    ours, theirs = os.openpty()
    try:
        return termios.tcgetattr(ours)
    finally:
        os.close(ours)
        os.close(theirs)
