"""`signoff mcp` in the real agents, with the settings of docs/other-agents.md; run as `test_real_agents` says."""

import json
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.doors.hook.agent_trial import ScriptedCall as Call
from app.doors.hook.agent_trial import ScriptedModel
from tests.doors.driving import FOLDER, PACKAGES, Driven, program
from tests.hygiene.test_readme import OTHER_AGENTS
from tests.waiting import MAX_WAIT_SECONDS

pytestmark = pytest.mark.timeout(600)
LINES = "".join(f"line {number:02}\n" for number in range(1, 31))
TWO_LINES = "Not so.\n  Say goodbye instead."
# Those whose settings the README gives.
TITLES = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}
TOOL = {"claude": "mcp__signoff__{}", "codex": "mcp__signoff::{}", "gemini": "mcp_signoff_{}"}
# It passes on what the host says, and shows that the host has asked for the tools: it calls none before.
PROGRAM = """#!/bin/sh
tee -a {heard} | {python} -P -m signoff "$@" {options}
"""


class ByMcp:
    """An agent that edits through the server alone."""

    def __init__(self, driven: Driven, home: Path, options: str = "") -> None:
        self.driven = driven
        self._home = home
        self._heard = home.parent / "heard"
        programs = home.parent / "programs"
        programs.mkdir()
        (programs / "signoff").write_text(PROGRAM.format(heard=self._heard, python=sys.executable, options=options))
        (programs / "signoff").chmod(0o755)
        driven.put_first(programs)
        getattr(self, f"_set_up_{driven.agent}")(self._blocks())
        driven.model.ready = self._asked_for_tools

    def call(self, tool: str, **arguments: object) -> Call:
        return Call(TOOL[self.driven.agent].format(tool), arguments)

    def proposes(self, *lines: int) -> Call:
        edits = [{"old": f"line {line:02}\n", "new": f"LINE {line:02}\n"} for line in lines]
        return self.call("propose_edit", files=[{"path": "a.txt", "edits": edits}], summary="shout")

    def _asked_for_tools(self) -> None:
        waited = threading.Event()
        for _ in range(int(MAX_WAIT_SECONDS * 20)):
            if self._heard.exists() and '"tools/list"' in self._heard.read_text():
                return
            waited.wait(0.05)
        raise AssertionError("the agent did not ask for the tools")

    def _blocks(self) -> list[str]:
        """Return the settings that docs/other-agents.md gives for this agent."""
        (part,) = re.findall(rf"\*\*{TITLES[self.driven.agent]}\*\*[:,](.*?)(?=\n\*\*)", OTHER_AGENTS, re.DOTALL)
        return re.findall(r"```\w+\n(.*?)```", part, re.DOTALL)

    def _set_up_claude(self, blocks: list[str]) -> None:
        settings = self.driven.workspace / ".claude"
        settings.mkdir()
        (settings / "settings.json").write_text(blocks[0])
        self.driven.runs("mcp", "add", "signoff", "--", "signoff", "mcp")
        # What the user answers when Claude is first opened in a folder.
        file = self._home / ".claude.json"
        known = json.loads(file.read_text())
        known["projects"][str(self.driven.workspace)]["hasTrustDialogAccepted"] = True
        file.write_text(json.dumps(known))

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
def driven(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driven]:
    name = request.param
    if program(name) is None:
        pytest.skip(f"{name} is not installed: npm install --prefix FOLDER {PACKAGES[name]}, and {FOLDER}=FOLDER")
    if shutil.which("tee") is None:
        pytest.skip("there is no tee")
    with ScriptedModel() as model:
        one = Driven(name, tmp_path, model)
        one.commit({"a.txt": LINES})
        yield one


def test_its_own_tools_to_write_are_gone(driven: Driven, tmp_path: Path) -> None:
    ByMcp(driven, tmp_path / "home")
    printed = driven.says("change it", [driven.writes("b.txt", "world\n")])
    assert driven.changed() == [], printed
    assert driven.model.made == 1


def test_four_tries_are_one_proposal_and_the_words_of_a_denial_come_whole(driven: Driven, tmp_path: Path) -> None:
    agent = ByMcp(driven, tmp_path / "home")
    printed = driven.says("change it", [driven.reads("a.txt")], *[[agent.proposes(3, 10, 20)]] * 4)
    assert driven.changed() == [], printed
    (proposal,) = driven.proposals()
    assert proposal["origin"]["agent"] == driven.agent
    assert driven.sent().count("Refused, and nothing of this call was staged: P1") >= 3, printed
    driven.signoff("deny", "P1", "-m", TWO_LINES)
    printed = driven.says("well?", [driven.reads("a.txt")], [agent.call("proposal_status", proposal="P1")])
    assert json.dumps(TWO_LINES)[1:-1] in driven.sent().replace("\\\\n", "\\n"), printed


def test_a_call_that_waits_hears_which_hunk_was_written(driven: Driven, tmp_path: Path) -> None:
    agent = ByMcp(driven, tmp_path / "home", "--wait 200")
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(driven.says, "change it", [driven.reads("a.txt")], [agent.proposes(3, 10, 20)])
        while not turn.done() and not driven.proposals():
            pass  # each look is a process of its own
        driven.signoff("approve", "P1", "--hunks", "2")
        assert (driven.workspace / "a.txt").read_text() == LINES.replace("line 10", "LINE 10")
        driven.signoff("deny", "P1", "-m", TWO_LINES)
        printed = turn.result()
    assert "P1: hunk 2 written, 1 and 3 denied." in driven.sent(), printed
    assert driven.changed() == ["a.txt"]
