"""The MCP servers of a workspace: from signoff's own configuration first, then from that of other programs."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pydantic import ValidationError

from app.config.config_tables import McpServerTable
from app.config.toml_files import parse_toml
from app.copies import replace
from app.sandbox.confinement import CommandWriteMode, landlock_version
from app.sandbox.environment import OWN_KEYS
from app.text.safe_text import escape_unsafe
from app.workspace import trust
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace
from app.workspace.reading import read_regular_file

if TYPE_CHECKING:
    from app.sandbox.sandbox import Sandbox

_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


class InvalidServerDefinition(Exception):
    """A server definition cannot be used; the message says why, without a full stop."""


class ServerDefinition(Struct, frozen=True):
    """An MCP server as defined by a file."""

    name: str
    table: McpServerTable
    source: str
    """The file as shown to the user."""
    of_workspace: bool = False
    """Whether the workspace defines it: then it is used only because the user trusts that file."""

    @property
    def is_remote(self) -> bool:
        """Return whether it is reached by URL."""
        return bool(self.table.url)

    @property
    def origin(self) -> str:
        """Return its command line or its URL."""
        return self.table.url or " ".join((self.table.command, *self.table.args))

    @property
    def fingerprint(self) -> str:
        """Return a digest of program and URL; permissions are bound to it."""
        table = self.table
        same = [table.command, table.args, sorted(table.env.items()), table.cwd, table.url]
        return hashlib.sha256(json.dumps(same).encode()).hexdigest()[:32]

    def expand_variables(self, environment: Mapping[str, str]) -> McpServerTable:
        """Return its table with `${NAME}` and `${NAME:-default}` replaced.

        Raises:
            InvalidServerDefinition: A variable is not set, or the workspace uses one of signoff's own keys.
        """

        def expand(text: str) -> str:
            return _VARIABLE.sub(replacement, text)

        def replacement(match: re.Match[str]) -> str:
            name, default = match.groups()
            if self.of_workspace and name in OWN_KEYS:
                raise InvalidServerDefinition(
                    f"{self.source} can't have ${{{name}}}: that key is for the endpoint alone"
                )
            if name in environment:
                return environment[name]
            if default is None:
                raise InvalidServerDefinition(f"${{{name}}} is not set in the environment")
            return str(default)

        table = self.table
        return table.model_copy(
            update={
                "command": expand(table.command),
                "args": tuple(map(expand, table.args)),
                "env": {name: expand(text) for name, text in table.env.items()},
                "cwd": expand(table.cwd),
                "url": expand(table.url),
                "headers": {name: expand(text) for name, text in table.headers.items()},
            }
        )


class WriteAccess(StrEnum):
    """Where an MCP server may write."""

    LAYER = "layer"
    """On a layer over the workspace, like commands: its changes become part of a proposal."""
    READ_ONLY = "read-only"
    """Nowhere in the workspace: no layer is possible, and the kernel denies writes."""
    DIRECT = "direct"
    """To the user's files, without review."""
    REMOTE = "remote"
    """It runs on another machine without access to the user's files."""


WRITE_ACCESS_TEXTS = {
    WriteAccess.LAYER: "What it changes in your files will wait as a proposal.",
    WriteAccess.READ_ONLY: "This server can read your files, and can't write to them.",
    WriteAccess.DIRECT: "This server can write to your files directly, without review.",
    WriteAccess.REMOTE: "This server runs elsewhere: the arguments leave this machine.",
}
"""Explanation of each kind of access for the user."""


async def classify_write_access(definition: ServerDefinition, sandbox: "Sandbox") -> WriteAccess:
    """Return where a server can write on this machine."""
    if definition.is_remote:
        return WriteAccess.REMOTE
    if not definition.table.layer:
        return WriteAccess.DIRECT
    if (await sandbox.probe()).mode is CommandWriteMode.OVERLAY:
        return WriteAccess.LAYER
    return WriteAccess.READ_ONLY if landlock_version() else WriteAccess.DIRECT


MAX_FILE_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes of a configuration file; Claude Code stores much other data in its file."""
WORKSPACE_SERVER_FILES = (".mcp.json", ".gemini/settings.json", ".codex/config.toml")
"""Configuration files in a workspace; used only if the user trusts them."""

_USER_FILES = (
    ("CLAUDE_CONFIG_DIR", "", ".claude.json"),
    ("GEMINI_CLI_HOME", "", ".gemini/settings.json"),
    ("CODEX_HOME", ".codex", "config.toml"),
)
"""For each file of the user: the variable that overrides its folder, its default folder, and its name."""

_MAX_NAME_CHARACTERS = 64

NamedTables = Iterator[tuple[str, Any]]


class ParsedServerFile(Struct, frozen=True):
    """The server definitions of one configuration file, and a line for each problem of the file."""

    definitions: tuple[ServerDefinition, ...] = ()
    problems: tuple[str, ...] = ()
    """One line for each unusable definition, with the file and the reason."""


def _read_user_servers(environment: Mapping[str, str], root: Path) -> Iterator[ParsedServerFile]:
    """Yield the servers of each of the user's files; `root` is the workspace, which Claude Code lists separately."""
    for variable, folder, name in _USER_FILES:
        if not (home := environment.get(variable) or environment.get("HOME")):
            continue
        path = Path(home) / name if environment.get(variable) else Path(home) / folder / name
        read = _claude_table_reader(str(root)) if name == ".claude.json" else _table_reader(name)
        yield _read_server_file(path, f"~/{folder}/{name}" if folder else f"~/{name}", read)


def _read_server_file(path: Path, source: str, tables: Callable[[bytes], NamedTables]) -> ParsedServerFile:
    try:
        content, _ = read_regular_file(os.path.realpath(path), MAX_FILE_BYTES)
    except FileNotFoundError:
        return ParsedServerFile()
    except OSError as error:
        return ParsedServerFile(problems=(f"{source} cannot be read: {error.strerror}.",))
    return _parse_servers(source, content, tables)


def _parse_servers(source: str, content: bytes, tables: Callable[[bytes], NamedTables]) -> ParsedServerFile:
    definitions, problems = [], []
    try:
        for name, values in tables(content):
            try:
                definitions.append(_make_definition(str(name), values, source))
            except (ValueError, AttributeError, TypeError) as error:
                problems.append(f"{source}: {str(name)[:_MAX_NAME_CHARACTERS]}: {_describe_fault(error)}")
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        problems.append(f"{source} cannot be used: {_describe_fault(error)}")
    return ParsedServerFile(tuple(definitions), tuple(problems))


def _describe_fault(error: Exception) -> str:
    return "it has another value where a table is expected" if isinstance(error, AttributeError) else str(error)


def _table_reader(name: str) -> Callable[[bytes], NamedTables]:
    if name.endswith(".toml"):
        return lambda content: iter(parse_toml(content).get("mcp_servers", {}).items())
    return lambda content: iter((json.loads(content).get("mcpServers") or {}).items())


def _claude_table_reader(root: str) -> Callable[[bytes], NamedTables]:
    """Return a reader of Claude Code's tables; those of this project come before others of the same name."""

    def tables(content: bytes) -> NamedTables:
        values = json.loads(content)
        yield from (((values.get("projects") or {}).get(root) or {}).get("mcpServers") or {}).items()
        yield from (values.get("mcpServers") or {}).items()

    return tables


def _make_definition(name: str, values: Any, source: str) -> ServerDefinition:
    """Return another agent's table as a definition of signoff; raises ValueError."""
    if not isinstance(values, dict):
        raise ValueError("it is not a table")
    if not name or len(name) > _MAX_NAME_CHARACTERS or not name.isprintable():
        raise ValueError(f"a server's name has 1 to {_MAX_NAME_CHARACTERS} printable characters")
    if values.get("type") == "sse":
        raise ValueError("the transport sse is not supported any more; most servers also offer http")
    url = values.get("httpUrl") or values.get("url") or ""
    table_values: dict[str, Any] = {key: values[key] for key in ("command", "args", "env", "cwd") if values.get(key)}
    table_values |= {"url": url} if url else {}
    headers = dict((values.get("headers") or values.get("http_headers") or {}).items())
    headers |= {key: f"${{{variable}}}" for key, variable in (values.get("env_http_headers") or {}).items()}
    if bearer := values.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{bearer}}}"
    table_values |= {"headers": headers} if headers else {}
    if values.get("enabled") is False or values.get("disabled") is True:
        table_values["enabled"] = False
    if isinstance(seconds := values.get("tool_timeout_sec"), int | float):
        table_values["timeout"] = seconds
    if isinstance(seconds := values.get("startup_timeout_sec"), int | float):
        table_values["start_timeout"] = seconds
    if isinstance(milliseconds := values.get("timeout"), int | float):
        table_values["timeout"] = milliseconds / 1000
    try:
        table = McpServerTable.model_validate(table_values)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if not table.command and not table.url:
        raise ValueError("it has neither a command nor a url")
    return ServerDefinition(name, table, source)


OWN_CONFIGURATION = "signoff's configuration"
_CHANGEABLE_FIELDS = frozenset({"enabled", "timeout", "start_timeout"})
"""Settings of the user's table that apply to a workspace's server: not what it sends or where it writes."""


class ConfiguredServers(Struct, frozen=True):
    """The servers of all configuration files, the problems of these files, and the files not trusted yet."""

    definitions: tuple[ServerDefinition, ...]
    problems: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    """Files of the workspace that define servers and are not trusted yet."""


def find_configured_servers(
    own_tables: Mapping[str, McpServerTable],
    workspace: Workspace,
    store: trust.TrustStore,
    environment: Mapping[str, str],
    *,
    workspace_tables: Collection[str] = (),
) -> ConfiguredServers:
    """Read the server tables of all configuration files; blocks.

    Args:
        own_tables: The `[mcp.NAME]` tables.
        workspace: Its files are used if they are trusted.
        store: Stores which files are trusted.
        environment: Determines the user's home; empty to skip the user's files for other agents.
        workspace_tables: Names of the tables that the workspace's configuration defines.
    """
    definitions: dict[str, ServerDefinition] = {}
    for name, table in own_tables.items():
        if table.command or table.url:
            is_of_workspace = name in workspace_tables
            source = trust.FILE_NAME if is_of_workspace else OWN_CONFIGURATION
            definitions[name] = ServerDefinition(name, table, source, is_of_workspace)
    incomplete_names = own_tables.keys() - definitions.keys()
    files = find_workspace_server_files(workspace, store)
    problems: list[str] = []
    trusted = [file.found for file in files if file.trusted]
    # Of servers with the same name, the first is used: the workspace's never replace those of the user.
    for found in (*_read_user_servers(environment, workspace.root), *trusted):
        problems += [escape_unsafe(line, keep="") for line in found.problems]
        for definition in found.definitions:
            definitions.setdefault(definition.name, definition)
    for name in [name for name in own_tables if name in incomplete_names]:
        if name in workspace_tables:
            problems.append(f"{trust.FILE_NAME}: [mcp.{name}] has neither a command nor a url.")
        elif name in definitions:
            definitions[name], problem = _override_definition(definitions[name], own_tables[name])
            problems += [problem] if problem else []
        else:
            problems.append(f"[mcp.{name}] has neither a command nor a url, and no other file names that server.")
    untrusted = tuple(file.name for file in files if not file.trusted)
    return ConfiguredServers(tuple(definitions.values()), tuple(problems), untrusted)


def _override_definition(definition: ServerDefinition, table: McpServerTable) -> tuple[ServerDefinition, str]:
    """Return a server with the settings of the user's table, and a line if some of them are ignored."""
    given_fields = table.model_fields_set
    allowed_fields = given_fields & _CHANGEABLE_FIELDS if definition.of_workspace else given_fields
    changes = {field: getattr(table, field) for field in allowed_fields}
    adjusted = replace(definition, table=definition.table.model_copy(update=changes))
    refused = ", ".join(sorted(given_fields - allowed_fields))
    name = definition.name
    problem = f"[mcp.{name}] can't change {refused} of the server {name} of {definition.source}; change that file."
    return adjusted, problem if refused else ""


class OtherAgentServerFile(Struct, frozen=True):
    """A file of the workspace, written for another agent, that defines servers."""

    name: str
    content: bytes
    trusted: bool
    found: ParsedServerFile


def find_workspace_server_files(workspace: Workspace, store: trust.TrustStore) -> list[OtherAgentServerFile]:
    """Return the workspace's files that define servers; unreadable ones are left out. Blocks."""
    files = []
    for name in WORKSPACE_SERVER_FILES:
        with suppress(OSError, WorkspaceError):
            content = trust.read_untrusted_workspace_configuration(workspace, name)
            is_trusted = bool(content) and trust.is_trusted(content, store, name)
            found = _parse_servers(name, content, _table_reader(name)) if content else ParsedServerFile()
            definitions = tuple(replace(definition, of_workspace=True) for definition in found.definitions)
            if definitions or is_trusted:
                files.append(OtherAgentServerFile(name, content, is_trusted, replace(found, definitions=definitions)))
    return files
