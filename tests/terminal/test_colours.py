"""What a real terminal is sent that knows all colours, 256, 16, or none."""

import re
from pathlib import Path

import pytest

from tests.forking import Forking
from tests.terminal.staged import NEW, OLD, opened, stage

pytestmark = pytest.mark.timeout(120)

TRUE = re.compile(rb"[34]8;2;\d")
PALETTE = re.compile(rb"[34]8;5;\d")
STANDARD = re.compile(rb"\x1b\[(?:[\d;]*;)?(?:[34]|9|10)[0-7](?:;[\d;]*)?m")
WORDS = ("P1", "waits for you", "approve", "deny", "request changes", f"- {OLD}", f"+ {NEW}")
WIDE = (160, 45)


@pytest.mark.parametrize(
    ("variables", "wanted", "unwanted"),
    [
        pytest.param(
            {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, TRUE, (), id="all", marks=pytest.mark.soak
        ),
        pytest.param({"TERM": "xterm-16color", "COLORTERM": ""}, STANDARD, (TRUE, PALETTE), id="16"),
    ],
)
def test_a_terminal_is_sent_the_colours_that_it_knows(
    tmp_path: Path,
    processes: Forking,
    variables: dict[str, str],
    wanted: re.Pattern[bytes],
    unwanted: tuple[re.Pattern[bytes], ...],
) -> None:
    with opened(processes, tmp_path, size=WIDE, variables=variables) as terminal:
        stage(terminal)
        terminal.wait_for(*WORDS)
        assert wanted.search(terminal.raw)
        assert not any(pattern.search(terminal.raw) for pattern in unwanted)


def test_added_and_removed_lines_are_told_apart_by_256_colours(tmp_path: Path, processes: Forking) -> None:
    variables = {"TERM": "xterm-256color", "COLORTERM": ""}
    with opened(processes, tmp_path, "--theme", "signoff-dark", size=WIDE, variables=variables) as terminal:
        stage(terminal)
        terminal.wait_for(*WORDS)
        assert PALETTE.search(terminal.raw) and not TRUE.search(terminal.raw)
        grounds = {
            sign: {
                cell.bg
                for y, line in enumerate(terminal.screen.display)
                for x in [line.find(f"{sign} {text}")]
                if x >= 0
                for cell in [terminal.screen.buffer[y][x + 2]]
            }
            for sign, text in (("+", NEW), ("-", OLD))
        }
        # The green and the red of the palette that are nearest to the theme's, as the emulator names them.
        assert grounds == {"+": {"005f00"}, "-": {"5f0000"}}


def test_no_color_is_heeded_and_nothing_is_lost(tmp_path: Path, processes: Forking) -> None:
    with opened(processes, tmp_path, size=WIDE, variables={"COLORTERM": "truecolor", "NO_COLOR": "1"}) as terminal:
        stage(terminal)
        terminal.wait_for(*WORDS)
        for red, green, blue in re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", terminal.raw):
            assert red == green == blue, "only shades of grey"
