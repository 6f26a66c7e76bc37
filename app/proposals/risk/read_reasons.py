"""Reasons for attention from what the model had read of the files that it edits."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, field

from app.proposals.risk.edited_file import EditedFile, defined_names, is_documentation_file
from app.proposals.text.hunks import has_changed_lines
from app.proposals.values.attention_reason import AttentionReason, HunkLineReference, ReasonKind
from app.proposals.values.models import FileOperation
from app.text.line_hash import hash_stripped_line

_NEARBY_LINES = 3
"""Lines above and below a hunk that are near it."""
_MIN_LONG_CHARACTERS = 8
"""Minimum letters and digits of a line that is hardly in a file by chance."""
_NOT_LETTERS = re.compile(r"[\W_]+")


class FileReadHistory(Struct, frozen=True):
    """What the model had seen of a file before it wrote an edit."""

    versions: frozenset[str] = frozenset()
    """The versions that it read, and those that its earlier edits made (SHA-256 hex)."""
    pages: tuple[tuple[str, str], ...] = ()
    """Each version that it read, with a text about the lines: `lines 1-40 of 90`. With an empty version, the text
    says how else the file is known."""
    texts: frozenset[str] = frozenset()
    """The lines that it was shown, stripped."""
    written: frozenset[str] = frozenset()
    """The lines of its earlier edits, of which some are only a part of a line of the file."""
    is_known: bool = False
    """Whether it read the file, searched it, wrote it, or ran a command that names it."""
    line_hashes: frozenset[int] = frozenset()
    """Hashes of further lines that it was shown, if only these are stored."""

    def has_shown(self, text: str) -> bool:
        """Return whether the model was shown a line."""
        return text in self.texts or (bool(self.line_hashes) and hash_stripped_line(text) in self.line_hashes)


_NOTHING_READ = FileReadHistory()


class ModelReadsBeforeEdit(Struct, frozen=True):
    """What the model had seen of the workspace before it wrote an edit."""

    request: str = ""
    """The user's last message before it."""
    files: Mapping[str, FileReadHistory] = field(default_factory=dict)
    """The edited files, by path."""
    read_paths: frozenset[str] = frozenset()
    """All files that it read."""
    searches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By each name that it searched for, the files in which the name was found."""
    user_lines: frozenset[str] = frozenset()
    """The lines of the user's messages, stripped."""
    edited: frozenset[str] = frozenset()
    """The files that its edits name; a command may have changed others."""
    unknown: str = ""
    """Why it may have read more than is recorded; empty if it has not. If it may, there are no reasons."""

    def files_with_unread_uses(self, name: str, edited: Collection[str]) -> list[str]:
        """Return the files in which it found a name and which it neither read nor edits."""
        paths = self.searches.get(name, ())
        return [
            path
            for path in paths
            if path not in self.read_paths and path not in edited and not is_documentation_file(path)
        ]


def find_reasons_from_read_history(
    file: EditedFile, history: ModelReadsBeforeEdit, edited: Collection[str]
) -> Iterator[AttentionReason]:
    """Yield reasons for attention from what the model had, or had not, read before it edited a file.

    Args:
        edited: The paths of all files of the proposal.
    """
    change = file.change
    path = change.old_path or file.path
    if history.unknown:
        return
    if (
        change.op is FileOperation.DELETE
        or change.base is None
        or path not in history.edited
        or is_documentation_file(path)
    ):
        return
    seen = history.files.get(path, _NOTHING_READ)
    if not seen.is_known:
        removed_texts = {text for line in file.removed if (text := line.text.strip())}
        if (file.removed or file.added) and not (removed_texts and removed_texts <= history.user_lines):
            yield AttentionReason(kind=ReasonKind.UNREAD, path=file.path)
    elif change.base.sha256 not in seen.versions and (places := list(_find_changes_since_read(file, seen))):
        yield AttentionReason(kind=ReasonKind.READ_BEFORE, path=file.path, count=len(places), places=tuple(places))
    added_texts = {line.text.strip() for line in file.added}
    for line in file.removed if history.searches else ():
        for name in defined_names(line.text) if line.text.strip() not in added_texts else ():
            if unread := history.files_with_unread_uses(name, edited):
                names = (name, *unread)
                yield AttentionReason(
                    kind=ReasonKind.UNREAD_USES, path=file.path, names=names, count=len(unread), places=(line.place,)
                )


def _find_changes_since_read(file: EditedFile, seen: FileReadHistory) -> Iterator[HunkLineReference]:
    """Yield the hunks near lines that came into the file after the model had read it.

    A part that the model never read has no line that it saw, and yields nothing.
    """
    if not any(version for version, _ in seen.pages):
        return
    for hunk in filter(has_changed_lines, file.change.hunks):
        start, end = max(0, hunk.old_start - _NEARBY_LINES), hunk.old_start + hunk.old_count + _NEARBY_LINES
        nearby = [text for line in file.old[start:end] if (text := line.strip())]
        unseen = [
            text
            for text in nearby
            if not seen.has_shown(text) and not any(part in text for part in seen.written if _is_long(part))
        ]
        if any(map(_is_long, unseen)) and any(_is_long(text) for text in nearby if seen.has_shown(text)):
            side = "old" if hunk.old_count else "new"
            yield HunkLineReference(hunk=hunk.id, side=side, offset=0)


def _is_long(text: str) -> bool:
    return len(_NOT_LETTERS.sub("", text)) >= _MIN_LONG_CHARACTERS


def format_read_history(history: ModelReadsBeforeEdit, paths: Sequence[str]) -> list[str]:
    """Return what the model had read before its edit, as lines of text, file by file."""
    lines = [f"You asked: {' '.join(history.request.split())}"] if history.request else []
    lines += [f"What else it read is unknown: {history.unknown}"] if history.unknown else []
    for path in paths:
        seen = history.files.get(path, _NOTHING_READ)
        pages = [
            f"{words} at version {version[:12]}" if version else words for version, words in dict.fromkeys(seen.pages)
        ]
        unread_text = "not read, but searched, written or named in a command" if seen.is_known else "not read"
        lines.append(f"{path}: {', '.join(pages) or ('unknown' if history.unknown else unread_text)}")
    others = sorted(history.read_paths.difference(paths))
    lines += [f"Also read: {', '.join(others)}"] if others else []
    for name, found_paths in history.searches.items():
        unread = (
            []
            if history.unknown
            else [f"not read: {', '.join(history.files_with_unread_uses(name, paths)) or 'none'}"]
        )
        lines.append("; ".join([f"Searched for {name}: {len(found_paths)} found", *unread]))
    return lines
