"""Tells PNG, JPEG, GIF and WebP by their bytes, whatever a file is called, and how large the picture is.

Only headers are read, and only what the data holds: nothing is decoded, so no picture can be a bomb here.
"""

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple


class NotAnImage(Exception):
    """The bytes are no picture of a known format, or a damaged one; the message says which, after a file's name."""


class Format(NamedTuple):
    """What the bytes of a picture say of it."""

    media_type: str
    width: int
    height: int


HEAD = 16
"""Bytes that tell the format."""


def media_type(head: bytes) -> str:
    """The format that the first `HEAD` bytes announce; empty if it is none of the four."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def recognise(data: bytes) -> Format:
    """The format and the size in pixels; raises NotAnImage."""
    kind = media_type(data[:HEAD])
    if not kind:
        raise NotAnImage("is no PNG, JPEG, GIF or WebP")
    try:
        width, height = _SIZES[kind](data)
    except (struct.error, IndexError) as error:
        raise NotAnImage("is cut off or damaged") from error
    if not width or not height:
        raise NotAnImage("is damaged: it says that it has no pixels")
    return Format(kind, width, height)


def _png(data: bytes) -> tuple[int, int]:
    """From the first chunk; the last one has to be there (https://www.w3.org/TR/png-3/#5Chunk-layout)."""
    width, height = struct.unpack_from(">II", data, 16)
    if data[12:16] != b"IHDR":
        raise IndexError
    if data[-12:-4] != b"\0\0\0\0IEND":
        position = 8
        # What some programs append comes after the end of the picture: find that chunk by chunk.
        while data[position + 4 : position + 8] != b"IEND":
            (length,) = struct.unpack_from(">I", data, position)
            position += 12 + length
        if position + 12 > len(data):
            raise IndexError
    return width, height


_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a frame, which say its size; those between them are tables."""
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers that nothing belongs to."""


def _jpeg(data: bytes) -> tuple[int, int]:
    """From the header of the frame, segment by segment (ITU-T T.81, annex B)."""
    position = 2
    while True:
        if data[position] != 0xFF:
            raise IndexError
        while data[position] == 0xFF:
            position += 1
        marker = data[position]
        position += 1
        if marker in _FRAMES:
            height, width = struct.unpack_from(">3xHH", data, position)
            if data.rfind(b"\xff\xd9", position) < 0:
                raise IndexError
            return width, height
        if marker not in _ALONE:
            (length,) = struct.unpack_from(">H", data, position)
            position += max(length, 2)


def _gif(data: bytes) -> tuple[int, int]:
    """From the screen that all its frames are drawn on; the end is a semicolon, perhaps with padding behind it."""
    width, height = struct.unpack_from("<HH", data, 6)
    if not data.rstrip(b"\0").endswith(b";"):
        raise IndexError
    return width, height


def _webp(data: bytes) -> tuple[int, int]:
    """From the first chunk, by its kind (RFC 9649)."""
    (length,) = struct.unpack_from("<I", data, 4)
    if length + 8 > len(data):
        raise IndexError
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            low, high, low_again, high_again = struct.unpack_from("<HBHB", data, 24)
            return (low | high << 16) + 1, (low_again | high_again << 16) + 1
    raise IndexError


_SIZES: Mapping[str, Callable[[bytes], tuple[int, int]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
