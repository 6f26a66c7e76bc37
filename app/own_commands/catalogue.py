"""All commands of one workspace and user: which of them can be called, and by which name."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from app.own_commands.command import CommandUnusable, OwnCommand
from app.own_commands.finding import Found


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What can be called, and what cannot."""

    commands: Mapping[str, OwnCommand] = field(default_factory=dict)
    """By name, in order; those that have a problem say so when they are called."""
    problems: tuple[str, ...] = ()
    """What is wrong with files, and names that are taken: a line each."""
    held: tuple[str, ...] = ()
    """Names of those that the workspace brings along and the user has not trusted."""

    def get(self, name: str) -> OwnCommand:
        """The command of a name; raises CommandUnusable."""
        if command := self.commands.get(name.lower()):
            return command
        if name.lower() in self.held:
            raise CommandUnusable(
                f"/{name} comes with this workspace, whose commands you have not trusted as they are now: "
                "/trust in the app shows them.",
                untrusted=True,
            )
        raise CommandUnusable(f"There is no command /{name}; /help in the app lists them.")

    def clashes(self) -> tuple[str, ...]:
        """All that the user should know of the files: problems, and commands that cannot be called."""
        return (*self.problems, *(f"{one.path}: {one.problem}" for one in self.commands.values() if one.problem))


def catalogue(user: Found, workspace: Found, built_in: Collection[str], *, trusted: bool) -> Catalogue:
    """Put commands together: signoff's own names first, then the user's, then the workspace's.

    Args:
        user: the user's.
        workspace: those that the workspace brings along.
        built_in: the names of signoff's own.
        trusted: whether the user trusts the workspace's as they are.
    """
    problems = [*user.problems, *(workspace.problems if trusted else ())]
    found: dict[str, OwnCommand] = {}
    for command in (*user.commands, *(workspace.commands if trusted else ())):
        if command.name in built_in:
            problems.append(f"{command.path}: /{command.name} is signoff's own command")
        elif (first := found.get(command.name)) is None:
            found[command.name] = command
        elif first.body != command.body:
            problems.append(f"{command.path}: /{command.name} is {first.path} already")
    held = () if trusted else (one.name for one in workspace.commands if one.name not in built_in)
    return Catalogue(dict(sorted(found.items())), tuple(problems), tuple(sorted(set(held) - found.keys())))
