"""The protocol of the MCP server: greets the host, describes the tools, and runs each call on its own thread.

It supports two generations of MCP: up to 2025-11-25 a connection begins with `initialize`; from 2026-07-28 on each
request contains its version, and `server/discover` returns the capabilities. The schemas of the tools are constants,
not generated from the argument models, so that listing the tools needs no other imports; a test compares the two.
"""

import json
import os
import re
import select
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from app import __version__
from app.mcp_client.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_MESSAGE_BYTES,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Message,
    RejectedRpcMessage,
    RequestId,
    RpcRequestOrNotification,
    parse_json_line,
    parse_request_or_notification,
)
from app.proposals.values.proposal_errors import MAX_PROPOSAL_FILES

ToolSchema = dict[str, Any]

INSTRUCTIONS = (
    "Use these tools for every change to the files of this workspace, in the place of any other editing tool and of "
    "the shell. An edit is only proposed: nothing is written until the user has looked at its diff in signoff and "
    "approved it, whole or by hunk. Put all files of one change into one propose_edit (or propose_patch), then end "
    "your turn and say what the change does; don't propose more until the user has decided. The decision is the "
    "user's alone: it comes back as the result of a call that waits, or through proposal_status, with the user's own "
    "words. After a denial with feedback, propose again what the user asked for. Read files by your own means: they "
    "hold what is approved."
)


def _object_schema(properties: ToolSchema, required: tuple[str, ...] = ()) -> ToolSchema:
    schema: ToolSchema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False}


def _string_schema(description: str) -> ToolSchema:
    return {"type": "string", "description": description}


def _boolean_schema(description: str) -> ToolSchema:
    return {"type": "boolean", "description": description}


MAX_WAIT_SECONDS = 86_400
"""Maximum seconds that one call may wait."""

_WAIT_SCHEMA: ToolSchema = {
    "type": "integer",
    "description": "Wait so many seconds for the user's decision, and give it back as the result. 0: don't wait.",
    "minimum": 0,
    "maximum": MAX_WAIT_SECONDS,
}
_SUMMARY_SCHEMA = _string_schema("One line for the user: what the change does and why.")
_ON_TOP_OF_SCHEMA = _string_schema(
    "Only if the user has sent a new message since, and wants more while your last proposal still waits: the id of "
    "that proposal, such as P7."
)
_REPLACEMENT_SCHEMA = _object_schema(
    {
        "old": _string_schema(
            "The text to replace, exactly as in the file, without line numbers. Whole lines, and enough of them to "
            "occur only once."
        ),
        "new": _string_schema("The text that takes its place; empty to remove it."),
        "replace_all": _boolean_schema("Replace every occurrence of exactly this text, except inside longer words."),
        "inside_words": _boolean_schema("Take `old` inside longer words too: `id` in `width`."),
        "line": {
            "type": "integer",
            "description": "The line number where `old` begins, if the same text occurs more than once.",
            "minimum": 1,
        },
    },
    ("old", "new"),
)
_FILE_SCHEMA = _object_schema(
    {
        "path": _string_schema("The file, relative to the workspace root; as it is called now."),
        "edits": {
            "type": "array",
            "description": "Replacements in the text that is there. All refer to the file as it was read, and none "
            "may overlap.",
            "items": _REPLACEMENT_SCHEMA,
            "minItems": 1,
        },
        "content": _string_schema(
            "The whole text of a new file, or new text for all of one; missing folders are made."
        ),
        "delete": _boolean_schema("Delete the file."),
        "new_path": _string_schema("Move the file here, with its `edits` or `content` if there are any."),
    },
    ("path",),
)


def _tool_definition(name: str, title: str, description: str, schema: ToolSchema, **hints: bool) -> ToolSchema:
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema,
        "annotations": {"title": title, **hints},
    }


_PROPOSING_HINTS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
"""A call stores a proposal in signoff and changes no file of the workspace."""

TOOL_SCHEMAS: tuple[ToolSchema, ...] = (
    _tool_definition(
        "propose_edit",
        "Propose an edit",
        "Propose changes to one or more files as one proposal: replacements in their text, whole new text, "
        "deletions, renames. Nothing is written: the user approves or denies it in signoff, whole or by hunk. Put "
        "every file of the change into this one call. If a text is not found, or found more than once, nothing is "
        "staged and the result says what is there instead. Then end your turn.",
        _object_schema(
            {
                "files": {
                    "type": "array",
                    "description": "The changes, each file once.",
                    "items": _FILE_SCHEMA,
                    "minItems": 1,
                    "maxItems": MAX_PROPOSAL_FILES,
                },
                "summary": _SUMMARY_SCHEMA,
                "wait_seconds": _WAIT_SCHEMA,
                "on_top_of": _ON_TOP_OF_SCHEMA,
            },
            ("files",),
        ),
        **_PROPOSING_HINTS,
    ),
    _tool_definition(
        "propose_patch",
        "Propose a patch",
        "Propose changes to one or more files as a patch: a unified diff as git makes it, with a few lines of "
        "context, or one in *** Begin Patch form. Nothing is written: the user approves or denies it in signoff, "
        "whole or by hunk. If any part doesn't fit, nothing is staged. Then end your turn.",
        _object_schema(
            {
                "patch": _string_schema("The patch: a unified diff as git makes it, or one in *** Begin Patch form."),
                "summary": _SUMMARY_SCHEMA,
                "wait_seconds": _WAIT_SCHEMA,
                "on_top_of": _ON_TOP_OF_SCHEMA,
            },
            ("patch",),
        ),
        **_PROPOSING_HINTS,
    ),
    _tool_definition(
        "proposal_status",
        "Read the user's decision",
        "What became of a proposal: what of it is written, what is denied, what still waits, the user's feedback and "
        "comments whole, and the text that the files hold now. It can wait for the decision.",
        _object_schema(
            {
                "proposal": _string_schema("Its id, such as P7. Default: the last one that you proposed."),
                "wait_seconds": _WAIT_SCHEMA,
            }
        ),
        readOnlyHint=True,
        openWorldHint=False,
    ),
)
TOOL_NAMES = tuple(str(tool["name"]) for tool in TOOL_SCHEMAS)


_CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
_CODEX_KEY = "x-codex-turn-metadata"
_MAX_NAME_CHARACTERS = 80
_AGENT_NAMES = {"claude-code": "claude", "codex-mcp-client": "codex", "gemini-cli-mcp-client": "gemini"}
"""Short names of agents by their MCP client names."""


_DEFAULT_CLIENT_NAMES = ("", "mcp")
"""Default client names of the MCP SDK for Python, also used by kimi-cli and vibe."""
_INTERPRETERS = re.compile(r"(?:python|node|bun|deno|uv|sh|bash)[\d.]*")


class McpCaller(NamedTuple):
    """The agent that makes a call; fields that it does not send are empty."""

    agent: str = ""
    """Its short name: `claude`."""
    model: str = ""
    session: str = ""
    turn: str = ""
    """Its own id of the turn; only some agents send one."""


def identify_caller(
    client: dict[str, Any],
    meta: dict[str, Any],
    environment: Mapping[str, str] = os.environ,
    read_parent_name: Callable[[], str] | None = None,
) -> McpCaller:
    """Return the caller of a tool.

    Args:
        client: `clientInfo` of the host.
        meta: The `_meta` of the call, in which stateless hosts send `clientInfo`, and Codex sends ids.
        environment: Variables, in which Claude Code passes its session id.
        read_parent_name: Returns the name of the program that started the server; for a host without a name.
    """
    said = meta.get(_CLIENT_KEY)
    name = _short_text(said if isinstance(said, dict) else client, "name")
    turn = meta.get(_CODEX_KEY)
    turn = turn if isinstance(turn, dict) else {}
    agent = (
        _AGENT_NAMES.get(name, name)
        if name not in _DEFAULT_CLIENT_NAMES
        else (read_parent_name or _parent_name)() or name
    )
    session = _short_text(turn, "session_id")
    if agent == "claude":
        session = _short_text({**environment}, "CLAUDE_CODE_SESSION_ID")
    return McpCaller(
        agent=agent, model=_short_text(turn, "model"), session=session, turn=_short_text(turn, "turn_id")
    )


def _parent_name() -> str:
    """Return the name of the parent process; empty for an interpreter, or if it can't be read."""
    try:
        name = _short_text({"name": Path(f"/proc/{os.getppid()}/comm").read_text(errors="replace")}, "name")
    except OSError:
        return ""
    return "" if _INTERPRETERS.fullmatch(name) else name


def _short_text(values: dict[str, Any], key: str) -> str:
    """Return a text value of the host as one short line; empty for other types."""
    value = values.get(key)
    line = " ".join(value.split())[:_MAX_NAME_CHARACTERS] if isinstance(value, str) else ""
    return line.encode("utf-8", "replace").decode("utf-8")


_CHUNK_BYTES = 1 << 16
_CLOSING_SECONDS = 2.0
"""Seconds that an ending server waits for the host to read pending output."""


def read_lines_until_stopped(source: int, stop_descriptor: int) -> Iterator[bytes | None]:
    """Yield the lines of a descriptor until it ends, or until `stop_descriptor` is readable.

    Yields:
        A line without its end, or None as soon as a line is too long.
    """
    buffer = bytearray()
    looked = 0
    passing = False
    while True:
        ready, _, _ = select.select([source, stop_descriptor], [], [])
        try:
            chunk = b"" if stop_descriptor in ready else os.read(source, _CHUNK_BYTES)
        except BlockingIOError:
            # The host shares the pipe with another reader, or has made it non-blocking.
            continue
        if not chunk:
            break
        buffer += chunk
        while (end := buffer.find(b"\n", looked)) >= 0:
            line, looked = bytes(buffer[:end]), 0
            del buffer[: end + 1]
            if not passing:
                yield line
            passing = False
        looked = len(buffer)
        if looked > MAX_MESSAGE_BYTES or passing:
            if not passing:
                yield None
            passing = True
            buffer.clear()
            looked = 0
    if buffer and stop_descriptor not in ready:
        yield bytes(buffer)


class MessageWriter:
    """Writes whole messages to a descriptor from any thread; messages that cannot be written are dropped.

    Args:
        descriptor: The descriptor to write to.
        stop_descriptor: Readable when the server should end: then writes don't wait for a host that does not read.
    """

    def __init__(self, descriptor: int, stop_descriptor: int | None = None) -> None:
        self._descriptor = descriptor
        self._stop_descriptors = [] if stop_descriptor is None else [stop_descriptor]
        self._lock = threading.Lock()
        self._is_host_gone = False

    def send(self, message: object) -> bool:
        """Write one message, with characters that are not valid Unicode escaped; return whether it was written."""
        left = memoryview(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")
        with self._lock:
            while left and not self._is_host_gone:
                try:
                    if self._wait_until_writable():
                        left = left[os.write(self._descriptor, left[: select.PIPE_BUF]) :]
                    else:
                        self._is_host_gone = True
                except BlockingIOError:
                    # Another writer has filled the pipe.
                    continue
                except OSError:
                    # The host has ended; it also closed our input, which ends the server.
                    self._is_host_gone = True
            return not left

    def _wait_until_writable(self) -> bool:
        """Wait until the descriptor takes `PIPE_BUF` bytes; return False if it does not and the server should end."""
        _, room, _ = select.select(self._stop_descriptors, [self._descriptor], [])
        if not room:
            _, room, _ = select.select([], [self._descriptor], [], _CLOSING_SECONDS)
        return bool(room)


_INITIALIZE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that begin with `initialize`, the latest last."""
STATELESS_VERSIONS = ("2026-07-28",)
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_SERVER_INFO = {"name": "signoff", "title": "signoff", "version": __version__}
_TOOLS_CACHE_MS = 3_600_000
"""Milliseconds for which a host may cache the list of tools, which never changes while the server runs."""
MAX_RUNNING_CALLS = 64
"""Maximum number of calls that run or wait at the same time."""


class RunningToolCall:
    """A tool call from its request to its answer."""

    def __init__(self, call: RpcRequestOrNotification, send: Callable[[Message], bool]) -> None:
        self.stop = threading.Event()
        """Set when the host has cancelled the call, or is ending."""
        self.cancelled = False
        self.on_answered: list[Callable[[bool], None]] = []
        """Called after the answer, with whether it was written to the host."""
        self._token = call.meta.get("progressToken")
        self._send = send

    def report_progress(self, done: float, total: float, message: str) -> None:
        """Send the host a progress message, if it asked for progress; `done` must grow each time."""
        if isinstance(self._token, str | int) and not self.stop.is_set():
            params = {"progressToken": self._token, "progress": done, "total": total, "message": message}
            self._send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


class McpDoorTools(Protocol):
    """The tools of the MCP door: runs each call, and closes the workspace at the end."""

    def call(self, name: str, arguments: Message, caller: McpCaller, running: RunningToolCall) -> tuple[str, bool]:
        """Run a tool to its end; return the text for the model, and whether the call failed. Never raises."""
        ...

    def close(self) -> None:
        """Close the workspace after the last call has ended."""
        ...


class McpDoorServer:
    """The MCP server of one connection; `handle_line` runs on one thread, answers are sent from many.

    Args:
        load_tools: Returns the tools; called at the first tool call, because many sessions make none.
        send: Sends a message to the host; returns whether it was written.
    """

    def __init__(self, load_tools: Callable[[], McpDoorTools], send: Callable[[object], bool]) -> None:
        self._load_tools = load_tools
        self._loading_lock = threading.Lock()
        self._loaded_tools: McpDoorTools | None = None
        self._send = send
        self._client: Message = {}
        self._running: dict[RequestId, RunningToolCall] = {}
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def handle_line(self, line: bytes | None) -> None:
        """Handle one line of the host; None means that the line was too long."""
        if line is not None and not line.strip():
            return
        try:
            self._receive_message(parse_json_line(line))
        except RejectedRpcMessage as refusal:
            self._send(refusal.to_response())

    def shut_down(self) -> None:
        """End the server: stop all waits, and answer the running calls."""
        with self._lock:
            running, threads = [*self._running.values()], [*self._threads]
        for each in running:
            each.stop.set()
        for thread in threads:
            thread.join()
        if self._loaded_tools is not None:
            self._loaded_tools.close()

    def _tools(self) -> McpDoorTools:
        with self._loading_lock:
            if self._loaded_tools is None:
                self._loaded_tools = self._load_tools()
            return self._loaded_tools

    def _receive_message(self, message: object) -> None:
        """Answer a message, or start its call. Raises RejectedRpcMessage."""
        call = parse_request_or_notification(message)
        if call is None or call.id is None:
            self._handle_notification(call)
        elif call.method == "tools/call":
            self._start_call(call, call.id)
        else:
            self._send({"jsonrpc": "2.0", "id": call.id, "result": self._answer_request(call)})

    def _handle_notification(self, call: RpcRequestOrNotification | None) -> None:
        """Handle a notification; unknown ones are ignored, as the protocol requires."""
        if call is None or call.method != "notifications/cancelled":
            return
        name = call.params.get("requestId")
        with self._lock:
            running = self._running.get(name) if isinstance(name, str | int) else None
        if running is not None:
            running.cancelled = True
            running.stop.set()

    def _answer_request(self, call: RpcRequestOrNotification) -> Message:
        """Return the result of a request other than a tool call. Raises RejectedRpcMessage."""
        stateless = _is_stateless(call)
        match call.method:
            case "initialize":
                return self._answer_initialize(call)
            case "ping":
                return {}
            case "tools/list":
                # A stateless host needs the caching fields; earlier hosts ignore unknown fields.
                return (
                    _with_metadata({"tools": [*TOOL_SCHEMAS]}, cached=True)
                    if stateless
                    else {"tools": [*TOOL_SCHEMAS]}
                )
            case "server/discover":
                found = {"supportedVersions": [*_INITIALIZE_VERSIONS, *STATELESS_VERSIONS], **_capabilities()}
                return _with_metadata(found, cached=True)
        raise RejectedRpcMessage(
            METHOD_NOT_FOUND,
            f"There is no method {call.method[:80]!r}. There are: initialize, ping, server/discover, tools/list, "
            "tools/call.",
            id=call.id,
        )

    def _answer_initialize(self, call: RpcRequestOrNotification) -> Message:
        client = call.params.get("clientInfo")
        self._client = client if isinstance(client, dict) else {}
        asked = call.params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in _INITIALIZE_VERSIONS else _INITIALIZE_VERSIONS[-1],
            **_capabilities(),
            "serverInfo": _SERVER_INFO,
        }

    def _start_call(self, call: RpcRequestOrNotification, name: RequestId) -> None:
        """Run a tool call on its own thread. Raises RejectedRpcMessage."""
        stateless = _is_stateless(call)
        tool, arguments = call.params.get("name"), call.params.get("arguments")
        if tool not in TOOL_NAMES:
            known = ", ".join(TOOL_NAMES)
            raise RejectedRpcMessage(
                INVALID_PARAMS, f"There is no tool {str(tool)[:80]!r}. The tools are: {known}.", id=name
            )
        running = RunningToolCall(call, self._send)
        caller = identify_caller(self._client, call.meta)

        def run() -> None:
            given = {} if arguments is None else arguments
            if not isinstance(given, dict):
                text, failed = f"Nothing ran: the arguments of {tool} are one JSON object.", True
            else:
                try:
                    text, failed = self._tools().call(tool, given, caller, running)
                except Exception as error:
                    # The tools could not be loaded: signoff may have been removed or updated meanwhile.
                    text, failed = f"signoff can't do it, and nothing was staged or written: {error}", True
            with self._lock:
                # The host may use the id again as soon as it has the answer.
                del self._running[name]
            result: Message = {"content": [{"type": "text", "text": text}], "isError": failed}
            whole = _with_metadata(result) if stateless else result
            is_sent = not running.cancelled and self._send({"jsonrpc": "2.0", "id": name, "result": whole})
            for callback in running.on_answered:
                callback(is_sent)
            with self._lock:
                self._threads.discard(threading.current_thread())

        with self._lock:
            if name in self._running:
                raise RejectedRpcMessage(INVALID_REQUEST, f"A call with the id {name!r} is still running.", id=None)
            if len(self._running) >= MAX_RUNNING_CALLS:
                raise RejectedRpcMessage(
                    INVALID_REQUEST, f"{MAX_RUNNING_CALLS} calls run already; wait for one to end.", id=name
                )
            thread = threading.Thread(target=run, name=f"call {name}")
            self._running[name] = running
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:
            with self._lock:
                del self._running[name]
                self._threads.discard(thread)
            raise RejectedRpcMessage(
                INTERNAL_ERROR, "The system starts no more threads; try again later.", id=name
            ) from error


def _is_stateless(call: RpcRequestOrNotification) -> bool:
    """Return whether the request names a version from 2026-07-28 on. Raises RejectedRpcMessage for an unknown one."""
    version = call.meta.get(VERSION_KEY)
    if version is None or version in _INITIALIZE_VERSIONS:
        return False
    if version not in STATELESS_VERSIONS:
        supported = [*_INITIALIZE_VERSIONS, *STATELESS_VERSIONS]
        raise RejectedRpcMessage(
            UNSUPPORTED_VERSION,
            f"This server speaks {', '.join(supported)}.",
            id=call.id,
            data={"supported": supported, "requested": str(version)[:80]},
        )
    return True


def _capabilities() -> Message:
    return {"capabilities": {"tools": {}}, "instructions": INSTRUCTIONS}


def _with_metadata(result: Message, *, cached: bool = False) -> Message:
    """Return a result in the form of version 2026-07-28: complete, with its server, and its cache lifetime."""
    stamp: Message = {"resultType": "complete", "_meta": {_SERVER_KEY: _SERVER_INFO}}
    return {**result, **stamp, **({"ttlMs": _TOOLS_CACHE_MS, "cacheScope": "public"} if cached else {})}
