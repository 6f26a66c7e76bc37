"""How often what streams in is shown, on a clock of the test."""

from itertools import pairwise

import pytest

from widgets.chat.chat_pane import StreamRefreshPacer


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def gaps(
    characters: int, *, burst: float, picture: float, seconds: float = 5.0, before: tuple[int, float] = (0, 0.0)
) -> list[float]:
    """Seconds between the pictures of a stream of so many characters a second.

    They come every `burst` seconds, and a picture takes `picture` seconds to make, in which nothing else is done.
    `before` that came so many a second, for so many seconds; pictures of that time do not count.
    """
    clock = Clock()
    pace = StreamRefreshPacer(clock)
    begun = clock.now + before[1]
    shown, came, asked, end = [], clock.now, clock.now, begun + seconds
    waiting = False
    while clock.now < end:
        while came <= clock.now:
            pace.add_characters(int((characters if came >= begun else before[0]) * burst))
            waiting = True
            came += burst
        if clock.now < asked:
            clock.now = min(asked, came)
        elif rest := pace.seconds_left:
            asked = clock.now + rest
        elif not waiting:
            asked = came
        else:
            shown.append(clock.now)
            pace.start_refresh()
            waiting = False
            clock.now += picture
            pace.end_refresh()
    return [later - earlier for earlier, later in pairwise(shown) if earlier >= begun]


@pytest.mark.parametrize("burst", [0.0005, 0.01, 0.1], ids=["token by token", "in packets", "in bursts"])
@pytest.mark.parametrize("picture", [0.005, 0.02, 0.06], ids=["idle", "slow", "busy"])
@pytest.mark.parametrize("tokens", [20, 200, 2_000])
def test_the_text_of_a_model_goes_by_evenly(tokens: int, picture: float, burst: float) -> None:
    burst = max(burst, 1 / tokens)
    pictures = gaps(7 * tokens, burst=burst, picture=picture)
    # Each time that something came, or as soon as a picture is not all that is made.
    assert max(pictures) <= max(burst + 1 / 30, 2 * picture + burst) + 1e-6
    assert max(pictures) <= max(0.1, picture) + burst + 1e-6


def test_in_a_flood_most_of_the_time_is_for_reading_it() -> None:
    pictures = gaps(60_000, burst=0.001, picture=0.02)
    assert min(pictures) >= 9 * 0.02 - 1e-6
    assert max(pictures) <= 0.4
    assert max(gaps(60_000, burst=0.001, picture=0.2)) <= 0.41, "a slow picture does not stop later ones"


def test_a_slowed_flood_is_still_a_flood_and_a_fast_model_is_none() -> None:
    assert max(gaps(30_000, burst=0.001, picture=0.02)) <= 0.1
    assert min(gaps(30_000, burst=0.001, picture=0.02, before=(60_000, 1.0))) >= 9 * 0.02 - 1e-6
    later = gaps(14_000, burst=0.001, picture=0.02, before=(60_000, 1.0))
    assert max(later[1:]) <= 0.1


def test_fast_streamed_text_and_calls_are_a_flood_but_not_one_chunk_after_a_frame() -> None:
    clock = Clock()
    pace = StreamRefreshPacer(clock)
    pace.start_refresh()
    clock.now += 0.1
    for so_far in (1_000, 3_000, 2_000):
        assert not pace.is_flooded
        pace.set_tool_call_length(so_far)
    assert pace.is_flooded
    pace = StreamRefreshPacer(clock)
    pace.start_refresh()
    clock.now += 0.001
    pace.add_characters(1_900)
    assert not pace.is_flooded
    pace.add_characters(200)
    assert pace.is_flooded


def test_text_after_a_pause_is_shown_at_once_but_yields_to_keys() -> None:
    clock = Clock()
    pace = StreamRefreshPacer(clock)
    assert pace.seconds_left == 0
    pace.start_refresh()
    assert pace.seconds_left > 0
    clock.now += 0.05
    assert pace.seconds_left == 0
    assert not pace.should_yield_to_keys(is_handling_key=False)
    assert pace.should_yield_to_keys(is_handling_key=True)
    pace.record_key_press()
    assert pace.should_yield_to_keys(is_handling_key=False)
    clock.now += 0.06
    pace.record_key_press()
    assert not pace.should_yield_to_keys(is_handling_key=True)
