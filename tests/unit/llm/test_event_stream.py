"""The stream of a response: however its bytes are cut, the events are the same; what nobody takes is not read."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.response import bounded_stream
from app.llm.response.bounded_stream import ResponseTooLarge, ServerSentEvent, ServerSentEventDecoder
from app.llm.response.response_assembly import Delta, DeltaCoalescer
from app.llm.transport import BufferedBodyReader
from app.llm.values.requests_and_updates import CallProgress, ReasoningDelta, TextDelta

LINES = st.lists(
    st.sampled_from(
        [
            *(b"data: a", "data: grün 🎉".encode(), b"data: \xff\xfe", b"data:", b"event: ping", b": comment"),
            *(b"retry: 3", b"id: 4", b"error: no", b"", b"", b'{"a": 1}', b"<html>", b"nonsense"),
        ]
    ),
    max_size=12,
)


def decode(pieces: list[bytes]) -> tuple[list[ServerSentEvent], str]:
    decoder = ServerSentEventDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.finish(), decoder.unframed


@given(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 200), max_size=8), st.booleans())
def test_the_cuts_do_not_matter(lines: list[bytes], newline: bytes, cuts: list[int], bom: bool) -> None:
    body = (b"\xef\xbb\xbf" if bom else b"") + newline.join(lines)
    edges = [0, *sorted(cut for cut in cuts if cut < len(body)), len(body)]
    pieces = [body[start:end] for start, end in itertools.pairwise(edges)]
    reference = decode([b"\n".join(lines)])
    assert decode(pieces) == decode([bytes([byte]) for byte in body]) == reference


def test_damaged_bytes_and_fields_of_errors_are_events() -> None:
    events, _ = decode([b"data: a\n\ndata: \xff\n\ndata: b\n\n"])
    assert [(event.data, event.damaged) for event in events] == [("a", False), ("\ufffd", True), ("b", False)]
    assert decode([b'error: {"a": 1}\n\n'])[0] == [ServerSentEvent('{"a": 1}', "error")]


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_no_bytes_are_too_strange(pieces: list[bytes]) -> None:
    assert all(event.data.strip() for event in decode(pieces)[0] if event.name != "error")


@pytest.mark.parametrize(
    "piece",
    [
        *(b"<p>not an event</p>\n", b"<p>not an event</p>\ndata: an event\n\n"),
        *(b"data: no end of the line in sight ", b"data: no blank line\n", b"\xff", b"\n", b": ping\n\n"),
    ],
)
def test_an_endless_page_or_event_is_not_buffered_without_limit(
    monkeypatch: pytest.MonkeyPatch, piece: bytes
) -> None:
    monkeypatch.setattr(bounded_stream, "MAX_EVENT_BYTES", 1_000)
    decoder, is_page = ServerSentEventDecoder(), piece.startswith(b"<p>")
    with pytest.raises(ResponseTooLarge, match=f"an? {'page' if is_page else 'event'} of more than 1,000 bytes"):
        for _ in range(1_001):
            assert len(decoder.feed(piece)) == (b"an event\n" in piece)
    assert not is_page or 900 <= len(decoder.unframed) <= 1_100


def test_many_events_are_not_one_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_stream, "MAX_EVENT_BYTES", 100)
    decoder = ServerSentEventDecoder()
    assert sum(len(decoder.feed(b"data: twenty bytes here\n\n: heartbeat\n")) for _ in range(50)) == 50


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
    async with BufferedBodyReader(body()) as arrivals:
        parts = []
        while part := await arrivals.read_available():
            parts.append(part)
        return parts


@given(st.lists(st.integers(0, 3 * LARGE).map(lambda size: bytes(range(256)) * (size // 256 + 1)), max_size=80))
def test_all_of_a_body_is_taken_in_its_order_a_little_at_a_time(pieces: list[bytes]) -> None:
    parts = asyncio.run(taken(Body(pieces)))
    assert b"".join(parts) == b"".join(pieces)
    assert all(len(part) < 2 * LARGE for part in parts)


async def test_available_small_pieces_are_read_together_and_before_a_failure() -> None:
    assert len(await taken(Body([b"token "] * 1_000))) < 50
    async with BufferedBodyReader(Body([b"some", b"thing"], ValueError("cut"))()) as arrivals:
        assert await arrivals.read_available() == b"something"
        for _ in range(2):
            with pytest.raises(ValueError, match="cut"):
                await arrivals.read_available()


async def test_an_unread_body_is_not_read_ahead_and_is_closed() -> None:
    body = Body([b"x" * LARGE] * 1_000)
    async with BufferedBodyReader(body()) as arrivals:
        await arrivals.read_available()
        for _ in range(20):
            await asyncio.sleep(0)
    assert body.read < 100
    assert body.closed


async def test_waiting_for_the_end_of_a_body_raises_no_error() -> None:
    cut, silent = Body([b"some"], ValueError("cut")), Body([b"some"])
    async with BufferedBodyReader(cut()) as arrivals:
        await arrivals.wait_for_end(60)
    assert cut.closed

    async def stays_open() -> AsyncGenerator[bytes]:
        async for piece in silent():
            yield piece
            await asyncio.Event().wait()

    async with BufferedBodyReader(stays_open()) as arrivals:
        assert await arrivals.read_available() == b"some"
        await arrivals.wait_for_end(0)


PIECES = st.one_of(
    st.builds(TextDelta, st.text(min_size=1, max_size=3)),
    st.builds(ReasoningDelta, st.text(min_size=1, max_size=3)),
    st.builds(CallProgress, st.integers(0, 2), st.just("tool"), st.integers(0, 99)),
)


def collected(pieces: list[Delta]) -> list[Delta]:
    deltas = DeltaCoalescer()
    for piece in pieces:
        match piece:
            case TextDelta(text):
                deltas.add_piece(TextDelta, text)
            case ReasoningDelta(text):
                deltas.add_piece(ReasoningDelta, text)
            case CallProgress():
                deltas.add_call(piece)
    taken = deltas.pop_all()
    assert deltas.pop_all() == []
    return taken


@given(st.lists(PIECES))
def test_neighbours_of_one_kind_become_one(pieces: list[Delta]) -> None:
    expected: list[Delta] = []
    for kind, group in groupby(pieces, type):
        if kind is CallProgress:
            expected += {one.index: one for one in group if isinstance(one, CallProgress)}.values()
        else:
            text = "".join(one.text for one in group if not isinstance(one, CallProgress))
            expected.append(TextDelta(text) if kind is TextDelta else ReasoningDelta(text))
    assert collected(pieces) == expected
