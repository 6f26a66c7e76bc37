"""Lets every way in which commands run be tried on any file system, and by root as by everyone else."""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.users import can_become


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than the workspace."""
    for place in ("/dev/shm", "/var/tmp"):
        if Path(place).is_dir() and Path(place).stat().st_dev != tmp_path.stat().st_dev:
            with tempfile.TemporaryDirectory(dir=place) as folder:
                yield Path(folder)
            return
    pytest.skip("there is one file system")


@pytest.fixture
def of_somebody_else(tmp_path: Path) -> Path:
    """A file that the user may write, of another user; to be asked for before `ordinary_user`."""
    if not can_become(65534):
        pytest.skip("only root can make one, where there is another user")
    place = tmp_path / "ws/theirs"
    place.parent.mkdir(exist_ok=True)
    place.write_text("theirs\n")
    place.chmod(0o666)
    os.chown(place, 65534, 65534)
    return place


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
