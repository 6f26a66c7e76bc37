"""Place one file's part of a patch on the same matching ladder as a search/replace edit.

The lines that a hunk keeps and removes must be found; its line numbers only choose among equal places. The numbers
are fully trusted if the patch names git's id of the present content.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct

from app.copies import replace
from app.proposals.locate.alignment import describe_nearest_text, describe_places
from app.proposals.locate.edit_script import EditScriptLine, LineOperation, list_kept_and_inserted_lines
from app.proposals.locate.line_index import (
    BLANKS,
    BlockPlace,
    LineIndex,
    count_rarest_line_occurrences,
    find_block_places,
    is_exact_match_at,
    normalize_spaces_and_lookalikes,
    strip_trailing_space,
)
from app.proposals.locate.matching import (
    check_not_already_applied,
    index_clearly_nearest_to_hint,
    locate_edit_at_single_place,
    require_tolerant_places,
    whitespace_doubt_about_match,
)
from app.proposals.patch.parsed_patch import FilePatch, PatchHunk, matches_long_blob_id_prefix
from app.proposals.text.document import BOM, Document, encode_surrogateescape
from app.proposals.text.line_edits import LineEdit, LineEdits, make_edits_between_kept_lines
from app.proposals.values.models import EditMatch, FileOperation, MatchLevel
from app.proposals.values.proposal_errors import (
    AlreadyApplied,
    AmbiguousMatch,
    EditRefused,
    MalformedPatch,
    NoMatch,
    OverlappingEdits,
)


class LastHunkPlacement(Struct):
    """Position and drift of the last placed hunk of a file, for the choice of the next place."""

    floor: int = 0
    """Line, from 0, after the changes of the previous hunk."""
    drift: int = 0
    """Distance of the previous hunk from its stated line."""
    stated: int = 0
    """The stated line of the previous hunk."""

    def filter_in_order(self, places: Sequence[BlockPlace], stated: int | None) -> list[BlockPlace]:
        """Return the places after the previous hunk; all if there are none, or if the stated lines are in another
        order.
        """
        if stated is not None and stated < self.stated:
            return list(places)
        return [place for place in places if place.start >= self.floor] or list(places)


class ChosenHunkPlace(Struct, frozen=True):
    """The place chosen for a hunk, and a note on how it was found."""

    place: BlockPlace
    level: MatchLevel = MatchLevel.EXACT
    note: str = ""


def describe_doubt_of_place_chosen_by_order(places: Sequence[BlockPlace]) -> str:
    """Return the doubt about a place that was chosen by the order of the hunks."""
    return f"{len(places)} places, the only one after the hunk before"


def consistent_hunk_header_lines(hunks: Sequence[PatchHunk]) -> frozenset[int]:
    """Return the `source_line` of each hunk whose line numbers agree with those of the hunks above it."""
    numbered = sorted((hunk for hunk in hunks if hunk.old_start is not None), key=lambda hunk: hunk.old_start or 0)
    consistent: set[int] = set()
    added_so_far = 0
    previous_end = 0
    for hunk in numbered:
        old, new = len(hunk.old_side), len(hunk.new_side)
        old_first = (hunk.old_start or 0) + (not old)
        new_first = (hunk.new_start or 0) + (not new)
        if old_first > previous_end and new_first == old_first + added_so_far:
            consistent.add(hunk.source_line)
        previous_end = old_first + max(old, 1) - 1
        added_so_far += new - old
    return frozenset(consistent)


def choose_exact_place(
    index: LineIndex,
    places: Sequence[BlockPlace],
    stated_line: int | None,
    progress: LastHunkPlacement,
    earlier_edits: LineEdits,
) -> ChosenHunkPlace:
    """Choose one of the exact places of a hunk; a stated line that fits wins over the order of the hunks.

    A choice by order alone is in doubt, because the hunks may be written in another order.

    Args:
        stated_line: The line in this file that the hunk states, if any.

    Raises:
        AmbiguousMatch: several places are left.
    """
    if len(places) == 1:
        return ChosenHunkPlace(places[0])
    ambiguity_note = f"{len(places)} places"
    order_doubt = describe_doubt_of_place_chosen_by_order(places)
    places = [place for place in places if not earlier_edits.has_changes_within(place.start, place.end)] or places
    ordered = progress.filter_in_order(places, stated_line)
    if stated_line is not None:
        for start in (stated_line - 1 + progress.drift, stated_line - 1):
            for place in places:
                if place.start == start:
                    return (
                        ChosenHunkPlace(place)
                        if ordered == [place]
                        else ChosenHunkPlace(place, MatchLevel.LINE_HINT, ambiguity_note)
                    )
    if len(ordered) == 1:
        return ChosenHunkPlace(ordered[0], MatchLevel.DOUBTFUL, order_doubt)
    if stated_line is not None:
        nearest = index_clearly_nearest_to_hint([place.start for place in ordered], stated_line + progress.drift)
        if nearest is not None:
            return ChosenHunkPlace(ordered[nearest], MatchLevel.LINE_HINT, ambiguity_note)
    raise AmbiguousMatch(
        f"Its lines occur in {len(ordered)} places.",
        "Give more context lines. Found at "
        f"{describe_places(index, [(place.start, place.end) for place in ordered])}",
    )


def filter_places_by_section_heading(
    index: LineIndex, hunk: PatchHunk, places: Sequence[BlockPlace]
) -> tuple[list[BlockPlace], str]:
    """Return the places below the lines that the hunk's `@@` names, and a doubt if they fit badly.

    For a hunk at the end of the file, places there come first.

    Raises:
        NoMatch: the hunk names a line that is not above any of them.
    """
    places = list(places)
    if len(places) > 1 and hunk.at_end:
        at_end = [place for place in places if not any(text.strip(BLANKS) for text in index.texts[place.end :])]
        places = at_end or places
    if not hunk.section_headings:
        return places, ""
    above = find_section_heading_lines(index, hunk.section_headings)
    if not above:
        if hunk.has_no_line_numbers:
            raise NoMatch(_describe_missing_heading(index, hunk))
        return places, f"no line of the file reads {hunk.section_headings[-1].strip()[:80]!r}, which the hunk names"
    blocks, named = _IndentedBlocks(index, above), set(above)
    inside = [place for place in places if place.start in named or blocks.contains(place.start)]
    if inside:
        return inside, ""
    below = [place for place in places if place.start > above[0]]
    if below:
        return below, f"below the line that the hunk names, line {above[0] + 1}, but not in its block"
    if not hunk.has_no_line_numbers:
        around = [place for place in places if any(place.start <= at < place.end for at in above)]
        if around:
            return around, f"the line that the hunk names is in the hunk itself, at line {above[0] + 1}"
    numbers = ", ".join(str(at + 1) for at in above[:5])
    raise NoMatch(
        f"Its lines are at line {places[0].start + 1}, but not below the line that its `@@` names "
        f"({hunk.section_headings[-1].strip()[:80]!r}, line {numbers}).",
        "Give the lines as they are below it, or name another.",
    )


def find_section_heading_lines(index: LineIndex, section_headings: Sequence[str]) -> list[int]:
    """Return the lines, from 0, that may be the innermost of the section headings that a hunk's `@@` names."""
    above: list[int] = []
    for depth, text in enumerate(section_headings):
        matching_lines = index.positions_by_line(MatchLevel.SPACING).get(normalize_spaces_and_lookalikes(text), [])
        if not depth:
            above = matching_lines
            continue
        blocks = _IndentedBlocks(index, above)
        below = [at for at in matching_lines if above and at > above[0]]
        above = [at for at in below if blocks.contains(at)] or below
    return above


def require_one_section_heading_line(index: LineIndex, hunk: PatchHunk) -> int:
    """Return the one line, from 0, that the hunk's `@@` names; raise NoMatch if there is none, or several."""
    above = find_section_heading_lines(index, hunk.section_headings)
    if not above:
        raise NoMatch(_describe_missing_heading(index, hunk))
    if len(above) > 1:
        raise NoMatch(
            f"It only inserts lines and does not show where: the line that its `@@` names occurs in {len(above)} "
            "places. Name the line above that one too, in a `@@` line of its own. Found at "
            f"{describe_places(index, [(at, at + 1) for at in above])}"
        )
    return above[0]


def _describe_missing_heading(index: LineIndex, hunk: PatchHunk) -> str:
    headings = hunk.section_headings
    at = next(at for at in range(len(headings)) if not find_section_heading_lines(index, headings[: at + 1]))
    return (
        f"The line that its `@@` names is not in the file{' below the one before' if at else ''}: "
        f"{headings[at].strip()[:120]!r}. Name a line as it is, or none."
    )


class _IndentedBlocks:
    """The blocks of deeper indented lines under some lines of a file.

    Args:
        above: The lines above the blocks, in order.
    """

    def __init__(self, index: LineIndex, above: Sequence[int]) -> None:
        self._heading_lines = above
        self._max_block_ends = list(accumulate((index.block_ends[at] for at in above), max))

    def contains(self, line: int) -> bool:
        """Return whether the line is in one of the blocks."""
        before = bisect_left(self._heading_lines, line)
        return before > 0 and line < self._max_block_ends[before - 1]


_MAX_SEARCHED_CANDIDATES = 500
"""If a block has more candidate places than this and matches at its stated line, the others are not searched."""


def apply_file_patch(document: Document, patch: FilePatch) -> tuple[bytes, tuple[EditMatch, ...]]:
    """Return the new content of a file after its part of a patch, and how each hunk was placed.

    Args:
        document: The present file; empty if it does not exist.

    Returns:
        The new bytes (empty for a deletion) and one match for each hunk.

    Raises:
        EditRefused: One of its subclasses; the message names the hunk.
    """
    if patch.op is FileOperation.CREATE:
        data = _created_content(document, patch)
        return data, _check_result(document, patch, data, _doubtful_matches(patch))
    if patch.op is FileOperation.DELETE:
        _check_deletion(document, patch)
        return b"", _doubtful_matches(patch)
    if not patch.hunks:
        return document.data, ()
    document.check_editable(patch.path)
    trusted = matches_long_blob_id_prefix(document.data, patch.old_blob)
    if trusted or any(line.text.startswith(BOM) for hunk in patch.hunks for line in hunk.lines):
        document = Document(document.data, verbatim=not document.is_utf16)
    placer = _HunkPlacer(document, consistent_hunk_header_lines(patch.hunks) if trusted else frozenset())
    matches = []
    for number, hunk in enumerate(patch.hunks, 1):
        try:
            matches.append(placer.place(hunk))
        except EditRefused as error:
            raise type(error)(f"{_describe_hunk(patch, number)}: {error.fact}", error.advice) from error
    data = placer.result()
    if placer.is_cut_off and not matches_long_blob_id_prefix(data, patch.new_blob):
        raise _cut_off_error(f"{_describe_hunk(patch, len(patch.hunks))}: ")
    return data, _check_result(document, patch, data, matches)


def _describe_hunk(patch: FilePatch, number: int) -> str:
    """Return the description of one of the hunks, numbered from 1."""
    hunk = patch.hunks[number - 1]
    return f"Hunk {number} of {len(patch.hunks)} for {patch.path} (line {hunk.source_line} of the patch)"


def _cut_off_error(where: str = "") -> MalformedPatch:
    return MalformedPatch(
        f"{where}The text ends before this hunk does, by the counts in its header.",
        "Give the whole patch, or the right counts.",
    )


def _doubtful_matches(patch: FilePatch) -> tuple[EditMatch, ...]:
    """Return the doubts about the hunks of a file that is created or deleted as a whole."""
    return tuple(EditMatch(rung=MatchLevel.DOUBTFUL, line=1, note=hunk.doubt) for hunk in patch.hunks if hunk.doubt)


def _check_result(
    document: Document, patch: FilePatch, data: bytes, matches: Sequence[EditMatch]
) -> tuple[EditMatch, ...]:
    """Return the matches; the last one is in doubt if the patch text may be cut off in its last hunk or after it.

    Git's ids of both contents decide that if they are known.

    Raises:
        MalformedPatch: the ids show that the last line is cut off.
    """
    if not patch.hunks or matches_long_blob_id_prefix(data, patch.new_blob):
        return tuple(matches)
    if patch.hunks[-1].may_end_mid_line:
        if matches_long_blob_id_prefix(document.data, patch.old_blob) or (
            patch.op is FileOperation.CREATE and patch.new_blob
        ):
            raise MalformedPatch(f"The patch is cut off in its last line: {patch.path} is not what it says it makes.")
        doubt = "the patch has no newline at its end, so this line may be cut off"
    elif matches_long_blob_id_prefix(document.data, patch.old_blob) and patch.new_blob.strip("0"):
        doubt = "the file is not what the patch's `index` line says it becomes: the patch may be cut off or edited"
    else:
        return tuple(matches)
    last = matches[-1] if matches else EditMatch(rung=MatchLevel.EXACT, line=1)
    return (*matches[:-1], add_match_doubt(last, doubt))


def _created_content(document: Document, patch: FilePatch) -> bytes:
    if document.data:
        raise AlreadyApplied(
            f"The patch creates {patch.path}, but the file exists.", "Make a patch against what is there."
        )
    lines = [line for hunk in patch.hunks for line in hunk.lines]
    if any(line.operation is not LineOperation.INSERT for line in lines):
        raise MalformedPatch(f"The patch creates {patch.path}, but has lines that are not inserted.")
    line_count = 0
    for hunk in patch.hunks:
        if line_count and hunk.old_start is not None and (hunk.old_start, hunk.new_start) != (0, line_count + 1):
            raise MalformedPatch(f"The patch creates {patch.path}, but not all of its hunks are of a new file.")
        line_count += len(hunk.lines)
    texts = (
        line.text + ("\n" if line.ending is None else line.ending)
        for line in _drop_inner_endings(tuple(lines), at_end=True)
    )
    return encode_surrogateescape("".join(texts))


def _check_deletion(document: Document, patch: FilePatch) -> None:
    """Refuse a deletion whose lines differ from those of the file."""
    if not patch.hunks:
        if (
            patch.shows_deleted_lines
            and document.data
            and not matches_long_blob_id_prefix(document.data, patch.old_blob)
        ):
            raise MalformedPatch(f"The patch deletes {patch.path} without its lines. Is the patch cut off?")
        return
    expected = [strip_trailing_space(line.text) for hunk in patch.hunks for line in hunk.old_side]
    actual = [strip_trailing_space(text) for text in Document(document.data, verbatim=True).line_texts]
    if expected != actual:
        index = LineIndex(document)
        raise NoMatch(
            f"The patch deletes {patch.path} with another content than it has.",
            f"{describe_nearest_text(index, [line.text for line in patch.hunks[0].old_side])}",
        )


class _HunkPlacer:
    """Places the hunks of one file in order.

    Args:
        trusted: The hunks, by `source_line`, whose line numbers are certainly right.
    """

    def __init__(self, document: Document, trusted: frozenset[int]) -> None:
        self._index = LineIndex(document)
        self._trusted_hunks = trusted
        self._edits = LineEdits()
        self._progress = LastHunkPlacement()
        self._placed_hunks: set[tuple[int, tuple[EditScriptLine, ...]]] = set()
        """The hunks whose text was found exactly, each with its line in the file."""
        self._is_document_edited = False
        """Whether the document already has the changes of earlier hunks."""
        self.is_cut_off = False
        """Whether the last hunk, which has fewer lines than its header states, may be cut off."""

    def result(self) -> bytes:
        """Return the bytes with all hunks applied."""
        return self._edits.apply_to(self._index.document)

    def place(self, hunk: PatchHunk) -> EditMatch:
        """Find the hunk's place and add its changes."""
        try:
            match = self._find_place(hunk)
        except (NoMatch, OverlappingEdits, AlreadyApplied) as error:
            block = [line.text for line in hunk.old_side]
            if not self._edits or not (block or _belongs_at_end(hunk)):
                raise
            later = LineIndex(Document(self.result(), self._index.document.verbatim))
            if block and not find_block_places(later, block, MatchLevel.EXACT):
                raise error
            self._index, self._edits, self._progress = later, LineEdits(), LastHunkPlacement()
            self._trusted_hunks, self._is_document_edited = frozenset(), True
            match = self._find_place(hunk)
        if not hunk.doubt:
            return match
        return add_match_doubt(match, hunk.doubt)

    def _find_place(self, hunk: PatchHunk) -> EditMatch:
        block = [line.text for line in hunk.old_side]
        self.is_cut_off = hunk.stated_end is not None
        if not block:
            return self._place_insertion(hunk)
        stated = hunk.new_start if self._is_document_edited else hunk.old_start
        choice, doubt = self._choose_exact(hunk, block, stated)
        if choice is not None:
            place = choice.place
            self._check_not_cut_off(hunk, place)
            self.is_cut_off = self.is_cut_off and not self._reaches_stated_end(hunk, place, block)
            script = _with_endings(self._index.document, hunk, place)
            if (place.start, hunk.lines) in self._placed_hunks:
                raise MalformedPatch("It is the same as a hunk before it, at the same place.")
            self._placed_hunks.add((place.start, hunk.lines))
            self._add_edits(
                make_edits_between_kept_lines(
                    self._index.document, place.start, place.end, list_kept_and_inserted_lines(script, place)
                )
            )
            match = EditMatch(rung=choice.level, line=place.start + 1, note=choice.note)
        else:
            script = _without_endings(hunk.lines)
            check_not_already_applied(self._index, [line.text for line in hunk.new_side])
            tolerant_places, doubt = filter_places_by_section_heading(
                self._index, hunk, require_tolerant_places(self._index, script, block)
            )
            if not any(stated is not None and place.start == stated - 1 for place in tolerant_places):
                ordered = self._progress.filter_in_order(tolerant_places, stated)
                if len(ordered) < len(tolerant_places):
                    doubt = "; ".join(filter(None, (doubt, describe_doubt_of_place_chosen_by_order(tolerant_places))))
                tolerant_places = ordered
            resolution = locate_edit_at_single_place(self._index, script, tolerant_places, stated)
            self._check_not_cut_off(hunk, tolerant_places[0])
            self._add_edits(resolution.line_edits)
            match = resolution.matches[0]
        if stated is not None:
            self._progress.drift, self._progress.stated = match.line - stated, stated
        return add_match_doubt(match, doubt) if doubt else match

    def _check_not_cut_off(self, hunk: PatchHunk, place: BlockPlace) -> None:
        """Refuse a hunk with too few inserted lines at the end of the file; within a file, kept lines would follow
        them.
        """
        if hunk.lacks_inserted_lines and place.end == len(self._index.texts):
            raise _cut_off_error()

    def _reaches_stated_end(self, hunk: PatchHunk, place: BlockPlace, block: Sequence[str]) -> bool:
        """Return whether a hunk that lacks old lines certainly lost the first ones: `git apply --recount` accepts it.

        A hunk that was cut off begins at its stated line; one that lost its first lines ends at its stated end. Git
        places such a hunk if it has less context above than below, or ends with the file, and does not begin at its
        first line.
        """
        if (
            self._is_document_edited
            or hunk.old_start == 1
            or place.end != (hunk.stated_end or 0) + self._progress.drift
        ):
            return False
        changed = [at for at, line in enumerate(hunk.lines) if line.operation is not LineOperation.KEEP]
        kept_above, kept_below = changed[0], len(hunk.lines) - 1 - changed[-1]
        if kept_above >= kept_below and place.end < len(self._index.texts):
            return False
        return len(find_block_places(self._index, block, MatchLevel.EXACT)) == 1

    def _add_edits(self, changes: Sequence[LineEdit]) -> None:
        if self._edits.has_overlap_with(changes):
            raise OverlappingEdits("It changes lines that an earlier hunk changes too.")
        self._edits.add(changes)
        if changes:
            self._progress.floor = changes[-1].end

    def _choose_exact(
        self, hunk: PatchHunk, block: Sequence[str], stated: int | None
    ) -> tuple[ChosenHunkPlace | None, str]:
        """Return the one exact place, or None if there is none, and a doubt about it."""
        if (
            stated is not None
            and hunk.source_line in self._trusted_hunks
            and is_exact_match_at(self._index, block, stated - 1)
        ):
            return ChosenHunkPlace(_exact_place_at(stated - 1, block)), ""
        if (
            stated is not None
            and not hunk.section_headings
            and count_rarest_line_occurrences(self._index, block) > _MAX_SEARCHED_CANDIDATES
        ):
            for start in (stated - 1 + self._progress.drift, stated - 1):
                if is_exact_match_at(self._index, block, start):
                    return ChosenHunkPlace(_exact_place_at(start, block), MatchLevel.LINE_HINT), ""
        exact_places = find_block_places(self._index, block, MatchLevel.EXACT)
        if not exact_places:
            return None, ""
        fitting_places, doubt = filter_places_by_section_heading(self._index, hunk, exact_places)
        choice = choose_exact_place(self._index, fitting_places, stated, self._progress, self._edits)
        if len(exact_places) == 1 and not (hunk.section_headings or hunk.at_end):
            hint = None if stated is None else stated + self._progress.drift
            doubt = whitespace_doubt_about_match(self._index, choice.place.start, choice.place.end, hint)
        return choice, doubt

    def _place_insertion(self, hunk: PatchHunk) -> EditMatch:
        """Place a hunk that only inserts lines and shows no line of the file."""
        document = self._index.document
        line_count = len(document.lines_without_mark)
        level, note = MatchLevel.EXACT, ""
        if not line_count:
            insert_line = 0
        elif hunk.source_line in self._trusted_hunks and hunk.old_start is not None and hunk.old_start <= line_count:
            insert_line = hunk.old_start
        elif hunk.at_end:
            insert_line = line_count
        elif hunk.section_headings:
            insert_line = require_one_section_heading_line(self._index, hunk) + 1
            level, note = MatchLevel.DOUBTFUL, "after the line that the hunk names"
        elif _belongs_at_end(hunk):
            insert_line = line_count
            level, note = MatchLevel.DOUBTFUL, "at the end of the file, as the hunk shows no place"
        else:
            raise NoMatch(
                "It only inserts lines and does not show where.",
                "Give at least two unchanged lines next to them, each with a space before it.",
            )
        start = BlockPlace(level, insert_line, insert_line, ())
        has_own_endings = not line_count or hunk.source_line in self._trusted_hunks
        script = (
            _drop_inner_endings(hunk.lines, at_end=insert_line == line_count)
            if has_own_endings
            else _without_endings(hunk.lines)
        )
        floor = self._progress.floor
        self._add_edits(
            make_edits_between_kept_lines(
                document, insert_line, insert_line, list_kept_and_inserted_lines(script, start)
            )
        )
        if insert_line == line_count:
            self._progress.floor = floor
        return EditMatch(rung=level, line=insert_line + 1, note=note)


def _belongs_at_end(hunk: PatchHunk) -> bool:
    """Return whether a hunk that shows no line of the file belongs at its end."""
    return hunk.at_end or (hunk.has_no_line_numbers and not hunk.section_headings and hunk.old_start is None)


def add_match_doubt(match: EditMatch, doubt: str) -> EditMatch:
    """Return the match with one more doubt in its note."""
    level = MatchLevel.DOUBTFUL if match.rung.is_exact else match.rung
    return EditMatch(rung=level, line=match.line, note=f"{match.note}; {doubt}" if match.note else doubt)


def _exact_place_at(start: int, block: Sequence[str]) -> BlockPlace:
    end = start + len(block)
    return BlockPlace(MatchLevel.EXACT, start, end, tuple(range(start, end)))


def _without_endings(lines: Sequence[EditScriptLine]) -> tuple[EditScriptLine, ...]:
    """Return the lines without their endings; the file decides on these."""
    return tuple(replace(line, ending=None) for line in lines)


def _with_endings(document: Document, hunk: PatchHunk, place: BlockPlace) -> tuple[EditScriptLine, ...]:
    """Return the lines with their own endings if the old ones equal the file's, else without endings."""
    file_endings = document.endings[place.start : place.end]
    if tuple(line.ending for line in hunk.old_side) != file_endings:
        return _without_endings(hunk.lines)
    return _drop_inner_endings(hunk.lines, at_end=place.end == len(document.lines_without_mark))


def _drop_inner_endings(lines: tuple[EditScriptLine, ...], *, at_end: bool) -> tuple[EditScriptLine, ...]:
    """Return the lines; without their endings if a line without newline would be followed by another."""
    is_open = [line.ending == "" for line in lines if line.operation is LineOperation.INSERT]
    return _without_endings(lines) if any(is_open[:-1] if at_end else is_open) else lines
