"""Fixtures of the tests in which several processes share a workspace: those of the wire."""

from tests.wire.conftest import hosted, own_home, server

__all__ = ["hosted", "own_home", "server"]
