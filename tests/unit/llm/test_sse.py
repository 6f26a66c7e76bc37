"""The event decoder: however the bytes are cut, the events are the same."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.response import response_limits
from app.llm.response.response_limits import ResponseTooLarge
from app.llm.response.sse import EventDecoder, ServerEvent

LINES = st.lists(
    st.sampled_from(
        [
            b"data: a",
            "data: grün 🎉".encode(),
            b"data: \xff\xfe",
            b"data:",
            b"event: ping",
            b": comment",
            b"retry: 3",
            b"id: 4",
            b"error: no",
            b"",
            b"",
            b'{"a": 1}',
            b"<html>",
            b"nonsense",
        ]
    ),
    max_size=12,
)


def decode(pieces: list[bytes]) -> tuple[list[ServerEvent], str]:
    """All events and what was outside of them."""
    decoder = EventDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.finish(), decoder.unframed


@given(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 200), max_size=8), st.booleans())
def test_the_cuts_do_not_matter(lines: list[bytes], newline: bytes, cuts: list[int], bom: bool) -> None:
    body = (b"\xef\xbb\xbf" if bom else b"") + newline.join(lines)
    edges = [0, *sorted(cut for cut in cuts if cut < len(body)), len(body)]
    pieces = [body[start:end] for start, end in itertools.pairwise(edges)]
    reference = decode([b"\n".join(lines)])
    assert decode(pieces) == reference
    assert decode([bytes([byte]) for byte in body]) == reference


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_no_bytes_are_too_strange(pieces: list[bytes]) -> None:
    events, _ = decode(pieces)
    assert all(event.data.strip() for event in events if event.name != "error")


def test_only_the_event_with_the_bad_bytes_is_damaged() -> None:
    events, _ = decode([b"data: a\n\ndata: \xff\n\ndata: b\n\n"])
    assert [(event.data, event.damaged) for event in events] == [("a", False), ("\ufffd", True), ("b", False)]


def test_a_field_of_errors_is_an_event() -> None:
    assert decode([b'error: {"a": 1}\n\n'])[0] == [ServerEvent('{"a": 1}', "error")]


@pytest.mark.parametrize("between", [b"", b"data: an event\n\n"])
def test_a_page_without_end_is_not_collected_for_ever(monkeypatch: pytest.MonkeyPatch, between: bytes) -> None:
    monkeypatch.setattr(response_limits, "EVENT", 1_000)
    decoder = EventDecoder()
    with pytest.raises(ResponseTooLarge, match="a page of more than 1,000 bytes"):
        for _ in range(1_000):
            assert len(decoder.feed(b"<p>not an event</p>\n" + between)) == bool(between)
    assert 900 <= len(decoder.unframed) <= 1_100


@pytest.mark.parametrize(
    "piece", [b"data: no end of the line in sight ", b"data: no blank line\n", b"\xff", b"\n", b": ping\n\n"]
)
def test_an_event_without_end_is_not_collected_for_ever(monkeypatch: pytest.MonkeyPatch, piece: bytes) -> None:
    monkeypatch.setattr(response_limits, "EVENT", 1_000)
    decoder = EventDecoder()
    with pytest.raises(ResponseTooLarge, match="an event of more than 1,000 bytes"):
        for _ in range(1_001):
            decoder.feed(piece)


def test_many_events_are_not_one_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_limits, "EVENT", 100)
    decoder = EventDecoder()
    assert sum(len(decoder.feed(b"data: twenty bytes here\n\n: heartbeat\n")) for _ in range(50)) == 50
