"""The agents that can call signoff as a hook: their names and settings files."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple


class Agent(NamedTuple):
    """An agent and what its hook settings look like."""

    name: str
    """The argument of `signoff hook`, and the name of its program."""
    title: str
    settings: str
    """Path of its settings file, relative to a project or to the home folder."""
    local: str
    """Path of project settings that are not committed; empty if it has none."""
    before_tool: str
    """Its name of the event before each tool call."""
    before_prompt: str
    milliseconds: bool
    """Whether its time limits are in milliseconds; else in seconds."""
    next_step: str
    """What the user has to do once the settings are written."""
    config: str = ""
    """Path of another settings file that can turn hooks off; empty if there is none."""
    default_limit: float = 60
    """Seconds that a hook may take if the settings have no limit: the least of all releases."""
    on_failure: Mapping[str, str] = MappingProxyType({})
    """Settings beside the command that make a hook without an answer a denial; empty if it has none."""

    @property
    def program(self) -> str | None:
        """Path of the installed program; None if it is not on the PATH."""
        return shutil.which(self.name)

    def settings_files(self, root: Path) -> list[tuple[str, Path]]:
        """Its settings files, each with the name to show: of the project, uncommitted ones, of the user."""
        return _below(root, self.settings, self.local) + _below(Path.home(), self.settings, shown="~/")

    def files_that_disable_hooks(self, root: Path) -> list[tuple[str, Path]]:
        """All files that can turn its hooks off, each with the name to show."""
        return [*self.settings_files(root), *_below(root, self.config), *_below(Path.home(), self.config, shown="~/")]


def _below(folder: Path, *names: str, shown: str = "") -> list[tuple[str, Path]]:
    return [(f"{shown}{name}", folder / name) for name in names if name]


AGENTS = (
    Agent(
        "claude",
        "Claude Code",
        ".claude/settings.json",
        ".claude/settings.local.json",
        "PreToolUse",
        "UserPromptSubmit",
        False,
        "Start it anew in this folder.",
        on_failure=MappingProxyType({"onFailure": "block"}),
    ),
    Agent(
        "codex",
        "Codex",
        ".codex/hooks.json",
        "",
        "PreToolUse",
        "UserPromptSubmit",
        False,
        "Start it anew in this folder, trust the folder, and trust the hooks with its command /hooks: until then it "
        "passes them over.",
        config=".codex/config.toml",
    ),
    Agent(
        "gemini",
        "Gemini CLI",
        ".gemini/settings.json",
        "",
        "BeforeTool",
        "BeforeAgent",
        True,
        "Start it anew in this folder, and trust the folder.",
    ),
)


def agent_of(name: str) -> Agent:
    """Return the agent of a name."""
    return next(agent for agent in AGENTS if agent.name == name)
