"""What the command palette offers.

Kept apart: the app only says what happens then.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from app.actions import Action, in_scope

if TYPE_CHECKING:
    from app.own_commands.command import OwnCommand


def offered(
    perform: Callable[[Action], None], own: "Iterable[OwnCommand]", call: Callable[[str], None]
) -> Iterable[SystemCommand]:
    """Every action but those that move a cursor, and those that decide, which Enter never does; then the user's own.

    Args:
        perform: does an action.
        own: the user's own commands.
        call: calls one by its name.
    """
    from app.keymap import DECISIONS

    for action in in_scope("app", "review", "diff"):
        if action.id in ("app.palette", "app.keys") or action.id in DECISIONS or action.moves:
            continue
        place = "" if action.scope == "app" else "Review: "
        yield SystemCommand(f"{place}{action.title}", action.help, partial(perform, action))
    for command in own:
        # What stands below a name is taken for markup.
        yield SystemCommand(f"/{command.name}", command.told.replace("[", "\\["), partial(call, command.name))
