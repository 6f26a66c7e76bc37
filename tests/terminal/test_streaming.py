"""An answer that streams in, in a real terminal."""

import sys
from pathlib import Path

from tests.benchmarks.outside import ROOT
from tests.terminal.terminal import running, terminal_environment

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
