"""The inbox between a session and the screen."""

from app.agent.updates import Phase, PhaseChanged, TextStreamed
from app.ui.inbox import Inbox


class Screen:
    """Counts how often it is told, and hears it or not."""

    def __init__(self) -> None:
        self.hears = True
        self.told = 0

    def tell(self) -> bool:
        self.told += 1
        return self.hears


def test_the_screen_is_told_once_and_takes_all_there_is() -> None:
    screen = Screen()
    inbox = Inbox(screen.tell)
    for _ in range(1000):
        inbox.put(TextStreamed("a"))
    inbox.put(PhaseChanged(Phase.IDLE))
    assert screen.told == 1
    assert inbox.take() == [TextStreamed("a" * 1000), PhaseChanged(Phase.IDLE)]
    assert inbox.take() == []
    inbox.put(TextStreamed("b"))
    assert screen.told == 2


def test_a_screen_that_does_not_hear_is_told_again() -> None:
    screen = Screen()
    inbox = Inbox(screen.tell)
    screen.hears = False
    inbox.put(TextStreamed("a"))
    screen.hears = True
    inbox.put(TextStreamed("b"))
    assert screen.told == 2
    assert inbox.take() == [TextStreamed("ab")]
