"""Hashes of lines: they show later whether a line was read, without storing its text."""

import zlib
from array import array
from collections.abc import Iterable

_ARRAY_TYPE = "I"


def hash_stripped_line(line: str) -> int:
    """Return a hash of a line, ignoring white space around it."""
    return zlib.crc32(line.strip().encode("utf-8", "surrogatepass"))


def pack_nonblank_line_hashes(lines: Iterable[str]) -> bytes:
    """Return the hashes of the lines that are not blank, packed in this machine's byte order."""
    return array(_ARRAY_TYPE, sorted({hash_stripped_line(line) for line in lines if line.strip()})).tobytes()


def unpack_line_hashes(packed: bytes) -> frozenset[int]:
    """Return the hashes from `pack_nonblank_line_hashes`."""
    return frozenset(array(_ARRAY_TYPE, packed))
