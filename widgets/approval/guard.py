"""The grace period: a key decides only what has stood unchanged for a moment."""

from collections.abc import Callable, Hashable

GRACE_SECONDS = 0.5
"""How long decision keys are dead after what they would decide has changed."""


CHANGED = "That changed just now. Look again, then press the key."


class Guard:
    """Watches what a key would decide, and since when."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds."""
        self._clock = clock
        self._subject: Hashable = None
        self._since = clock() - GRACE_SECONDS
        self.why = CHANGED
        """Why it is not open, and what to do, if it isn't."""

    def watch(self, subject: Hashable) -> bool:
        """Note what would be decided now; whether that is new."""
        if subject == self._subject:
            return False
        self._subject = subject
        self.restart(CHANGED)
        return True

    def restart(self, why: str) -> None:
        """Begin the grace period anew, with the same subject."""
        self.why = why
        self._since = self._clock()

    @property
    def open(self) -> bool:
        """Whether the subject has stood long enough."""
        return self._clock() - self._since >= GRACE_SECONDS
