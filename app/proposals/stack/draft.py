"""The edits of one step while it runs: nothing is staged before the step ends, and nothing is written to disk."""

import errno
import stat
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from posixpath import basename
from threading import RLock
from typing import TYPE_CHECKING

from app.proposals.files.file_changes import make_file_diff_stat
from app.proposals.files.filesystem import default_file_mode, make_file_version
from app.proposals.files.overlay import ContentStore, Overlay, OverlayFile, read_pending_files
from app.proposals.locate.edit_script import encode_preserving_unchanged_lines
from app.proposals.locate.matching import TextReplacement, apply_replacements
from app.proposals.patch.parsed_patch import ParsedPatch
from app.proposals.stack.draft_files import DraftFile, DraftFiles
from app.proposals.stack.rebase import merge_bytes
from app.proposals.text.diff import diff_lines
from app.proposals.text.document import MAX_BYTES, Document, encode_surrogateescape
from app.proposals.text.file_warnings import describe_match_level
from app.proposals.text.line_comparison import LineRange, find_lines_unlike_every_version
from app.proposals.values.decision_facts import FileDiffStat
from app.proposals.values.models import EditMatch, EditReport, FileOperation, FileVersion, MatchLevel
from app.proposals.values.origin import CommandRecipe, OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import EditRefused
from app.sandbox.captured_changes import FileOrLink, PathChange, WrittenIgnoredPath
from app.workspace.paths import Workspace

if TYPE_CHECKING:
    from app.proposals.risk.read_reasons import ModelReadsBeforeEdit

Edited = tuple[bytes, Sequence[EditMatch], str]
"""The edited bytes, how the places were found, and a note about it."""


def _apply_replacements_and_merge(
    contents: ContentStore,
    path: str,
    data: bytes,
    wanted: Sequence[TextReplacement],
    version: str,
    own_base: FileVersion | None,
) -> Edited:
    """Apply replacements to the version that was read, and merge the result into the current file.

    Args:
        contents: Has what was read, by version.
        version: The version that was read (SHA-256 hex, or its first digits); empty for the current one.
        own_base: The file before this step's own edits to it, if there are any.

    Raises:
        EditRefused: a place was not found, or the file has changed there since it was read.
    """
    current = make_file_version(data, 0).sha256
    version = version.strip().lower()

    def edit_current(note: str = "") -> Edited:
        return (*apply_replacements(Document(data), wanted), note)

    if not version or current.startswith(version):
        return edit_current()
    read = contents.find_by_prefix(version)
    if read is None:
        return edit_current(
            f"version {version[:12]} is not known; the edit was made in {current[:12]}, which is there now"
        )
    try:
        after, matches = apply_replacements(Document(read), wanted)
    except EditRefused:
        # The text may come from a later content than `version`, for instance after an edit of this step.
        return edit_current()
    merged, merge = merge_bytes(read, data, after)
    if not merge.conflicts:
        if merged == data:
            raise EditRefused(f"{path} already has this change.", "Read it again before editing it.")
        return merged, matches, f"{path} changed since it was read; the edit was merged into it"
    if own_base and own_base.sha256.startswith(version):
        # Only this step's own edits are in between: the model knew them.
        return edit_current()
    raise EditRefused(
        f"{path} changed since version {version[:12]} was read, at line {merge.conflicts[0].ours_start + 1}, where "
        "this edit changes it too.",
        f"Read it again (now version {current[:12]}) and make the edit again.",
    )


_MAX_COMPARED_FILES = 200
"""Maximum files on either side that are compared line by line; with more, only equal files count as moved."""
_MAX_COMPARED_BYTES = 200_000
"""Maximum bytes of a file that is compared line by line."""
_MIN_EQUAL_SHARE = 0.5
"""Minimum share of equal lines in a file that counts as moved and edited, as in git."""


def _renamed_paths(changes: Sequence[PathChange]) -> dict[str, str]:
    """Return the old path of each moved file, by its new path."""
    removed = {each.path: each.before.data for each in changes if each.before and not each.after}
    added = {each.path: each.after.data for each in changes if each.after and not each.before}
    links = {each.path for each in changes for leaf in (each.before, each.after) if leaf and leaf.is_link}
    old_paths: dict[str, str] = {}
    by_content: dict[bytes, list[str]] = {}
    for path, data in removed.items():
        if data and path not in links:
            by_content.setdefault(data, []).append(path)
    for path, data in added.items():
        if path not in links and (sources := by_content.get(data)):
            source = min(sources, key=lambda each: (basename(each) != basename(path), each))
            sources.remove(source)
            old_paths[path] = source
    matched = {*old_paths, *old_paths.values(), *links}
    left = [(path, data) for path, data in removed.items() if path not in matched and _is_comparable(data)]
    new = [(path, data) for path, data in added.items() if path not in matched and _is_comparable(data)]
    if left and new and max(len(left), len(new)) <= _MAX_COMPARED_FILES:
        old_paths |= _match_edited_files(left, new)
    return old_paths


def _match_edited_files(removed: Sequence[tuple[str, bytes]], added: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    lines = {path: Counter(data.splitlines()) for path, data in (*removed, *added)}
    ranked = sorted(
        (
            (-share, basename(old) != basename(new), new, old)
            for new, _ in added
            for old, _ in removed
            if (share := _equal_share(lines[old], lines[new])) >= _MIN_EQUAL_SHARE
        )
    )
    old_paths: dict[str, str] = {}
    matched: set[str] = set()
    for _, _, new, old in ranked:
        if new not in old_paths and old not in matched:
            old_paths[new] = old
            matched.add(old)
    return old_paths


def _equal_share(one: Counter[bytes], other: Counter[bytes]) -> float:
    return (one & other).total() / max(one.total(), other.total(), 1)


def _is_comparable(data: bytes) -> bool:
    return 0 < len(data) <= _MAX_COMPARED_BYTES and not Document(data).is_binary


class Draft:
    """Collects the edits of one step or patch until they are staged as a proposal; methods work from any thread.

    Paths may lead through links inside the workspace; the draft has the real file's path. `UnsafePath` is raised for
    paths that no tool may touch, `EditRefused` for edits that cannot be made; the draft is unchanged then.

    Args:
        session: The session whose model makes the edits; empty for a patch.
        contents: Stores what was read, by version.
        overlay: Returns the present workspace with all pending proposals.
        reserve: Reserves a proposal id.
        proposal_id: An id that was reserved before; a part of the draft may have been staged with it.
    """

    def __init__(
        self,
        session: str,
        workspace: Workspace,
        contents: ContentStore,
        overlay: Callable[[], Overlay],
        reserve: Callable[[], str],
        proposal_id: str = "",
    ) -> None:
        self.session = session
        self.summaries: list[str] = []
        """The model's own words for its edits."""
        self.ignored: list[WrittenIgnoredPath] = []
        """Files ignored by git that commands of the step have written."""
        self.origin = ProposalOrigin(kind=OriginKind.MODEL if session else OriginKind.PATCH)
        """The author of the edits; a caller that knows more sets it before the draft is staged."""
        self.request = ""
        """The user's request, as far as it is known."""
        self.read_history: ModelReadsBeforeEdit | None = None
        """What the model had read before it wrote the edits; None if unknown."""
        self.recipe: CommandRecipe | None = None
        """The command, if the draft has only its changes."""
        self._workspace = workspace
        self._contents = contents
        self._make_overlay = overlay
        self._patch_overlay: Overlay | None = None
        self._reserve = reserve
        self._lock = RLock()
        self.proposal_id = proposal_id
        """The reserved id of the proposal; empty until it is needed."""
        self._files = DraftFiles()
        self._snapshot: dict[str, DraftFile] | None = None

    def ensure_proposal_id(self) -> str:
        """Return the id that the proposal will have; the first call reserves it."""
        with self._lock:
            self.proposal_id = self.proposal_id or self._reserve()
            return self.proposal_id

    @property
    def changed_paths(self) -> dict[str, DraftFile]:
        """Return the paths that the draft has changed."""
        return self._files.by_path

    @property
    def has_changes(self) -> bool:
        """Return whether anything is left to stage without edits that cancel out."""
        return any(file.has_changes for file in self.changed_paths.values())

    def read(self, path: str) -> OverlayFile:
        """Return the file with the pending edits and this draft's; its content is None if there is no such file.

        Raises:
            UnsafePath: no tool may read it.
            OSError: it cannot be read, or it is too large (EFBIG).
        """
        _, real = self._workspace.resolve_both_paths(path)
        with self._lock:
            overlay = self._overlay()
            data = self._files.content(overlay, real, self._workspace.read_limit)
            pending = overlay.pending_proposals_at(real)
            former_paths = overlay.paths_before_moves_by_others(real, self.session)
            if self.changed_paths.get(real):
                pending = (*pending, *([self.proposal_id] if self.proposal_id else []))
        if data is None:
            return OverlayFile(None, "", pending)
        if len(data) > (limit := self._workspace.read_limit):
            raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", real)
        known_version = None if real in self.changed_paths else overlay.version(real)
        version = (known_version or make_file_version(data, 0)).sha256
        self._contents.cache_content(version, data)
        return OverlayFile(data, version, pending, former_paths)

    def lines_changed_since(self, file: OverlayFile, versions: Sequence[str]) -> tuple[LineRange, ...] | None:
        """Return the lines of a file that none of these versions (SHA-256 hex) had.

        None if that is unknown: the file does not exist or is not text, or a version is not stored any more.
        """
        if file.content is None or (now := Document(file.content)).is_binary:
            return None
        known_contents = [self._contents.find_by_prefix(version) if version else b"" for version in versions]
        if any(data is None for data in known_contents):
            return None
        return find_lines_unlike_every_version(
            [diff_lines(Document(data or b"").lines, now.lines) for data in known_contents]
        )

    def read_bytes_and_mode(self, path: str, limit: int | None = None) -> tuple[bytes, int] | None:
        """Return the bytes and permission bits of a file as `read` shows it; None if there is none.

        Raises:
            UnsafePath: no tool may read it.
            OSError: it cannot be read; EFBIG, before it is read, if it has more than `limit` bytes.
        """
        _, real = self._workspace.resolve_both_paths(path)
        with self._lock:
            file = self.changed_paths.get(real)
            if file is not None:
                return None if file.data is None else (file.data, file.mode)
            overlay = self._overlay()
            data, version = overlay.content(real, limit), overlay.version(real)
            return None if data is None or version is None else (data, version.mode)

    def touched_paths(self) -> set[str]:
        """Return the files that pending edits or this draft have changed."""
        with self._lock:
            deleted = {path for path, file in self.changed_paths.items() if file.data is None}
            return (self._overlay().touched_paths() | self.changed_paths.keys()) - deleted

    def added_and_removed_paths(self) -> tuple[set[str], set[str]]:
        """Return the paths that pending edits and this draft add to the disk, and those that they remove."""
        with self._lock:
            changed = {path: file.data is not None for path, file in self.changed_paths.items()}
            return self._overlay().added_and_removed_paths(changed)

    def edit(self, path: str, replacements: Sequence[TextReplacement], version: str = "") -> EditReport:
        """Replace parts of a file.

        Args:
            version: What the model had read (SHA-256 hex, or its first digits). The places are searched in that
                content, if it is still known, and the edit is then merged into the present file.
        """
        with self._lock:
            overlay = self._overlay()
            real, notes = self._resolve(path)
            data = self._files.editable_content(overlay, real, MAX_BYTES)
            file = self.changed_paths.get(real)
            own_base = file.base if file else None
            after, matches, note = _apply_replacements_and_merge(
                self._contents, real, data, replacements, version, own_base
            )
            return self._set_file(overlay, real, after, matches, [*notes, *([note] if note else [])])

    def write(self, path: str, content: str) -> EditReport:
        """Create a file, or replace all of its text; unchanged lines keep their bytes."""
        with self._lock:
            overlay = self._overlay()
            real, notes = self._resolve(path)
            data = self._files.content(overlay, real)
            if data is None:
                self._files.check_path_free(overlay, real)
                return self._set_file(overlay, real, encode_surrogateescape(content), [], notes)
            self._files.check_no_link(overlay, real)
            after = encode_preserving_unchanged_lines(Document(data), content)
            if after == data:
                raise EditRefused(f"{real} already has exactly this content; nothing to write.")
            return self._set_file(overlay, real, after, [], notes)

    def delete(self, path: str, matches: Sequence[EditMatch] = ()) -> EditReport:
        """Delete a file; `matches` say how its part of a patch was read."""
        with self._lock:
            overlay = self._overlay()
            real = self._resolve_unlinked(path, "deleted")
            self._files.editable_content(overlay, real)
            return self._set_file(overlay, real, None, matches, [])

    def rename(self, path: str, new_path: str) -> EditReport:
        """Move a file to a path where there is no file."""
        with self._lock:
            overlay = self._overlay()
            real = self._resolve_unlinked(path, "renamed")
            data = self._files.editable_content(overlay, real)
            target = self._resolve_unlinked(new_path, "replaced")
            if target == real:
                raise EditRefused(f"{real} already has this name.")
            if self._files.content(overlay, target) is not None:
                raise EditRefused(f"{target} exists already.", "Delete it first, or choose another name.")
            self._files.check_path_free(overlay, target, leaving=real)
            self.recipe = None
            old = self._files.get_or_add(overlay, real)
            new = self._files.get_or_add(overlay, target)
            new.data, new.mode, new.source = data, old.mode, old.source or real
            new.matches, new.notes = old.matches, old.notes
            old.data, old.source, old.matches, old.notes = None, "", [], []
            stat = FileDiffStat(path=target, op=FileOperation.RENAME, added=0, removed=0)
            return EditReport((stat,), f"{real} → {target}", f"{real} → {target}")

    def parse_patch(self, text: str, folder: str = "", *, is_complete: bool = True) -> ParsedPatch:
        """Parse a patch (unified diff or `*** Begin Patch`), without placing its hunks.

        Args:
            folder: Path of the workspace in its repository: a patch of the whole repository has it in each path.
            is_complete: Whether the text is certainly complete; otherwise one that looks cut off is refused.
        """
        from app.proposals.patch.patching import parse_workspace_patch

        with self._lock:
            return ParsedPatch(tuple(parse_workspace_patch(self, text, folder, is_complete=is_complete)))

    def apply_patch(self, patch: ParsedPatch) -> EditReport:
        """Apply a patch to any number of files, all or nothing."""
        from app.proposals.patch.patching import apply_patch

        with self._lock:
            before = self._files.snapshot()
            self._patch_overlay = self._overlay()
            try:
                return apply_patch(self, patch.parts)
            except BaseException:
                self._files.restore(before)
                raise
            finally:
                self._patch_overlay = None

    def pending_files(self) -> dict[str, FileOrLink | None]:
        """Return all files that differ from the disk: by pending proposals or by this draft's own edits."""
        with self._lock:
            files = read_pending_files(self._contents, self._overlay().pending.all())
            return files | {path: file.content for path, file in self.changed_paths.items()}

    def add_changes(self, changes: Sequence[PathChange], recipe: CommandRecipe | None = None) -> EditReport:
        """Add changes that a command has made to the files as this draft showed them.

        Args:
            recipe: The command, if it can be run again.
        """
        with self._lock:
            self.recipe = None if self.changed_paths else recipe
            self._snapshot = self._files.snapshot()
            stats: dict[str, FileDiffStat] = {}
            versions: dict[str, tuple[FileVersion | None, FileVersion | None]] = {}
            for change in changes:
                before, after = change.before, change.after
                file = self.changed_paths.get(change.path)
                old = make_file_version(before.data, before.mode) if before else None
                new = make_file_version(after.data, after.mode) if after else None
                if file is None:
                    data = before.data if before else None
                    mode = old.mode if old else default_file_mode()
                    file = self._files.add(change.path, DraftFile(old, data, data, mode))
                versions[change.path] = old, new
                for version, leaf in ((old, before), (new, after)):
                    if version and leaf:
                        self._contents.cache_content(version.sha256, leaf.data)
                if after or stat.S_ISLNK(file.mode):
                    # A write through a symlink replaces it by a regular file.
                    file.mode = after.mode if after else default_file_mode()
                file.data = after.data if after else None
                stats[change.path] = make_file_diff_stat(self._contents, change.path, old, new)
            for path, source in _renamed_paths(changes).items():
                if self.changed_paths[path].base is None and self.changed_paths[source].data is None:
                    self.changed_paths[path].source = self.changed_paths[source].source or source
                    del stats[source]
                    old, new = versions[source][0], versions[path][1]
                    stats[path] = make_file_diff_stat(self._contents, path, old, new, FileOperation.RENAME)
            return EditReport(tuple(stats.values()), "", "")

    def undo_add_changes(self) -> None:
        """Undo the latest `add_changes`; there must be no edit after it."""
        with self._lock:
            if self._snapshot is not None:
                self._files.restore(self._snapshot)
                self._snapshot = self.recipe = None

    def prefetch(self, paths: Collection[str]) -> None:
        """Load the pending changes of these paths at once, rather than one by one."""
        self._overlay().pending.load(paths)

    def set_content(
        self, path: str, data: bytes, matches: Sequence[EditMatch], mode: int | None = None
    ) -> EditReport:
        """Set the content of a file, new or not, to the result of a patch."""
        with self._lock:
            overlay = self._overlay()
            real, notes = self._resolve(path)
            if self._files.content(overlay, real) is None:
                self._files.check_path_free(overlay, real)
            else:
                self._files.check_no_link(overlay, real)
            report = self._set_file(overlay, real, data, matches, notes)
            if mode is not None:
                self.changed_paths[real].mode = mode
            return report

    def _overlay(self) -> Overlay:
        """Return the present workspace; while a patch is applied, the workspace when that began."""
        return self._patch_overlay or self._make_overlay()

    def _set_file(
        self, overlay: Overlay, path: str, data: bytes | None, matches: Sequence[EditMatch], notes: Sequence[str]
    ) -> EditReport:
        self.recipe = None
        before = self._files.content(overlay, path)
        file = self._files.get_or_add(overlay, path)
        file.data = data
        file.matches += matches
        file.notes += [note for note in notes if note not in file.notes]
        base = file.base if before is file.base_data else _version(before, file.mode)
        result = _version(data, file.mode)
        for version, content in ((base, before), (result, data)):
            if version is not None and content is not None:
                self._contents.cache_content(version.sha256, content)
        stat = make_file_diff_stat(self._contents, path, base, result)
        summary = f"{path} +{stat.added} -{stat.removed}"
        return EditReport((stat,), _describe_edit(path, result, matches, notes), summary)

    def _resolve(self, path: str) -> tuple[str, list[str]]:
        """Return the real path of a file to change, and a note if a link leads there."""
        located, real = self._workspace.resolve_both_paths(path)
        if real == ".":
            raise EditRefused("The path is the workspace itself; name a file in it.")
        return real, ([f"{located} is a link to it"] if real != located else [])

    def _resolve_unlinked(self, path: str, verb: str) -> str:
        """Return the path of a file to move or delete; refuse a link rather than follow it."""
        located = self._workspace.normalize_path(path)
        if (self._workspace.root / located).is_symlink():
            raise EditRefused(f"{located} is a symbolic link; links can't be {verb}. Name the file it leads to.")
        return self._resolve(path)[0]


def _version(data: bytes | None, mode: int) -> FileVersion | None:
    return None if data is None else make_file_version(data, mode)


def _describe_edit(path: str, result: FileVersion | None, matches: Sequence[EditMatch], notes: Sequence[str]) -> str:
    if result is None:
        return f"{path}: deletion staged"
    lines = [f"{path} is version {result.sha256[:12]} with this edit"]
    for match in matches:
        how = f"found {describe_match_level(match.rung)}" if match.rung is not MatchLevel.EXACT else ""
        if words := "; ".join(filter(None, (how, match.note))):
            lines.append(f"line {match.line}: {words}")
    lines += notes
    return "\n".join(lines)
