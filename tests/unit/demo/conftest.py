"""A demo server, a client for it and the sample workspace."""

import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from app.demo.sample import create_sample
from app.demo.server import demo_server
from tests.unit.demo.player import Player


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """The sample workspace."""
    return create_sample(tmp_path)


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """A running server that streams without pauses."""
    async with demo_server(math.inf) as settings:
        yield str(settings["base_url"])


@pytest.fixture
async def client(server: str) -> AsyncIterator[AsyncOpenAI]:
    """The SDK's client of it."""
    async with AsyncOpenAI(base_url=server, api_key="none needed", max_retries=0) as client:
        yield client


@pytest.fixture
def player(client: AsyncOpenAI, sample: Path) -> Player:
    """A client with tools, in the sample workspace."""
    return Player(client, sample)
