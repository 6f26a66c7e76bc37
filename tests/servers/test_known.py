"""Configured servers: the files of each agent, their precedence, and one-line error messages."""

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from app.config.config_tables import McpServerTable
from app.mcp_client.configured_servers import (
    ConfiguredServers,
    InvalidServerDefinition,
    ServerDefinition,
    find_configured_servers,
)
from app.workspace import trust
from app.workspace.paths import Workspace
from tests.unit.workspace.test_guidance import MemoryStore

PROGRAM = {"command": "prog", "args": ["-a", "b"], "env": {"A": "${B}"}}
CODEX = """
[mcp_servers.one]
command = "prog"
args = ["-a", "b"]
tool_timeout_sec = 9
startup_timeout_sec = 8.5
[mcp_servers.far]
url = "https://far.example/mcp"
bearer_token_env_var = "FAR_TOKEN"
env_http_headers = { X-Other = "OTHER" }
[mcp_servers.off]
command = "prog"
enabled = false
"""


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "workspace"
        self.root.mkdir()
        self.store = MemoryStore()

    def write(self, name: str, content: Any) -> bytes:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path.read_bytes()

    def known(
        self, own: dict[str, McpServerTable] | None = None, of_workspace: Collection[str] = ()
    ) -> ConfiguredServers:
        home = {"HOME": str(self.folder)}
        return find_configured_servers(
            own or {}, Workspace(self.root), self.store, home, workspace_tables=of_workspace
        )

    def names(self, **own: McpServerTable) -> list[str]:
        return [each.name for each in self.known(own).definitions]


@pytest.fixture
def user(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_claude_code_servers_of_user_and_project_are_found(user: Home) -> None:
    here = {"mcpServers": {"one": {"command": "mine"}, "two": {"type": "http", "url": "https://far.example/mcp"}}}
    user.write(".claude.json", {"mcpServers": {"one": PROGRAM}, "projects": {str(user.root): here}})
    one, two = user.known().definitions
    assert (one.name, one.table.command) == ("one", "mine")
    assert (two.table.url, two.is_remote) == ("https://far.example/mcp", True)


def test_fifo_in_place_of_an_agents_file_is_reported_without_blocking(user: Home) -> None:
    os.mkfifo(user.folder / ".claude.json")
    (user.folder / "linked").write_text(json.dumps({"mcpServers": {"one": PROGRAM}}))
    (user.folder / ".gemini").mkdir()
    (user.folder / ".gemini/settings.json").symlink_to(user.folder / "linked")
    known = user.known()
    assert known.problems == ("~/.claude.json cannot be read: not a regular file.",)
    assert [one.name for one in known.definitions] == ["one"]


def test_gemini_servers_use_http_url_and_milliseconds(user: Home) -> None:
    servers = {"one": {**PROGRAM, "timeout": 5000}, "far": {"httpUrl": "https://far.example", "headers": {"A": "b"}}}
    user.write(".gemini/settings.json", {"theme": "x", "mcpServers": servers})
    one, far = user.known().definitions
    assert (one.table.timeout, one.table.args, one.table.env) == (5, ("-a", "b"), {"A": "${B}"})
    assert (far.table.url, far.table.headers) == ("https://far.example", {"A": "b"})


def test_codex_servers_take_tokens_from_the_environment(user: Home) -> None:
    user.write(".codex/config.toml", CODEX)
    one, far, off = user.known().definitions
    assert (one.table.timeout, one.table.start_timeout) == (9, 8.5)
    headers = far.expand_variables({"FAR_TOKEN": "t", "OTHER": "o"}).headers
    assert headers == {"Authorization": "Bearer t", "X-Other": "o"}
    assert not off.table.enabled


@pytest.mark.parametrize("name", [".mcp.json", ".gemini/settings.json", ".codex/config.toml"])
def test_workspace_servers_require_trust_in_the_exact_file(name: str, user: Home) -> None:
    text = CODEX if name.endswith("toml") else json.dumps({"mcpServers": {"one": PROGRAM}})
    content = user.write(f"workspace/{name}", text)
    assert user.names() == []
    assert user.known().untrusted == (name,)
    trust.store_trust(content, user.store, name)
    assert "one" in user.names()
    assert user.known().untrusted == ()
    user.write(f"workspace/{name}", text.replace('"prog"', '"evil"'))
    assert user.names() == []
    # Trust in one file does not extend to another file.
    trust.store_trust((user.root / name).read_bytes(), user.store)
    assert user.names() == []


def test_unreadable_workspace_file_does_not_hide_other_files(user: Home) -> None:
    (user.root / ".mcp.json").mkdir()
    (user.root / ".gemini").symlink_to(user.folder)
    user.write(".claude.json", {"mcpServers": {"one": PROGRAM}})
    user.write("workspace/.codex/config.toml", CODEX)
    assert user.names() == ["one"]
    assert user.known().untrusted == (".codex/config.toml",)


def test_signoff_configuration_takes_precedence(user: Home) -> None:
    user.write(".claude.json", {"mcpServers": {"one": PROGRAM, "two": PROGRAM}})
    own = {
        "one": McpServerTable(command="own"),
        "two": McpServerTable.model_validate({"enabled": False, "layer": False}),
        "three": McpServerTable(),
    }
    one, two = user.known(own).definitions
    assert (one.table.command, one.source) == ("own", "signoff's configuration")
    assert (two.table.command, two.table.enabled, two.table.layer) == ("prog", False, False)
    assert "[mcp.three] has neither a command nor a url" in user.known(own).problems[0]


@pytest.mark.parametrize("key", ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SIGNOFF_API_KEY"])
def test_workspace_server_cannot_use_signoffs_api_keys(key: str, user: Home) -> None:
    table = {"url": "https://far.example/mcp", "headers": {"X": f"${{{key}:-}}"}}
    content = user.write("workspace/.mcp.json", {"mcpServers": {"theirs": table}})
    user.write(".claude.json", {"mcpServers": {"mine": table}})
    trust.store_trust(content, user.store, ".mcp.json")
    mine, theirs = user.known().definitions
    for environment in ({key: "sk-secret"}, {}):
        with pytest.raises(InvalidServerDefinition, match=r"that key is for the endpoint alone$"):
            theirs.expand_variables(environment)
    assert mine.expand_variables({key: "sk-secret"}).headers == {"X": "sk-secret"}


def test_a_workspace_server_never_replaces_one_of_the_user(user: Home) -> None:
    content = user.write("workspace/.mcp.json", {"mcpServers": {"one": {"command": "theirs"}, "two": PROGRAM}})
    trust.store_trust(content, user.store, ".mcp.json")
    user.write(".claude.json", {"mcpServers": {"one": {"command": "mine"}}})
    one, two = user.known().definitions
    assert (one.table.command, one.of_workspace, two.of_workspace) == ("mine", False, True)


def test_user_settings_do_not_apply_to_a_workspace_server_of_the_same_name(user: Home) -> None:
    content = user.write("workspace/.mcp.json", {"mcpServers": {"one": {"url": "https://theirs.example/mcp"}}})
    trust.store_trust(content, user.store, ".mcp.json")
    table = {"headers": {"Authorization": "Bearer mine"}, "client_id": "c", "layer": False, "timeout": 9}
    own = {"one": McpServerTable.model_validate(table)}
    known = user.known(own)
    (theirs,) = known.definitions
    assert (theirs.table.headers, theirs.table.client_id, theirs.table.layer) == ({}, "", True)
    assert theirs.table.timeout == 9
    (line,) = known.problems
    assert "can't change client_id, headers, layer of the server one of .mcp.json" in line


def test_servers_of_signoff_toml_are_marked_as_the_workspaces(user: Home) -> None:
    user.write(".claude.json", {"mcpServers": {"two": PROGRAM}})
    own = {"one": McpServerTable(command="prog"), "two": McpServerTable.model_validate({"layer": False})}
    known = user.known(own, of_workspace=("one", "two"))
    one, two = known.definitions
    assert (one.source, one.of_workspace) == (".signoff.toml", True)
    assert (two.source, two.table.layer) == ("~/.claude.json", True)
    assert known.problems == (".signoff.toml: [mcp.two] has neither a command nor a url.",)


def test_unprintable_server_name_is_rejected(user: Home) -> None:
    for name in ("", "a\nb", "\u202eevil", "x" * 65, "\ud800"):
        user.write(".claude.json", {"mcpServers": {name: PROGRAM, "one": PROGRAM}})
        assert user.names() == ["one"]
        (line,) = user.known().problems
        assert "a server's name has 1 to 64 printable characters" in line
        assert len(line) < 200 and line.isprintable()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{nope", " cannot be used: Expecting property name"),
        ("[]", " cannot be used: it has another value where a table is expected"),
        ("3", " cannot be used: it has another value where a table is expected"),
        ('{"mcpServers": 3}', " cannot be used: it has another value where a table is expected"),
        ('{"mcpServers": {"a": 3}}', ": a: it is not a table"),
        ('{"mcpServers": {"a": {}}}', ": a: it has neither a command nor a url"),
        ('{"mcpServers": {"a": {"command": ["x"]}}}', ": a: command: Input should be a valid string"),
        ('{"mcpServers": {"a": {"command": "x", "url": "y"}}}', ": a: "),
        ('{"mcpServers": {"a": {"type": "sse", "url": "https://far.example/sse"}}}', ": a: the transport sse is not"),
        ('{"mcpServers": {"a": {"command": "x", "timeout": -1}}}', ": a: timeout: Input should be greater than 0"),
        ('{"mcpServers": {"a": {"command": "x", "env": [1]}}}', ": a: env: Input should be a valid dictionary"),
        ('{"a": ' * 100_000, " cannot be used: "),
        ("\udcff", " cannot be used: "),
    ],
)
def test_unusable_server_file_is_reported_and_other_files_are_used(content: str, words: str, user: Home) -> None:
    user.write(".codex/config.toml", CODEX)
    path = user.folder / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    known = user.known()
    assert len(known.definitions) == 3
    (line,) = known.problems
    assert line.startswith(f"~/.gemini/settings.json{words}")
    # pydantic's full message has several lines and may contain secrets.
    assert "\n" not in line and "input_value" not in line


def test_variables_expand_from_environment_or_default() -> None:
    table = McpServerTable(command="${HOME}/x", args=("${A:-b c}", "$A", "${A:-}"), url="", cwd="${HOME}")
    definition = ServerDefinition("one", table, "a file")
    expanded = definition.expand_variables({"HOME": "/home/me"})
    assert (expanded.command, expanded.args, expanded.cwd) == ("/home/me/x", ("b c", "$A", ""), "/home/me")
    with pytest.raises(InvalidServerDefinition, match=r"\$\{HOME\} is not set"):
        definition.expand_variables({})


def test_servers_command_lists_without_starting(
    user: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(user.folder / "signoff"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(user.folder))
    user.write(".claude.json", {"mcpServers": {"one": PROGRAM}})
    user.write("workspace/.mcp.json", {"mcpServers": {"theirs": PROGRAM}})
    assert main(["servers", "--workspace", str(user.root), "--json"]) == 0
    captured = capsys.readouterr()
    line = {"name": "one", "on": True, "origin": "prog -a b", "source": "~/.claude.json"}
    assert json.loads(captured.out) == [line]
    assert ".mcp.json names MCP servers" in captured.err
    assert main(["servers", "--workspace", str(user.root)]) == 0
    assert "prog -a b  (~/.claude.json)" in capsys.readouterr().out
