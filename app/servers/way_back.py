"""The way into the browser and back: an address to open, and a port of this machine at which the answer comes.

Where the browser runs on another machine than signoff, as over SSH, that port is not there; then the user pastes the
address at which the browser ended up.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

_SECONDS = 20.0
"""In which a browser says what it wants."""
_LONGEST = 16_384
_PATH = "/callback"
_PAGE = b"<!doctype html><meta charset=utf-8><title>signoff</title><p>%s You can close this page."


@dataclass(frozen=True, slots=True)
class Invitation:
    """What the user needs to sign in."""

    address: str
    """To be opened in the browser."""
    port: int
    """Of this machine, at which the browser comes back."""
    take: Callable[[str], bool]
    """Takes the address at which the browser ended up, as the user pastes it; says whether it is the right one."""


class WayBack:
    """Open as long as its context; nobody is heard who does not know the state."""

    def __init__(self) -> None:
        """With a new state; to be used on one event loop."""
        self.state = secrets.token_urlsafe(32)
        self.port = 0
        """At which it listens."""
        self._arrived: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._answering: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "WayBack":
        """Listen. Raises OSError."""
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0, limit=_LONGEST)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        """Listen no more."""
        # Browsers hold connections open that they never use: those are not waited for.
        self._server.close()
        for task in self._answering:
            task.cancel()

    @property
    def address(self) -> str:
        """To which the browser is to come back."""
        return f"http://127.0.0.1:{self.port}{_PATH}"

    def take(self, address: str) -> bool:
        """Take what an address says, if it is the one to come back to and has the state; whether it was."""
        try:
            parts = urlsplit(address.strip())
            every = parse_qs(parts.query, keep_blank_values=True)
            given = {key: values[0] for key, values in every.items()}
            # RFC 6749 section 3.1: none comes twice. Of two issuers nobody knows which is meant.
            once = all(len(values) == 1 for values in every.values())
            known = once and parts.path == _PATH and secrets.compare_digest(given.get("state", ""), self.state)
        except (ValueError, TypeError):
            return False
        if known and not self._arrived.done():
            self._arrived.set_result(given)
        return known

    async def answer(self, seconds: float) -> Mapping[str, str]:
        """What the browser brings back. Raises TimeoutError."""
        return await asyncio.wait_for(self._arrived, seconds)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            async with asyncio.timeout(_SECONDS):
                line = (await reader.readuntil(b"\r\n")).decode("ascii", "replace")
            _, target, _ = line.split(" ", 2)
            known = self.take(target)
            page = _PAGE % (b"signoff has your answer." if known else b"This is nothing that signoff asked for.")
            head = f"HTTP/1.1 {200 if known else 404} X\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + page)
            # It goes out by itself: to wait for it would be to wait for a browser that is not waited for.
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            self._answering.discard(task)
            writer.close()
