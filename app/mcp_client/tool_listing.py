"""Tool list of one server: fetched page by page, and again whenever the server says that it has changed."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from app.mcp_client.json_rpc import Message
from app.mcp_client.mcp_connection import Connection, ConnectionLost, ServerError, ServerTimeout
from app.mcp_client.tool_definitions import MOST_TOOLS, ToolDefinition, read_tools
from app.text.safe_text import strip_unsafe
from app.tools.command.command_text import PlainText

MOST_LINES = 400
LONGEST = 500
"""Characters of one line."""
_LONGEST_NOTE = 4_000
"""Characters of a line of signoff's own, which may hold what a server says of an error."""


class ServerLog:
    """Recent output of one server."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._plain = PlainText()
        self._begun = ""

    @property
    def lines(self) -> list[str]:
        """Return the lines, the oldest first."""
        return [*self._lines, self._begun] if self._begun else list(self._lines)

    def add_output(self, data: bytes) -> None:
        """Add output of the server."""
        *whole, rest = (self._begun + self._plain.feed(data)).split("\n")
        self._begun = strip_unsafe(rest[:LONGEST], keep="\t")
        # Of a flood only the end is looked at.
        for line in whole[-MOST_LINES:]:
            self._lines.append(strip_unsafe(line[:LONGEST], keep="\t").rstrip())

    def add_note(self, text: str) -> None:
        """Add a line of signoff's own, with the time."""
        if self._begun:
            self._lines.append(self._begun)
            self._begun = ""
        self._lines.append(f"{time.strftime('%H:%M:%S')} signoff: {strip_unsafe(text[:_LONGEST_NOTE], keep='')}")


_MOST_PAGES = 100
_SOON, _SELDOM = 0.2, 60.0
"""Seconds before they are asked for again, the first time and at most: some servers say so all the time."""


class ToolWithdrawn(Exception):
    """A tool that the model was told of is gone or has changed; the message says which."""


class ToolListing:
    """Tool list of one server; to be used on one event loop."""

    def __init__(
        self,
        server: str,
        seconds: float,
        log: ServerLog,
        changed: Callable[[], None],
        remembered: tuple[ToolDefinition, ...] = (),
    ) -> None:
        """Nothing is asked for yet.

        Args:
            server: Its name.
            seconds: In which it answers.
            log: Takes lines on what is left out.
            changed: Called when it is something else.
            remembered: What it offered when it ran last.
        """
        self.offers = remembered
        """What it offers; until it has said so, what it offered when it ran last."""
        self.is_current = False
        """Whether it has said so since signoff runs."""
        self.left_out: tuple[str, ...] = ()
        """Why some of its tools are not offered."""
        self._server = server
        self._seconds = seconds
        self._log = log
        self._changed = changed
        self._connection: Connection | None = None
        self._outdated = False
        self._again: asyncio.Task[None] | None = None

    def check_offered(self, offer: ToolDefinition) -> None:
        """Raises Withdrawn unless a tool is still offered just as the model and the user were told of it."""
        if offer in self.offers:
            return
        if any(each.tool == offer.tool for each in self.offers):
            raise ToolWithdrawn(
                f"says or takes something else by now for its tool {offer.tool}; the next turn has it"
            )
        raise ToolWithdrawn(f"has no tool {offer.tool} any more")

    async def fetch(self, connection: Connection) -> None:
        """Fetch the whole list. Raises as `Connection.request` does."""
        # What it tells from here on may come too late for this answer.
        self._outdated = False
        listed: list[object] = []
        cursor: object = None
        for _ in range(_MOST_PAGES):
            params: Message = {} if cursor is None else {"cursor": cursor}
            page = await connection.request("tools/list", params, self._seconds)
            tools = page.get("tools")
            listed += tools if isinstance(tools, list) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or len(listed) > MOST_TOOLS:
                break
        found, problems = await asyncio.to_thread(read_tools, self._server, listed)
        for line in problems:
            if line not in self.left_out:
                self._log.add_note(line)
        self.is_current = True
        offers, left_out = tuple(found), tuple(problems)
        if (offers, left_out) != (self.offers, self.left_out):
            self.offers, self.left_out = offers, left_out
            self._changed()

    def forget_remembered(self) -> None:
        """Drop tools that the server has not confirmed."""
        if not self.is_current:
            self.offers = ()

    def follow(self, connection: Connection) -> None:
        """Ask again over this connection whenever the server says that its tools are others."""
        self._connection = connection
        self._ask_again()

    def mark_outdated(self) -> None:
        """Take note that the server's list has changed."""
        self._outdated = True
        self._ask_again()

    def stop_following(self) -> None:
        """Stop updating; the last list stays."""
        self._connection = None
        if self._again is not None:
            self._again.cancel()

    def _ask_again(self) -> None:
        if self._outdated and self._connection is not None and (self._again is None or self._again.done()):
            self._again = asyncio.create_task(self._until_settled(self._connection))

    async def _until_settled(self, connection: Connection) -> None:
        pause = _SOON
        while self._outdated:
            await asyncio.sleep(pause)
            try:
                await self.fetch(connection)
            except (ConnectionLost, ServerError, ServerTimeout):
                self._outdated = True
            pause = min(2 * pause, _SELDOM)
