"""Fixtures for tests in which several processes share a workspace; they come from the tests of the wire."""

from tests.wire.conftest import hosted, own_home, server

__all__ = ["hosted", "own_home", "server"]
