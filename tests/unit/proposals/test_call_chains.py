"""The chains of calls that docs/edit.md names: from a tool call to a proposal, and from a key to the disk."""

import re
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from app.proposals.files.filesystem import PosixFilesystem
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


def record_callers(monkeypatch: pytest.MonkeyPatch, owner: object, method: str) -> list[list[str]]:
    """Return a list that gets the calling files of each call of a method."""
    calls: list[list[str]] = []
    inner = getattr(owner, method)

    def watched(*arguments: Any, **named: Any) -> Any:
        calls.append(calling_files())
        return inner(*arguments, **named)

    monkeypatch.setattr(owner, method, watched)
    return calls


def test_a_draft_reaches_the_store_and_an_approval_the_disk_through_the_documented_files(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    staging, approving = documented_chains()
    for chain in (staging, approving):
        assert len(chain) == len(set(chain)) <= 10
    saves = record_callers(monkeypatch, MemoryStore, "save_proposal")
    exchanges = record_callers(monkeypatch, PosixFilesystem, "exchange")
    site = bench({"a.py": "one\ntwo\n"})
    proposal = site.edit("a.py", ("two", "TWO"))
    service = "app/proposals/proposal_service.py"
    saving, exchanging = (chain[chain.index(service) :] for chain in (staging, approving))
    assert [[*call, "app/storage/sqlite_proposal_store.py"] for call in saves] == [saving]
    site.service.approve(proposal.id)
    assert [[*call, "app/proposals/files/filesystem.py"] for call in exchanges] == [exchanging]
