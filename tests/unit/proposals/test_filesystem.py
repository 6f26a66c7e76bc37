"""The disk as the proposals see it, where it changes between two looks or does not do all that Linux does."""

import ctypes
import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.stack.locked_proposals import WorkspaceLock
from app.proposals.stack.stacking import RecordingDiskReader
from app.proposals.values.proposal_errors import WorkspaceBusy


@pytest.fixture
def disk(tmp_path: Path) -> PosixFilesystem:
    (tmp_path / "a.txt").write_text("text\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.txt").write_text("b\n")
    (tmp_path / "link").symlink_to("folder")
    return PosixFilesystem(tmp_path, 100)


def data_of(disk: PosixFilesystem, path: str) -> bytes | None:
    file = disk.read(path)
    return file.data if file else None


def test_disk_tells_files_folders_and_links_apart(disk: PosixFilesystem, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    names = ("a.txt", "folder", "link", "pipe", "none", "none/x", "a.txt/x", "link/b.txt")
    kinds = ["file", "folder", "link", "other", "missing", "missing", "missing", "missing"]
    assert [disk.kind(name) for name in names] == kinds
    assert [data_of(disk, name) for name in names if name != "pipe"] == [b"text\n", None, b"folder", *[None] * 4]
    assert disk.list_names("folder") == ["b.txt"] and disk.list_names("none") == disk.list_names("a.txt") == []


def test_a_linked_folder_called_a_loop_is_refused(disk: PosixFilesystem, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def as_on_macos(name: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if name == "link":
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return opened(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", as_on_macos)
    assert disk.kind("link/b.txt") == "missing"


def failing(code: int) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_locked_folder_is_not_missing_and_one_that_can_t_be_flushed_an_error(
    disk: PosixFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            disk.sync_folder("folder")
    monkeypatch.setattr(os, "open", failing(errno.EACCES))
    with pytest.raises(PermissionError):
        disk.kind("folder/b.txt")


def test_every_readable_attribute_is_kept(disk: PosixFilesystem, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, bytes] = {}

    def value(_: int, name: str) -> bytes:
        if name == "user.gone":
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))
        return b"value"

    def keep(_: int, name: str, data: bytes) -> None:
        kept[name] = data

    monkeypatch.setattr(os, "listxattr", lambda _: ["user.gone", "user.note"], raising=False)
    monkeypatch.setattr(os, "getxattr", value, raising=False)
    monkeypatch.setattr(os, "setxattr", keep, raising=False)
    disk.write_new("new", b"new\n", 0o640, "a.txt")
    assert kept == {"user.note": b"value"}


def test_a_new_file_has_its_mode_without_attributes_and_without_a_model_file(
    disk: PosixFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "listxattr", failing(errno.ENOTSUP), raising=False)
    for like in ("a.txt", "none"):
        disk.write_new(f"new-{like}", b"new\n", 0o640, like)
        file = disk.read(f"new-{like}")
        assert file is not None and (file.data, file.version.mode) == (b"new\n", 0o640)


@pytest.mark.parametrize("most", [0, 2])
def test_no_more_folders_stay_open_than_may(tmp_path: Path, most: int) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()

    def open_folders() -> int:
        """Count only these: garbage collection closes what earlier tests have left at any time."""
        count = 0
        for descriptor in Path("/dev/fd").iterdir():
            with suppress(OSError):
                count += any(map(descriptor.samefile, (tmp_path, *folders)))
        return count

    disk = PosixFilesystem(tmp_path, 100, most)
    for name in ("one", "two", "three", "one"):
        disk.read(f"{name}/a.txt")
    assert open_folders() == most
    if most:
        assert disk.open_folder("one") == disk.open_folder("one")
    disk.close()
    assert open_folders() == 0


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_no_exchange_differs_from_a_failure(
    disk: PosixFilesystem, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> int:
        ctypes.set_errno(code)
        return -1

    disk.write_new("temp", b"new\n", 0o644)
    monkeypatch.setattr("app.proposals.files.filesystem._renameat2", lambda: refuse)
    disk.exchange("a.txt", "temp")
    assert (data_of(disk, "a.txt"), data_of(disk, "temp")) == (b"new\n", b"text\n")
    code = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        disk.exchange("a.txt", "temp")


def test_a_failing_hard_link_moves_nothing(disk: PosixFilesystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.proposals.files.filesystem._renameat2", lambda: None)
    monkeypatch.setattr(os, "link", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        disk.move_to_path("a.txt", "moved.txt")
    assert (disk.kind("a.txt"), disk.kind("moved.txt")) == ("file", "missing")


Change = Callable[[Path], object]


@pytest.mark.parametrize(
    "change",
    [
        lambda root: None,
        lambda root: (root / "a.txt").write_text("more\n"),
        lambda root: (root / "a.txt").write_text("x" * 200),
        lambda root: (root / "a.txt").unlink(),
        lambda root: (root / "folder" / "c.txt").write_text("c\n"),
        lambda root: (root / "none").mkdir(),
    ],
    ids=["nothing", "text", "too large", "gone", "one more in a folder", "a folder"],
)
def test_an_observation_holds_until_a_change(disk: PosixFilesystem, tmp_path: Path, change: Change) -> None:
    observed = RecordingDiskReader(disk)
    observed.read("a.txt"), observed.list_names("folder"), observed.kind("none")
    before = (data_of(disk, "a.txt"), disk.kind("none"), disk.list_names("folder"))
    change(tmp_path)
    try:
        changed = before != (data_of(disk, "a.txt"), disk.kind("none"), disk.list_names("folder"))
    except OSError:
        changed = True
    assert observed.is_current() is not changed


def test_failed_read_is_not_remembered(disk: PosixFilesystem, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 200)
    observed, taking_over = RecordingDiskReader(disk), RecordingDiskReader(disk)
    with pytest.raises(OSError, match="larger than 100 bytes"):
        observed.read("large")
    taking_over.add_reads_of(observed)
    assert not observed.is_current() and not taking_over.is_current()


def test_a_busy_workspace_is_said_in_one_line_and_leaves_no_descriptor_open(tmp_path: Path) -> None:
    descriptors = Path("/dev/fd")
    with WorkspaceLock(tmp_path / "lock").hold():
        before = len(list(descriptors.iterdir()))
        for patience in (0.0, 0.01):
            with (
                pytest.raises(WorkspaceBusy, match="Another signoff is writing in this workspace; try again"),
                WorkspaceLock(tmp_path / "lock", wait_seconds=patience).hold(),
            ):
                pass
        assert len(list(descriptors.iterdir())) == before


def test_workspace_lock_is_its_owners_freed_after_an_error_and_can_be_nested(tmp_path: Path) -> None:
    path = tmp_path / "made" / "lock"
    lock = WorkspaceLock(path, wait_seconds=0.01)
    with pytest.raises(RuntimeError), lock.hold(), lock.hold():
        raise RuntimeError
    with WorkspaceLock(path, wait_seconds=0.01).hold():
        assert [file.stat().st_mode & 0o777 for file in (path, path.parent)] == [0o600, 0o700]


def test_a_lock_in_no_folder_or_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    for path in ("file/lock", "lock"):
        with pytest.raises(WorkspaceBusy, match="can't be locked"), WorkspaceLock(tmp_path / path).hold():
            pass
    assert not (tmp_path / "elsewhere").exists()


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    lock = WorkspaceLock(tmp_path / "lock")
    inside: list[int] = []
    most: list[int] = []

    def work(_: int) -> None:
        with lock.hold():
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(work, range(12)))
    assert most == [1] * 12


@pytest.mark.parametrize("patience", [0.02, 100.0])
def test_waiting_for_the_lock_ends_with_its_release_or_a_timeout(tmp_path: Path, patience: float) -> None:
    lock = WorkspaceLock(tmp_path / "lock", wait_seconds=patience)
    let_go, held = threading.Event(), threading.Event()

    def work() -> None:
        with lock.hold():
            held.set()
            let_go.wait()

    worker = threading.Thread(target=work)
    waiting = threading.Thread(target=lock.wait_until_free)
    worker.start()
    held.wait()
    waiting.start()
    waiting.join(0.1 if patience > 1 else None)
    assert waiting.is_alive() == (patience > 1)
    let_go.set()
    waiting.join()
    worker.join()
