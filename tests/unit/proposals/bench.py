"""A workspace on disk with a proposal service, and what tests do with it over and over."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.locate.matching import TextReplacement
from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import Proposal
from app.proposals.values.record_entries import RecordingStore
from app.workspace.paths import Workspace
from tests.unit.proposals.memory_store import MemoryStore

Tree = dict[str, tuple[bytes, int]]
"""Path to bytes and permission bits."""


class Bench:
    """A workspace `root` with files in it, and the proposal service over it."""

    def __init__(
        self,
        folder: Path,
        files: Mapping[str, bytes | str] | None = None,
        store: RecordingStore | None = None,
        filesystem: PosixFilesystem | None = None,
    ) -> None:
        self.folder = folder
        self.root = folder / "workspace"
        self.root.mkdir(exist_ok=True)
        self.store = store or MemoryStore()
        self.put(**(files or {}))
        self.workspace = Workspace(self.root)
        self.service = self.reopened(filesystem)

    def reopened(self, filesystem: PosixFilesystem | None = None) -> ProposalService:
        """The proposal service as another process, or the next start, would open it."""
        self.service = ProposalService(self.workspace, self.store, self.folder / "lock", filesystem)
        return self.service

    def put(self, **files: bytes | str) -> None:
        """Write files, as the user's editor would."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def read(self, name: str) -> bytes:
        """What is on disk."""
        return (self.root / name).read_bytes()

    def edit(self, name: str, *pairs: tuple[str, str], version: str = "", answers: Sequence[str] = ()) -> Proposal:
        """Stage one proposal of replacements in one file."""
        draft = self.service.new_draft("session")
        draft.edit(name, [TextReplacement(old, new) for old, new in pairs], version)
        return self.service.stage(draft, f"Edit {name}", answers)

    def rename(self, old_name: str, name: str, *pairs: tuple[str, str], answers: Sequence[str] = ()) -> Proposal:
        """Stage one proposal that moves a file and replaces text in it."""
        draft = self.service.new_draft("session")
        draft.rename(old_name, name)
        if pairs:
            draft.edit(name, [TextReplacement(old, new) for old, new in pairs])
        return self.service.stage(draft, f"Move {old_name}", answers)

    def write(self, *answers: str, **files: str | None) -> Proposal:
        """Stage one proposal that writes whole files, or deletes them (None), in answer to others."""
        draft = self.service.new_draft("session")
        for name, content in files.items():
            if content is None:
                draft.delete(name)
            else:
                draft.write(name, content)
        return self.service.stage(draft, "Write files", answers)

    def contents(self) -> dict[str, bytes]:
        """The bytes of every file on disk, by path."""
        return {path: data for path, (data, _) in self.tree().items()}

    def tree(self) -> Tree:
        """Every file on disk."""
        return tree(self.root)


def tree(root: Path) -> Tree:
    """Every file below a folder."""
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o7777)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def numbered(count: int, **changed: str) -> str:
    """Lines `line 1` to `line count`, those named in `changed` (`l3="x"`) replaced."""
    return "".join(f"{changed.get(f'l{n}', f'line {n}')}\n" for n in range(1, count + 1))
