"""A demo server, a client for it and the sample workspace."""

import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from app.demo.sample import create_sample
from app.demo.server import DemoHttpServer
from tests.unit.demo.player import Player


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """The sample workspace."""
    return create_sample(tmp_path)


@pytest.fixture
async def server() -> AsyncIterator[DemoHttpServer]:
    """A running server that streams without pauses."""
    server = DemoHttpServer(math.inf)
    await server.start()
    yield server
    await server.close()


@pytest.fixture
async def client(server: DemoHttpServer) -> AsyncIterator[AsyncOpenAI]:
    """The SDK's client of it."""
    async with AsyncOpenAI(base_url=server.base_url, api_key="none needed", max_retries=0) as client:
        yield client


@pytest.fixture
def player(client: AsyncOpenAI, sample: Path) -> Player:
    """A client with tools, in the sample workspace."""
    return Player(client, sample)
