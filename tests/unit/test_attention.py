"""Calling the user back: what goes to the terminal, and when nothing does."""

import re
from typing import Any

import pytest

from app.ui.terminal.attention import Attention, call_for, desktop_notification


class Driver:
    """A driver that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def start_application_mode(self) -> None: ...

    def stop_application_mode(self) -> None: ...

    def write(self, data: str) -> None:
        self.written.append(data)

    def flush(self) -> None: ...


@pytest.fixture
def attention() -> tuple[Attention, Any]:
    made = Attention()
    driver: Any = made.listen_in(Driver)()  # type: ignore[arg-type, call-arg]
    driver.start_application_mode()
    return made, driver


def test_a_bell_rings_and_off_is_silent(attention: tuple[Attention, Any]) -> None:
    made, driver = attention
    made.call("off", "text")
    assert driver.written == []
    made.call("bell", "text")
    assert driver.written == ["\a"]


def test_nothing_is_written_while_another_program_has_the_terminal(attention: tuple[Attention, Any]) -> None:
    made, driver = attention
    made.paused = True
    made.call("bell", "text")
    made.paused = False
    driver.stop_application_mode()
    made.call("bell", "text")
    assert driver.written == []


@pytest.mark.parametrize(
    "text", ["plain", "a\x1b\\b", "a\x07b", "a;b;c", "a\x9cb", "line\nbreak", "\x1b]52;c;aGk=\x07"]
)
def test_no_text_ends_a_notification_early(text: str) -> None:
    sent = desktop_notification("signoff", text)
    parts = re.fullmatch(
        r"\x1b\]9;([^\x00-\x1f\x7f-\x9f]*)\x1b\\\x1b\]777;notify;([^;\x00-\x1f\x7f-\x9f]*);([^;\x00-\x1f\x7f-\x9f]*)\x1b\\",
        sent,
    )
    assert parts is not None, repr(sent)


@pytest.mark.parametrize("environment", [{"TERM": "linux"}, {"TERM": "dumb"}, {}, {"TERM": "screen", "STY": "1.x"}])
def test_a_terminal_that_would_print_a_notification_gets_a_bell(environment: dict[str, str]) -> None:
    assert call_for("desktop", "text", environment) == "\a"


def test_tmux_gets_a_bell_and_what_it_may_pass_through() -> None:
    sent = call_for("desktop", "text", {"TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default,1,0"})
    wrapped = re.fullmatch("\a\x1bPtmux;((?:[^\x1b]|\x1b\x1b)*)\x1b\\\\", sent)
    assert wrapped is not None
    assert wrapped[1].replace("\x1b\x1b", "\x1b") == desktop_notification("signoff", "text")
