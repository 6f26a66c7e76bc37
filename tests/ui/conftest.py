"""Fixtures of the tests of the whole app."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.server import WireServer


@pytest.fixture
def server() -> Iterator[WireServer]:
    """A running test server."""
    with WireServer() as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for every test."""
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
