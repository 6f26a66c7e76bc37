"""Images as the log stores them: name, format, size, and hash of the bytes."""

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from app.text.quantities import join_with_and
from app.text.safe_text import escape_unsafe


class NotAnImage(Exception):
    """The bytes are not a valid image of a known format; the message continues a sentence that names the file."""


class ImageHeader(NamedTuple):
    """Media type and size in pixels, read from the header of an image."""

    media_type: str
    width: int
    height: int


IMAGE_HEAD_BYTES = 16
"""Number of bytes that identify the format."""


def detect_media_type(head: bytes) -> str:
    """Return the media type by the first `IMAGE_HEAD_BYTES` bytes; empty if it is none of the four supported ones."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def parse_image_header(data: bytes) -> ImageHeader:
    """Return media type and size in pixels. Raises `NotAnImage`, also if the end of the image is missing."""
    kind = detect_media_type(data[:IMAGE_HEAD_BYTES])
    if not kind:
        raise NotAnImage("is no PNG, JPEG, GIF or WebP")
    try:
        width, height = _SIZE_READERS[kind](data)
    except (struct.error, IndexError) as error:
        raise NotAnImage("is cut off or damaged") from error
    if not width or not height:
        raise NotAnImage("is damaged: its header says that it has no pixels")
    return ImageHeader(kind, width, height)


def _png_size(data: bytes) -> tuple[int, int]:
    """Return the size in the first chunk; raise IndexError if the last chunk is missing
    (https://www.w3.org/TR/png-3/#5Chunk-layout)."""
    width, height = struct.unpack_from(">II", data, 16)
    if data[12:16] != b"IHDR":
        raise IndexError
    if data[-12:-4] != b"\0\0\0\0IEND":
        position = 8
        # Some programs append data after the end of the image: find the end chunk by chunk.
        while data[position + 4 : position + 8] != b"IEND":
            (length,) = struct.unpack_from(">I", data, position)
            position += 12 + length
        if position + 12 > len(data):
            raise IndexError
    return width, height


_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a frame header, which contains the size; the excluded ones are tables."""
_MARKERS_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a segment."""


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Return the size in the frame header, found segment by segment (ITU-T T.81, annex B)."""
    position = 2
    while True:
        if data[position] != 0xFF:
            raise IndexError
        while data[position] == 0xFF:
            position += 1
        marker = data[position]
        position += 1
        if marker in _FRAME_MARKERS:
            height, width = struct.unpack_from(">3xHH", data, position)
            if data.rfind(b"\xff\xd9", position) < 0:
                raise IndexError
            return width, height
        if marker not in _MARKERS_WITHOUT_LENGTH:
            (length,) = struct.unpack_from(">H", data, position)
            position += max(length, 2)


def _gif_size(data: bytes) -> tuple[int, int]:
    """Return the size of the logical screen; the data must end with a semicolon, possibly followed by padding."""
    width, height = struct.unpack_from("<HH", data, 6)
    if not data.rstrip(b"\0").endswith(b";"):
        raise IndexError
    return width, height


def _webp_size(data: bytes) -> tuple[int, int]:
    """Return the size in the first chunk, by its kind (RFC 9649)."""
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


_SIZE_READERS: Mapping[str, Callable[[bytes], tuple[int, int]]] = {
    "image/png": _png_size,
    "image/jpeg": _jpeg_size,
    "image/gif": _gif_size,
    "image/webp": _webp_size,
}


class Image(BaseModel):
    """Name, media type, size and hash of an image in a message; the store keeps its bytes if the file is deleted."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    """The file name as the user wrote it: a workspace path, or a path elsewhere."""
    media_type: str
    width: int
    height: int
    size: int
    """Bytes."""
    sha256: str
    """SHA-256 of the bytes (hex), which is their key in the store."""

    @property
    def size_label(self) -> str:
        """Return the size in pixels and bytes, e.g. `1,280×720, 214 KB`."""
        return f"{self.width:,}×{self.height:,}, {format_bytes(self.size)}"

    @classmethod
    def from_bytes(cls, name: str, data: bytes) -> "Image":
        """Return the image for these bytes. Raises `NotAnImage`."""
        header = parse_image_header(data)
        return cls(name=name, **header._asdict(), size=len(data), sha256=hashlib.sha256(data).hexdigest())


_MAX_NAMED_IMAGES = 20
_MAX_NAME_CHARACTERS = 200
"""Maximum number of characters of a name; of a longer one, the end is shown."""


def join_quoted_names(images: Sequence[Image]) -> str:
    """Return the escaped names in quotes for a sentence; at most the first `_MAX_NAMED_IMAGES`."""
    names = [f'"{_escape_name(image.name)}"' for image in images[:_MAX_NAMED_IMAGES]]
    more = [f"{len(images) - len(names)} more"] if len(images) > len(names) else []
    return join_with_and([*names, *more])


def _escape_name(name: str) -> str:
    escaped = escape_unsafe(name, keep="").replace('"', "'")
    return escaped if len(escaped) <= _MAX_NAME_CHARACTERS else f"…{escaped[-_MAX_NAME_CHARACTERS:]}"


def format_bytes(size: int) -> str:
    """Return a size for the user, e.g. `214 KB`."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:,.0f} KB" if size < 1_000_000 else f"{size / 1_000_000:,.1f} MB"


_MAX_ENCODED_BYTES_BY_WIRE = {"anthropic": 5 * 1024 * 1024}
"""Maximum number of base64 bytes of one image, by wire."""
_MAX_ENCODED_BYTES = 13 * 1024 * 1024
MAX_IMAGE_BYTES = _MAX_ENCODED_BYTES // 4 * 3
"""Maximum number of bytes of an image file that any wire accepts."""
MAX_SIDE_PIXELS = 8_000
"""Maximum number of pixels of a side."""
MAX_IMAGES_IN_MESSAGE = 10
_MAX_IMAGES_IN_REQUEST = 20
_MAX_REQUEST_BYTES = 18 * 1024 * 1024
"""Maximum number of base64 bytes of all images in a request."""


def image_refusal_reason(image: Image, wire: str) -> str:
    """Return why a wire does not accept an image, as the rest of a sentence after its name; empty if it does."""
    if max(image.width, image.height) > MAX_SIDE_PIXELS:
        return f"is {image.width:,}×{image.height:,} pixels, and at most {MAX_SIDE_PIXELS:,} on a side are accepted"
    max_bytes = image_byte_limit(wire)
    if image.size > max_bytes:
        return f"has {format_bytes(image.size)}, and at most {format_bytes(max_bytes)} are accepted"
    return ""


def image_byte_limit(wire: str) -> int:
    """Return the largest file size that a wire accepts, in bytes."""
    return _MAX_ENCODED_BYTES_BY_WIRE.get(wire, _MAX_ENCODED_BYTES) // 4 * 3


def indexes_over_request_limits(newest_first: Iterable[Image]) -> Iterator[int]:
    """Yield the indexes of the images that exceed a request's limits; the newest images count first."""
    encoded_bytes = 0
    for index, image in enumerate(newest_first):
        encoded_bytes += image.size * 4 // 3
        if index >= _MAX_IMAGES_IN_REQUEST or encoded_bytes > _MAX_REQUEST_BYTES:
            yield index
