"""The user's custom commands and skills for an open workspace: their folders, and trust in those of the workspace."""

from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from app.conversation.events import CustomCommandInvocation
from app.keys.actions import ACTIONS
from app.llm.endpoint_doctor import DoctorCheckResult
from app.prompts.custom_commands import (
    CommandCatalogue,
    FoundCommands,
    build_command_catalogue,
    find_user_commands,
    find_workspace_commands,
)
from app.prompts.skills import SkillCatalogue, find_skills
from app.runtime.open_workspace import OpenWorkspace
from app.text.quantities import format_count, join_first
from app.workspace import trust


def load_skills(runtime: OpenWorkspace) -> SkillCatalogue:
    """Read all skills from their files. Blocks on the disk."""
    folders = [("skills", runtime.dirs.skills)]
    if home := runtime.environment.get("HOME"):
        folders += [(f"~/{name}", Path(home, name)) for name in (".agents/skills", ".claude/skills")]
    return find_skills(runtime.workspace, folders)


_NOTIFIED_COMMANDS = "told of commands"
"""Name under which the store keeps the untrusted commands that the user was notified of."""


def load_custom_commands(runtime: OpenWorkspace, built_in: Collection[str]) -> CommandCatalogue:
    """Read all custom commands from their files. Blocks on the disk.

    Raises:
        StorageError: the trust in the workspace's commands cannot be read.
    """
    workspace_commands = find_workspace_commands(runtime.workspace)
    trusted = trust.is_trusted(workspace_commands.content, runtime.sessions, trust.COMMAND_FILES)
    return build_command_catalogue(_user_commands(runtime), workspace_commands, built_in, trusted=trusted)


def take_new_untrusted_commands_notice(runtime: OpenWorkspace, catalogue: CommandCatalogue) -> str:
    """Return a line about commands that wait for the user's trust; empty if there are no new ones.

    Raises:
        StorageError: the store cannot be read or written.
    """
    if not catalogue.untrusted:
        return ""
    content = find_workspace_commands(runtime.workspace).content
    if trust.is_trusted(content, runtime.sessions, _NOTIFIED_COMMANDS):
        return ""
    trust.store_trust(content, runtime.sessions, _NOTIFIED_COMMANDS)
    names = join_first([f"/{name}" for name in catalogue.untrusted])
    return f"This workspace has commands of its own: {names}. They are off until you trust them with /trust."


class CommandMessage(Struct, frozen=True):
    """The prompt that a custom command makes for the model, and a notice for the user."""

    text: str
    command: CustomCommandInvocation
    notice: str = ""
    """Line for the user about the command; empty if there is none."""


def make_command_message(catalogue: CommandCatalogue, name: str, argument: str) -> CommandMessage:
    """Return the message of a custom command for the model. Raises CommandUnusable."""
    command = catalogue.get(name)
    text = command.make_message(argument)
    invocation = CustomCommandInvocation(
        typed=f"/{command.name} {argument}".strip(), model=command.model, effort=command.effort
    )
    if not command.shell:
        return CommandMessage(text, invocation)
    notice = f"/{command.name} has {format_count(command.shell, 'command')} in !`…`: not run, the model has to ask."
    return CommandMessage(text, invocation, notice)


def _user_commands(runtime: OpenWorkspace) -> FoundCommands:
    folders = [("commands", runtime.dirs.commands)]
    if home := runtime.environment.get("HOME"):
        folders.append(("~/.claude/commands", Path(home) / ".claude" / "commands"))
    return find_user_commands(folders)


def check_commands_skills_and_hooks(runtime: OpenWorkspace) -> Iterator[DoctorCheckResult]:
    """Yield one finding each on commands, skills and hooks, if there are any. Blocks on the disk; raises
    StorageError."""
    catalogue = load_custom_commands(runtime, {action.command for action in ACTIONS if action.command})
    problems = catalogue.all_problems()
    if catalogue.commands or catalogue.untrusted or problems:
        facts = [
            f"{len(catalogue.commands)} usable" if catalogue.commands else "",
            f"{len(catalogue.untrusted)} of this workspace await /trust" if catalogue.untrusted else "",
            *problems,
        ]
        yield DoctorCheckResult("own_commands", not problems, "; ".join(filter(None, facts)))
    skills = load_skills(runtime)
    if skills.by_name or skills.problems:
        facts = [f"{len(skills.by_name)} for the model to read" if skills.by_name else "", *skills.problems]
        yield DoctorCheckResult("skills", not skills.problems, "; ".join(filter(None, facts)))
    hooks = runtime.settings.hook
    has_untrusted_hooks = "hook" in runtime.configuration.untrusted
    if hooks or has_untrusted_hooks:
        facts = [f"on {hook.on}: {' '.join(hook.run.split())}" for hook in hooks]
        yield DoctorCheckResult(
            "hooks",
            True,
            "; ".join([*facts, *(["those of this workspace await /trust"] if has_untrusted_hooks else [])]),
        )
