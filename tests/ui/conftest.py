"""Fixtures of the tests of the whole app."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.server import WireServer
from widgets.review import decision_keys, review


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    """A running test server; the app that uses it ignores decision keys for a shorter time after a change."""
    for module in (decision_keys, review):
        monkeypatch.setattr(module, "GRACE_SECONDS", 0.25)
    with WireServer() as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
