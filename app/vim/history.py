"""What `u` and Ctrl+R go through: the text before each change.

Kept apart: what a text field keeps of its own goes by pauses, not by commands.
"""

_MOST = 20_000_000
"""Characters of all texts that are kept."""


class History:
    """Texts with their cursors, the latest last."""

    def __init__(self) -> None:
        self._before: list[tuple[str, int]] = []
        self._after: list[tuple[str, int]] = []

    def keep(self, text: str, cursor: int) -> None:
        """Keep what a change begins with."""
        self._before.append((text, cursor))
        self._after.clear()
        size = sum(len(kept) for kept, _ in self._before)
        while size > _MOST and len(self._before) > 1:
            size -= len(self._before.pop(0)[0])

    def drop_same(self, text: str) -> None:
        """Forget the last one if nothing has changed since."""
        if self._before and self._before[-1][0] == text:
            self._before.pop()

    def back(self, text: str, cursor: int) -> tuple[str, int] | None:
        """The text before the last change, and the cursor then."""
        return _turned(self._before, self._after, text, cursor)

    def again(self, text: str, cursor: int) -> tuple[str, int] | None:
        """What was taken back last."""
        return _turned(self._after, self._before, text, cursor)


def _turned(
    source: list[tuple[str, int]], target: list[tuple[str, int]], text: str, cursor: int
) -> tuple[str, int] | None:
    if not source:
        return None
    found = source.pop()
    target.append((text, found[1]))
    return found
