"""One file's part of a patch, placed by the same ladder as a search/replace edit.

What a hunk keeps and removes must be found; its line numbers only choose among equal places. They are trusted for
more when the patch names git's id of the very content it is applied to: then nothing is left to find out.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from app.proposals.document import BOM, Document, encode
from app.proposals.folding import BLANKS, indentation, without_trailing_space
from app.proposals.ladder import Place, TextIndex, commonness, places, stands_at
from app.proposals.matching import check_not_applied, located, nearest_to_hint, tolerant_places
from app.proposals.models import Match, Op, Rung
from app.proposals.nearest import describe_nearest, describe_places
from app.proposals.patch_parts import FilePatch, PatchHunk, content
from app.proposals.refusals import (
    AlreadyApplied,
    AmbiguousMatch,
    EditRefused,
    MalformedPatch,
    NoMatch,
    OverlappingEdits,
)
from app.proposals.splices import Splice, SpliceList, splices
from app.proposals.transplant import ScriptLine, Step, transplanted

_SHORTEST_BLOB_ID = 7
_TOO_COMMON = 500
"""Lines that stand in more places are not looked for in all of them when the numbered line has them."""


def apply_file_patch(document: Document, patch: FilePatch) -> tuple[bytes, tuple[Match, ...]]:
    """What the file becomes.

    Args:
        document: The file as it is; empty for one that does not exist.
        patch: Its part of the patch.

    Returns:
        The new bytes (empty for a deletion) and one match for each hunk.

    Raises:
        EditRefused: In one of its kinds; the message names the hunk.
    """
    if patch.op is Op.CREATE:
        return _created(document, patch), ()
    if patch.op is Op.DELETE:
        _check_deletion(document, patch)
        return b"", ()
    if not patch.hunks:
        return document.data, ()
    document.check_editable()
    trusted = is_blob(document.data, patch.old_blob)
    if trusted or any(line.text.startswith(BOM) for hunk in patch.hunks for line in hunk.lines):
        document = Document(document.data, verbatim=not document.wide)
    placer = _Placer(document, trusted=trusted)
    matches = []
    for number, hunk in enumerate(patch.hunks, 1):
        try:
            matches.append(placer.place(hunk))
        except EditRefused as error:
            where = f"Hunk {number} of {len(patch.hunks)} for {patch.path} (line {hunk.source_line} of the patch): "
            raise type(error)(where + error.message) from error
    return placer.result(), tuple(matches)


def is_blob(data: bytes, blob_id: str) -> bool:
    """Whether git's id of the content begins with `blob_id`; shorter than 7 digits says nothing."""
    if len(blob_id) < _SHORTEST_BLOB_ID:
        return False
    header = b"blob %d\0" % len(data)
    digest = hashlib.sha256 if len(blob_id) > 40 else hashlib.sha1
    return digest(header + data, usedforsecurity=False).hexdigest().startswith(blob_id)


def _created(document: Document, patch: FilePatch) -> bytes:
    if document.data:
        raise AlreadyApplied(
            f"The patch creates {patch.path}, but the file exists. Make a patch against what is there."
        )
    lines = [line for hunk in patch.hunks for line in hunk.lines]
    if any(line.step is not Step.INSERT for line in lines):
        raise MalformedPatch(f"The patch creates {patch.path}, but has lines that are not inserted.")
    return encode(content(lines))


def _check_deletion(document: Document, patch: FilePatch) -> None:
    """Refuse a deletion that spells out another content than the file's."""
    if not patch.hunks:
        return
    expected = [without_trailing_space(line.text) for hunk in patch.hunks for line in hunk.old_side]
    there = [without_trailing_space(text) for text in Document(document.data, verbatim=True).texts]
    if expected != there:
        index = TextIndex(document)
        raise NoMatch(
            f"The patch deletes {patch.path} with another content than it has. "
            f"{describe_nearest(index, [line.text for line in patch.hunks[0].old_side])}"
        )


class _Placer:
    """Places the hunks of one file in order."""

    def __init__(self, document: Document, *, trusted: bool) -> None:
        self._index = TextIndex(document)
        self._trusted = trusted
        self._made = SpliceList()
        self._floor = 0
        """Line after what the hunk before changed."""
        self._drift = 0
        """How far that hunk stood from where its number said."""
        self._on_made = False
        """Whether the document is one that earlier hunks made."""

    def result(self) -> bytes:
        """The bytes with all hunks made."""
        return self._made.applied_to(self._index.document)

    def place(self, hunk: PatchHunk) -> Match:
        """Find the hunk's place and take up its changes."""
        try:
            return self._place(hunk)
        except (NoMatch, OverlappingEdits, AlreadyApplied) as error:
            block = [line.text for line in hunk.old_side]
            if not self._made or not block:
                raise
            later = TextIndex(Document(self.result(), self._index.document.verbatim))
            if not places(later, block, Rung.EXACT):
                raise error
            self._index, self._made = later, SpliceList()
            self._floor, self._drift = 0, 0
            self._trusted, self._on_made = False, True
            return self._place(hunk)

    def _place(self, hunk: PatchHunk) -> Match:
        block = [line.text for line in hunk.old_side]
        if not block:
            return self._insert(hunk)
        claimed = hunk.new_start if self._on_made else hunk.old_start
        expected = None if claimed is None else claimed - 1 + self._drift
        exact = self._exact(hunk, block, expected)
        if exact is not None:
            place, rung, note = exact
            script = _with_endings(self._index.document, hunk, place)
            self._take(splices(self._index.document, place.start, place.end, transplanted(script, place)))
            match = Match(rung=rung, line=place.start + 1, note=note)
        else:
            script = _without_endings(hunk.lines)
            check_not_applied(self._index, [line.text for line in hunk.new_side])
            tolerant = tolerant_places(self._index, script, block)
            resolution = located(self._index, script, self._narrowed(hunk, tolerant))
            self._take(resolution.splices)
            match = resolution.matches[0]
        if claimed is not None:
            self._drift = match.line - claimed
        return match

    def _take(self, changes: Sequence[Splice]) -> None:
        if not self._made.fits(changes):
            raise OverlappingEdits("It changes lines that an earlier hunk changes too.")
        self._made.add(changes)
        if changes:
            self._floor = changes[-1].end

    def _exact(self, hunk: PatchHunk, block: Sequence[str], expected: int | None) -> tuple[Place, Rung, str] | None:
        """The one exact place, how it was found and a note, or None if there is none."""
        if self._trusted and hunk.old_start is not None and stands_at(self._index, block, hunk.old_start - 1):
            return _place_at(hunk.old_start - 1, block), Rung.EXACT, ""
        if (
            expected is not None
            and commonness(self._index, block) > _TOO_COMMON
            and stands_at(self._index, block, expected)
        ):
            return _place_at(expected, block), Rung.LINE_HINT, "repeated lines, chosen by the patch's line number"
        found = places(self._index, block, Rung.EXACT)
        return self._choose(hunk, found, expected) if found else None

    def _choose(self, hunk: PatchHunk, found: list[Place], expected: int | None) -> tuple[Place, Rung, str]:
        """The one place among the exact ones."""
        narrowed = self._narrowed(hunk, found)
        if len(narrowed) == 1:
            return narrowed[0], Rung.EXACT, ""
        if expected is not None:
            starts = [place.start for place in narrowed]
            chosen = starts.index(expected) if expected in starts else nearest_to_hint(starts, expected + 1)
            if chosen is not None:
                return narrowed[chosen], Rung.LINE_HINT, f"{len(found)} places, chosen by the patch's line number"
        raise AmbiguousMatch(
            f"Its lines stand in {len(narrowed)} places. Give more context lines. Found at "
            f"{describe_places(self._index, [(place.start, place.end) for place in narrowed])}"
        )

    def _narrowed(self, hunk: PatchHunk, found: list[Place]) -> list[Place]:
        """The places that what else the hunk says allows: the order, the end of the file, the line above."""
        if len(found) > 1:
            found = [place for place in found if place.start >= self._floor] or found
        if len(found) > 1 and hunk.at_end:
            found = [place for place in found if self._reaches_end(place)] or found
        if len(found) > 1 and hunk.seek:
            above = self._sought(hunk)
            if above is not None:
                end = self._block_end(above)
                found = [place for place in found if above <= place.start < end] or found
        return found

    def _reaches_end(self, place: Place) -> bool:
        return not any(text.strip(BLANKS) for text in self._index.texts[place.end :])

    def _sought(self, hunk: PatchHunk) -> int | None:
        """The line that the hunk names as standing above it, if it names exactly one."""
        start = 0
        line = None
        for text in hunk.seek:
            wanted = text.strip(BLANKS)
            found = [
                at for at in range(start, len(self._index.texts)) if self._index.texts[at].strip(BLANKS) == wanted
            ]
            if len(found) != 1:
                return None
            line = found[0]
            start = line + 1
        return line

    def _block_end(self, above: int) -> int:
        """Where the indented block under a line ends."""
        depth = len(indentation(self._index.texts[above]).expandtabs(8))
        for at in range(above + 1, len(self._index.texts)):
            text = self._index.texts[at]
            stripped = text.strip(BLANKS)
            if stripped and stripped[0] not in ")]}" and len(indentation(text).expandtabs(8)) <= depth:
                return at
        return len(self._index.texts)

    def _insert(self, hunk: PatchHunk) -> Match:
        """Place a hunk that only inserts and shows nothing of the file."""
        document = self._index.document
        rung, note = Rung.EXACT, ""
        above = self._sought(hunk) if hunk.seek else None
        if not document.bodies:
            at = 0
        elif self._trusted and hunk.old_start is not None and hunk.old_start <= len(document.bodies):
            at = hunk.old_start
        elif hunk.at_end:
            at = len(document.bodies)
        elif above is not None:
            at = above + 1
            rung, note = Rung.LINE_HINT, "after the line that the hunk names"
        else:
            raise NoMatch(
                "It only inserts lines and does not show where. Give at least two unchanged lines next to them, "
                "each with a space before it."
            )
        start = Place(rung, at, at, ())
        script = hunk.lines if not document.bodies or self._trusted else _without_endings(hunk.lines)
        self._take(splices(document, at, at, transplanted(script, start)))
        return Match(rung=rung, line=at + 1, note=note)


def _place_at(start: int, block: Sequence[str]) -> Place:
    end = start + len(block)
    return Place(Rung.EXACT, start, end, tuple(range(start, end)))


def _without_endings(lines: Sequence[ScriptLine]) -> tuple[ScriptLine, ...]:
    """The lines with the endings left to the file."""
    return tuple(replace(line, ending=None) for line in lines)


def _with_endings(document: Document, hunk: PatchHunk, place: Place) -> tuple[ScriptLine, ...]:
    """The lines with their own endings if the hunk spells the file's as they are, else left to the file."""
    there = document.endings[place.start : place.end]
    if tuple(line.ending for line in hunk.old_side) != there:
        return _without_endings(hunk.lines)
    at_end = place.end == len(document.bodies)
    last = len(hunk.lines) - 1
    if any(line.ending == "" and not at_end for line in hunk.lines if line.step is Step.INSERT) or any(
        line.ending == "" and any(after.step is Step.INSERT for after in hunk.lines[at + 1 :])
        for at, line in enumerate(hunk.lines[:last])
        if line.step is Step.INSERT
    ):
        return _without_endings(hunk.lines)
    return hunk.lines
