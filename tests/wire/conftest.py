"""Fixtures of the wire tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.runtime.open_session import OpenSession
from app.runtime.open_workspace import open_workspace
from tests.forking import Forking
from tests.wire.bench import FILE
from tests.wire.endpoints import OBEYS
from tests.wire.hosting import Hosted
from tests.wire.server import WireServer


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No session of another test is there to be gone on with, nor one of the developer's."""
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))


@pytest.fixture
def server() -> Iterator[WireServer]:
    """A running test server."""
    with WireServer() as running:
        yield running


@pytest.fixture
async def hosted(server: WireServer, tmp_path: Path, processes: Forking) -> AsyncIterator[Hosted]:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "greet.py").write_text(FILE)
    server.behave(OBEYS)
    runtime = open_workspace(root, {"base_url": server.base_url, "model": "m"}, {})
    holder: list[Hosted] = []
    open_session = OpenSession(runtime, runtime.settings, lambda update: holder[0].take(update))
    holder.append(Hosted(open_session, root, tmp_path / "home", processes))
    await open_session.start()
    await open_session.connect(runtime.settings)
    await open_session.open()
    yield holder[0]
    await open_session.close()
    runtime.close()
