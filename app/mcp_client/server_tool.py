"""A tool of a server for the model: asks the user, calls it, and stages the files that the server has written."""

import asyncio
import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from app.copies import replace
from app.images.image import MAX_IMAGE_BYTES, MAX_IMAGES_IN_MESSAGE, Image, NotAnImage, join_quoted_names
from app.llm.response.bounded_stream import is_deeper_than
from app.mcp_client.configured_servers import WRITE_ACCESS_TEXTS, WriteAccess
from app.mcp_client.json_rpc import Message
from app.mcp_client.mcp_connection import ConnectionLost, McpServerError
from app.mcp_client.mcp_server import McpServer, McpServerState
from app.mcp_client.tool_listing import ToolDefinition, ToolWithdrawnOrChanged, safe_server_text
from app.proposals.text.file_warnings import format_size
from app.sandbox.captured_changes import PathChange
from app.text.deceiving_text import find_deceptive_characters
from app.text.quantities import format_count
from app.tools.base.command_forms import AllowableMcpTool
from app.tools.base.contract import (
    PermissionRequest,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    UnvalidatedMcpToolArguments,
    escape_surrogates,
)
from app.tools.command.command_result import (
    HeadAndTailBuffer,
    format_path_note_for_model,
    stage_command_changes,
    write_ignored_and_collect_other_changes,
)

_MAX_PARTS = 2_000
"""Maximum number of parts of one answer that are shown."""
_MAX_DEPTH = 100
"""Maximum number of levels of structured content: on separate lines, each level adds an indentation."""


class ToolResultContent(Struct, frozen=True):
    """A tool's result for the model: text and images, a summary, and whether the tool reports a failure."""

    text: str
    summary: str
    failed: bool
    """Whether the tool reports a failure."""
    images: tuple[tuple[Image, bytes], ...] = ()


def format_tool_result(result: Message, tool: str = "") -> ToolResultContent:
    """Return the text of a result, shortened in the middle, and its images, named after the tool."""
    buffer = HeadAndTailBuffer()
    content = result.get("content")
    parts = content if isinstance(content, list) else []
    images = _ImageCollector(tool)
    texts = list(_iterate_part_texts(parts[:_MAX_PARTS], images))
    if not any(texts) and "structuredContent" in result:
        texts = [safe_server_text(_format_structured(result["structuredContent"]))]
    if len(parts) > _MAX_PARTS:
        texts.append(f"[{len(parts) - _MAX_PARTS:,} more parts left out]")
    for number, text in enumerate(texts):
        buffer.feed(("\n" if number else "") + text)
    text = buffer.text().strip("\n")
    failed = result.get("isError") is True
    lines = buffer.lines + bool(text)
    summary = format_count(lines, "line") if text else "no text"
    if images.collected:
        summary = f"{summary}, {format_count(len(images.collected), 'image')}"
    summary = f"failed, {summary}" if failed else summary
    return ToolResultContent(text or "[no content]", summary, failed, tuple(images.collected))


class _ImageCollector:
    """Collects the images of one answer, at most as many as a message may have."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self.collected: list[tuple[Image, bytes]] = []

    def add_image(self, data: str) -> str:
        """Decode and collect a Base64 image; return the text that replaces it."""
        try:
            if len(data) > MAX_IMAGE_BYTES * 4 // 3 + 4:
                raise NotAnImage("is too large")
            if len(self.collected) == MAX_IMAGES_IN_MESSAGE:
                raise NotAnImage(f"is one of more than {MAX_IMAGES_IN_MESSAGE}")
            content = base64.b64decode(data, validate=True)
            image = Image.from_bytes(f"{self._tool} {len(self.collected) + 1}".strip(), content)
        except (NotAnImage, ValueError) as error:
            why = str(error) if isinstance(error, NotAnImage) else "is no Base64"
            return f"[an image of {_format_base64_size(data)}, which can't be shown to you: it {why}]"
        self.collected.append((image, content))
        return f"[image {join_quoted_names([image])}: {image.size_label}]"


def _format_structured(value: Any) -> str:
    """Return a value as indented JSON, or a note if it is nested too deeply."""
    if is_deeper_than(_MAX_DEPTH, value):
        return "[structured content, nested too deep to be shown]"
    return json.dumps(value, ensure_ascii=False, indent=1)


def _iterate_part_texts(parts: list[Any], images: _ImageCollector) -> Iterator[str]:
    for part in parts:
        if not isinstance(part, dict):
            continue
        match part.get("type"):
            case "text":
                yield _safe_text(part.get("text"))
            case "image":
                yield images.add_image(data if isinstance(data := part.get("data"), str) else "")
            case "audio":
                yield f"[an audio of {_format_base64_size(part.get('data'))}, which can't be played to you]"
            case "resource_link":
                name = _safe_text(part.get("title") or part.get("name"))
                yield f"[a resource: {name} {_safe_text(part.get('uri'))}]"
            case "resource":
                yield _describe_resource(part.get("resource"))
            case other:
                yield f"[a part of kind {_safe_text(other)[:40]!r}, which signoff doesn't know]"


def _safe_text(value: Any) -> str:
    """Return a value as safe text; empty if it is not a string."""
    return safe_server_text(value) if isinstance(value, str) else ""


def _describe_resource(resource: Any) -> str:
    if not isinstance(resource, dict):
        return ""
    where = _safe_text(resource.get("uri"))
    if isinstance(text := resource.get("text"), str):
        return f"[{where}]\n{safe_server_text(text)}"
    return f"[{where}: {_format_base64_size(resource.get('blob'))}]"


def _format_base64_size(data: Any) -> str:
    """Return the size of Base64 data as text."""
    count = len(data) if isinstance(data, str) else 0
    return format_size(count * 3 // 4 - (data[-2:].count("=") if count else 0))


class McpTool(Tool):
    """A tool of an MCP server."""

    kind = "command"
    Arguments = UnvalidatedMcpToolArguments

    def __init__(self, server: McpServer, definition: ToolDefinition) -> None:
        self.name = definition.name
        self.description = (
            definition.description or definition.title or f"The tool {definition.tool} of the server {server.name}."
        )
        self.parameters = definition.parameters
        self.server = server
        self.definition = definition

    async def run(self, arguments: UnvalidatedMcpToolArguments, context: ToolContext) -> ToolOutput:
        """Ask the user, call the tool, and stage its changes to the workspace."""
        server = self.server
        write_access = await server.write_access()
        if context.planning and write_access is WriteAccess.DIRECT:
            raise ToolError(f"Plan mode: {server.name} could write to the user's files.")
        # On a thread, because checking long arguments takes time.
        question = await asyncio.to_thread(
            self._make_permission_request, arguments.values, write_access, planning=context.planning
        )
        answer = await context.confirm(question)
        if not answer.allowed:
            raise answer.to_rejection("The user did not allow this call. It did not run.", "The call did not run")
        async with server.call_lock:
            output = await self._call_and_stage(arguments.values, context)
        if answer.unasked:
            output = replace(output, summary=f"{output.summary}, allowed: {answer.unasked}")
        return output

    async def _call_and_stage(self, values: Mapping[str, object], context: ToolContext) -> ToolOutput:
        server = self.server
        try:
            discarded_paths = await self._start_with_pending_files(context)
            output = await self._call_server(values, context)
        except ToolWithdrawnOrChanged as error:
            raise ToolError(f"Not called: the server {server.name} {error}.") from error
        except ConnectionLost as error:
            raise ToolError(unavailable_message(server.name, str(error))) from error
        if discarded_paths:
            # Outside of a call, no user can be asked whether to keep the changes.
            note = format_path_note_for_model(
                f"thrown away, as {server.name} wrote it outside of a finished call", discarded_paths
            )
            output = replace(output, text=f"{output.text}\n{note}")
        try:
            async with server.read_changes() as layer:
                changes: list[PathChange] = []
                if layer is not None:
                    output, changes = await write_ignored_and_collect_other_changes(layer, context, output, self.name)
        except OSError as error:
            raise ToolError(f"What it has written can't be read: {error.strerror or error}.") from error
        if changes:
            output = await stage_command_changes(context, output, changes, self.name, ran_in_place=False)
        return output

    async def _start_with_pending_files(self, context: ToolContext) -> list[str]:
        """Prepare the call with `McpServer.start_with_files`; report the wait for a server that is not ready."""
        pending = await asyncio.to_thread(context.draft.pending_files)
        if self.server.state is McpServerState.READY:
            return await self.server.start_with_files(pending)
        context.waits(describe_startup_wait([self.server]))
        try:
            return await self.server.start_with_files(pending)
        finally:
            context.waits("")

    async def _call_server(self, values: Mapping[str, object], context: ToolContext) -> ToolOutput:
        """Return the output of a call; an error is an output too, so that files written before it are staged."""
        try:
            result = await asyncio.to_thread(
                format_tool_result, await self.server.call_tool(self.definition, values), self.name
            )
        except McpServerError as error:
            text = f"{self.server.name} answers with an error: {safe_server_text(str(error))[:4000]}"
            return ToolOutput(text, "failed, an error", failed=True)
        await asyncio.to_thread(context.keep, [content for _, content in result.images])
        images = tuple(image for image, _ in result.images)
        return ToolOutput(result.text, result.summary, failed=result.failed, images=images)

    def _make_permission_request(
        self, values: Mapping[str, object], write_access: WriteAccess, *, planning: bool
    ) -> PermissionRequest:
        server, definition = self.server, self.definition
        notes = [WRITE_ACCESS_TEXTS[write_access]]
        if write_access is WriteAccess.LAYER and planning:
            notes = ["Plan mode: what it changes in the workspace is thrown away."]
        if definition.says_read_only:
            notes.append("The server says that it only reads.")
        notes.append(f"{server.name}: {server.definition.origin} ({server.definition.source})")
        if characters := find_deceptive_characters(detail := format_call_in_full(definition.tool, values)):
            # Only the note that there is no review comes before this warning.
            notes.insert(1 if write_access is WriteAccess.DIRECT else 0, f"Careful: the arguments hold {characters}.")
        title, direct = f"Call a tool of {server.name}?", write_access is WriteAccess.DIRECT
        # A permission given while the server was on a layer does not cover direct access.
        fingerprint = f"{server.definition.fingerprint} {definition.fingerprint}{' direct' if direct else ''}"
        form = AllowableMcpTool(server.name, definition.tool, fingerprint)
        return PermissionRequest("server", title, detail, ".", tuple(notes), form, direct)


def describe_startup_wait(servers: Sequence[McpServer]) -> str:
    """Return which servers are still starting, in a few words; empty if there are none."""
    names = ", ".join(server.startup_wait_label for server in servers)
    return f"the MCP server{'s' if len(servers) > 1 else ''} {names}" if names else ""


def unavailable_message(server: str, why: str) -> str:
    """Return the result of a call, for the model, that says that the server can't be used, and why."""
    return (
        f"The server {server} can't be used: {safe_server_text(why)[:4000]}. Go on without it, or tell the user, who "
        "can look at its log and start it again (/mcp in the app)."
    )


def format_call_in_full(tool: str, arguments: Mapping[str, object]) -> str:
    """Return a call for the user: the tool and all arguments in full; `│` marks continuation lines of an argument."""
    lines = [tool]
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
        first, *rest = escape_surrogates(text).split("\n")
        lines += [f"{name}: {first}", *(f"│ {line}" for line in rest)]
    return "\n".join(lines)
