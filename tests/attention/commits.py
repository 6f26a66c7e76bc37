"""Convert a commit to a proposal: the old and new text of each file, with the same risk reasons as when staged."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from app.proposals.files.file_changes import make_file_change, next_hunk_number
from app.proposals.files.overlay import ContentStore
from app.proposals.risk.edited_file import defined_names
from app.proposals.risk.read_reasons import FileReadHistory, ModelReadsBeforeEdit
from app.proposals.risk.risk_reasons import add_risk_reasons_and_reading_order
from app.proposals.values.models import FileChange, Proposal
from app.proposals.values.proposal_store import ProposalStore

_MAX_IGNORED_NAME = 3
"""Names with more characters than this are searched for."""

Texts = tuple[str | None, str | None]
"""The text of a file before and after; None if the file does not exist."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit with the text files that it changes."""

    name: str
    files: Mapping[str, Texts]
    modes: Mapping[str, tuple[int, int]]


def as_proposal(
    files: Mapping[str, Texts],
    modes: Mapping[str, tuple[int, int]] | None = None,
    request: str = "",
    history: Callable[[Proposal], ModelReadsBeforeEdit] | None = None,
) -> Proposal:
    """Return the proposal that these files would make; `history` returns the read history of its author."""
    # Nothing is saved, therefore no method of the store is called.
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
    return add_risk_reasons_and_reading_order(
        contents, proposal, request, history(proposal) if history is not None else None
    )


def share_before(proposal: Proposal, path: str) -> float:
    """Return the share of hunks before a file in review order; a file without hunks counts as one."""
    sizes = {change.path: max(1, len(change.hunks)) for change in proposal.files}
    before = proposal.order[: proposal.order.index(path)]
    return sum(sizes[other] for other in before) / sum(sizes.values())


def marked_places(proposal: Proposal) -> set[str]:
    """Return the marked places: the id of a hunk, or the path of a file that is marked as a whole."""
    marked: set[str] = set()
    for reason in proposal.reasons:
        if reason.kind.is_risk:
            marked.update((place.hunk for place in reason.places) if reason.places else (reason.path,))
    return marked


def history_of(repository: Path, commit: Commit, proposal: Proposal, *, stale: bool) -> ModelReadsBeforeEdit:
    """Return the read history of an author in the worst case.

    The author had read only the files that the commit changes. A search for each changed name had matches in other
    files. With `stale`, the author had read the versions before the last change of each file.
    """
    files: dict[str, FileReadHistory] = {}
    searches: dict[str, tuple[str, ...]] = {}
    for change in proposal.files:
        if (text := commit.files[change.path][0]) is None or change.base is None:
            continue
        version = change.base.sha256
        lines = text.split("\n")
        hunks = (lines[hunk.old_start : hunk.old_start + hunk.old_count] for hunk in change.hunks)
        removed = [line for hunk in hunks for line in hunk]
        for name in {name for line in removed for name in defined_names(line) if len(name) > _MAX_IGNORED_NAME}:
            searches[name] = _files_with_name(repository, f"{commit.name}^", name)
        if stale:
            names = (
                _git(repository, "log", "-2", "--format=%H", f"{commit.name}^", "--", change.path).decode().split()
            )
            before = _git(repository, "show", f"{names[-1]}:{change.path}").decode("utf-8", "replace")
            text, version = before, version if before == text else "another"
        shown = frozenset(stripped for line in text.splitlines() if (stripped := line.strip()))
        files[change.path] = FileReadHistory(frozenset({version}), ((version, "all"),), shown, is_known=True)
    return ModelReadsBeforeEdit(
        files=files, read_paths=frozenset(files), searches=searches, edited=frozenset(commit.files)
    )


def _files_with_name(repository: Path, revision: str, name: str) -> tuple[str, ...]:
    command = ["git", "-C", str(repository), "grep", "-lwI", "-e", name, revision]
    lines = subprocess.run(command, check=False, capture_output=True).stdout.decode("utf-8", "replace").splitlines()
    return tuple(line.partition(":")[2] for line in lines)


def commits_of(repository: Path, max_commits: int) -> Iterator[Commit]:
    """Yield the latest commits of a repository, without merges, with the text files that each changes."""
    names = _git(repository, "log", "--no-merges", f"-{max_commits}", "--format=%H").decode().split()
    for name in names:
        files: dict[str, Texts] = {}
        modes: dict[str, tuple[int, int]] = {}
        raw = _git(repository, "diff-tree", "--root", "-r", "-z", "--no-renames", "--no-commit-id", name).split(b"\0")
        for fields, path in zip(raw[::2], raw[1::2], strict=False):
            old_mode, new_mode, old_id, new_id, _ = fields.decode().lstrip(":").split()
            if {old_mode[:3], new_mode[:3]} & {"120", "160"}:
                continue
            texts = tuple(_blob(repository, blob_id) for blob_id in (old_id, new_id))
            if any(text is not None and "\0" in text for text in texts):
                continue
            text_path = path.decode("utf-8", "replace")
            files[text_path] = (texts[0], texts[1])
            new = int(new_mode, 8) & 0o777 or 0o644
            modes[text_path] = (int(old_mode, 8) & 0o777 or new, new)
        if files:
            yield Commit(name[:10], files, modes)


def _blob(repository: Path, name: str) -> str | None:
    return _git(repository, "cat-file", "blob", name).decode("utf-8", "replace") if name.strip("0") else None


def _git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True).stdout
