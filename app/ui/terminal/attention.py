"""The terminal's driver, and what calls the user back to a terminal without the focus: a bell, or a notification.

A terminal that knows OSC 9 (iTerm2, kitty, WezTerm, Windows Terminal, foot, Ghostty) or OSC 777 (urxvt, VTE) turns
the sequence into a notification; every other one ignores an unknown OSC. The bell is for the rest: for consoles that
would print what they do not know, and for tmux, which keeps such sequences to itself unless they are wrapped and
`allow-passthrough` is on, but hands on a bell.
"""

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from textual import events
from textual.keys import KEY_NAME_REPLACEMENTS
from textual.message import Message

from app.runtime.terminal_at_start import (
    ENTER_ALTERNATE_SCREEN,
    pop_typed_lines,
    restore_terminal,
    take_over_screen,
)
from app.text.safe_text import strip_unsafe

if TYPE_CHECKING:
    from textual.driver import Driver


_SEQUENCE = re.compile(r"\x1b(?:\[[0-9:;<=>?]*[ -/]*[@-~]|O.|.)?")
"""Escape sequences of keys without a character."""


def make_key_events(lines: str) -> Iterator[events.Key]:
    """Yield a key event for each letter, and Enter at the end of each line."""
    for letter in _SEQUENCE.sub("", lines):
        if letter == "\n":
            yield events.Key("enter", "\r")
        elif letter.isprintable():
            yield events.Key(_name(letter), letter)


def _name(letter: str) -> str:
    """Return Textual's name of the key."""
    if letter.isalnum():
        return letter
    name = unicodedata.name(letter, letter).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


_NOT_DRAWING = re.compile(r"\x1b(?!\[[0-9;:]*[mH])(?:\[[0-9:;<=>?]*[ -/]*[@-~]|[\]P][^\x07\x1b]*(?:\x07|\x1b\\)|.)?")
"""Every control sequence but those that set colours (SGR) or move the cursor (CUP)."""
_ROW = re.compile(r"\x1b\[(\d+);1H")
"""Where the paint of a row begins, with its number from 1."""
_LONGEST = 200


def desktop_notification_sequence(title: str, text: str) -> str:
    """Return the escape sequence of a desktop notification; the text cannot end it early."""
    title, text = _plain(title), _plain(text)
    # OSC 777 parts its fields by semicolons; OSC 9 has one field, but ConEmu reads `9;4;…` as something else.
    return f"\x1b]9;{title}: {text}\x1b\\" + f"\x1b]777;notify;{title};{text}\x1b\\"


def attention_sequence(kind: str, text: str, environment: Mapping[str, str]) -> str:
    """Return the bytes of a `bell` or `desktop` notification for the terminal of this environment."""
    terminal = environment.get("TERM", "")
    if kind == "bell" or terminal in ("", "dumb", "linux") or "STY" in environment:
        return "\a"
    notification = desktop_notification_sequence("signoff", text)
    if "TMUX" in environment:
        return "\a\x1bPtmux;" + notification.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return notification


_SAVE_TITLE = "\x1b[22;2t"
_RESTORE_TITLE = "\x1b[23;2t"
"""XTPUSHTITLE and XTPOPTITLE (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html)."""


def window_title(needed: int, folder: str) -> str:
    """Return the title of the terminal's window: `signoff (3) - folder`.

    Args:
        needed: Number of items that wait for the user.
        folder: The name of the workspace's folder.
    """
    count = f" ({needed})" if needed else ""
    return f"signoff{count} - {_plain(folder)}"


def _shows_titles(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal takes a title; consoles print what they do not know, and screen has none."""
    return environment.get("TERM", "") not in ("", "dumb", "linux", "unknown") and "STY" not in environment


def _plain(text: str) -> str:
    return strip_unsafe(" ".join(text.split()), keep="").replace(";", ",")[:_LONGEST]


class TerminalNotifier:
    """Sends bells, notifications and titles to the terminal, through the queue that also draws."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._has_titles = _shows_titles(environment)
        self._title = ""
        self._driver: Driver | None = None
        self._has_screen = False
        """Whether the alternate screen is shown when Textual asks for it."""
        self._is_recording = True
        """Whether what is drawn still belongs to the first picture."""
        self._painted: list[str] = []
        self.paused = False
        """While another program has the terminal."""

    def wrap_driver(self, base: type["Driver"]) -> type["Driver"]:
        """Return a subclass of the driver that registers itself here when it starts."""
        attention = self

        class NotedDriver(base):  # type: ignore[valid-type, misc]
            """Textual's driver for this platform."""

            def start_application_mode(self) -> None:
                # To what it finds here Textual goes back, for an editor too.
                restore_terminal()
                for key in make_key_events(pop_typed_lines()):
                    self.process_message(key)
                attention._has_screen = take_over_screen()
                super().start_application_mode()
                attention._has_screen = False
                attention._driver = self
                if attention._has_titles:
                    self.write(_SAVE_TITLE)
                    attention._write_title()

            def process_message(self, message: Message) -> None:
                if isinstance(message, events.Key):
                    # What is painted from now on may show what the user types.
                    attention._is_recording = False
                super().process_message(message)

            def write(self, data: str) -> None:
                if attention._is_recording:
                    attention._painted.append(data)
                if not (attention._has_screen and data == ENTER_ALTERNATE_SCREEN):
                    # xterm would clear the first picture.
                    super().write(data)

            def stop_application_mode(self) -> None:
                attention._driver = None
                if attention._has_titles:
                    self.write(_RESTORE_TITLE)
                super().stop_application_mode()

        return NotedDriver

    def take_first_picture(self) -> str:
        """Return the sequences that draw the first picture; empty if the user typed before it was complete."""
        drawn = _NOT_DRAWING.sub("", "".join(self._painted))
        self._is_recording, self._painted = False, []
        rows = set(_ROW.findall(drawn))
        tops = [row.start() for row in _ROW.finditer(drawn) if row[1] == "1"]
        # Textual paints the screen several times; from the latest paint of all rows on is enough.
        return next((drawn[top:] for top in reversed(tops) if set(_ROW.findall(drawn, top)) == rows), "")

    @property
    def has_terminal(self) -> bool:
        """Return whether the app draws on the terminal at the moment."""
        return self._driver is not None

    def notify(self, kind: str, text: str) -> None:
        """Call for attention.

        Args:
            kind: `bell`, `desktop` or `off`.
            text: Text of the notification.
        """
        if self._driver is None or self.paused or kind == "off":
            return
        self._driver.write(attention_sequence(kind, text, self._environment))
        self._driver.flush()

    def set_title(self, title: str) -> None:
        """Set the title of the terminal's window; that of before comes back at the end."""
        if title != self._title:
            self._title = title
            self._write_title()

    def _write_title(self) -> None:
        if self._driver is not None and self._title and self._has_titles:
            self._driver.write(f"\x1b]2;{self._title}\a")
            self._driver.flush()
