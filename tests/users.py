"""Whether tests can be several users: as root they can, but not in a container that knows only one."""

import os
from pathlib import Path

import pytest

OTHER = 1002
"""The number of an ordinary user."""


def can_be(user: int) -> bool:
    """Whether this process may become that user, and give files away to it."""
    known = Path("/proc/self/uid_map")
    ranges = (
        [map(int, line.split()) for line in known.read_text().splitlines()] if known.exists() else [(0, 0, 2**32)]
    )
    return os.geteuid() == 0 and any(first <= user < first + count for first, _, count in ranges)


as_two_users = pytest.mark.skipif(not can_be(OTHER), reason="only root can be two users, where there are two")
