"""A draft that keeps its edits in memory: the port that the tools write to, without the proposals engine."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.proposals.locate.matching import TextReplacement
from app.proposals.patch.parsed_patch import list_patch_paths
from app.proposals.patch.patching import parse_patch_text
from app.proposals.values.origin import CommandRecipe
from app.proposals.values.proposal_errors import EditRefused
from app.sandbox.captured_changes import FileOrLink, PathChange, WrittenIgnoredPath
from app.sandbox.confinement import CommandWriteMode, ConfiguredCommandAccess
from app.sandbox.sandbox import Sandbox
from app.tools.base.contract import PermissionAnswer, PermissionRequest, Tool, ToolContext, ToolOutput
from app.tools.tool_registry import ToolSet, make_standard_tools
from app.workspace.paths import Workspace


@dataclass
class File:
    content: bytes | None
    version: str
    pending: tuple[str, ...] = ()
    paths_by_others: tuple[str, ...] = ()


@dataclass
class Stat:
    path: str
    op: str
    added: int
    removed: int


@dataclass
class Report:
    files: tuple[Stat, ...]
    text: str = ""
    summary: str = ""


@dataclass
class ParsedPatch:
    text: str
    paths: Sequence[str]


class MemoryDraft:
    """Holds whole contents; replaces exact text only."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.summaries: list[str] = []
        self.ignored: list[WrittenIgnoredPath] = []
        self.held: dict[str, bytes | None] = {}
        self.versions: list[str] = []
        self.patches: list[str] = []

    def ensure_proposal_id(self) -> str:
        return "P1"

    def read(self, path: str) -> File:
        if path in self.held:
            content = self.held[path]
            return File(content, _hash(content), ("P1",))
        try:
            content = self.workspace.read(path)
        except FileNotFoundError:
            return File(None, "")
        return File(content, _hash(content))

    def added_and_removed_paths(self) -> tuple[set[str], set[str]]:
        added = {
            path
            for path, content in self.held.items()
            if content is not None and self.workspace.kind(path) == "missing"
        }
        return added, {path for path, content in self.held.items() if content is None}

    def touched_paths(self) -> set[str]:
        return {path for path, content in self.held.items() if content is not None}

    def edit(self, path: str, replacements: Sequence[TextReplacement], version: str = "") -> Report:
        self.versions.append(version)
        text = self._existing(path).decode()
        for each in replacements:
            if each.old not in text:
                raise EditRefused(f"not found; the file has: {text}")
            text = text.replace(each.old, each.new, -1 if each.replace_all else 1)
        self.held[path] = text.encode()
        return Report((Stat(path, "edit", 1, 1),), "", f"{path} +1 -1")

    def write(self, path: str, content: str) -> Report:
        self.held[path] = content.encode()
        return Report((Stat(path, "create", content.count("\n"), 0),))

    def delete(self, path: str) -> Report:
        self._existing(path)
        self.held[path] = None
        return Report((Stat(path, "delete", 0, 1),))

    def rename(self, path: str, new_path: str) -> Report:
        self.held[new_path] = self._existing(path)
        self.held[path] = None
        return Report((Stat(new_path, "rename", 0, 0),))

    def pending_files(self) -> dict[str, FileOrLink | None]:
        return {path: None if data is None else FileOrLink(data, 0o644) for path, data in self.held.items()}

    def add_changes(self, changes: Sequence[PathChange], recipe: CommandRecipe | None = None) -> Report:
        for change in changes:
            self.held[change.path] = None if change.after is None else change.after.data
        return Report(tuple(Stat(change.path, "edit", 1, 1) for change in changes))

    def undo_add_changes(self) -> None:
        self.held = {}

    def parse_patch(self, text: str) -> ParsedPatch:
        return ParsedPatch(text, list_patch_paths(parse_patch_text(text)))

    def apply_patch(self, patch: ParsedPatch) -> Report:
        self.patches.append(patch.text)
        return Report((Stat("a.py", "edit", 1, 0),), "a.py: found by spacing at line 3")

    def _existing(self, path: str) -> bytes:
        content = self.read(path).content
        if content is None:
            raise EditRefused(f"{path} does not exist")
        return content


@dataclass
class Bench:
    """A workspace, a draft, and a user who answers what the test says."""

    workspace: Workspace
    draft: Any
    """A `MemoryDraft`, or the real one."""
    answer: PermissionAnswer = field(default_factory=lambda: PermissionAnswer(False))
    asked: list[PermissionRequest] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    on_ask: Callable[[], None] = lambda: None
    modes: Sequence[CommandWriteMode] = tuple(CommandWriteMode)
    """How commands may run."""
    planning: bool = False
    hold_ignored: bool = False

    def __post_init__(self) -> None:
        state = self.workspace.root.parent / "runs"
        self.shared.mkdir(exist_ok=True)
        permissions = ConfiguredCommandAccess((str(self.shared),))
        self.sandbox = Sandbox(self.workspace, state, own_folders=(), permissions=permissions, modes=self.modes)
        self.tools = make_standard_tools(lambda: self.sandbox)

    @property
    def shared(self) -> Path:
        """A folder that commands write in place, by which test and command hear of each other."""
        return self.workspace.root.parent / "shared"

    async def confirm(self, permission_request: PermissionRequest) -> PermissionAnswer:
        self.asked.append(permission_request)
        self.on_ask()
        return self.answer

    @property
    def context(self) -> ToolContext:
        return ToolContext(
            self.workspace,
            self.draft,
            self.live.append,
            self.confirm,
            planning=self.planning,
            hold_ignored=self.hold_ignored,
        )

    async def call(self, tool_name: str, /, **arguments: object) -> ToolOutput:
        """What a model's call comes to, from raw arguments on."""
        tool: Tool | None = self.tools.get_tool(tool_name)
        assert tool is not None
        return await tool.run(self.tools.parse_arguments(tool_name, arguments), self.context)


def _hash(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def nowhere() -> ToolSet:
    """The tools, for what can be said of them without a workspace."""
    here = Workspace(Path(__file__).parent)
    return make_standard_tools(lambda: Sandbox(here, here.root, own_folders=()))
