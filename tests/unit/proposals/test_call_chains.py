"""The chains of calls that docs/edit.md names: from a tool call to a proposal, and from a key to the disk."""

import re
import sys
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

from app.proposals.files.filesystem import OPEN_FOLDERS, PosixFilesystem
from app.proposals.values.models import Proposal
from tests.unit.proposals.bench import Bench
from tests.unit.proposals.memory_store import MemoryStore

ROOT = Path(__file__).parents[3]


def calling_files() -> list[str]:
    """Return the files of the program that the running call went through, the first caller first."""
    files: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT / "app"):
            files.append(path.relative_to(ROOT).as_posix())
        frame = frame.f_back
    return [path for path, _ in groupby(reversed(files))]


def documented_chains() -> list[list[str]]:
    """Return the files of each chain in docs/edit.md, in order."""
    _, _, text = (ROOT / "docs" / "edit.md").read_text(encoding="utf-8").partition("## The two chains of calls")
    chains = [re.findall(r"\(`((?:app|widgets)/[\w/]+\.py)`\)", part) for part in text.split("\n\n")]
    return [chain for chain in chains if chain]


class WatchedDisk(PosixFilesystem):
    """A disk that notes through which files it is called to exchange two names."""

    calls: list[list[str]]

    def exchange(self, *arguments: Any, **named: Any) -> Any:
        self.calls.append(calling_files())
        return super().exchange(*arguments, **named)


class WatchedStore(MemoryStore):
    """A store that notes through which files it is called to save proposals."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []

    def save_proposal(self, *proposals: Proposal) -> None:
        self.calls.append(calling_files())
        super().save_proposal(*proposals)


def test_no_file_is_in_a_chain_twice_and_none_has_more_than_ten() -> None:
    staging, approving = documented_chains()
    for chain in (staging, approving):
        assert len(chain) == len(set(chain)) <= 10


def test_a_draft_reaches_the_store_through_the_documented_files(tmp_path: Path) -> None:
    store = WatchedStore()
    Bench(tmp_path, {"a.py": "one\ntwo\n"}, store).edit("a.py", ("two", "TWO"))

    staging = documented_chains()[0]
    service = staging.index("app/proposals/proposal_service.py")
    assert [[*call, "app/storage/sqlite_proposal_store.py"] for call in store.calls] == [staging[service:]]


def test_an_approval_reaches_the_disk_through_the_documented_files(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    disk = WatchedDisk(tmp_path / "workspace", 2**24, OPEN_FOLDERS)
    disk.calls = []
    bench = Bench(tmp_path, {"a.py": "one\ntwo\n"}, filesystem=disk)

    bench.service.approve(bench.edit("a.py", ("two", "TWO")).id)

    approving = documented_chains()[1]
    service = approving.index("app/proposals/proposal_service.py")
    assert [[*call, "app/proposals/files/filesystem.py"] for call in disk.calls] == [approving[service:]]
