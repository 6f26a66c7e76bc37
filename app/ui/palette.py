"""What the command palette offers, each with its keys beside the name.

Kept apart: the app only says what happens then.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from textual.app import SystemCommand
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from app.actions import Action, in_scope
from app.keymap import DECISIONS, key_name, keys_of

if TYPE_CHECKING:
    from app.own_commands.command import OwnCommand


@runtime_checkable
class HasKeys(Protocol):
    """An app whose keys the user may have moved."""

    @property
    def keymap(self) -> Mapping[str, str]:
        """The user's own keys, by action id."""
        ...


def offered(
    perform: Callable[[Action], None], own: "Iterable[OwnCommand]", call: Callable[[str], None]
) -> Iterable[SystemCommand]:
    """Every action but those that move a cursor, and those that decide, which Enter never does; then the user's own.

    Args:
        perform: does an action.
        own: the user's own commands.
        call: calls one by its name.
    """
    for action in _actions():
        yield SystemCommand(_name(action), action.help, partial(perform, action))
    for command in own:
        # What stands below a name is taken for markup.
        yield SystemCommand(f"/{command.name}", command.told.replace("[", "\\["), partial(call, command.name))


def _actions() -> Iterator[Action]:
    for action in in_scope("app", "review", "diff"):
        if action.id not in ("app.palette", "app.keys") and action.id not in DECISIONS and not action.moves:
            yield action


def _name(action: Action) -> str:
    return f"{'' if action.scope == 'app' else 'Review: '}{action.title}"


class PaletteCommands(Provider):
    """The commands of the app, by name, with their keys."""

    async def discover(self) -> Hits:
        """All of them, by name."""
        for title, told, callback, _ in sorted(self.app.get_system_commands(self.screen), key=lambda one: one.title):
            yield DiscoveryHit(self._with_keys(Content(title)), callback, text=title, help=told)

    async def search(self, query: str) -> Hits:
        """Those whose name is like what is looked for."""
        matcher = self.matcher(query)
        for title, told, callback, _ in self.app.get_system_commands(self.screen):
            if (match := matcher.match(title)) > 0:
                yield Hit(match, self._with_keys(matcher.highlight(title)), callback, text=title, help=told)

    def _with_keys(self, name: Content) -> Content:
        keymap = self.app.keymap if isinstance(self.app, HasKeys) else {}
        action = next((one for one in _actions() if _name(one) == name.plain), None)
        keys = " ".join(key_name(key) for key in keys_of(action, keymap)[:2]) if action is not None else ""
        command = f"/{action.command}" if action is not None and action.command else ""
        beside = "  ".join(filter(None, (keys, command)))
        return Content.assemble(name, "  ", (beside, "$text-accent")) if beside else name
