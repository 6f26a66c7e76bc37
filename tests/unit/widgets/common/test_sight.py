"""Whether what a key decides was on the screen."""

import time

from widgets.common.input_order import OnScreenClock


async def test_what_is_never_painted_is_not_waited_for_without_end() -> None:
    sight = OnScreenClock()
    await sight.wait(0.001)
    assert not sight.had(time.monotonic())
