"""How many pictures, and how large, the vendors take.

Anthropic (https://platform.claude.com/docs/en/build-with-claude/vision): 5 MB of base64 for each, 8,000 pixels on a
side, 2,000 with more than 20 in a request, and 32 MB for a request. OpenAI, Gemini and others: 20 MB for a request on
some, and no fewer pictures or pixels.
"""

from collections.abc import Iterable, Iterator

from app.images.image import Image, bytes_text

_ENCODED = {"anthropic": 5 * 1024 * 1024}
"""Most bytes of one as base64, by wire."""
_ENCODED_ELSEWHERE = 13 * 1024 * 1024
LARGEST = _ENCODED_ELSEWHERE // 4 * 3
"""Bytes of the largest file that any wire takes."""
LONGEST_SIDE = 8_000
"""Pixels."""
MOST_IN_MESSAGE = 10
_MOST_IN_REQUEST = 20
_REQUEST = 18 * 1024 * 1024
"""Bytes as base64 of all in a request."""


def refusal(image: Image, wire: str) -> str:
    """Why a wire does not take a picture, to be said after its name; empty if it does."""
    if max(image.width, image.height) > LONGEST_SIDE:
        return f"is {image.width:,}×{image.height:,} pixels, and at most {LONGEST_SIDE:,} on a side are taken"
    most = most_bytes(wire)
    if image.size > most:
        return f"has {bytes_text(image.size)}, and at most {bytes_text(most)} are taken"
    return ""


def most_bytes(wire: str) -> int:
    """Bytes of the largest file that a wire takes."""
    return _ENCODED.get(wire, _ENCODED_ELSEWHERE) // 4 * 3


def too_many(images: Iterable[Image]) -> Iterator[int]:
    """Which of the pictures of a request, given the newest first, are more than it takes: their positions."""
    encoded = 0
    for position, image in enumerate(images):
        encoded += image.size * 4 // 3
        if position >= _MOST_IN_REQUEST or encoded > _REQUEST:
            yield position
