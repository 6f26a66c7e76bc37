"""What one server offers: asked for page by page, and again whenever it says that its tools are others."""

import asyncio
from collections.abc import Callable

from app.json_rpc import Message
from app.servers.connection import Connection, ConnectionLost, ServerError, TooSlow
from app.servers.log import Log
from app.servers.offers import MOST_TOOLS, Offer, read_offers

_MOST_PAGES = 100
_SOON, _SELDOM = 0.2, 60.0
"""Seconds before they are asked for again, the first time and at most: some servers say so all the time."""


class Withdrawn(Exception):
    """What the model was told of is not offered any more, or is another thing by now; the message says which."""


class Listing:
    """Of one server; to be used on one event loop."""

    def __init__(
        self,
        server: str,
        seconds: float,
        log: Log,
        changed: Callable[[], None],
        remembered: tuple[Offer, ...] = (),
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

    def check(self, offer: Offer) -> None:
        """Raises Withdrawn unless a tool is still offered just as the model and the user were told of it."""
        if offer in self.offers:
            return
        if any(each.tool == offer.tool for each in self.offers):
            raise Withdrawn(f"says or takes something else by now for its tool {offer.tool}; the next turn has it")
        raise Withdrawn(f"has no tool {offer.tool} any more")

    async def ask(self, connection: Connection) -> None:
        """Ask for all of it. Raises as `Connection.request` does."""
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
        found, problems = await asyncio.to_thread(read_offers, self._server, listed)
        for line in problems:
            if line not in self.left_out:
                self._log.note(line)
        self.is_current = True
        offers, left_out = tuple(found), tuple(problems)
        if (offers, left_out) != (self.offers, self.left_out):
            self.offers, self.left_out = offers, left_out
            self._changed()

    def forget_remembered(self) -> None:
        """Offer nothing that the server has not confirmed."""
        if not self.is_current:
            self.offers = ()

    def follow(self, connection: Connection) -> None:
        """Ask again over this connection whenever the server says that its tools are others."""
        self._connection = connection
        self._ask_again()

    def outdate(self) -> None:
        """The server says so."""
        self._outdated = True
        self._ask_again()

    def leave(self) -> None:
        """Ask no more; what was offered last stays."""
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
                await self.ask(connection)
            except (ConnectionLost, ServerError, TooSlow):
                self._outdated = True
            pause = min(2 * pause, _SELDOM)
