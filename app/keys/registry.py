"""The registry of everything that a key, the palette, a slash command or the help screen can name.

Bindings, footer, command palette, help and the documentation are all made from `ACTIONS`; a key that is not
listed here does not exist. Destructive actions are never `priority`, so no other widget can leak a key to them.

Each pane has its table in a module of its own; who reads the registry from end to end imports it from here.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from app.keys.action import Action, Scope
from app.keys.actions import EVERYWHERE, IN_CHAT, IN_DIFF, IN_REVIEW

if TYPE_CHECKING:
    from textual.binding import Binding


_LINE = re.compile(r"/([^\W\d_][\w:-]*)(?:\s+(.*))?$", re.DOTALL)


def slash_call(text: str) -> tuple[str, str] | None:
    """Name, in lower case, and argument; None if the text, without space around it, calls nothing."""
    found = _LINE.match(text)
    return None if found is None else (found[1].lower(), (found[2] or "").strip())


__all__ = ["ACTIONS", "Action", "Scope", "bindings", "in_scope"]

ACTIONS: tuple[Action, ...] = (*EVERYWHERE, *IN_REVIEW, *IN_DIFF, *IN_CHAT)
"""Every action, in the order in which help lists them."""


def bindings(*scopes: Scope, through: str = "") -> list["Binding"]:
    """The bindings of these scopes, each with its registry id so that a keymap can move it.

    Args:
        scopes: Whose.
        through: The action of a widget that hands each of them on, by the name of its handler.
    """
    from textual.binding import Binding

    return [
        Binding(
            action.keys,
            f"{through}({action.handler!r})" if through else action.handler,
            action.title,
            id=action.id,
            show=action.footer > 0,
            priority=action.priority,
        )
        for action in in_scope(*scopes)
        if action.keys
    ]


def in_scope(*scopes: Scope) -> Iterable[Action]:
    """The actions of these scopes, in registry order."""
    return (action for action in ACTIONS if action.scope in scopes)
