"""A demo server, a client for it and the sample workspace."""

import math
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from app.demo.sample import create_sample
from app.demo.server import DemoHttpServer
from tests.unit.demo.player import Player


@contextmanager
def serving(tokens_per_second: float) -> Iterator[DemoHttpServer]:
    """A running server."""
    with DemoHttpServer(tokens_per_second) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """The sample workspace."""
    return create_sample(tmp_path)


@pytest.fixture
def server() -> Iterator[DemoHttpServer]:
    """A running server that streams without pauses."""
    with serving(math.inf) as server:
        yield server


@pytest.fixture
async def client(server: DemoHttpServer) -> AsyncIterator[AsyncOpenAI]:
    """The SDK's client of it."""
    async with AsyncOpenAI(base_url=server.base_url, api_key="none needed", max_retries=0) as client:
        yield client


@pytest.fixture
def player(client: AsyncOpenAI, sample: Path) -> Player:
    """A client with tools, in the sample workspace."""
    return Player(client, sample)
