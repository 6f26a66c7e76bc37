"""Known releases and settings of agents with which tool calls bypass the hook."""

import json
import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from app.doors import json_text
from app.doors.hook.agents import Agent

_SECONDS = 20
_RELEASES: Mapping[str, tuple[tuple[tuple[int, int, int], str], ...]] = {
    "codex": (((0, 141, 0), "releases before 0.141.0 edit files without calling the hook, in Code Mode or not"),),
}
"""For each agent: the first release without a weakness, and the weakness of those before."""


def installed_version(program: str) -> str:
    """Return the version that `--version` prints: `0.169.0`; empty if it prints none."""
    # Agents write to their home even for that; it is not to be the user's.
    with tempfile.TemporaryDirectory(prefix="signoff-door-", ignore_cleanup_errors=True) as home:
        environment = {**os.environ, **dict.fromkeys(("HOME", "CODEX_HOME", "GEMINI_CLI_HOME"), home)}
        command = [program, "--version"]
        try:
            done = subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
    found = re.search(rb"\d+\.\d+\.\d+", done.stdout)
    return found[0].decode() if found else ""


def release_weaknesses(agent: Agent, version: str) -> Iterator[str]:
    """Yield the known weaknesses of a release, those that all releases have first."""
    if agent.fails_open:
        yield (
            f"{agent.title} fails open: a call passes if its hook ends without exit code 2 and a word, which "
            "signoff's command avoids, or if its time limit stops the hook"
        )
    numbers = tuple(map(int, version.split("."))) if version else ()
    for right, words in _RELEASES.get(agent.name, ()):
        if numbers and numbers < right:
            yield f"{agent.title} {version}: {words}; update it"


def settings_weaknesses(agent: Agent, name: str, text: str) -> Iterator[str]:
    """Yield each setting that turns hooks off; settings that can't be parsed have none."""
    try:
        found: Any = tomllib.loads(text) if name.endswith(".toml") else json_text.value(text, json_text.parse(text))
    except ValueError:
        return
    match agent.name, found:
        case "claude", {"disableAllHooks": True}:
            yield f"{name}: disableAllHooks turns all hooks off"
        case "codex", {"features": {"hooks": False} | {"codex_hooks": False}}:
            yield f"{name}: features.hooks = false turns all hooks off"
        case "gemini", {"hooksConfig": {"enabled": False}}:
            yield f"{name}: hooksConfig.enabled turns all hooks off"
        case "qwen", {"disableAllHooks": True}:
            yield f"{name}: disableAllHooks turns all hooks off"
        case "droid", {}:
            if name.endswith("hooks.json"):
                yield f"{name} is there: Droid then takes no hooks from {agent.settings}; put signoff's into it"
        case "gemini", {"hooksConfig": {"disabled": [*names]}} if "signoff hook gemini" in json.dumps(names):
            yield f"{name}: hooksConfig.disabled has signoff's hook in it"
