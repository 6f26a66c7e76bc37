"""A paste from a terminal without bracketed paste, into the diff: characters in one read, of which none decides."""

from pathlib import Path

import pytest

from app.runtime.open_workspace import open_runtime
from tests.forking import Forking
from tests.terminal.staged import NEW, OLD, opened, stage
from tests.terminal.terminal import Terminal

pytestmark = pytest.mark.timeout(120)
PASTED = ["yes please\n", "y\r", "import y", "y" * 5000, "y\nn\ny\n"]
"""The first or a later character of each is a key that decides."""


def reviewed(terminal: Terminal) -> None:
    terminal.press("f3")
    # The grace period.
    terminal.settle(0.7)


def test_a_paste_into_the_diff_decides_nothing_and_a_key_does(
    processes: Forking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    with opened(processes, tmp_path) as terminal:
        stage(terminal)
        file = tmp_path / "workspace" / "greet.py"
        before = file.read_text()
        runtime = open_runtime(tmp_path / "workspace", {}, {})
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
