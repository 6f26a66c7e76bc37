"""`list_files`: what files there are."""

from dataclasses import dataclass, field

from pydantic import Field

from app.text.plural import plural
from app.tools.base.contract import Tool, ToolArguments, ToolContext, ToolOutput
from app.tools.base.targets import resolve_real_path
from app.tools.search.file_walk import overlay_files, path_matcher, run_for

MOST = 500
"""Lines in one result."""
TIME_LIMIT = 20.0
"""Seconds; what was found by then is the result."""


class ListFilesArguments(ToolArguments):
    """Arguments of `list_files`."""

    path: str | None = Field(
        default=None, description="The folder, relative to the workspace root. Default: the root."
    )
    pattern: str | None = Field(
        default=None,
        description="Only files that match: *.py in any folder below, src/**/*.{ts,tsx} from `path` down.",
    )


class ListFiles(Tool):
    """Lists what no ignore rule leaves out, with the pending edits in place."""

    name = "list_files"
    kind = "read"
    Arguments = ListFilesArguments
    description = (
        "List the files of the workspace or of one folder, at any depth, one path per line, sorted. Ignored files "
        f"are left out. Where there are more than {MOST}, folders come with the number of files in them instead: "
        "go on with `path` or `pattern`."
    )

    async def run(self, arguments: ListFilesArguments, context: ToolContext) -> ToolOutput:
        """List once."""
        folder = resolve_real_path(context.workspace, arguments.path)
        return await run_for(_Listing(folder, arguments.pattern or "", context), TIME_LIMIT)


@dataclass(slots=True)
class _Listing:
    """One listing. Up to `MOST` paths are kept; of more files only the folders, with the number of files in them."""

    folder: str
    pattern: str
    context: ToolContext
    _stopped: bool = False
    _files: int = 0
    _shown: list[str] = field(default_factory=list)
    _by_folder: dict[str, tuple[int, str]] = field(default_factory=dict)
    """For each file right in the folder and each folder in it: how many files, and how the last of them is shown."""

    def run(self) -> ToolOutput:
        """List until the end, or until it is stopped."""
        prefix = "" if self.folder == "." else f"{self.folder}/"
        matches = path_matcher(self.pattern) if self.pattern else None
        for path, added in overlay_files(self.context, self.folder, lambda: self._stopped):
            if self._stopped:
                break
            inner = path.removeprefix(prefix)
            if matches is None or matches(inner) or matches(path):
                self._take(prefix, inner, f"{path}  [staged, not on disk yet]" if added else path)
        return self._output()

    def stop(self) -> None:
        """Make `run` return with what it has."""
        self._stopped = True

    def _take(self, prefix: str, inner: str, shown: str) -> None:
        self._files += 1
        if self._files <= MOST:
            self._shown.append(shown)
        name, slash, _ = inner.partition("/")
        count, _ = self._by_folder.get(f"{prefix}{name}{slash}", (0, ""))
        self._by_folder[f"{prefix}{name}{slash}"] = (count + 1, shown)

    def _output(self) -> ToolOutput:
        total = plural(self._files, "file")
        stopped = f"[stopped after {TIME_LIMIT:.0f} s, before all files were seen; list one folder]"
        cut = [stopped] if self._stopped else []
        if not self._files and not cut:
            what = f"No file matches {self.pattern!r}" if self.pattern else "There are no files"
            return ToolOutput(f"{what} in {'the workspace' if self.folder == '.' else self.folder}.", "no files")
        summary = f"{total}, cut short" if cut else total
        if self._files <= MOST:
            return ToolOutput("\n".join([*self._shown, *cut]), summary)
        lines = [
            f"{name} ({count:,})" if name.endswith("/") else shown for name, (count, shown) in self._by_folder.items()
        ]
        if len(lines) > MOST:
            left = len(lines) - MOST
            lines = [*lines[:MOST], f"[{left:,} more entries not shown]"]
        head = f"[{total}; folders with the number of files in them]"
        return ToolOutput("\n".join([head, *lines, *cut]), summary)
