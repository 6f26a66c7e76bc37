"""Writing in a real terminal: fast keys, pastes of both kinds, and a draft that outlives a kill."""

import contextlib
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from app.runtime.open_workspace import open_workspace
from tests.forking import Forking
from tests.terminal.staged import NEW, OLD, opened, stage
from tests.terminal.terminal import Terminal, endpoint_environment, running_signoff, terminal_environment
from tests.wire.server import WireServer

pytestmark = pytest.mark.timeout(120)

BIG = "\n".join(f"line {number} \x1b[31mred\x1b[0m \x07\x03" for number in range(30))
"""With the bytes of keys in it: some terminals do not take them out of what is pasted."""


def test_typed_and_pasted_text_is_sent_unchanged_and_a_draft_outlives_a_kill(
    tmp_path: Path, processes: Forking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "workspace"
    folder.mkdir()
    huge = "\n".join(f"row {number} {'x' * 90}" for number in range(20_000))
    with WireServer() as server, contextlib.closing(open_workspace(folder, {}, {})) as runtime:
        server.say("Seen.")
        server.say("Thank you.")
        environment = terminal_environment(tmp_path / "home", **endpoint_environment(server))
        with running_signoff(processes, ".", folder=folder, environment=environment) as terminal:
            terminal.wait_for("model may act")
            # Line ends within a paste come as carriage returns.
            terminal.type("one\ntwox\x7f \x1b[200~" + huge.replace("\n", "\r") + "\x1b[201~ end")
            terminal.wait_for("[pasted 20,000 lines] end")
            terminal.type("!\rlook at ")
            terminal.wait_for("Seen.", "❯ look at")
            assert server.last.messages[-1] == {"role": "user", "content": f"one\ntwo {huge} end!"}
            terminal.type("\x1b[200~" + BIG.replace("\n", "\r") + "\x1b[201~ and say")
            terminal.wait_for("[pasted 30 lines] and say")
            drafts = partial(runtime.sessions.settings, "draft:")
            terminal.wait_until(
                lambda: any("and say" in draft for draft in drafts().values()), "the draft in the store"
            )
            os.kill(terminal.pid, signal.SIGKILL)
            terminal.wait_for_exit()
        with running_signoff(processes, ".", "--continue", folder=folder, environment=environment) as terminal:
            terminal.wait_for("Seen.", "❯ look at [pasted 30 lines] and say")
            terminal.type(" why\r")
            terminal.wait_for("Thank you.")
        assert server.last.messages[-1] == {"role": "user", "content": f"look at {BIG} and say why"}


PASTED = ["y\r", "import y", "y" * 5000]
"""The first or a later character of each is a key that decides."""


def reviewed(terminal: Terminal) -> None:
    terminal.press("f3")
    # The grace period.
    terminal.settle(0.7)


def test_a_paste_into_the_diff_is_dead(processes: Forking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    with opened(processes, tmp_path) as terminal:
        stage(terminal)
        file = tmp_path / "workspace" / "greet.py"
        before = file.read_text()
        runtime = open_workspace(tmp_path / "workspace", {}, {})
        try:
            for pasted in PASTED:
                reviewed(terminal)
                terminal.type(pasted)
                terminal.wait_for("nothing was decided")
                terminal.settle()
                assert file.read_text() == before, repr(pasted)
                assert [one.state.is_pending for one in runtime.service.all()] == [True], repr(pasted)
                # Away, so that what was said of this one goes.
                terminal.press("escape", "f2")
                terminal.wait_for("greet", without=["nothing was decided"])
            reviewed(terminal)
            terminal.decide("y", lambda: file.read_text() == before.replace(OLD, NEW))
        finally:
            runtime.close()
