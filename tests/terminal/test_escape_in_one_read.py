"""An escape character and other characters in one read, as a slow link delivers Escape and what is typed after it."""

from pathlib import Path

import pytest

from tests.forking import Forking
from tests.terminal.staged import opened, stage
from tests.wire.bench import FILE

pytestmark = pytest.mark.timeout(120)

PROMPT = "Ask for a change"


def test_in_vim_mode_escape_and_a_letter_are_two_keys(tmp_path: Path, processes: Forking) -> None:
    (config := tmp_path / "home/config/config.toml").parent.mkdir(parents=True)
    config.write_text('vim = true\n[keys]\n"app.help" = "alt+h"\n')
    with opened(processes, tmp_path) as terminal:
        terminal.type("one two")
        terminal.wait_for("one two")
        terminal.type("\x1bdd")
        terminal.wait_for("NORMAL", PROMPT)
        terminal.type("iand three four\x1b0x")
        terminal.wait_for("❯ nd three four", "NORMAL")
        terminal.type("ifive \x1bbcwten\x1b")
        terminal.wait_for("ten nd three four", "NORMAL")
        terminal.type("Omore, and more than thirty-two characters\x1bOhigh above\x1b")
        terminal.wait_for("high above", "more, and more than thirty-two characters", "NORMAL", without=["^"])
        # Alt and an arrow, as terminals on macOS send it; Alt and backspace.
        terminal.type("A the end")
        terminal.wait_for("high above the end")
        terminal.type("\x1bb")
        terminal.settle()
        terminal.type("low ")
        terminal.wait_for("high above the low end", without=["NORMAL"])
        terminal.type("\x1b\x7f")
        terminal.wait_for("high above the end", without=["NORMAL"])
        # The user's own key with Alt.
        terminal.type("\x1bh")
        terminal.wait_for("Search keys and commands")


def test_without_vim_mode_alt_and_a_letter_stay_one_key(tmp_path: Path, processes: Forking) -> None:
    with opened(processes, tmp_path) as terminal:
        terminal.type("\x1bhello, this is longer than thirty-two characters")
        terminal.wait_for("hello, this is longer than thirty-two characters", without=["^hello"])


@pytest.mark.parametrize("keys", ["\x1bxy", "\x1b[y", "\x1bfy", "\x1b:y", "\x1b[200~\x1b[201~\x1bOSy\x1bOS"])
def test_characters_after_an_escape_character_decide_nothing(keys: str, tmp_path: Path, processes: Forking) -> None:
    with opened(processes, tmp_path) as terminal:
        stage(terminal)
        terminal.press("f4")
        terminal.settle(1.0)
        terminal.type(keys)
        terminal.wait_for("Several keys came at once")
        terminal.settle()
        assert (tmp_path / "workspace/greet.py").read_text() == FILE


def test_a_click_in_a_paste_decides_nothing(tmp_path: Path, processes: Forking) -> None:
    with opened(processes, tmp_path) as terminal:
        stage(terminal)
        terminal.settle(1.0)
        row, line = next(each for each in enumerate(terminal.text.split("\n"), 1) if "y  approve" in each[1])
        place = f"{line.index('y  approve') + 1};{row}"
        click = f"\x1b[<0;{place}M\x1b[<0;{place}m"
        for paste in (f"\x1b[200~\x1b[201~{click}", f"{'x' * 70}{click}"):
            terminal.type(paste)
            terminal.settle()
            assert (tmp_path / "workspace/greet.py").read_text() == FILE
        terminal.settle(1.0)
        terminal.type(click)
        terminal.wait_until(lambda: (tmp_path / "workspace/greet.py").read_text() != FILE, "the click")


@pytest.mark.parametrize("pause", [0.02, 0.3])
def test_a_paste_whose_start_mark_is_split_stays_one_paste(pause: float, tmp_path: Path, processes: Forking) -> None:
    with opened(processes, tmp_path) as terminal:
        for part in ("\x1b[20", "0~a \x1b[31mred text that is longer than the longest sequence, y", "\x1b[201~ end"):
            terminal.type(part)
            terminal.settle(pause)
        terminal.wait_for("a [31mred text that is longer than the longest sequence, y end")
