"""Images that are dropped on the terminal, which pastes their paths: they are named in the text, to be seen there.

Kept apart: the only place where a paste is looked at for what it names.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from app.images.mentions import Mention, mentions, pasted_paths, written

_LOOKING = 2.0
"""Seconds in which it is found out whether a path is that of an image; a folder may be far away."""


class Dropped:
    """Knows which images were dropped, so that no text can pass for one."""

    def __init__(self) -> None:
        """None was."""
        self.find: Callable[[str], Awaitable[Sequence[Mention]]] | None = None
        """Gives the images that a pasted text consists of."""
        self._paths: set[str] = set()

    async def named(self, pasted: str) -> str:
        """What is inserted for a pasted text: mentions of the images that it consists of, else the text itself."""
        if self.find is None or not any(pasted_paths(pasted)):
            return pasted
        found: Sequence[Mention] = ()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOKING):
                found = await self.find(pasted)
        self._paths.update(mention.path for mention in found)
        return "".join(f"{written(mention.path)} " for mention in found) or pasted

    def mentions(self, text: str) -> tuple[Mention, ...]:
        """The files that a text names."""
        return mentions(text, frozenset(self._paths))
