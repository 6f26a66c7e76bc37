"""Hashes lines, so that it can be told later whether a line was shown, without keeping its text."""

import zlib
from array import array
from collections.abc import Iterable

_TYPE = "I"


def hash_line(line: str) -> int:
    """Return a hash of a line, without white space around it."""
    return zlib.crc32(line.strip().encode("utf-8", "surrogatepass"))


def pack_line_hashes(lines: Iterable[str]) -> bytes:
    """Return the hashes of lines as bytes, for a database on this machine."""
    return array(_TYPE, sorted({hash_line(line) for line in lines if line.strip()})).tobytes()


def unpack_line_hashes(packed: bytes) -> frozenset[int]:
    """Return the hashes that were packed."""
    return frozenset(array(_TYPE, packed))
