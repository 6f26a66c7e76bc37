"""Fuzzy matching over a hundred thousand names, in slices that leave the keyboard alone."""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from heapq import nsmallest

_SLICE = 0.004
"""Seconds of work between two looks at the event loop."""
_STRIDE = 512
"""Names between two looks at the clock."""
LIMIT = 50
"""Matches that are kept."""


class Names:
    """A list of names, made ready to be searched; a longer query searches the matches of the shorter one."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` in the order in which they are offered where nothing else decides."""
        self.names = names
        self._lower: list[str] | None = None
        self._query = ""
        self._matches: Sequence[int] | None = None

    async def search(self, query: str, pause: Callable[[], object] | None = None) -> list[str]:
        """The best matches, best first. Cancel the task to give up; `pause` is called at every pause (for tests)."""
        if not query:
            return list(self.names[:LIMIT])
        if self._lower is None:
            self._lower = await asyncio.to_thread(lambda: [name.lower() for name in self.names])
        query = query.lower()
        candidates: Sequence[int] = range(len(self.names))
        if self._matches is not None and self._query and query.startswith(self._query):
            candidates = self._matches
        scored = await self._score(query, candidates, pause)
        self._query, self._matches = query, [index for _, index in scored]
        return [self.names[index] for _, index in nsmallest(LIMIT, scored)]

    async def _score(
        self, query: str, candidates: Sequence[int], pause: Callable[[], object] | None
    ) -> list[tuple[int, int]]:
        lower = self._lower or []
        # The first place of each character is as good as any, so none is tried again.
        contains = re.compile("".join(f"(?>.*?{re.escape(character)})" for character in query), re.DOTALL).match
        found: list[tuple[int, int]] = []
        until = time.perf_counter() + _SLICE
        for start in range(0, len(candidates), _STRIDE):
            for index in candidates[start : start + _STRIDE]:
                name = lower[index]
                if query in name or contains(name):
                    found.append((rank(query, name), index))
            if time.perf_counter() > until:
                if pause is not None:
                    pause()
                await asyncio.sleep(0)
                until = time.perf_counter() + _SLICE
        return found


def rank(query: str, name: str) -> int:
    """How well a lower-case name fits a query that it contains at least as a subsequence; smaller is better."""
    base_start = name.rstrip("/").rfind("/") + 1
    position = name.rfind(query)
    if position < 0:
        tier = 4 if is_subsequence(query, name[base_start:]) else 5
    elif name.startswith(query, base_start):
        tier = 0
    elif position >= base_start:
        tier = 1 if name[position - 1] in "_-. " else 2
    else:
        tier = 3
    return tier * 100_000 + len(name)


def is_subsequence(query: str, name: str) -> bool:
    """Whether all characters of the query are in the name, in order."""
    position = -1
    for character in query:
        position = name.find(character, position + 1)
        if position < 0:
            return False
    return True
