"""What a real terminal is sent that knows all colours, 256, 16, or none."""

import re
from pathlib import Path

import pytest

from tests.terminal.terminal import running, signoff_command, terminal_environment
from tests.terminal.test_end_to_end import stage

pytestmark = pytest.mark.timeout(120)

TRUE = re.compile(rb"[34]8;2;\d")
PALETTE = re.compile(rb"[34]8;5;\d")
STANDARD = re.compile(rb"\x1b\[(?:[\d;]*;)?(?:[34]|9|10)[0-7](?:;[\d;]*)?m")
WORDS = ("P1", "waits for you", "Would change", "approve", "deny", "request changes", "LUNAR_DAY")


@pytest.mark.parametrize(
    ("variables", "wanted", "unwanted"),
    [
        pytest.param(
            {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, TRUE, (), id="all", marks=pytest.mark.soak
        ),
        pytest.param({"TERM": "xterm-256color", "COLORTERM": ""}, PALETTE, (TRUE,), id="256", marks=pytest.mark.soak),
        pytest.param({"TERM": "xterm-16color", "COLORTERM": ""}, STANDARD, (TRUE, PALETTE), id="16"),
    ],
)
def test_a_terminal_is_sent_the_colours_that_it_knows(
    tmp_path: Path, variables: dict[str, str], wanted: re.Pattern[bytes], unwanted: tuple[re.Pattern[bytes], ...]
) -> None:
    environment = terminal_environment(tmp_path / "home", **variables)
    with running(
        signoff_command("--demo"), folder=tmp_path, environment=environment, columns=160, rows=45
    ) as terminal:
        terminal.wait_for("gate open", "demo model")
        stage(terminal)
        terminal.wait_for(*WORDS)
        assert wanted.search(terminal.raw)
        assert not any(pattern.search(terminal.raw) for pattern in unwanted)


def test_added_and_removed_lines_are_told_apart_by_256_colours(tmp_path: Path) -> None:
    environment = terminal_environment(tmp_path / "home", TERM="xterm-256color", COLORTERM="")
    command = signoff_command("--demo", "--theme", "signoff-dark")
    with running(command, folder=tmp_path, environment=environment, columns=160, rows=45) as terminal:
        terminal.wait_for("gate open", "demo model")
        stage(terminal)
        terminal.wait_for(*WORDS)
        grounds = {
            sign: {
                cell.bg
                for y, line in enumerate(terminal.screen.display)
                for x in [line.find(f"{sign} LUNAR_DAY = ")]
                if x >= 0
                for cell in [terminal.screen.buffer[y][x + 2]]
            }
            for sign in "+-"
        }
        # The green and the red of the palette that are nearest to the theme's, as the emulator names them.
        assert grounds == {"+": {"005f00"}, "-": {"5f0000"}}


def test_no_color_is_heeded_and_nothing_is_lost(tmp_path: Path) -> None:
    environment = terminal_environment(tmp_path / "home", TERM="xterm-256color", COLORTERM="truecolor", NO_COLOR="1")
    with running(
        signoff_command("--demo"), folder=tmp_path, environment=environment, columns=160, rows=45
    ) as terminal:
        terminal.wait_for("gate open", "demo model")
        stage(terminal)
        terminal.wait_for(*WORDS)
        for red, green, blue in re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", terminal.raw):
            assert red == green == blue, "only shades of grey"
