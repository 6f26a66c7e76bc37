"""Which place of a hunk's lines is meant: by what it says of its surroundings, by its number, by the order."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.proposals.locate.equivalence import BLANKS, folded
from app.proposals.locate.line_index import BlockPlace, TextIndex
from app.proposals.locate.matching import nearest_to_hint
from app.proposals.locate.nearest import describe_places
from app.proposals.models import Rung
from app.proposals.patch.parts import PatchHunk
from app.proposals.refusals import AmbiguousMatch, NoMatch
from app.proposals.text.edits import LineEdits


@dataclass(slots=True)
class Progress:
    """Where the hunks of a file have gone so far."""

    floor: int = 0
    """Line, from 0, after what the hunk before changed."""
    drift: int = 0
    """How far the hunk before stood from where its number said."""
    stated: int = 0
    """The number of the hunk before."""

    def in_order(self, found: Sequence[BlockPlace], stated: int | None) -> list[BlockPlace]:
        """The places after the hunk before; all if there are none, or if the numbers are in another order."""
        if stated is not None and stated < self.stated:
            return list(found)
        return [place for place in found if place.start >= self.floor] or list(found)


@dataclass(frozen=True, slots=True)
class ChosenPlace:
    """The place that is taken, and what to say of how it was found."""

    place: BlockPlace
    rung: Rung = Rung.EXACT
    note: str = ""


def only_after(found: Sequence[BlockPlace]) -> str:
    """The doubt about a place that the order of the hunks has chosen from these."""
    return f"{len(found)} places, the only one after the hunk before"


def numbered_well(hunks: Sequence[PatchHunk]) -> frozenset[int]:
    """Of the hunks of a file, by their lines in the patch, those whose numbers agree with what the ones above do."""
    numbered = sorted((hunk for hunk in hunks if hunk.old_start is not None), key=lambda hunk: hunk.old_start or 0)
    well: set[int] = set()
    growth = 0
    end = 0
    for hunk in numbered:
        old, new = len(hunk.old_side), len(hunk.new_side)
        old_first = (hunk.old_start or 0) + (not old)
        new_first = (hunk.new_start or 0) + (not new)
        if old_first > end and new_first == old_first + growth:
            well.add(hunk.source_line)
        end = old_first + max(old, 1) - 1
        growth += new - old
    return frozenset(well)


def chosen(
    index: TextIndex, found: Sequence[BlockPlace], stated: int | None, progress: Progress, made: LineEdits
) -> ChosenPlace:
    """The one place among exact ones; a number that fits wins over the order of the hunks.

    The order alone leaves a doubt: hunks that were written in another one look no different.

    Args:
        index: The file.
        found: The places, one or more.
        stated: The hunk's number in this file, if it states one.
        progress: Where the hunks before have gone.
        made: What they changed.

    Raises:
        AmbiguousMatch: several are left.
    """
    if len(found) == 1:
        return ChosenPlace(found[0])
    note = f"{len(found)} places"
    only = only_after(found)
    found = [place for place in found if not made.changes_within(place.start, place.end)] or found
    ordered = progress.in_order(found, stated)
    if stated is not None:
        for start in (stated - 1 + progress.drift, stated - 1):
            for place in found:
                if place.start == start:
                    return ChosenPlace(place) if ordered == [place] else ChosenPlace(place, Rung.LINE_HINT, note)
    if len(ordered) == 1:
        return ChosenPlace(ordered[0], Rung.DOUBTFUL, only)
    if stated is not None:
        nearest = nearest_to_hint([place.start for place in ordered], stated + progress.drift)
        if nearest is not None:
            return ChosenPlace(ordered[nearest], Rung.LINE_HINT, note)
    raise AmbiguousMatch(
        f"Its lines stand in {len(ordered)} places.",
        "Give more context lines. Found at "
        f"{describe_places(index, [(place.start, place.end) for place in ordered])}",
    )


def allowed(index: TextIndex, hunk: PatchHunk, found: Sequence[BlockPlace]) -> tuple[list[BlockPlace], str]:
    """The places that fit what the hunk says of its surroundings, and a doubt if they fit it badly.

    Raises:
        NoMatch: it names a line that does not stand above any of them.
    """
    places = list(found)
    if len(places) > 1 and hunk.at_end:
        places = [place for place in places if _reaches_end(index, place)] or places
    if not hunk.seek:
        return places, ""
    above = lines_named(index, hunk.seek)
    if not above:
        if hunk.unnumbered:
            raise NoMatch(_missing(index, hunk))
        return places, f"no line of the file reads {hunk.seek[-1].strip()[:80]!r}, which the hunk names"
    blocks, named = _Blocks(index, above), set(above)
    inside = [place for place in places if place.start in named or blocks.under(place.start)]
    if inside:
        return inside, ""
    below = [place for place in places if place.start > above[0]]
    if below:
        return below, f"below the line that the hunk names, line {above[0] + 1}, but not in its block"
    if not hunk.unnumbered:
        around = [place for place in places if any(place.start <= at < place.end for at in above)]
        if around:
            return around, f"the line that the hunk names is in the hunk itself, at line {above[0] + 1}"
    numbers = ", ".join(str(at + 1) for at in above[:5])
    raise NoMatch(
        f"Its lines stand at line {places[0].start + 1}, but not below the line that its `@@` names "
        f"({hunk.seek[-1].strip()[:80]!r}, line {numbers}).",
        "Give the lines as they are below it, or name another.",
    )


def lines_named(index: TextIndex, seek: Sequence[str]) -> list[int]:
    """The lines, from 0, that a hunk may mean by those it names from outer to inner."""
    above: list[int] = []
    for depth, text in enumerate(seek):
        there = index.positions(Rung.SPACING).get(folded(text), [])
        if not depth:
            above = there
            continue
        blocks = _Blocks(index, above)
        below = [at for at in there if above and at > above[0]]
        above = [at for at in below if blocks.under(at)] or below
    return above


def line_above(index: TextIndex, hunk: PatchHunk) -> int:
    """The one line, from 0, that the hunk names; raises NoMatch if there is none, or more."""
    above = lines_named(index, hunk.seek)
    if not above:
        raise NoMatch(_missing(index, hunk))
    if len(above) > 1:
        raise NoMatch(
            f"It only inserts lines and does not show where: the line that its `@@` names stands in {len(above)} "
            "places. Name the line above that one too, in a `@@` line of its own. Found at "
            f"{describe_places(index, [(at, at + 1) for at in above])}"
        )
    return above[0]


def _missing(index: TextIndex, hunk: PatchHunk) -> str:
    for depth, text in enumerate(hunk.seek, 1):
        if not lines_named(index, hunk.seek[:depth]):
            return (
                f"The line that its `@@` names is not in the file{' below the one before' if depth > 1 else ''}: "
                f"{text.strip()[:120]!r}. Name a line as it is, or none."
            )
    return "The line that its `@@` names is not in the file."


def _reaches_end(index: TextIndex, place: BlockPlace) -> bool:
    return not any(text.strip(BLANKS) for text in index.texts[place.end :])


class _Blocks:
    """The lines under some of a file's, as far as they are indented deeper."""

    def __init__(self, index: TextIndex, above: Sequence[int]) -> None:
        """The blocks under the lines `above`, which are in order."""
        self._above = above
        self._ends = list(accumulate((index.block_ends[at] for at in above), max))

    def under(self, line: int) -> bool:
        """Whether the line is in one of the blocks."""
        before = bisect_left(self._above, line)
        return before > 0 and line < self._ends[before - 1]
