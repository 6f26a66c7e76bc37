"""Where the commands are forked from."""

from collections.abc import Iterator

import pytest

from tests.commands.forking import Forking, forking


@pytest.fixture(scope="session")
def processes() -> Iterator[Forking]:
    """A process that has imported the program, which takes a second: one for all tests."""
    with forking() as started:
        yield started
