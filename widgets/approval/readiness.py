"""Whether a key of the review counts now: what it decides has stood for a moment, and was in sight before."""

from collections.abc import Callable, Hashable

from widgets.common.input_order import TOGETHER
from widgets.common.sight import Sight

GRACE_SECONDS = 0.5
"""How long decision keys are dead after what they would decide has changed."""

CHANGED = "That changed just now. Look again, then press the key."

_TOO_EARLY = "That came before this was on the screen, and decided nothing. Look, then press it again."


class Guard:
    """The grace period: watches what a key would decide, and since when."""

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


class Readiness:
    """All that keeps a key from deciding on what its user can't have meant."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds."""
        self.guard = Guard(clock)
        """Over decisions: what would be written, and the question that is open."""
        self.choice_guard = Guard(clock)
        """Over taking hunks in and out: the proposal that is shown."""
        self.picture = Sight()
        """Over clicks that decide: whether what would be decided was on the screen."""
        self.sight = Sight()
        """Over keys that decide: whether it was there with the focus here."""
        self.named = False
        """Whether it is a click, or a command of the palette, that acts: it names what is meant."""

    def why_not(self, guard: Guard, arrived: float, *, joined: bool) -> str:
        """Why a key does nothing; empty if it counts.

        Args:
            guard: The grace period that it is subject to.
            arrived: When it came, in monotonic seconds.
            joined: Whether it decides, and came in one read with other characters.
        """
        if joined and not self.named:
            return TOGETHER
        if not guard.open:
            return guard.why
        return "" if (self.picture if self.named else self.sight).had(arrived) else _TOO_EARLY

    def hold(self, why: str) -> None:
        """Begin the grace periods anew."""
        self.guard.restart(why)
        self.choice_guard.restart(why)

    def lose_picture(self) -> None:
        """Let nothing decide before all has been painted anew."""
        self.picture.lose()
        self.sight.lose()

    def painted(self, *, in_focus: bool) -> None:
        """All is on the screen as it is now."""
        self.picture.gain()
        if in_focus:
            self.sight.gain()
