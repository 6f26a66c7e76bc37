"""Characters that came in one read of the terminal, so that a word is told from keys.

A terminal without bracketed paste delivers a pasted text as keys, and most words have a letter that decides something
in the review. What a person types comes one key at a time, except over a slow link, and there nobody has seen on the
screen what the first of several keys did. So characters that came together may move and write, but decide nothing.
A key that no text contains, such as F3 or an arrow, parts them: before and after it they are counted apart.
"""

from collections.abc import Iterable

from textual import events
from textual.message import Message

TOGETHER = "Several keys came at once, so nothing was decided. Press the key again."
"""Says why a key that decides did nothing."""
_IN_TEXTS = frozenset(("enter", "tab", "ctrl+j"))
"""Keys without a printable character that a pasted text consists of, too."""


class JoinedKey(events.Key):
    """A key that came in one read with other characters."""


# Textual finds the handlers of a message by this name, which it derives from the name of the class.
JoinedKey.handler_name = events.Key.handler_name


def join(read: Iterable[Message]) -> list[Message]:
    """The events of one read, each key that came with other characters as a `JoinedKey`."""
    messages = list(read)
    run: list[tuple[int, events.Key]] = []
    runs = [run]
    for at, message in enumerate(messages):
        if isinstance(message, events.Key) and (message.is_printable or message.key in _IN_TEXTS):
            run.append((at, message))
        elif isinstance(message, events.Key | events.Paste):
            runs.append(run := [])
    for run in runs:
        for at, key in run if len(run) > 1 else ():
            messages[at] = joined = JoinedKey(key.key, key.character)
            joined.time = key.time
    return messages
