"""The inbox between a session and the screen."""

import asyncio

from app.agent.updates import Phase, PhaseChanged, SessionFailed, TextStreamed, Update
from app.ui.context.current_session import UpdateBuffer


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
    inbox = UpdateBuffer(screen.tell)
    for _ in range(1000):
        inbox.put(TextStreamed("a"))
    inbox.put(PhaseChanged(Phase.IDLE))
    assert screen.told == 1
    assert list(inbox.take()) == [TextStreamed("a" * 1000), PhaseChanged(Phase.IDLE)]
    assert list(inbox.take()) == []
    inbox.put(TextStreamed("b"))
    assert screen.told == 2


def test_a_screen_that_does_not_hear_is_told_again() -> None:
    screen = Screen()
    inbox = UpdateBuffer(screen.tell)
    screen.hears = False
    inbox.put(TextStreamed("a"))
    screen.hears = True
    inbox.put(TextStreamed("b"))
    assert screen.told == 2
    assert list(inbox.take()) == [TextStreamed("ab")]


async def test_what_takes_long_to_show_is_taken_in_slices_in_its_order() -> None:
    shown: list[Update] = []
    slices = 0

    def show() -> bool:
        nonlocal slices
        slices += 1
        for update in inbox.take():
            shown.append(update)
            if len(shown) == 1:
                inbox.put(SessionFailed("later"))
            sum(range(20_000))
        return True

    inbox = UpdateBuffer(lambda: bool(asyncio.get_running_loop().call_soon(show)))
    said = [SessionFailed(str(number)) for number in range(500)]
    for update in said:
        inbox.put(update)
    await inbox.wait_until_empty()
    assert shown == [*said, SessionFailed("later")]
    assert slices > 3


async def test_what_is_said_later_waits_for_what_is_being_done_and_nothing_else_does() -> None:
    shown: list[Update] = []
    doing, done = asyncio.Event(), asyncio.Event()
    tasks: set[asyncio.Task[None]] = set()

    async def do() -> None:
        doing.set()
        await done.wait()

    def show() -> bool:
        for update in inbox.take():
            shown.append(update)
            if update == SessionFailed("first"):
                tasks.add(asyncio.ensure_future(inbox.pause_during(do)()))
        return True

    inbox = UpdateBuffer(lambda: bool(asyncio.get_running_loop().call_soon(show)))
    inbox.put(SessionFailed("first"))
    inbox.put(SessionFailed("second"))
    await doing.wait()
    inbox.put(SessionFailed("third"))
    assert shown == [SessionFailed("first")]
    done.set()
    await inbox.wait_until_empty()
    assert shown == [SessionFailed("first"), SessionFailed("second"), SessionFailed("third")]
