"""Whether tests can act as several users: root can, except in a container with a single user."""

import os
from pathlib import Path

import pytest

OTHER = 1002
"""User id of an ordinary user."""


def can_become(user: int) -> bool:
    """Return whether this process may change to that user and transfer files to it."""
    uid_map = Path("/proc/self/uid_map")
    ranges = (
        [map(int, line.split()) for line in uid_map.read_text().splitlines()] if uid_map.exists() else [(0, 0, 2**32)]
    )
    return os.geteuid() == 0 and any(first <= user < first + count for first, _, count in ranges)


requires_two_users = pytest.mark.skipif(not can_become(OTHER), reason="needs root and a second user")
