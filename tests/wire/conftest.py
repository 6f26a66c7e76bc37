"""Fixtures of the wire tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.runtime.open_workspace import open_workspace
from app.runtime.session_host import SessionHost
from tests.forking import Forking
from tests.wire.bench import FILE, Bench, bench
from tests.wire.driving import FAST
from tests.wire.hosting import Hosted
from tests.wire.server import WireServer
from tests.wire.vendors import NOT_THERE, VENDORS


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No session of another test is there to be gone on with, nor one of the developer's."""
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


@pytest.fixture
async def on(server: WireServer, tmp_path: Path) -> AsyncIterator[Bench]:
    """A session in a workspace with one file; all requests of the test have a valid history."""
    async with bench(server, tmp_path) as opened:
        yield opened
        opened.check()


@pytest.fixture(params=["chat", *VENDORS])
async def on_wire(server: WireServer, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A session on each wire; nothing else is spoken there, and nothing that it sent was refused."""
    server.wires = {name: None if name == request.param else NOT_THERE for name in server.wires}
    async with bench(server, tmp_path, wire=request.param, retry=FAST) as opened:
        yield opened
        opened.check()


@pytest.fixture
async def hosted(server: WireServer, tmp_path: Path, processes: Forking) -> AsyncIterator[Hosted]:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "greet.py").write_text(FILE)
    runtime = open_workspace(root, {"base_url": server.base_url, "model": "m"}, {})
    holder: list[Hosted] = []
    host = SessionHost(runtime, runtime.settings, lambda update: holder[0].take(update))
    holder.append(Hosted(host, root, tmp_path / "home", processes))
    await host.start()
    await host.connect(runtime.settings)
    await host.open()
    yield holder[0]
    await host.close()
    runtime.close()
