"""A commit as a proposal: both texts of each file, looked through as they would be when staged."""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from app.proposals.overlay.file_changes import make_file_change, next_hunk_number
from app.proposals.overlay.overlay import ContentStore
from app.proposals.risk.risk_reasons import add_risk_reasons
from app.proposals.values.models import FileChange, Proposal
from app.proposals.values.proposal_store import ProposalStore

Texts = tuple[str | None, str | None]
"""A file before and after; None where there is none."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Some files before and after."""

    name: str
    files: Mapping[str, Texts]
    modes: Mapping[str, tuple[int, int]]


def as_proposal(
    files: Mapping[str, Texts], modes: Mapping[str, tuple[int, int]] | None = None, request: str = ""
) -> Proposal:
    """What would be staged of these files."""
    # Nothing is saved, so that no store is asked for anything.
    contents = ContentStore(cast(ProposalStore, None))
    changes: list[FileChange] = []
    number = 1
    for path, texts in sorted(files.items()):
        old_mode, new_mode = (modes or {}).get(path, (0o644, 0o644))
        base, result = (
            None if text is None else contents.add(text.encode(errors="surrogateescape"), mode)
            for text, mode in zip(texts, (old_mode, new_mode), strict=True)
        )
        if base != result:
            changes.append(make_file_change(contents, path, base, result, next_number=number))
            number = max(number, next_hunk_number(changes[-1:]))
    proposal = Proposal(id="P1", workspace="/", created=0.0, summary="", files=tuple(changes))
    return add_risk_reasons(contents, proposal, request)


def share_before(proposal: Proposal, path: str) -> float:
    """How much of the hunks stands before a file, in the order by need; a file without hunks is one."""
    sizes = {change.path: max(1, len(change.hunks)) for change in proposal.files}
    before = proposal.order[: proposal.order.index(path)]
    return sum(sizes[each] for each in before) / sum(sizes.values())


def marks(proposal: Proposal) -> set[str]:
    """What is marked: a hunk by its id, a file that is marked as a whole by its path."""
    marked: set[str] = set()
    for reason in proposal.reasons:
        if reason.kind.is_risk:
            marked.update((place.hunk for place in reason.places) if reason.places else (reason.path,))
    return marked


def commits_of(repository: Path, most: int) -> Iterator[Commit]:
    """The latest commits of a repository that are no merges, with the text files that each of them changes."""
    names = _git(repository, "log", "--no-merges", f"-{most}", "--format=%H").decode().split()
    for name in names:
        files: dict[str, Texts] = {}
        modes: dict[str, tuple[int, int]] = {}
        raw = _git(repository, "diff-tree", "--root", "-r", "-z", "--no-renames", "--no-commit-id", name).split(b"\0")
        for facts, path in zip(raw[::2], raw[1::2], strict=False):
            old_mode, new_mode, old_id, new_id, _ = facts.decode().lstrip(":").split()
            if {old_mode[:3], new_mode[:3]} & {"120", "160"}:
                continue
            texts = tuple(_blob(repository, each) for each in (old_id, new_id))
            if any(text is not None and "\0" in text for text in texts):
                continue
            named = path.decode("utf-8", "replace")
            files[named] = (texts[0], texts[1])
            new = int(new_mode, 8) & 0o777 or 0o644
            modes[named] = (int(old_mode, 8) & 0o777 or new, new)
        if files:
            yield Commit(name[:10], files, modes)


def _blob(repository: Path, name: str) -> str | None:
    return _git(repository, "cat-file", "blob", name).decode("utf-8", "replace") if name.strip("0") else None


def _git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True).stdout
