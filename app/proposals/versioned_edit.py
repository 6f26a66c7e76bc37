"""Edits in the content that the model had read, which need not be what the file is now."""

from collections.abc import Sequence

from app.proposals.disk.filesystem import version_of
from app.proposals.locate.matching import Replacement, apply_replacements
from app.proposals.models import FileVersion, Match
from app.proposals.overlay import Contents
from app.proposals.rebase import merged_bytes
from app.proposals.refusals import EditRefused
from app.proposals.text.document import Document

Edited = tuple[bytes, Sequence[Match], str]
"""The edited bytes, how the places were found, and what to note about it."""


def edited(
    contents: Contents,
    path: str,
    data: bytes,
    wanted: Sequence[Replacement],
    version: str,
    own_base: FileVersion | None,
) -> Edited:
    """Make replacements in the version that was read, and merge them into what the file is now.

    Args:
        contents: Knows what was read, by version.
        path: The file, as refusals name it.
        data: What it holds now.
        wanted: The replacements.
        version: What was read (SHA-256 hex, or its first digits); empty for what there is now.
        own_base: What the file held before this step's own edits in it, if there are any.

    Raises:
        EditRefused: a place was not found, or the file has changed there since it was read.
    """
    current = version_of(data, 0).sha256
    version = version.strip().lower()

    def in_present(note: str = "") -> Edited:
        return (*apply_replacements(Document(data), wanted), note)

    if not version or current.startswith(version):
        return in_present()
    read = contents.find(version)
    if read is None:
        return in_present(
            f"version {version[:12]} is not known; the edit was made in {current[:12]}, which is there now"
        )
    try:
        after, matches = apply_replacements(Document(read), wanted)
    except EditRefused:
        # The text may come from a later content than the version says, an edit of this very step for instance.
        return in_present()
    merged, how = merged_bytes(read, data, after)
    if not how.conflicts:
        if merged == data:
            raise EditRefused(f"{path} already has this change.", "Read it again before editing it.")
        return merged, matches, f"{path} changed since it was read; the edit was merged into it"
    if own_base and own_base.sha256.startswith(version):
        # Only this step's own edits stand between: the model wrote this one knowing them.
        return in_present()
    raise EditRefused(
        f"{path} changed since version {version[:12]} was read, at line {how.conflicts[0].ours_start + 1}, where "
        "this edit changes it too.",
        f"Read it again (now version {current[:12]}) and make the edit anew.",
    )
