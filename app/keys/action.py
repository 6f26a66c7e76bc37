"""An action of the user: its name, its keys, and where they work.

Kept apart: the tables are made of it.
"""

from typing import Literal, NamedTuple

Scope = Literal["app", "chat", "composer", "review", "diff", "files", "approval", "writing", "asking"]
"""Where a key works: everywhere, in the transcript, in the composer, in the whole review, or in a part of it."""


class Action(NamedTuple):
    """Something that the user can do."""

    id: str
    """What the keymap in the configuration names: `review.approve`."""
    title: str
    """Short, for the footer."""
    keys: str
    """Default keys in Textual's notation, comma-separated; empty for none."""
    handler: str
    """The action's name in Textual: `approve` calls `action_approve`."""
    scope: Scope
    help: str = ""
    """One sentence, for the help screen and the palette."""
    footer: int = 0
    """0 is not in the footer; 1 always is; of the others the highest go first where the footer is narrow."""
    moves: bool = False
    """Whether it only moves a cursor or a view, which nobody looks for in the palette."""
    priority: bool = False
    """Whether it works before the focused widget sees the key."""
    command: str = ""
    """Its slash command, without the slash; the palette offers it too."""
    argument: str = ""
    """What the slash command takes, for help: `[every-edit|chain N]`."""
