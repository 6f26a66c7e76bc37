"""A bench with an empty workspace."""

from pathlib import Path

import pytest

from app.workspace.paths import Workspace
from tests.unit.tools.memory_draft import Bench, MemoryDraft


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    root = tmp_path / "ws"
    root.mkdir()
    workspace = Workspace(root)
    return Bench(workspace, MemoryDraft(workspace))
