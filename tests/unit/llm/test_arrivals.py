"""What has come of a body is taken in one go, whatever its pieces, and nothing is read once nobody takes it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.transport import BodyReader, OtherTasks

LARGE = 2**13


class Body:
    """A body in pieces that are all there, and perhaps an end that comes too soon."""

    def __init__(self, pieces: Sequence[bytes], failure: Exception | None = None) -> None:
        self._pieces = pieces
        self._failure = failure
        self.read = 0
        self.closed = False

    async def __call__(self) -> AsyncGenerator[bytes]:
        try:
            for piece in self._pieces:
                self.read += 1
                yield piece
            if self._failure is not None:
                raise self._failure
        finally:
            self.closed = True


async def taken(body: Body) -> list[bytes]:
    """What is taken until the end."""
    async with BodyReader(body()) as arrivals:
        parts = []
        while part := await arrivals.take():
            parts.append(part)
        return parts


@given(st.lists(st.integers(0, 3 * LARGE).map(lambda size: bytes(range(256)) * (size // 256 + 1)), max_size=80))
def test_all_of_a_body_is_taken_in_its_order_a_little_at_a_time(pieces: list[bytes]) -> None:
    parts = asyncio.run(taken(Body(pieces)))
    assert b"".join(parts) == b"".join(pieces)
    assert all(len(part) < 2 * LARGE for part in parts)


async def test_small_pieces_that_are_there_are_taken_together() -> None:
    assert len(await taken(Body([b"token "] * 1_000))) < 50


async def test_what_came_before_a_failure_is_taken_first() -> None:
    async with BodyReader(Body([b"some", b"thing"], ValueError("cut"))()) as arrivals:
        assert await arrivals.take() == b"something"
        for _ in range(2):
            with pytest.raises(ValueError, match="cut"):
                await arrivals.take()


async def test_a_body_that_nobody_takes_is_read_no_further_and_closed() -> None:
    body = Body([b"x" * LARGE] * 1_000)
    async with BodyReader(body()) as arrivals:
        await arrivals.take()
        for _ in range(20):
            await asyncio.sleep(0)
    assert body.read < 100
    assert body.closed


async def test_the_rest_of_a_body_is_waited_for_in_vain_without_a_word() -> None:
    cut, silent = Body([b"some"], ValueError("cut")), Body([b"some"])
    async with BodyReader(cut()) as arrivals:
        await arrivals.drain(60)
    assert cut.closed

    async def stays_open() -> AsyncGenerator[bytes]:
        async for piece in silent():
            yield piece
            await asyncio.Event().wait()

    async with BodyReader(stays_open()) as arrivals:
        assert await arrivals.take() == b"some"
        await arrivals.drain(0)


async def test_where_nobody_else_has_anything_to_do_nothing_is_waited_for() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await OtherTasks().yield_to_others()
    counting.cancel()
    assert turns <= 2
