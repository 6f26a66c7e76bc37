"""What a session says faster than the screen can show it: kept until the screen takes it, all at once.

Kept apart: it is the only thing between a session and the app's queue, and knows neither.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.agent.updates import Update


class Inbox:
    """The updates of a session that the screen has not taken yet.

    A model or a command may say thousands of things in a second. Were each a message of its own, a key would stand
    behind all of them in the app's queue. So the screen is told once that there is something, and takes all there is.
    """

    def __init__(self, tell: Callable[[], bool]) -> None:
        """`tell` says that there is something to take, and returns whether it will be heard."""
        self._tell = tell
        self._told = False
        self._updates: list[Update] = []

    def put(self, update: "Update") -> None:
        """Add an update, from whichever of the session's tasks."""
        self._updates.append(update)
        if not self._told:
            self._told = self._tell()

    def take(self) -> "list[Update]":
        """All updates in their order, what belongs together in one."""
        from app.agent.updates import joined

        updates, self._updates, self._told = self._updates, [], False
        return joined(updates)
