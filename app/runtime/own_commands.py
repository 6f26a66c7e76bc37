"""The user's own commands over an open workspace: where they lie, and whether the workspace's are trusted."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from app.conversation.events import Invocation
from app.own_commands.catalogue import Catalogue, catalogue
from app.own_commands.finding import Found, in_workspace, of_user
from app.runtime.workspace import Runtime
from app.text.plural import plural
from app.workspace import trust

_TOLD = "told of commands"
"""The name of those of which the user was told that they await trust."""


def own_commands(runtime: Runtime, built_in: Collection[str]) -> Catalogue:
    """All commands as their files are now; blocks.

    Args:
        runtime: the open workspace.
        built_in: names that are signoff's own.

    Raises:
        StorageError: whether the workspace's are trusted cannot be read.
    """
    found = in_workspace(runtime.workspace)
    trusted = trust.is_trusted(found.content, runtime.sessions, trust.COMMANDS)
    return catalogue(_of_user(runtime), found, built_in, trusted=trusted)


def news_of_held(runtime: Runtime, known: Catalogue) -> str:
    """A line about commands that await the user's trust; empty if there are none, or the user was told of these.

    Raises:
        StorageError: it cannot be kept that the user was told.
    """
    if not known.held:
        return ""
    content = in_workspace(runtime.workspace).content
    if trust.is_trusted(content, runtime.sessions, _TOLD):
        return ""
    trust.trust(content, runtime.sessions, _TOLD)
    named = ", ".join(f"/{name}" for name in known.held[:3])
    more = f" and {len(known.held) - 3} more" if len(known.held) > 3 else ""
    return f"This workspace brings commands along: {named}{more}. /trust shows them and lets them in."


@dataclass(frozen=True, slots=True)
class OwnMessage:
    """A message that a command has made."""

    text: str
    command: Invocation
    notice: str = ""
    """What the user should know of it; empty if nothing."""


def message_of(known: Catalogue, name: str, argument: str) -> OwnMessage:
    """What the model gets for a command; raises CommandUnusable."""
    command = known.get(name)
    text = command.message(argument)
    called = Invocation(typed=f"/{command.name} {argument}".strip(), model=command.model, effort=command.effort)
    if not command.shell:
        return OwnMessage(text, called)
    asks = f"/{command.name} has {plural(command.shell, 'command')} in !`…`: not run, the model has to ask."
    return OwnMessage(text, called, asks)


def _of_user(runtime: Runtime) -> Found:
    folders = [("commands", runtime.places.commands)]
    if home := runtime.environment.get("HOME"):
        folders.append(("~/.claude/commands", Path(home) / ".claude" / "commands"))
    return of_user(folders)
