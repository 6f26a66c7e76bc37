"""Servers that are written down for other agents already: for Claude Code, Gemini CLI and Codex.

Of each file only what names servers is looked at; what cannot be used of it is a line for the user.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app.config.server_table import ServerTable
from app.config.toml import parse_toml
from app.servers.definition import Definition
from app.workspace.reading import read_file

LARGEST = 16 * 1024 * 1024
"""Bytes of such a file: Claude Code keeps much else in its own."""
IN_WORKSPACE = (".mcp.json", ".gemini/settings.json", ".codex/config.toml")
"""Files of a workspace, which count once the user has trusted them."""

_HOMES = (
    ("CLAUDE_CONFIG_DIR", "", ".claude.json"),
    ("GEMINI_CLI_HOME", "", ".gemini/settings.json"),
    ("CODEX_HOME", ".codex", "config.toml"),
)
"""The variable that moves a file of the user's, the folder in which it lies otherwise, and its name."""

_LONGEST_NAME = 64

Tables = Iterator[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Found:
    """What a file names."""

    definitions: tuple[Definition, ...] = ()
    problems: tuple[str, ...] = ()
    """What cannot be used, each with the file and the reason."""


def of_user(environment: Mapping[str, str], root: Path) -> Found:
    """The servers in the user's own files; `root` is the workspace, for which Claude Code keeps some apart."""
    found = []
    for variable, folder, name in _HOMES:
        if not (home := environment.get(variable) or environment.get("HOME")):
            continue
        path = Path(home) / name if environment.get(variable) else Path(home) / folder / name
        read = _of_claude(str(root)) if name == ".claude.json" else _reader(name)
        found.append(_read(path, f"~/{folder}/{name}" if folder else f"~/{name}", read))
    return together(found)


def of_workspace(name: str, content: bytes) -> Found:
    """The servers in one of `IN_WORKSPACE`."""
    found = _parsed(name, content, _reader(name))
    return replace(found, definitions=tuple(replace(each, of_workspace=True) for each in found.definitions))


def together(found: list[Found]) -> Found:
    """All of several files."""
    definitions = tuple(each for one in found for each in one.definitions)
    return Found(definitions, tuple(line for one in found for line in one.problems))


def _read(path: Path, source: str, tables: Callable[[bytes], Tables]) -> Found:
    try:
        content, _ = read_file(os.path.realpath(path), LARGEST)
    except FileNotFoundError:
        return Found()
    except OSError as error:
        return Found(problems=(f"{source} cannot be read: {error.strerror}.",))
    return _parsed(source, content, tables)


def _parsed(source: str, content: bytes, tables: Callable[[bytes], Tables]) -> Found:
    definitions, problems = [], []
    try:
        for name, values in tables(content):
            try:
                definitions.append(_definition(str(name), values, source))
            except (ValueError, AttributeError, TypeError) as error:
                problems.append(f"{source}: {str(name)[:_LONGEST_NAME]}: {error}")
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        problems.append(f"{source} cannot be used: {error}")
    return Found(tuple(definitions), tuple(problems))


def _reader(name: str) -> Callable[[bytes], Tables]:
    if name.endswith(".toml"):
        return lambda content: iter(parse_toml(content).get("mcp_servers", {}).items())
    return lambda content: iter((json.loads(content).get("mcpServers") or {}).items())


def _of_claude(root: str) -> Callable[[bytes], Tables]:
    """Those of this project first: of two of one name they are meant."""

    def tables(content: bytes) -> Tables:
        values = json.loads(content)
        yield from (((values.get("projects") or {}).get(root) or {}).get("mcpServers") or {}).items()
        yield from (values.get("mcpServers") or {}).items()

    return tables


def _definition(name: str, values: Any, source: str) -> Definition:
    """What these agents say of a server, as signoff says it; raises ValueError."""
    if not isinstance(values, dict):
        raise ValueError("it is no table")
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ValueError(f"a server's name has up to {_LONGEST_NAME} characters, all of which show")
    if values.get("type") == "sse":
        raise ValueError("the transport sse is not spoken any more; most servers offer http beside it")
    url = values.get("httpUrl") or values.get("url") or ""
    said: dict[str, Any] = {key: values[key] for key in ("command", "args", "env", "cwd") if values.get(key)}
    said |= {"url": url} if url else {}
    headers = dict(values.get("headers") or values.get("http_headers") or {})
    headers |= {key: f"${{{variable}}}" for key, variable in (values.get("env_http_headers") or {}).items()}
    if bearer := values.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{bearer}}}"
    said |= {"headers": headers} if headers else {}
    if values.get("enabled") is False or values.get("disabled") is True:
        said["enabled"] = False
    if isinstance(seconds := values.get("tool_timeout_sec"), int | float):
        said["timeout"] = seconds
    if isinstance(seconds := values.get("startup_timeout_sec"), int | float):
        said["start_timeout"] = seconds
    if isinstance(milliseconds := values.get("timeout"), int | float):
        said["timeout"] = milliseconds / 1000
    try:
        table = ServerTable.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if not table.command and not table.url:
        raise ValueError("it has neither a command nor a url")
    return Definition(name, table, source)
