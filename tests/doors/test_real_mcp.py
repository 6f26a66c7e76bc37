"""`signoff mcp` in real agents, with the settings of docs/other-agents.md; run them like `test_real_agents`."""

import json
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.doors.hook.agent_trial import ScriptedModelServer
from app.doors.hook.agent_trial import ScriptedToolCall as Call
from tests.doors.driving import FOLDER, PACKAGES, DrivenAgent, program
from tests.hygiene.test_readme import OTHER_AGENTS
from tests.waiting import MAX_WAIT_SECONDS

pytestmark = pytest.mark.timeout(600)
LINES = "".join(f"line {number:02}\n" for number in range(1, 31))
TWO_LINES = "Not so.\n  Say goodbye instead."
# The agents whose settings docs/other-agents.md gives.
TITLES = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}
TOOL = {"claude": "mcp__signoff__{}", "codex": "mcp__signoff::{}", "gemini": "mcp_signoff_{}"}
# The script passes on the host's messages and records whether the host has asked for the tools.
PROGRAM = """#!/bin/sh
tee -a {log} | {python} -P -m signoff "$@" {options}
"""


class McpAgent:
    """An agent that edits only through the MCP server."""

    def __init__(self, driven: DrivenAgent, home: Path, options: str = "") -> None:
        self.driven = driven
        self._home = home
        self._log = home.parent / "log"
        programs = home.parent / "programs"
        programs.mkdir()
        (programs / "signoff").write_text(PROGRAM.format(log=self._log, python=sys.executable, options=options))
        (programs / "signoff").chmod(0o755)
        driven.prepend_to_path(programs)
        getattr(self, f"_set_up_{driven.agent}")(self._settings_blocks())
        driven.model.ready = self._wait_for_tools_request

    def call(self, tool: str, **arguments: object) -> Call:
        return Call(TOOL[self.driven.agent].format(tool), arguments)

    def make_proposal_call(self, *lines: int) -> Call:
        edits = [{"old": f"line {line:02}\n", "new": f"LINE {line:02}\n"} for line in lines]
        return self.call("propose_edit", files=[{"path": "a.txt", "edits": edits}], summary="shout")

    def _wait_for_tools_request(self) -> None:
        never_set = threading.Event()
        for _ in range(int(MAX_WAIT_SECONDS * 20)):
            if self._log.exists() and '"tools/list"' in self._log.read_text():
                return
            never_set.wait(0.05)
        raise AssertionError("the agent did not ask for the tools")

    def _settings_blocks(self) -> list[str]:
        """Return the settings that docs/other-agents.md gives for this agent."""
        (part,) = re.findall(rf"\*\*{TITLES[self.driven.agent]}\*\*[:,](.*?)(?=\n\*\*)", OTHER_AGENTS, re.DOTALL)
        return re.findall(r"```\w+\n(.*?)```", part, re.DOTALL)

    def _set_up_claude(self, blocks: list[str]) -> None:
        settings = self.driven.workspace / ".claude"
        settings.mkdir()
        (settings / "settings.json").write_text(blocks[0])
        self.driven.run_agent("mcp", "add", "signoff", "--", "signoff", "mcp")
        # The user's answer when Claude is first opened in a folder.
        file = self._home / ".claude.json"
        config = json.loads(file.read_text())
        config["projects"][str(self.driven.workspace)]["hasTrustDialogAccepted"] = True
        file.write_text(json.dumps(config))

    def _set_up_codex(self, blocks: list[str]) -> None:
        file = self._home / ".codex" / "config.toml"
        sandbox, server = blocks[0].split("\n", 1)
        text = re.sub(r"sandbox_mode = .*", sandbox, file.read_text())
        file.write_text(f'{text}{server}env_vars = ["SIGNOFF_HOME"]\n')

    def _set_up_gemini(self, blocks: list[str]) -> None:
        file = self._home / ".gemini" / "settings.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | json.loads(blocks[0])))
        (file.parent / "policies").mkdir()
        (file.parent / "policies" / "signoff.toml").write_text(blocks[1])


@pytest.fixture(params=TITLES)
def driven(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DrivenAgent]:
    name = request.param
    if program(name) is None:
        pytest.skip(f"{name} is not installed: npm install --prefix FOLDER {PACKAGES[name]}, and {FOLDER}=FOLDER")
    if shutil.which("tee") is None:
        pytest.skip("there is no tee")
    with ScriptedModelServer() as model:
        agent = DrivenAgent(name, tmp_path, model)
        agent.commit({"a.txt": LINES})
        yield agent


def test_agent_has_no_write_tools(driven: DrivenAgent, tmp_path: Path) -> None:
    McpAgent(driven, tmp_path / "home")
    printed = driven.send_prompt("change it", [driven.write_call("b.txt", "world\n")])
    assert driven.changed_paths() == [], printed
    assert driven.model.made == 1


def test_repeated_edits_make_one_proposal_and_feedback_arrives_unchanged(driven: DrivenAgent, tmp_path: Path) -> None:
    agent = McpAgent(driven, tmp_path / "home")
    printed = driven.send_prompt(
        "change it", [driven.read_call("a.txt")], *[[agent.make_proposal_call(3, 10, 20)]] * 4
    )
    assert driven.changed_paths() == [], printed
    (proposal,) = driven.proposals()
    assert proposal["origin"]["agent"] == driven.agent
    assert driven.last_request().count("Refused, and nothing of this call was staged: P1") >= 3, printed
    driven.signoff("deny", "P1", "-m", TWO_LINES)
    printed = driven.send_prompt("well?", [driven.read_call("a.txt")], [agent.call("proposal_status", proposal="P1")])
    assert json.dumps(TWO_LINES)[1:-1] in driven.last_request().replace("\\\\n", "\\n"), printed


def test_waiting_call_returns_the_decision_on_each_hunk(driven: DrivenAgent, tmp_path: Path) -> None:
    agent = McpAgent(driven, tmp_path / "home", "--wait 200")
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(
            driven.send_prompt, "change it", [driven.read_call("a.txt")], [agent.make_proposal_call(3, 10, 20)]
        )
        while not turn.done() and not driven.proposals():
            pass  # Each call of `proposals` runs a process.
        driven.signoff("approve", "P1", "--hunks", "2")
        assert (driven.workspace / "a.txt").read_text() == LINES.replace("line 10", "LINE 10")
        driven.signoff("deny", "P1", "-m", TWO_LINES)
        printed = turn.result()
    assert "P1: hunk 2 written, 1 and 3 denied." in driven.last_request(), printed
    assert driven.changed_paths() == ["a.txt"]
