"""One writer at a time, in threads and in processes."""

import threading
from pathlib import Path

import pytest

from app.proposals.stack.locked_proposals import WorkspaceLock
from app.proposals.values.proposal_errors import WorkspaceBusy


def test_a_busy_workspace_is_said_in_one_line(tmp_path: Path) -> None:
    with (
        WorkspaceLock(tmp_path / "lock").hold(),
        pytest.raises(WorkspaceBusy, match="Another signoff is writing in this workspace; try again"),
        WorkspaceLock(tmp_path / "lock", wait_seconds=0.01).hold(),
    ):
        pass


def test_what_could_not_be_locked_is_not_left_open(tmp_path: Path) -> None:
    descriptors = Path("/dev/fd")
    with WorkspaceLock(tmp_path / "lock").hold():
        before = len(list(descriptors.iterdir()))
        with pytest.raises(WorkspaceBusy), WorkspaceLock(tmp_path / "lock", wait_seconds=0.0).hold():
            pass
        assert len(list(descriptors.iterdir())) == before


def test_it_is_free_again_after_an_error_and_can_be_nested(tmp_path: Path) -> None:
    lock = WorkspaceLock(tmp_path / "made" / "lock", wait_seconds=0.01)
    with pytest.raises(RuntimeError), lock.hold(), lock.hold():
        raise RuntimeError
    with WorkspaceLock(tmp_path / "made" / "lock", wait_seconds=0.01).hold():
        pass


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceBusy, match="can't be locked"), WorkspaceLock(tmp_path / "file" / "lock").hold():
        pass


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    lock = WorkspaceLock(tmp_path / "lock")
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with lock.hold():
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 12


def test_only_the_owner_can_read_the_lock(tmp_path: Path) -> None:
    with WorkspaceLock(tmp_path / "locks" / "one.lock").hold():
        assert (tmp_path / "locks" / "one.lock").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "locks").stat().st_mode & 0o777 == 0o700


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceBusy, match="can't be locked"), WorkspaceLock(tmp_path / "lock").hold():
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("patience", [0.02, 100.0])
def test_waiting_for_the_lock_to_be_free_ends_with_the_work_or_with_patience(tmp_path: Path, patience: float) -> None:
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
