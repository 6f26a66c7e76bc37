"""An escape character and other characters in one read, as a slow link delivers Escape and what is typed after it."""

from pathlib import Path

import pytest

from tests.forking import Forking
from tests.terminal.staged import opened, stage
from tests.wire.bench import FILE

pytestmark = pytest.mark.timeout(120)


def test_without_vim_mode_alt_and_a_letter_stay_one_key(tmp_path: Path, processes: Forking) -> None:
    with opened(processes, tmp_path) as terminal:
        terminal.type("\x1bhello, this is longer than thirty-two characters")
        terminal.wait_for("hello, this is longer than thirty-two characters", without=["^hello"])


@pytest.mark.parametrize("keys", ["\x1bxy", "\x1b[y", "\x1bfy", "\x1b:y"])
def test_characters_after_an_escape_character_decide_nothing(keys: str, tmp_path: Path, processes: Forking) -> None:
    with opened(processes, tmp_path) as terminal:
        stage(terminal)
        terminal.press("f4")
        terminal.settle(1.0)
        terminal.type(keys)
        terminal.wait_for("Several keys came at once")
        terminal.settle()
        assert (tmp_path / "workspace/greet.py").read_text() == FILE


def test_a_paste_whose_start_mark_is_split_stays_one_paste(tmp_path: Path, processes: Forking) -> None:
    with opened(processes, tmp_path) as terminal:
        for part in ("\x1b[20", "0~a \x1b[31mred text that is longer than the longest sequence, y", "\x1b[201~ end"):
            terminal.type(part)
            terminal.settle(0.02)
        terminal.wait_for("a [31mred text that is longer than the longest sequence, y end")
