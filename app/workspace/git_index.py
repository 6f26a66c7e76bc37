"""What git tracks, read from its index; git itself is never run.

The format is that of git's documentation (index-format), versions 2 to 4.
"""

from pathlib import Path

from app.workspace.git import repository
from app.workspace.reading import read_file

_LARGEST = 1 << 30
_ENTRY = 62
"""Bytes of an entry before its name, with SHA-1; 74 with SHA-256."""
_EXTENDED, _LENGTH = 0x4000, 0x0FFF


def tracked_paths(root: Path) -> list[str]:
    """The paths in a folder's repository that git tracks below it, relative to it and sorted.

    Nothing where there is no repository, or its index can't be read.
    """
    found = repository(root)
    if found is None:
        return []
    try:
        data, _ = read_file(found.folder / "index", _LARGEST)
        names = _names(data, _uses_sha256(found.shared))
    except (OSError, IndexError, ValueError):
        return []
    lead = b"".join(b"%s/" % part.encode("utf-8", "surrogateescape") for part in root.relative_to(found.top).parts)
    return [name[len(lead) :].decode("utf-8", "surrogateescape") for name in sorted(names) if name.startswith(lead)]


def _uses_sha256(shared: Path) -> bool:
    config, _ = read_file(shared / "config", 1 << 20, head=True)
    return b"objectformat = sha256" in config.lower()


def _names(data: bytes, sha256: bool) -> list[bytes]:
    if data[:4] != b"DIRC":
        raise ValueError("no index")
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    fixed = _ENTRY + (12 if sha256 else 0)
    names: list[bytes] = []
    at, name = 12, b""
    for _ in range(count):
        flags = data[at + fixed - 2] << 8 | data[at + fixed - 1]
        start = at + fixed + (2 if flags & _EXTENDED else 0)
        if version == 4:
            cut, start = _offset(data, start)
            end = data.index(b"\0", start)
            name = name[: len(name) - cut] + data[start:end]
            at = end + 1
        else:
            length = flags & _LENGTH
            end = start + length if length < _LENGTH else data.index(b"\0", start)
            name = data[start:end]
            # Padded with one to eight zeros, so that the entry is a multiple of eight long.
            at += (end - at + 8) // 8 * 8
        names.append(name)
    return names


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A number in git's encoding of variable length, and where what follows it begins."""
    byte = data[at]
    number = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        number = (number + 1) << 7 | byte & 0x7F
    return number, at + 1
