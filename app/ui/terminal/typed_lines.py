"""Lines that were typed before signoff had asked for single keys, as the keys that made them.

Kept apart: Textual reads keys from the terminal alone, and these are not in it any more.
"""

import re
import unicodedata
from collections.abc import Iterator

from textual import events
from textual.keys import KEY_NAME_REPLACEMENTS

_SEQUENCE = re.compile(r"\x1b(?:\[[0-9:;<=>?]*[ -/]*[@-~]|O.|.)?")
"""What a key without a letter sends; in a line that was edited before there was an editor it meant nothing."""


def keys_of(lines: str) -> Iterator[events.Key]:
    """One event for each letter, and Enter at the end of each line."""
    for letter in _SEQUENCE.sub("", lines):
        if letter == "\n":
            yield events.Key("enter", "\r")
        elif letter.isprintable():
            yield events.Key(_name(letter), letter)


def _name(letter: str) -> str:
    """What Textual calls its key."""
    if letter.isalnum():
        return letter
    name = unicodedata.name(letter, letter).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)
