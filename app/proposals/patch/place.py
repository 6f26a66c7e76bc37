"""One file's part of a patch, placed by the same ladder as a search/replace edit.

What a hunk keeps and removes must be found; its line numbers only choose among equal places. They are trusted for
more when the patch names git's id of the very content it is applied to: then nothing is left to find out.
"""

from collections.abc import Sequence
from dataclasses import replace

from app.proposals.locate.carry_over import ScriptLine, Step, carried_over
from app.proposals.locate.equivalence import without_trailing_space
from app.proposals.locate.line_index import BlockPlace, TextIndex, commonness, places, stands_at
from app.proposals.locate.matching import check_not_applied, like_doubt, located, tolerant_places
from app.proposals.locate.nearest import describe_nearest
from app.proposals.models import Match, Op, Rung
from app.proposals.patch.hunk_places import (
    ChosenPlace,
    Progress,
    allowed,
    chosen,
    line_above,
    numbered_well,
    only_after,
)
from app.proposals.patch.parts import FilePatch, PatchHunk, content, is_blob
from app.proposals.refusals import AlreadyApplied, EditRefused, MalformedPatch, NoMatch, OverlappingEdits
from app.proposals.text.document import BOM, Document, encode
from app.proposals.text.edits import LineEdit, LineEdits, line_edits

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
        data = _created(document, patch)
        return data, _checked(document, patch, data, _doubts(patch))
    if patch.op is Op.DELETE:
        _check_deletion(document, patch)
        return b"", _doubts(patch)
    if not patch.hunks:
        return document.data, ()
    document.check_editable()
    trusted = is_blob(document.data, patch.old_blob)
    if trusted or any(line.text.startswith(BOM) for hunk in patch.hunks for line in hunk.lines):
        document = Document(document.data, verbatim=not document.wide)
    placer = _Placer(document, numbered_well(patch.hunks) if trusted else frozenset())
    matches = []
    for number, hunk in enumerate(patch.hunks, 1):
        try:
            matches.append(placer.place(hunk))
        except EditRefused as error:
            raise type(error)(f"{_which(patch, number)}: {error.fact}", error.advice) from error
    data = placer.result()
    if placer.cut_off and not is_blob(data, patch.new_blob):
        raise _cut_off(f"{_which(patch, len(patch.hunks))}: ")
    return data, _checked(document, patch, data, matches)


def _which(patch: FilePatch, number: int) -> str:
    """The words for one of the hunks, numbered from 1."""
    hunk = patch.hunks[number - 1]
    return f"Hunk {number} of {len(patch.hunks)} for {patch.path} (line {hunk.source_line} of the patch)"


def _cut_off(where: str = "") -> MalformedPatch:
    return MalformedPatch(
        f"{where}The text ends before this hunk does, by the counts in its header.",
        "Give the whole patch, or the right counts.",
    )


def _doubts(patch: FilePatch) -> tuple[Match, ...]:
    """What to say of the hunks in doubt of a file that comes or goes whole."""
    return tuple(Match(rung=Rung.DOUBTFUL, line=1, note=hunk.doubt) for hunk in patch.hunks if hunk.doubt)


def _checked(document: Document, patch: FilePatch, data: bytes, matches: Sequence[Match]) -> tuple[Match, ...]:
    """The matches, the last one in doubt if the patch text may break off within its last hunk or after it.

    Git's ids of both contents settle it where they are known; raises MalformedPatch if they say that its last line is
    cut off.
    """
    if not patch.hunks or is_blob(data, patch.new_blob):
        return tuple(matches)
    if patch.hunks[-1].unended:
        if is_blob(document.data, patch.old_blob) or (patch.op is Op.CREATE and patch.new_blob):
            raise MalformedPatch(f"The patch is cut off in its last line: {patch.path} is not what it says it makes.")
        doubt = "the patch has no newline at its end, so this line may be cut off"
    elif is_blob(document.data, patch.old_blob) and patch.new_blob.strip("0"):
        doubt = "the file is not what the patch's `index` line says it becomes: the patch may be cut off or edited"
    else:
        return tuple(matches)
    last = matches[-1] if matches else Match(rung=Rung.EXACT, line=1)
    return (*matches[:-1], doubted(last, doubt))


def _created(document: Document, patch: FilePatch) -> bytes:
    if document.data:
        raise AlreadyApplied(
            f"The patch creates {patch.path}, but the file exists.", "Make a patch against what is there."
        )
    lines = [line for hunk in patch.hunks for line in hunk.lines]
    if any(line.step is not Step.INSERT for line in lines):
        raise MalformedPatch(f"The patch creates {patch.path}, but has lines that are not inserted.")
    made = 0
    for hunk in patch.hunks:
        if made and hunk.old_start is not None and (hunk.old_start, hunk.new_start) != (0, made + 1):
            raise MalformedPatch(f"The patch creates {patch.path}, but not all of its hunks are of a new file.")
        made += len(hunk.lines)
    return encode(content(_joining_none(tuple(lines), at_end=True)))


def _check_deletion(document: Document, patch: FilePatch) -> None:
    """Refuse a deletion that spells out another content than the file's."""
    if not patch.hunks:
        if patch.spelled_out and document.data and not is_blob(document.data, patch.old_blob):
            raise MalformedPatch(f"The patch deletes {patch.path} without its lines. Is the patch cut off?")
        return
    expected = [without_trailing_space(line.text) for hunk in patch.hunks for line in hunk.old_side]
    there = [without_trailing_space(text) for text in Document(document.data, verbatim=True).texts]
    if expected != there:
        index = TextIndex(document)
        raise NoMatch(
            f"The patch deletes {patch.path} with another content than it has.",
            f"{describe_nearest(index, [line.text for line in patch.hunks[0].old_side])}",
        )


class _Placer:
    """Places the hunks of one file in order."""

    def __init__(self, document: Document, trusted: frozenset[int]) -> None:
        """`trusted` are the hunks, by their lines in the patch, whose numbers are right beyond doubt."""
        self._index = TextIndex(document)
        self._trusted = trusted
        self._made = LineEdits()
        self._progress = Progress()
        self._placed: set[tuple[int, tuple[ScriptLine, ...]]] = set()
        """The hunks whose text was found as it is, by the line where."""
        self._on_made = False
        """Whether the document is one that earlier hunks made."""
        self.cut_off = False
        """Whether the last hunk, which has fewer lines than its header states, may have gone on."""

    def result(self) -> bytes:
        """The bytes with all hunks made."""
        return self._made.applied_to(self._index.document)

    def place(self, hunk: PatchHunk) -> Match:
        """Find the hunk's place and take up its changes."""
        try:
            match = self._place(hunk)
        except (NoMatch, OverlappingEdits, AlreadyApplied) as error:
            block = [line.text for line in hunk.old_side]
            if not self._made or not (block or _goes_to_end(hunk)):
                raise
            later = TextIndex(Document(self.result(), self._index.document.verbatim))
            if block and not places(later, block, Rung.EXACT):
                raise error
            self._index, self._made, self._progress = later, LineEdits(), Progress()
            self._trusted, self._on_made = frozenset(), True
            match = self._place(hunk)
        if not hunk.doubt:
            return match
        return doubted(match, hunk.doubt)

    def _place(self, hunk: PatchHunk) -> Match:
        block = [line.text for line in hunk.old_side]
        self.cut_off = hunk.stated_end is not None
        if not block:
            return self._insert(hunk)
        stated = hunk.new_start if self._on_made else hunk.old_start
        choice, doubt = self._exact(hunk, block, stated)
        if choice is not None:
            place = choice.place
            self._check_not_cut(hunk, place)
            self.cut_off = self.cut_off and not self._reaches_stated_end(hunk, place, block)
            script = _with_endings(self._index.document, hunk, place)
            if (place.start, hunk.lines) in self._placed:
                raise MalformedPatch("It is the same as a hunk before it, at the same place.")
            self._placed.add((place.start, hunk.lines))
            self._take(line_edits(self._index.document, place.start, place.end, carried_over(script, place)))
            match = Match(rung=choice.rung, line=place.start + 1, note=choice.note)
        else:
            script = _without_endings(hunk.lines)
            check_not_applied(self._index, [line.text for line in hunk.new_side])
            tolerant, doubt = allowed(self._index, hunk, tolerant_places(self._index, script, block))
            if not any(stated is not None and place.start == stated - 1 for place in tolerant):
                ordered = self._progress.in_order(tolerant, stated)
                if len(ordered) < len(tolerant):
                    doubt = "; ".join(filter(None, (doubt, only_after(tolerant))))
                tolerant = ordered
            resolution = located(self._index, script, tolerant, stated)
            self._check_not_cut(hunk, tolerant[0])
            self._take(resolution.line_edits)
            match = resolution.matches[0]
        if stated is not None:
            self._progress.drift, self._progress.stated = match.line - stated, stated
        return doubted(match, doubt) if doubt else match

    def _check_not_cut(self, hunk: PatchHunk, place: BlockPlace) -> None:
        """Refuse a hunk that lacks inserted lines where they could follow: within a file, lines that stay would."""
        if hunk.short and place.end == len(self._index.texts):
            raise _cut_off()

    def _reaches_stated_end(self, hunk: PatchHunk, place: BlockPlace, block: Sequence[str]) -> bool:
        """Whether a hunk that lacks old lines lacks them above, for certain: `git apply --recount` takes it then.

        One that was cut off begins where its header says, one that lost its first lines ends there. As git places it,
        such a hunk has less context above than below, or ends with the file, and does not begin at its first line.
        """
        if self._on_made or hunk.old_start == 1 or place.end != (hunk.stated_end or 0) + self._progress.drift:
            return False
        changed = [at for at, line in enumerate(hunk.lines) if line.step is not Step.KEEP]
        kept_above, kept_below = changed[0], len(hunk.lines) - 1 - changed[-1]
        if kept_above >= kept_below and place.end < len(self._index.texts):
            return False
        return len(places(self._index, block, Rung.EXACT)) == 1

    def _take(self, changes: Sequence[LineEdit]) -> None:
        if not self._made.fits(changes):
            raise OverlappingEdits("It changes lines that an earlier hunk changes too.")
        self._made.add(changes)
        if changes:
            self._progress.floor = changes[-1].end

    def _exact(self, hunk: PatchHunk, block: Sequence[str], stated: int | None) -> tuple[ChosenPlace | None, str]:
        """The one exact place, or None if there is none, and a doubt about it."""
        if stated is not None and hunk.source_line in self._trusted and stands_at(self._index, block, stated - 1):
            return ChosenPlace(_place_at(stated - 1, block)), ""
        if stated is not None and not hunk.seek and commonness(self._index, block) > _TOO_COMMON:
            for start in (stated - 1 + self._progress.drift, stated - 1):
                if stands_at(self._index, block, start):
                    return ChosenPlace(_place_at(start, block), Rung.LINE_HINT), ""
        found = places(self._index, block, Rung.EXACT)
        if not found:
            return None, ""
        fitting, doubt = allowed(self._index, hunk, found)
        choice = chosen(self._index, fitting, stated, self._progress, self._made)
        if len(found) == 1 and not (hunk.seek or hunk.at_end):
            hint = None if stated is None else stated + self._progress.drift
            doubt = like_doubt(self._index, choice.place.start, choice.place.end, hint)
        return choice, doubt

    def _insert(self, hunk: PatchHunk) -> Match:
        """Place a hunk that only inserts and shows nothing of the file."""
        document = self._index.document
        lines = len(document.bodies)
        rung, note = Rung.EXACT, ""
        if not lines:
            at = 0
        elif hunk.source_line in self._trusted and hunk.old_start is not None and hunk.old_start <= lines:
            at = hunk.old_start
        elif hunk.at_end:
            at = lines
        elif hunk.seek:
            at = line_above(self._index, hunk) + 1
            rung, note = Rung.DOUBTFUL, "after the line that the hunk names"
        elif _goes_to_end(hunk):
            at = lines
            rung, note = Rung.DOUBTFUL, "at the end of the file, as the hunk shows no place"
        else:
            raise NoMatch(
                "It only inserts lines and does not show where.",
                "Give at least two unchanged lines next to them, each with a space before it.",
            )
        start = BlockPlace(rung, at, at, ())
        spelled = not lines or hunk.source_line in self._trusted
        script = _joining_none(hunk.lines, at_end=at == lines) if spelled else _without_endings(hunk.lines)
        floor = self._progress.floor
        self._take(line_edits(document, at, at, carried_over(script, start)))
        if at == lines:
            self._progress.floor = floor
        return Match(rung=rung, line=at + 1, note=note)


def _goes_to_end(hunk: PatchHunk) -> bool:
    """Whether a hunk without a line of the file is meant for its end."""
    return hunk.at_end or (hunk.unnumbered and not hunk.seek and hunk.old_start is None)


def doubted(match: Match, doubt: str) -> Match:
    """The match with one more thing to say against it."""
    rung = Rung.DOUBTFUL if match.rung.exact else match.rung
    return Match(rung=rung, line=match.line, note=f"{match.note}; {doubt}" if match.note else doubt)


def _place_at(start: int, block: Sequence[str]) -> BlockPlace:
    end = start + len(block)
    return BlockPlace(Rung.EXACT, start, end, tuple(range(start, end)))


def _without_endings(lines: Sequence[ScriptLine]) -> tuple[ScriptLine, ...]:
    """The lines with the endings left to the file."""
    return tuple(replace(line, ending=None) for line in lines)


def _with_endings(document: Document, hunk: PatchHunk, place: BlockPlace) -> tuple[ScriptLine, ...]:
    """The lines with their own endings if the hunk spells the file's as they are, else left to the file."""
    there = document.endings[place.start : place.end]
    if tuple(line.ending for line in hunk.old_side) != there:
        return _without_endings(hunk.lines)
    return _joining_none(hunk.lines, at_end=place.end == len(document.bodies))


def _joining_none(lines: tuple[ScriptLine, ...], *, at_end: bool) -> tuple[ScriptLine, ...]:
    """The lines with their endings, unless one that lacks its newline would have another line after it."""
    last = len(lines) - 1
    if any(line.ending == "" and not at_end for line in lines if line.step is Step.INSERT) or any(
        line.ending == "" and any(after.step is Step.INSERT for after in lines[at + 1 :])
        for at, line in enumerate(lines[:last])
        if line.step is Step.INSERT
    ):
        return _without_endings(lines)
    return lines
