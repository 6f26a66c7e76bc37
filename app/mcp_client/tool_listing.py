"""Tool list of one server: fetched page by page, and again when the server reports a change."""

import asyncio
import hashlib
import json
import math
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from app.mcp_client.json_rpc import METHOD_NOT_FOUND, Message
from app.mcp_client.mcp_connection import ConnectionLost, McpConnection, McpServerError, McpServerTimeout
from app.text.safe_text import strip_unsafe
from app.tools.command.command_result import PlainTextDecoder

MAX_TOOLS = 1000
"""Maximum number of tools of one server."""
MAX_NAME_CHARACTERS = 64
"""Longest tool name that endpoints accept; allowed are letters, digits, `_` and `-`."""
_MAX_DESCRIPTION_CHARACTERS = 4_000
_MAX_SCHEMA_CHARACTERS = 64 * 1024
"""Maximum number of characters of a schema with its references expanded."""
_MAX_SCHEMA_DEPTH = 24
_INVALID_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")
_DROPPED_KEYS = frozenset({"$ref", "$schema", "$id", "$comment", "$defs", "definitions", "$anchor", "x-mcp-header"})


class InvalidToolDefinition(Exception):
    """A tool that cannot be offered; the message says why."""


class ToolDefinition(Struct, frozen=True):
    """A tool as its server describes it: its names, description and argument schema."""

    tool: str
    """The server's name for it."""
    name: str
    """The model's name for it: `server__tool`."""
    title: str
    description: str
    parameters: dict[str, Any]
    """The JSON schema of its arguments."""
    says_read_only: bool = False
    """The server's claim that it only reads; for information, no decision depends on it."""

    @property
    def fingerprint(self) -> str:
        """Return a digest that changes if the server changes the tool of this name."""
        content = [self.tool, self.title, self.description, self.parameters, self.says_read_only]
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def parse_tools_and_refusals(server: str, raw_tools: list[Any]) -> tuple[list[ToolDefinition], list[str]]:
    """Return the usable tools of a server, and a line for each refused tool."""
    definitions: list[ToolDefinition] = []
    problems = []
    taken: set[str] = set()
    for entry in raw_tools[:MAX_TOOLS]:
        try:
            definition = _parse_tool(server, entry, taken)
        except InvalidToolDefinition as why:
            problems.append(str(why))
        else:
            taken.add(definition.name)
            definitions.append(definition)
    if len(raw_tools) > MAX_TOOLS:
        problems.append(f"{len(raw_tools) - MAX_TOOLS:,} more tools are left out.")
    return definitions, problems


def dump_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Return the tools in the format that `parse_tools_and_refusals` reads."""
    return [
        {
            "name": tool.tool,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": tool.parameters,
            "annotations": {"readOnlyHint": tool.says_read_only},
        }
        for tool in tools
    ]


def _parse_tool(server: str, entry: Any, taken_names: Collection[str]) -> ToolDefinition:
    tool = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(tool, str) or not tool or len(tool) > 500:
        raise InvalidToolDefinition("A tool without a name is left out.")
    shown_name = strip_unsafe(tool, keep="")[:80]
    try:
        parameters = _parse_parameters(entry.get("inputSchema"))
    except InvalidToolDefinition as why:
        raise InvalidToolDefinition(f"{shown_name} is left out: {why}") from why
    name = tool_name_for_model(server, tool)
    if name in taken_names:
        raise InvalidToolDefinition(f"{shown_name} is left out: there is another one of that name.")
    notes = entry.get("annotations")
    notes = notes if isinstance(notes, dict) else {}
    return ToolDefinition(
        tool,
        name,
        _clean_text(entry.get("title") or notes.get("title"), 80, keep=""),
        _clean_text(entry.get("description"), _MAX_DESCRIPTION_CHARACTERS),
        parameters,
        notes.get("readOnlyHint") is True,
    )


def has_server_prefix(name: str, server: str) -> bool:
    """Return whether a tool's name for the model starts like those of this server."""
    return name.startswith(f"{_INVALID_NAME_CHARACTERS.sub('_', server)}__")


def tool_name_for_model(server: str, tool: str) -> str:
    """Return the model's name for a tool, the same in each session; a digest makes changed names unique."""
    wire_name = f"{_INVALID_NAME_CHARACTERS.sub('_', server)}__{_INVALID_NAME_CHARACTERS.sub('_', tool)}"
    # The first `__` must separate the two names, or tools of different servers could get the same name.
    is_unambiguous = server.strip("_") == server and "__" not in server
    if (
        is_unambiguous
        and len(wire_name) <= MAX_NAME_CHARACTERS
        and not _INVALID_NAME_CHARACTERS.search(server + tool)
    ):
        return wire_name
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{wire_name[: MAX_NAME_CHARACTERS - 7]}_{digest}"


def safe_server_text(text: str, *, keep: str = "\t\n") -> str:
    """Return a server's text without terminal sequences and invisible characters."""
    plain = PlainTextDecoder().feed(text.encode("utf-8", "surrogatepass"), final=True)
    return strip_unsafe(plain.replace("\r\n", "\n"), keep=keep)


def _clean_text(text: Any, max_characters: int, *, keep: str = "\n\t") -> str:
    if not isinstance(text, str):
        return ""
    clean = safe_server_text(text, keep=keep).strip()
    return clean if len(clean) <= max_characters else clean[: max_characters - 1] + "…"


def _parse_parameters(schema: Any) -> dict[str, Any]:
    """Return the JSON schema of the arguments; raises InvalidToolDefinition."""
    if schema is None:
        schema = {}
    if not isinstance(schema, dict):
        raise InvalidToolDefinition("the schema of its arguments is not an object.")
    if schema.get("type", "object") != "object":
        raise InvalidToolDefinition("its arguments are not an object.")
    clean_schema = _SchemaCleaner(schema).clean(schema, 0, ())
    properties = clean_schema.pop("properties", {})
    if not isinstance(properties, dict):
        raise InvalidToolDefinition("the schema of its arguments is damaged.")
    result = {"type": "object", "properties": properties, **{k: v for k, v in clean_schema.items() if k != "type"}}
    required = result.get("required")
    if required is not None and not (isinstance(required, list) and all(isinstance(name, str) for name in required)):
        raise InvalidToolDefinition("the schema of its arguments is damaged.")
    return result


class _SchemaCleaner:
    """Expands the references of one schema, up to a size limit."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._characters_left = _MAX_SCHEMA_CHARACTERS

    def clean(self, value: Any, depth: int, open_references: tuple[str, ...]) -> Any:
        """Return a part with references expanded, except `open_references`. Raises InvalidToolDefinition."""
        if depth > _MAX_SCHEMA_DEPTH:
            raise InvalidToolDefinition("the schema of its arguments is nested too deeply.")
        match value:
            case dict():
                return self._clean_object(value, depth, open_references)
            case list():
                self._count_characters(2)
                return [self.clean(item, depth + 1, open_references) for item in value]
            case str():
                self._count_characters(len(value) + 2)
                return safe_server_text(value)
            case float() if not math.isfinite(value):
                raise InvalidToolDefinition("the schema of its arguments has a number that JSON does not allow.")
            case bool() | int() | float() | None:
                self._count_characters(len(json.dumps(value)))
                return value
        raise InvalidToolDefinition("the schema of its arguments is damaged.")

    def _clean_object(self, value: Mapping[str, Any], depth: int, open_references: tuple[str, ...]) -> dict[str, Any]:
        self._count_characters(2)
        result = {}
        if isinstance(reference := value.get("$ref"), str):
            target_schema = self._find_target(reference)
            # A circular or external reference becomes an empty schema, which allows any value.
            if target_schema is not None and reference not in open_references:
                result = self._clean_object(target_schema, depth + 1, (*open_references, reference))
        for key, part in value.items():
            if key in _DROPPED_KEYS:
                continue
            if key == "properties" and isinstance(part, dict):
                # These keys are names of arguments, which must stay unchanged.
                if any(strip_unsafe(name, keep="") != name for name in part):
                    raise InvalidToolDefinition("the name of an argument has invisible characters.")
                result[key] = {
                    name: self.clean(property_schema, depth + 1, open_references)
                    for name, property_schema in part.items()
                }
                self._count_characters(sum(len(name) + 4 for name in part))
                continue
            self._count_characters(len(key) + 4)
            result[strip_unsafe(key)] = self.clean(part, depth + 1, open_references)
        return result

    def _find_target(self, reference: str) -> Mapping[str, Any] | None:
        if not reference.startswith("#"):
            return None
        target: Any = self._root
        for step in reference[1:].split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, dict) else None
        return target if isinstance(target, dict) else None

    def _count_characters(self, characters: int) -> None:
        self._characters_left -= characters
        if self._characters_left < 0:
            raise InvalidToolDefinition(
                f"the schema of its arguments has more than {_MAX_SCHEMA_CHARACTERS // 1024} kB."
            )


MAX_LOG_LINES = 400
MAX_LOG_LINE_CHARACTERS = 500
"""Maximum number of characters of one line."""
_MAX_NOTE_CHARACTERS = 4_000
"""Maximum number of characters of a note of signoff, which may contain an error message of the server."""


class McpServerLog:
    """The latest lines of one server's output, with notes of signoff between them; kept in memory."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LOG_LINES)
        self._decoder = PlainTextDecoder()
        self._unfinished_line = ""

    @property
    def lines(self) -> list[str]:
        """Return the lines, the oldest first."""
        return [*self._lines, self._unfinished_line] if self._unfinished_line else list(self._lines)

    def add_output(self, data: bytes) -> None:
        """Add output of the server."""
        *whole_lines, rest = (self._unfinished_line + self._decoder.feed(data)).split("\n")
        self._unfinished_line = strip_unsafe(rest[:MAX_LOG_LINE_CHARACTERS], keep="\t")
        # Of a large piece, only the last lines are processed.
        for line in whole_lines[-MAX_LOG_LINES:]:
            self._lines.append(strip_unsafe(line[:MAX_LOG_LINE_CHARACTERS], keep="\t").rstrip())

    def add_note(self, text: str) -> None:
        """Add a line of signoff, with the time."""
        if self._unfinished_line:
            self._lines.append(self._unfinished_line)
            self._unfinished_line = ""
        self._lines.append(
            f"{time.strftime('%H:%M:%S')} signoff: {strip_unsafe(text[:_MAX_NOTE_CHARACTERS], keep='')}"
        )


_MAX_PAGES = 100
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.2, 60.0
"""First and longest pause in seconds before the list is fetched again: some servers report changes constantly."""


class ToolWithdrawnOrChanged(Exception):
    """A listed tool is gone or has changed; the message says which."""


class ToolListRefresher:
    """Fetches one server's tool list, again after each change; until the first fetch it has that of the last run."""

    def __init__(
        self,
        server: str,
        seconds: float,
        log: McpServerLog,
        on_change: Callable[[], None],
        remembered: tuple[ToolDefinition, ...] = (),
    ) -> None:
        self.tools = remembered
        """The current tools; before the first listing, those of its last run."""
        self.is_current = False
        """Whether the server has listed its tools since signoff was started."""
        self.problems: tuple[str, ...] = ()
        """Why some of its tools are not offered, one line each."""
        self._server = server
        self._seconds = seconds
        self._log = log
        self._on_change = on_change
        self._connection: McpConnection | None = None
        self._outdated = False
        self._refetch_task: asyncio.Task[None] | None = None

    def require_offered(self, tool: ToolDefinition) -> None:
        """Raise ToolWithdrawnOrChanged unless the server still offers a tool exactly as it was listed."""
        if tool in self.tools:
            return
        if any(offered.tool == tool.tool for offered in self.tools):
            raise ToolWithdrawnOrChanged(f"has changed its tool {tool.tool}; the next turn has the new one")
        raise ToolWithdrawnOrChanged(f"has no tool {tool.tool} any more")

    async def fetch_tools(self, connection: McpConnection) -> None:
        """Fetch the whole list. Raises the errors of `McpConnection.request`."""
        # A change reported from here on may not be in this answer.
        self._outdated = False
        listed: list[object] = []
        cursor: object = None
        last_page: list[object] = []
        for _ in range(_MAX_PAGES):
            params: Message = {} if cursor is None else {"cursor": cursor}
            try:
                page = await connection.request("tools/list", params, self._seconds)
            except McpServerError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
                # It offers only prompts or resources.
                page = {}
            tools = page.get("tools")
            tools = tools if isinstance(tools, list) else []
            if tools and tools == last_page:
                # The server ignores the cursor.
                break
            listed += tools
            last_page, cursor = tools, page.get("nextCursor")
            if not isinstance(cursor, str) or len(listed) > MAX_TOOLS:
                break
        found, problems = await asyncio.to_thread(parse_tools_and_refusals, self._server, listed)
        for line in problems:
            if line not in self.problems:
                self._log.add_note(line)
        self.is_current = True
        definitions, left_out = tuple(found), tuple(problems)
        if (definitions, left_out) != (self.tools, self.problems):
            self.tools, self.problems = definitions, left_out
            self._on_change()

    def drop_unconfirmed_tools(self) -> None:
        """Drop the tools of the last run if the server has not listed its tools."""
        if not self.is_current:
            self.tools = ()

    def refetch_on_changes(self, connection: McpConnection) -> None:
        """Fetch the list again over this connection whenever the server reports a change."""
        self._connection = connection
        self._start_refetch()

    def mark_outdated(self) -> None:
        """Note that the server's list has changed, and fetch it again."""
        self._outdated = True
        self._start_refetch()

    def stop_following(self) -> None:
        """Stop updating; the last list stays."""
        self._connection = None
        if self._refetch_task is not None:
            self._refetch_task.cancel()

    def _start_refetch(self) -> None:
        if (
            self._outdated
            and self._connection is not None
            and (self._refetch_task is None or self._refetch_task.done())
        ):
            self._refetch_task = asyncio.create_task(self._refetch_until_current(self._connection))

    async def _refetch_until_current(self, connection: McpConnection) -> None:
        pause = _MIN_PAUSE_SECONDS
        while self._outdated:
            await asyncio.sleep(pause)
            try:
                await self.fetch_tools(connection)
            except (ConnectionLost, McpServerError, McpServerTimeout):
                self._outdated = True
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
