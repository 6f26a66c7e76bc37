"""A demo server, a client for it and the sample workspace."""

import math
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from app.demo.demo_server import create_sample_workspace, demo_server
from tests.unit.demo.player import Player


@pytest.fixture(scope="session")
def made_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample workspace, for copies: git is started seven times for it."""
    return create_sample_workspace(tmp_path_factory.mktemp("made"))


@pytest.fixture
def sample(made_sample: Path, tmp_path: Path) -> Path:
    """The sample workspace."""
    return Path(shutil.copytree(made_sample, tmp_path / made_sample.name, symlinks=True))


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """A running server that streams without pauses."""
    async with demo_server(math.inf) as settings:
        yield str(settings["base_url"])


@pytest.fixture
async def client(server: str) -> AsyncIterator[AsyncOpenAI]:
    """The SDK's client of it; it needs no certificates, which take longer to load than most of these tests."""
    without = DefaultAsyncHttpxClient(verify=False)
    async with AsyncOpenAI(base_url=server, api_key="none needed", max_retries=0, http_client=without) as client:
        yield client


@pytest.fixture
def player(client: AsyncOpenAI, sample: Path) -> Player:
    """A client with tools, in the sample workspace."""
    return Player(client, sample)
