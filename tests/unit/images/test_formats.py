"""Formats are told by the bytes, and what is damaged is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.images.image import NotAnImage, format_bytes, media_type, read_format
from tests.unit.images.pictures import gif, jpeg, png, webp

PICTURES = {
    "png": (png(300, 200), "image/png"),
    "png with something behind it": (png(300, 200) + b"appended by a phone", "image/png"),
    "jpeg": (jpeg(300, 200), "image/jpeg"),
    "gif": (gif(300, 200), "image/gif"),
    "padded gif": (gif(300, 200) + b"\0\0", "image/gif"),
    "lossy webp": (webp(b"VP8 ", 300, 200), "image/webp"),
    "lossless webp": (webp(b"VP8L", 300, 200), "image/webp"),
    "extended webp": (webp(b"VP8X", 300, 200), "image/webp"),
}
each = pytest.mark.parametrize(("data", "kind"), PICTURES.values(), ids=list(PICTURES))


@each
def test_the_bytes_tell_format_and_size(data: bytes, kind: str) -> None:
    assert read_format(data) == (kind, 300, 200)
    assert media_type(data[:16]) == kind


@each
def test_one_that_is_cut_off_is_damaged(data: bytes, kind: str) -> None:
    for length in (8, 12, 20, len(data) // 2):
        with pytest.raises(NotAnImage, match=r"cut off or damaged|no PNG"):
            read_format(data[:length])


@pytest.mark.parametrize("data", [png(), jpeg(), gif(), webp()], ids=["png", "jpeg", "gif", "webp"])
def test_one_without_its_last_byte_is_cut_off(data: bytes) -> None:
    with pytest.raises(NotAnImage, match="cut off"):
        read_format(data[:-1])


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"%PDF-1.7", b"<svg/>", b"BM" + b"\0" * 60, b"RIFF\0\0\0\0WAVE", b"XIFF\0\0\0\0WEBP"]
)
def test_all_else_is_none(data: bytes) -> None:
    with pytest.raises(NotAnImage, match="no PNG, JPEG, GIF or WebP"):
        read_format(data)


@pytest.mark.parametrize("size", [(0, 2), (2, 0)])
def test_one_without_pixels_is_damaged(size: tuple[int, int]) -> None:
    with pytest.raises(NotAnImage, match="no pixels"):
        read_format(gif(*size))


def test_a_png_begins_with_its_header() -> None:
    with pytest.raises(NotAnImage, match="damaged"):
        read_format(png(300, 200).replace(b"IHDR", b"tEXt"))


@pytest.mark.parametrize(("size", "said"), [(999, "999 bytes"), (214_400, "214 KB"), (3_900_000, "3.9 MB")])
def test_a_size_is_said_for_people(size: int, said: str) -> None:
    assert format_bytes(size) == said


def test_what_is_between_the_segments_of_a_jpeg_is_no_segment() -> None:
    frame = b"\xc0\0\x11\x08\0\x14\0\x1e" + bytes(10)
    assert read_format(b"\xff\xd8\xff\xe0\0\2\xff" + frame + b"\xff\xd9")[1:] == (30, 20)
    with pytest.raises(NotAnImage, match="damaged"):
        read_format(b"\xff\xd8\xff\xe0\0\2" + frame + b"\xff\xd9")


@given(
    st.sampled_from([picture for picture, _ in PICTURES.values()]),
    st.lists(st.tuples(st.integers(0, 80), st.binary(min_size=1, max_size=4))),
    st.binary(max_size=40),
)
def test_whatever_the_bytes_are_there_is_a_format_or_a_reason(
    picture: bytes, changes: list[tuple[int, bytes]], more: bytes
) -> None:
    data = bytearray(picture + more)
    for at, content in changes:
        data[at : at + len(content)] = content
    try:
        found = read_format(bytes(data))
    except NotAnImage:
        return
    assert found.width > 0 and found.height > 0
