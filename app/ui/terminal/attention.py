"""The terminal's driver, the window title, and notifications for a user whose focus is elsewhere.

Terminals that know OSC 9 (iTerm2, kitty, WezTerm, Windows Terminal, foot, Ghostty) or OSC 777 (urxvt, VTE) turn the
sequence into a notification; most others ignore an unknown OSC. Consoles that would print unknown sequences get a
bell. tmux gets a bell, too: it passes the notification on only if `allow-passthrough` is on, but always a bell.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from app.keys.keymap import key_of_character
from app.runtime.terminal_at_start import (
    ENTER_ALTERNATE_SCREEN,
    pop_typed_lines,
    restore_terminal,
    take_over_first_picture_screen,
)
from app.text.safe_text import strip_unsafe

if TYPE_CHECKING:
    from textual.driver import Driver


_KEY_SEQUENCE = re.compile(r"\x1b(?:\[[0-9:;<=>?]*[ -/]*[@-~]|O.|.)?")
"""Escape sequences of keys that enter no character."""


def typed_lines_to_key_events(lines: str) -> Iterator[events.Key]:
    """Yield a key event for each printable character, and Enter at the end of each line."""
    for letter in _KEY_SEQUENCE.sub("", lines):
        if letter == "\n":
            yield events.Key("enter", "\r")
        elif letter.isprintable():
            yield events.Key(key_of_character(letter), letter)


_NON_DRAWING_SEQUENCE = re.compile(
    r"\x1b(?!\[[0-9;:]*[mH])(?:\[[0-9:;<=>?]*[ -/]*[@-~]|[\]P][^\x07\x1b]*(?:\x07|\x1b\\)|.)?"
)
"""Every control sequence except those that set colours (SGR) or move the cursor (CUP)."""
_ROW_START = re.compile(r"\x1b\[(\d+);1H")
"""The cursor movement before a painted row, with the row's number from 1."""
_MAX_TEXT_CHARACTERS = 200


def desktop_notification_sequence(title: str, text: str) -> str:
    """Return the escape sequence of a desktop notification; the texts are cleaned so that they cannot end it
    early."""
    title, text = _clean_text(title), _clean_text(text)
    # OSC 777 separates its fields by semicolons. OSC 9 has one field, but ConEmu reads `9;4;…` as a command.
    return f"\x1b]9;{title}: {text}\x1b\\" + f"\x1b]777;notify;{title};{text}\x1b\\"


def bell_or_notification_sequence(kind: str, text: str, environment: Mapping[str, str]) -> str:
    """Return the sequence of a `bell` or `desktop` notification for the terminal of this environment."""
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


def window_title(waiting_count: int, folder: str) -> str:
    """Return the title of the terminal's window, such as `signoff (3) - folder`.

    Args:
        waiting_count: Number of items that wait for the user.
        folder: Name of the workspace.
    """
    count = f" ({waiting_count})" if waiting_count else ""
    return f"signoff{count} - {_clean_text(folder)}"


def _shows_titles(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal can set a title: consoles print unknown sequences, and screen has no titles."""
    return environment.get("TERM", "") not in ("", "dumb", "linux", "unknown") and "STY" not in environment


def _clean_text(text: str) -> str:
    return strip_unsafe(" ".join(text.split()), keep="").replace(";", ",")[:_MAX_TEXT_CHARACTERS]


class TerminalNotifier:
    """Sends bells, notifications and window titles through Textual's driver, and records its first picture."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._has_titles = _shows_titles(environment)
        self._title = ""
        self._driver: Driver | None = None
        self._is_screen_taken_over = False
        """Whether the alternate screen is already shown when Textual requests it."""
        self._is_recording = True
        """Whether output is recorded for the first picture of the next start."""
        self._recorded_output: list[str] = []
        self.paused = False
        """Set while another program uses the terminal."""

    def wrap_driver(self, base: type["Driver"]) -> type["Driver"]:
        """Return a subclass of the driver that registers itself here when it starts."""
        notifier = self

        class NotedDriver(base):  # type: ignore[valid-type, misc]
            """Textual's driver for this platform."""

            def start_application_mode(self) -> None:
                # Textual restores the state that it finds here at its end, and for an external editor.
                restore_terminal()
                for key in typed_lines_to_key_events(pop_typed_lines()):
                    self.process_message(key)
                notifier._is_screen_taken_over = take_over_first_picture_screen()
                super().start_application_mode()
                notifier._is_screen_taken_over = False
                notifier._driver = self
                if notifier._has_titles:
                    self.write(_SAVE_TITLE)
                    notifier._write_title()

            def process_message(self, message: Message) -> None:
                if isinstance(message, events.Key | events.Paste):
                    # Later paints may contain text of the user.
                    notifier._is_recording = False
                super().process_message(message)

            def write(self, data: str) -> None:
                if notifier._is_recording:
                    notifier._recorded_output.append(data)
                # Requesting the alternate screen again would make xterm clear the first picture. Once the terminal is
                # gone, Textual's thread no longer takes texts, and the app would wait for it for ever.
                if not (notifier._is_screen_taken_over and data == ENTER_ALTERNATE_SCREEN) and os.isatty(2):
                    super().write(data)

            def stop_application_mode(self) -> None:
                notifier._driver = None
                if notifier._has_titles:
                    self.write(_RESTORE_TITLE)
                super().stop_application_mode()

        return NotedDriver

    def take_first_picture(self) -> str:
        """Stop recording; return the sequences that draw the first picture, or "" if the user typed before it was
        complete."""
        drawn = _NON_DRAWING_SEQUENCE.sub("", "".join(self._recorded_output))
        self._is_recording, self._recorded_output = False, []
        rows = set(_ROW_START.findall(drawn))
        tops = [row.start() for row in _ROW_START.finditer(drawn) if row[1] == "1"]
        # Textual paints several times: the sequences from the latest full paint are enough.
        return next((drawn[top:] for top in reversed(tops) if set(_ROW_START.findall(drawn, top)) == rows), "")

    @property
    def has_terminal(self) -> bool:
        """Return whether the app draws on the terminal at the moment."""
        return self._driver is not None

    def notify(self, kind: str, text: str) -> None:
        """Send a notification, unless another program uses the terminal.

        Args:
            kind: `bell`, `desktop` or `off`.
            text: Text of the notification.
        """
        if self._driver is None or self.paused or kind == "off":
            return
        self._driver.write(bell_or_notification_sequence(kind, text, self._environment))
        self._driver.flush()

    def set_title(self, title: str) -> None:
        """Set the window title; the driver restores the former title at its end."""
        if title != self._title:
            self._title = title
            self._write_title()

    def _write_title(self) -> None:
        if self._driver is not None and self._title and self._has_titles:
            self._driver.write(f"\x1b]2;{self._title}\a")
            self._driver.flush()
