"""The sample workspace, and a client in it."""

import shutil
from pathlib import Path

import pytest

from app.demo.demo_server import create_sample_workspace
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
def player(sample: Path) -> Player:
    """A client with tools, in the sample workspace."""
    return Player(sample)
