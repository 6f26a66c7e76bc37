"""Fixtures of the wire tests."""

from collections.abc import Iterator

import pytest

from tests.wire.server import WireServer


@pytest.fixture
def server() -> Iterator[WireServer]:
    """A running test server."""
    with WireServer() as running:
        yield running
