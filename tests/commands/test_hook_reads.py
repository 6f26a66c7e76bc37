"""`signoff hook`: what other agents read before they edit, as far as their hooks see it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.doors.hook.agents import HookOptions, find_agent
from app.doors.hook.hook_installation import add_hook, remove_hook
from app.runtime.open_workspace import open_workspace
from tests.commands.agent_calls import Agent
from tests.commands.test_hook import Site
from tests.forking import Forking

SEEN = ("claude", "gemini")
"""The agents whose hooks see what they read."""
UNREAD = "Edits the file without having read it."
PARSE = "".join(f"setting_number_{number} = {number}\n" for number in range(40)) + (
    "\n\ndef parse_header(line):\n    name, _, value = line.partition(':')\n    return name, value.strip()\n"
)
USES = "from parse import parse_header\nprint(parse_header('a: b'))\n"
BODY = ("parse.py", "    return name, value.strip()", "    return name, value.rstrip()")
SIGNATURE = ("parse.py", "parse_header(line)", "parse_header(line, strict)")


@pytest.fixture
def site(tmp_path: Path, processes: Forking, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path, processes)
    monkeypatch.setenv("SIGNOFF_HOME", str(site.home))
    (site.workspace / "parse.py").write_text(PARSE)
    for name in ("server.py", "client.py"):
        (site.workspace / name).write_text(USES)
    (site.workspace / ".env").write_text("TOKEN=1\n")
    return site


def begin(site: Site, name: str, prompt: str = "Fix it") -> Agent:
    """A session whose hook was there from its start, and its first prompt."""
    agent = Agent(name, site.workspace)
    assert site.hook(agent, agent.starts()) == ""
    assert site.hook(agent, agent.asks(prompt)) == ""
    return agent


def calls(site: Site, agent: Agent, call: tuple[str, dict[str, Any]], result: object = None) -> None:
    """A call that is let through, with what it returns."""
    (payload,) = agent.responds(call)
    assert site.hook(agent, payload) == ""
    if result is not None:
        assert site.hook(agent, agent.returns(payload, result)) == ""


def reasons(site: Site, proposal: str = "P1") -> list[str]:
    done = site.run("show", proposal, "--json")
    assert done.returncode == 0, done.stderr
    return [reason for file in json.loads(done.stdout)["files"] for reason in file["reasons"] if "read" in reason]


def describe(site: Site, proposal: str = "P1") -> list[str]:
    """What the dialog of the key `B` shows."""
    assert site.proposals("--all")
    runtime = open_workspace(site.workspace, {}, {})
    try:
        return runtime.describe_model_reads(proposal)
    finally:
        runtime.close()


@pytest.mark.parametrize("name", SEEN)
def test_an_edit_of_an_unread_file_is_marked(name: str, site: Site) -> None:
    agent = begin(site, name)
    calls(site, agent, agent.reads("client.py"))
    if name == "claude":
        # They show no lines.
        calls(site, agent, ("Bash", {"command": "cd src; ls -la && git status --short"}))
        calls(site, agent, ("Glob", {"pattern": "**/*.py"}))
    site.denied(agent, agent.edits(*BODY))
    assert reasons(site) == [UNREAD]
    assert {"parse.py: not read", "Also read: client.py"} <= set(describe(site))


@pytest.mark.parametrize("name", SEEN)
def test_an_edit_of_a_file_read_found_or_mentioned_is_not_marked(name: str, site: Site) -> None:
    read = begin(site, name)
    calls(site, read, read.reads("parse.py"))
    site.denied(read, read.edits(*BODY))
    assert reasons(site) == []
    assert any(line.startswith("parse.py: 45 lines at version ") for line in describe(site)), describe(site)
    assert "You asked: Fix it" in describe(site)

    found = Agent(name, site.workspace, "another-session")
    site.hook(found, found.starts())
    calls(site, found, found.searches("value"), found.found(("parse.py", 44, "    name, _, value = line")))
    site.denied(found, found.edits("parse.py", "value.strip()", "value.lstrip()"))
    mentioned = Agent(name, site.workspace, "third-session")
    site.hook(mentioned, mentioned.starts())
    site.hook(mentioned, mentioned.asks("look at @parse.py"))
    site.denied(mentioned, mentioned.edits("parse.py", "value.strip()", "value"))
    assert (reasons(site, "P2"), reasons(site, "P3")) == ([], [])


@pytest.mark.parametrize("name", SEEN)
def test_only_changes_of_others_beside_the_edit_are_reported(name: str, site: Site) -> None:
    agent = begin(site, name)
    calls(site, agent, agent.reads("parse.py"))
    (site.workspace / "parse.py").write_text(PARSE.replace("setting_number_3 ", "setting_number_three "))
    site.denied(agent, agent.edits(*BODY))
    assert site.run("approve", "P1", "--force").returncode == 0
    site.hook(agent, agent.asks("Once more"))
    site.denied(agent, agent.edits(*SIGNATURE))
    assert (reasons(site), reasons(site, "P2")) == ([], [])
    assert site.run("deny", "P2").returncode == 0
    file = site.workspace / "parse.py"
    file.write_text(file.read_text().replace("value = line", "value = line.lower()"))
    site.hook(agent, agent.asks("And again"))
    site.denied(agent, agent.edits("parse.py", "value.rstrip()", "value"))
    assert reasons(site, "P3") == [
        "Edits the file near lines that changed after the model had read it (old line 45)."
    ]


@pytest.mark.parametrize("name", SEEN)
def test_a_changed_definition_names_unread_uses_that_were_found(name: str, site: Site) -> None:
    agent = begin(site, name)
    calls(site, agent, agent.reads("parse.py"))
    lines = [("parse.py", 43, "def parse_header(line):"), ("server.py", 1, USES), ("client.py", 1, USES)]
    calls(site, agent, agent.searches("parse_header"), agent.found(*lines))
    calls(site, agent, agent.reads("client.py"))
    site.denied(agent, agent.edits(*SIGNATURE))
    assert reasons(site) == [
        "Changes parse_header, which 1 file that the model found but did not read uses: server.py (old line 43)."
    ]
    assert "Searched for parse_header: 3 found; not read: server.py" in describe(site)


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("changed", [False, True])
def test_lines_shown_by_a_search_count_as_read(name: str, changed: bool, site: Site) -> None:
    agent = begin(site, name)
    lines = PARSE
    if changed:
        calls(site, agent, agent.reads("parse.py"))
        lines = PARSE.replace("value = line", "value = line.lower()")
        (site.workspace / "parse.py").write_text(lines)
    tool, arguments = agent.searches("value")
    found = {
        "claude": {"mode": "content", "content": f"parse.py:44:{lines.splitlines()[43]}"},
        "gemini": agent.found(("parse.py", 44, lines.splitlines()[43])),
    }
    calls(site, agent, (tool, arguments | {"output_mode": "content"}), found[name])
    site.denied(agent, agent.edits(*BODY))
    assert reasons(site) == []


@pytest.mark.parametrize(
    ("mode", "content", "searched", "told"),
    [
        ("content", "parse.py:44:    name\nparse.py-45-    return\n--\nserver.py:1:from parse", "", "found by"),
        ("content", "44:    name, _, value", "parse.py", "found by"),
        ("count", "parse.py:2\nserver.py:1", "", "found by"),
        ("content", "parse.py:    name, _, value", "", "unknown"),
    ],
)
def test_each_form_of_a_search_of_claude_code_is_understood(
    mode: str, content: str, searched: str, told: str, site: Site
) -> None:
    agent = begin(site, "claude")
    tool, arguments = agent.searches("value")
    call = tool, arguments | {"output_mode": mode, "path": str(site.workspace / searched)}
    calls(site, agent, call, {"mode": mode, "numFiles": 0, "filenames": [], "content": content})
    site.denied(agent, agent.edits(*BODY))
    assert reasons(site) == []
    assert any(line.startswith(f"parse.py: {told}") for line in describe(site)), describe(site)


def test_names_alone_from_a_search_of_gemini_are_understood(site: Site) -> None:
    agent = begin(site, "gemini")
    found = 'Found 2 files with matches for pattern "value" in path ".":\nparse.py\nserver.py'
    shown = {"llmContent": found, "returnDisplay": {"summary": "Found 2 files", "matches": []}}
    calls(site, agent, agent.searches("value"), shown)
    site.denied(agent, agent.edits(*BODY))
    assert reasons(site) == [] and any("found by" in line for line in describe(site))


@pytest.mark.parametrize(
    ("name", "tool", "arguments"),
    [
        ("claude", "Bash", {"command": "sed -n 1,50p *.py"}),
        ("claude", "Bash", {"command": "ls $(cat parse.py)"}),
        ("claude", "Bash", {"command": "cd src && git diff"}),
        ("claude", "Agent", {"prompt": "look around"}),
        ("claude", "mcp__files__read", {"path": "parse.py"}),
        ("gemini", "run_shell_command", {"command": "cat parse.py"}),
        ("gemini", "read_file", {"absolute_path": "/parse.py"}),
        ("gemini", "read_many_files", {"include": ["*.py"]}),
        ("codex", "Bash", {"command": "cat parse.py"}),
    ],
)
def test_reads_are_unknown_after_a_call_that_the_hook_does_not_see(
    name: str, tool: str, arguments: dict[str, Any], site: Site
) -> None:
    agent = begin(site, name)
    calls(site, agent, (tool, arguments))
    site.denied(agent, agent.edits(*BODY))
    assert reasons(site) == []
    assert any(line.startswith("What else it read is unknown: ") for line in describe(site))
    assert "parse.py: unknown" in describe(site)


@pytest.mark.parametrize("source", ["resume", "compact", ""])
def test_reads_are_unknown_if_the_hook_missed_the_start_of_the_session(source: str, site: Site) -> None:
    agent = Agent("claude", site.workspace)
    if source:
        site.hook(agent, agent.starts(source))
    calls(site, agent, agent.reads("client.py"))
    site.denied(agent, agent.edits(*BODY))
    assert reasons(site) == [] and "parse.py: unknown" in describe(site)


@pytest.mark.parametrize("kind", ["file", "edited_text_file", "selected_lines_in_ide"])
def test_a_file_attached_by_claude_code_counts_as_read(kind: str, site: Site) -> None:
    agent = begin(site, "claude")
    calls(site, agent, agent.reads("parse.py"))
    (site.workspace / "parse.py").write_text(PARSE.replace("value = line", "value = line.lower()"))
    agent.attaches(kind, "parse.py")
    agent.attaches("session_context", "server.py")
    site.denied(agent, agent.edits(*BODY))
    assert reasons(site) == []
    other = Agent("claude", site.workspace, "another-session")
    site.hook(other, other.starts())
    other.attaches("session_context", "server.py")
    site.denied(other, other.edits("server.py", "'a: b'", "'b: c'"))
    assert reasons(site, "P2") == [UNREAD], "git's status names files and shows none"


@pytest.mark.parametrize(
    "prompt", ["Fix this:\n    return name, value.strip()\n", "/fix the parser"], ids=["pasted code", "a command"]
)
def test_a_prompt_with_code_or_a_command_makes_no_edit_unread(prompt: str, site: Site) -> None:
    agent = begin(site, "claude", prompt)
    site.denied(agent, agent.edits(*BODY))
    assert reasons(site) == []


def test_reads_of_secrets_and_outside_files_are_not_stored(site: Site) -> None:
    outside = site.workspace.parent / "outside.py"
    outside.write_text("x = 1\n")
    (site.workspace / "link.py").symlink_to(outside)
    agent = begin(site, "claude")
    for path in (".env", "link.py", "../outside.py", "missing.py", "parse.py"):
        calls(site, agent, agent.reads(path))
    site.denied(agent, agent.edits(".env", "TOKEN=1", "TOKEN=2"))
    assert reasons(site) == []
    assert ".env: reads of what looks like a secret are not noted" in describe(site)
    with closing(sqlite3.connect(next(site.home.rglob("signoff.db")))) as database:
        noted = database.execute("SELECT path, words FROM agent_reads WHERE kind = 'read'").fetchall()
        hashes = database.execute("SELECT lines FROM agent_reads").fetchall()
    assert noted == [("parse.py", "45 lines")]
    assert not any(b"setting" in lines for (lines,) in hashes), "no text of a file is kept"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("claude", {"offset": 41, "limit": 3}, "lines 41-43 of 45"),
        ("claude", {"offset": 41}, "lines 41-45 of 45"),
        ("gemini", {"start_line": 41, "end_line": 43}, "lines 41-43 of 45"),
    ],
)
def test_the_read_lines_are_described(name: str, arguments: dict[str, int], words: str, site: Site) -> None:
    agent = begin(site, name)
    tool, path = agent.reads("parse.py")
    calls(site, agent, (tool, path | arguments))
    site.denied(agent, agent.edits(*BODY))
    assert any(line.startswith(f"parse.py: {words} at version ") for line in describe(site)), describe(site)


@pytest.mark.parametrize("name", SEEN)
def test_a_hook_that_cannot_store_a_read_denies_nothing(name: str, site: Site) -> None:
    agent = Agent(name, site.workspace)
    (payload,) = agent.responds(agent.searches("value"))
    site.home.write_text("in the way")
    for late in (agent.returns(payload, agent.found(("parse.py", 1, "x"))), agent.starts()):
        done = site.run("hook", name, stdin=json.dumps(late))
        assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", SEEN)
def test_the_installed_hook_includes_the_events_of_reads(name: str) -> None:
    agent = find_agent(name)
    text = add_hook(agent, "", HookOptions())
    hooks = json.loads(text)["hooks"]
    assert "SessionStart" in hooks
    (group,) = hooks["PostToolUse" if name == "claude" else "AfterTool"]
    assert group["matcher"] == ("Grep" if name == "claude" else "grep_search|search_file_content")
    assert json.loads(remove_hook(agent, text)) == {}
