"""A bench for each test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.proposals.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    """Make a bench with these files in its workspace."""
    return lambda files=None, **named: Bench(tmp_path, files, **named)
