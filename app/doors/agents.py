"""The agents that have a hook for signoff: how they are called, and where their settings lie."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple


class Agent(NamedTuple):
    """One agent."""

    name: str
    """As in `signoff hook claude`, and its program."""
    title: str
    settings: str
    """Its settings in a project, relative to that; below the home folder they lie under the same name."""
    local: str
    """Settings in a project that are not shared; empty if it has none."""
    before_tool: str
    """Its name for what comes before each call."""
    before_prompt: str
    milliseconds: bool
    """Whether it counts time limits so; else in seconds."""
    next_step: str
    """What the user has to do once the settings are written."""
    config: str = ""
    """Other settings, which may turn hooks off; empty if there are none."""
    default_limit: float = 60
    """Seconds that it gives a hook whose settings have no limit: the least of any release."""
    on_failure: Mapping[str, str] = MappingProxyType({})
    """What its settings have beside the command so that a hook without an answer is a denial."""

    @property
    def program(self) -> str | None:
        """Where it is installed."""
        return shutil.which(self.name)

    def settings_files(self, root: Path) -> list[tuple[str, Path]]:
        """Its settings files, each as it is named to people: the project's, those not shared, the user's."""
        return _below(root, self.settings, self.local) + _below(Path.home(), self.settings, shown="~/")

    def files_that_disable_hooks(self, root: Path) -> list[tuple[str, Path]]:
        """All files that may turn its hooks off."""
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
    """An agent by its name."""
    return next(agent for agent in AGENTS if agent.name == name)
