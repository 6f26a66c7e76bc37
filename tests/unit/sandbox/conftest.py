"""Lets every way in which commands run be tried on any file system, and by root as by everyone else."""

import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.sandbox import cloning


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files can't share their blocks, copy them instead: all else is as it is where they can."""
    if not cloning.can_clone(tmp_path, tmp_path):
        monkeypatch.setattr(cloning, "reflink", shutil.copyfile)


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Nobody but the owner has a say, and permissions hold for him too: what root does not notice."""
    if os.geteuid():
        yield
        return
    libc, header = ctypes.CDLL(None, use_errno=True), (ctypes.c_uint32 * 2)(0x20080522, 0)
    had = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, had) == 0
    # None is in effect; all are kept, to be taken up again. The threads that are started meanwhile have none either.
    assert libc.capset(header, (ctypes.c_uint32 * 6)(0, *had[1:3], 0, *had[4:6])) == 0
    yield
    assert libc.capset(header, had) == 0
