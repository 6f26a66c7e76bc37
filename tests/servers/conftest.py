"""Fixtures for tests with MCP servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.server import WireServer


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
