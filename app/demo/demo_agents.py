"""Two scripted agents beside the demo model: they propose through `signoff hook`, as Claude Code and Codex do."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from app.demo.demo_conversation import WORDING

_STAGED = re.compile(r"\b(P\d+)(?: is staged|, which you staged)\b")


class DemoAgents:
    """The agents of one sample workspace.

    Args:
        folder: The workspace.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.have_proposed = False
        """Whether they have been brought in; they propose once."""

    def propose_edits(self) -> dict[str, str]:
        """Have each agent propose its edit and end its turn; return the title of each, with its proposal's id.

        The id is empty for one whose edit was not staged.
        """
        self.have_proposed = True
        staged = {}
        for agent in WORDING["agents"]:
            call = {"tool_name": agent["tool"], "tool_input": agent["arguments"]}
            answer = self._finish(self._begin(agent, "PreToolUse", "1", call))
            staged[agent["title"]] = "".join(_STAGED.findall(answer)[:1])
        # Side by side: each has to load signoff.
        ends = [self._begin(one, "Stop", "1", {"last_assistant_message": one["says"]}) for one in WORDING["agents"]]
        for end in ends:
            self._finish(end)
        return staged

    def read_decisions(self) -> dict[str, str]:
        """Return the decisions that each agent gets with its next prompt, by its title; only agents with any."""
        prompts = [(one["title"], self._begin(one, "UserPromptSubmit", "2", {})) for one in WORDING["agents"]]
        answers = {title: self._finish(prompt) for title, prompt in prompts}
        return {
            title: json.loads(answer)["hookSpecificOutput"]["additionalContext"]
            for title, answer in answers.items()
            if answer
        }

    def _begin(
        self, agent: dict[str, Any], event: str, prompt: str, facts: dict[str, Any]
    ) -> "subprocess.Popen[str]":
        """Call the agent's hook."""
        command = [sys.executable, "-P", "-m", "signoff", "hook", agent["name"], "--workspace", str(self._folder)]
        payload = {"session_id": "demo", "cwd": str(self._folder), "prompt_id": prompt, "hook_event_name": event}
        pipe = subprocess.PIPE
        hook = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=self._folder, encoding="utf-8"
        )
        assert hook.stdin is not None
        hook.stdin.write(json.dumps({**payload, **facts}))
        hook.stdin.close()
        return hook

    def _finish(self, hook: "subprocess.Popen[str]") -> str:
        """Return the answer on the standard output of a hook."""
        with hook:
            assert hook.stdout is not None
            return hook.stdout.read()
