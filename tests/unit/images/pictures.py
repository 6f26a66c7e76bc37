"""Small pictures of every format, made of bytes as their specifications have them."""

import struct
import zlib


def png(width: int = 3, height: int = 2, padding: int = 0) -> bytes:
    """A black PNG, larger by about `padding` bytes that hold nothing."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    # What is too large to be looked at is never decoded.
    rows = zlib.compress((b"\0" + b"\0" * width) * height) if width * height < 10**6 else b""
    void = chunk(b"tEXt", b"pad\0" + b"x" * padding) if padding else b""
    return b"\x89PNG\r\n\x1a\n" + head + void + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg(width: int = 3, height: int = 2) -> bytes:
    thumbnail = b"Exif\0\0\xff\xd8\xff\xc0\0\x0b\x08\0\x09\0\x09\x01\x01\x11\0\xff\xd9"
    application = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 2) + thumbnail
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\0"
    return (
        b"\xff\xd8"
        + application
        + b"\xff"
        + frame
        + b"\xff\xda\0\x08\x01\x01\0\0\x3f\0"
        + b"scan\xff\0"
        + b"\xff\xd9"
    )


def gif(width: int = 3, height: int = 2) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + b",\0\0\0\0\1\0\1\0\0\2\2D\1\0;"


def webp(kind: bytes = b"VP8 ", width: int = 3, height: int = 2) -> bytes:
    """The head of a WebP of one of its three kinds."""
    content = {
        b"VP8 ": b"\x30\x01\0\x9d\x01\x2a" + struct.pack("<HH", width, height),
        b"VP8L": b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14),
        b"VP8X": b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
    }[kind].ljust(12, b"\0")
    chunk = kind + struct.pack("<I", len(content)) + content
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk
