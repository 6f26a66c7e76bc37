"""What the doctor says of what users bring along: their own commands, skills, hooks.

Kept apart: the command line and the app say the same.
"""

from collections.abc import Iterator

from app.actions import ACTIONS
from app.llm.capabilities.doctor import Check
from app.runtime.own_commands import own_commands
from app.runtime.skills import skills_of
from app.runtime.workspace import Runtime


def own_checks(runtime: Runtime) -> Iterator[Check]:
    """A finding for each kind of thing that there is any of; blocks. Raises StorageError."""
    known = own_commands(runtime, {action.command for action in ACTIONS if action.command})
    problems = known.clashes()
    if known.commands or known.held or problems:
        facts = [
            f"{len(known.commands)} usable" if known.commands else "",
            f"{len(known.held)} of this workspace await /trust" if known.held else "",
            *problems,
        ]
        yield Check("own_commands", not problems, "; ".join(filter(None, facts)))
    skills = skills_of(runtime)
    if skills.by_name or skills.problems:
        facts = [f"{len(skills.by_name)} for the model to read" if skills.by_name else "", *skills.problems]
        yield Check("skills", not skills.problems, "; ".join(filter(None, facts)))
    configured = runtime.settings.hook
    held = "hook" in runtime.configuration.untrusted
    if configured or held:
        facts = [f"on {hook.on}: {' '.join(hook.run.split())}" for hook in configured]
        yield Check("hooks", True, "; ".join([*facts, *(["those of this workspace await /trust"] if held else [])]))
