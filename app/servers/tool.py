"""A tool of a server, as the model calls it: asks the user, calls, and stages what the server has written."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.sandbox.changes import Change
from app.servers.connection import ConnectionLost, ServerError
from app.servers.listing import Withdrawn
from app.servers.offers import Offer
from app.servers.reach import REACH_WORDS, Reach
from app.servers.results import plain, told
from app.servers.server import Server, State
from app.text.deceiving_text import inspect
from app.tools.command.outcome import named, settle, staged
from app.tools.contract import (
    Confirmation,
    GivenArguments,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    escape_surrogates,
)
from app.tools.tool_form import ToolForm


class ServerTool(Tool):
    """One tool of one server."""

    kind = "command"
    Arguments = GivenArguments

    def __init__(self, server: Server, offer: Offer) -> None:
        """`offer` is one of the server's."""
        self.name = offer.name
        self.description = offer.description or offer.title or f"The tool {offer.tool} of the server {server.name}."
        self.parameters = offer.parameters
        self.server = server
        self.offer = offer

    async def run(self, arguments: GivenArguments, context: ToolContext) -> ToolOutput:
        """Ask, call, and stage what was written to the workspace."""
        server = self.server
        reach = await server.reach()
        if context.planning and reach is Reach.DIRECT:
            raise ToolError(f"Plan mode: {server.name} could write to the user's files.")
        # On a thread: the arguments may be long, and all of them are looked through.
        question = await asyncio.to_thread(self._question, arguments.values, reach, planning=context.planning)
        answer = await context.confirm(question)
        if not answer.allowed:
            raise answer.rejection("The user did not allow this call. It did not run.", "The call did not run")
        async with server.asking:
            output = await self._call(arguments.values, context)
        if answer.unasked:
            output = replace(output, summary=f"{output.summary}, allowed: {answer.unasked}")
        return output

    async def _call(self, values: Mapping[str, object], context: ToolContext) -> ToolOutput:
        server = self.server
        try:
            lost = await self._lay(context)
            output = await self._answer(values, context)
        except Withdrawn as error:
            raise ToolError(f"Not called: the server {server.name} {error}.") from error
        except ConnectionLost as error:
            raise ToolError(cannot_be_used(server.name, str(error))) from error
        if lost:
            # It may have been meant, and nobody is there any more who could be asked.
            note = named(f"thrown away, as {server.name} wrote it outside of a finished call", lost)
            output = replace(output, text=f"{output.text}\n{note}")
        try:
            async with server.written() as layer:
                changes: list[Change] = []
                if layer is not None:
                    output, changes = await settle(layer, context, output, self.name)
        except OSError as error:
            raise ToolError(f"What it has written can't be read: {error.strerror or error}.") from error
        if changes:
            output = await staged(context, output, changes, self.name, put_back=False)
        return output

    async def _lay(self, context: ToolContext) -> list[str]:
        """As `Server.lay`; says that the server is waited for where it is not ready."""
        pending = await asyncio.to_thread(context.draft.laid_over)
        if self.server.state is State.READY:
            return await self.server.lay(pending)
        context.waits(waiting_words([self.server]))
        try:
            return await self.server.lay(pending)
        finally:
            context.waits("")

    async def _answer(self, values: Mapping[str, object], context: ToolContext) -> ToolOutput:
        """What it answers; where that is an error, what it has written counts all the same."""
        try:
            said = await asyncio.to_thread(told, await self.server.call(self.offer, values), self.name)
        except ServerError as error:
            text = f"{self.server.name} answers with an error: {plain(str(error))[:4000]}"
            return ToolOutput(text, "failed, an error", failed=True)
        await asyncio.to_thread(context.keep, [content for _, content in said.images])
        images = tuple(image for image, _ in said.images)
        return ToolOutput(said.text, said.summary, failed=said.failed, images=images)

    def _question(self, values: Mapping[str, object], reach: Reach, *, planning: bool) -> Confirmation:
        server, offer = self.server, self.offer
        notes = [REACH_WORDS[reach]]
        if reach is Reach.LAYER and planning:
            notes = ["Plan mode: what it changes in the workspace is thrown away."]
        if offer.says_read_only:
            notes.append("The server says that it only reads.")
        notes.append(f"{server.name}: {server.definition.origin} ({server.definition.source})")
        if odd := inspect(detail := shown_call(offer.tool, values)):
            # Nothing comes before the word that there is no review.
            notes.insert(1 if reach is Reach.DIRECT else 0, f"Careful: the arguments hold {odd}.")
        title, direct = f"Call a tool of {server.name}?", reach is Reach.DIRECT
        # What was allowed while there was a layer is not allowed where there is none any more.
        covered = f"{server.definition.fingerprint} {offer.fingerprint}{' direct' if direct else ''}"
        form = ToolForm(server.name, offer.tool, covered)
        return Confirmation("server", title, detail, ".", tuple(notes), form, direct)


def waiting_words(servers: Sequence[Server]) -> str:
    """What is waited for while these servers start, in a few words; empty if there are none."""
    names = ", ".join(each.awaited for each in servers)
    return f"the MCP server{'s' if len(servers) > 1 else ''} {names}" if names else ""


def cannot_be_used(server: str, why: str) -> str:
    """What the model reads of a call of a server that failed."""
    return (
        f"The server {server} can't be used: {plain(why)[:4000]}. Go on without it, or tell the user, who can look "
        "at its log and start it again (/mcp in the app)."
    )


def shown_call(tool: str, values: Mapping[str, object]) -> str:
    """A call as the user reads it: the tool, and each argument whole; no line of one passes for another one."""
    lines = [tool]
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
        first, *rest = escape_surrogates(text).split("\n")
        lines += [f"{name}: {first}", *(f"│ {line}" for line in rest)]
    return "\n".join(lines)
