"""The agents that have a hook for signoff: how they are called, and where their settings lie."""

import shutil
from pathlib import Path
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
    then: str
    """What the user has to do once the settings are written."""

    @property
    def program(self) -> str | None:
        """Where it is installed."""
        return shutil.which(self.name)

    def places(self, root: Path) -> list[tuple[str, Path]]:
        """Its settings files, each as it is named to people: the project's, those not shared, the user's."""
        found = [(self.settings, root / self.settings)]
        if self.local:
            found.append((self.local, root / self.local))
        return [*found, (f"~/{self.settings}", Path.home() / self.settings)]


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
