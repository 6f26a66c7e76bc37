"""How often what streams in is shown: evenly at the pace of a model, seldom in a flood, and never before a key."""

import math
import time
from collections.abc import Callable

_INTERVAL = 1 / 30
"""Seconds between two pictures, at least."""
TYPING_PAUSE = 0.01
"""Seconds that what streams in waits after a key, so that the key is painted first."""
_LONGEST_PAUSE = 0.1
"""Seconds after which it waits no longer, however fast somebody types."""
_FLOOD, _EBB = 40_000, 20_000
"""Characters a second that nobody sees go by, twice what the fastest models write: of more, fewer are painted. Where
other programs take part of the time, a flood comes slower: it is one until it is no faster than those models."""
_LEAST = 0.05
"""Seconds for which a flood has to last: one chunk right after a picture is none, however many a second that were."""
_REST, _FLOOD_REST = 1.0, 16.0
"""How long a picture is left alone, in units of what it took to make it: the rest of the time is for reading what
comes, and for other programs where there is but a part of a core for this one."""
_LONGEST_REST, _LONGEST_FLOOD_REST = 0.1, 0.4
"""Seconds after which what has come is shown in any case."""


class Pace:
    """Tells when the next picture is due."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self._clock = clock
        self._waiting = 0
        """Characters that have come since the last picture."""
        self._written = 0
        """Characters of the call that is being written."""
        self._taken = -math.inf
        self._flooded = False
        """What was shown last was of a flood."""
        self._picture_took = 0.0
        self._typed = -math.inf

    def came(self, characters: int) -> None:
        """So many more have come."""
        self._waiting += characters

    def written(self, so_far: int) -> None:
        """A call that is being written has so many characters by now; fewer than before, if it is the next."""
        self._waiting += so_far - self._written if so_far >= self._written else so_far
        self._written = so_far

    def took(self) -> None:
        """What has come is being shown."""
        self._flooded = self.in_flood
        self._waiting = 0
        self._taken = self._clock()

    def pictured(self) -> None:
        """It is on the screen."""
        self._picture_took = self._clock() - self._taken

    def typed(self) -> None:
        """A key was pressed."""
        self._typed = self._clock()

    @property
    def in_flood(self) -> bool:
        """Whether more comes than anyone sees go by."""
        return self._waiting > (_EBB if self._flooded else _FLOOD) * max(_LEAST, self._clock() - self._taken)

    def keys_go_first(self, *, in_hand: bool) -> bool:
        """Whether to ask again after `TYPING_PAUSE`; `in_hand`: a key is being dealt with."""
        now = self._clock()
        typing = in_hand or now - self._typed < TYPING_PAUSE
        return typing and now - self._taken < _LONGEST_PAUSE

    @property
    def rest(self) -> float:
        """Seconds after which to ask again; 0 if the next picture is due. A word after a pause is shown at once."""
        share, longest = (_FLOOD_REST, _LONGEST_FLOOD_REST) if self.in_flood else (_REST, _LONGEST_REST)
        between = max(_INTERVAL, min(self._picture_took * (1 + share), longest))
        # What comes in bursts is no flood: that shows a moment later.
        return min(max(0.0, self._taken + between - self._clock()), _INTERVAL)
