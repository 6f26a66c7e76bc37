"""Lets every way in which commands run be tried on any file system."""

import shutil
from pathlib import Path

import pytest

from app.sandbox import cloning


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files can't share their blocks, copy them instead: all else is as it is where they can."""
    if not cloning.can_clone(tmp_path, tmp_path):
        monkeypatch.setattr(cloning, "reflink", shutil.copyfile)
