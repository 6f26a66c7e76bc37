"""From a located edit to bytes: runs of lines replaced, everything else untouched."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.proposals.diff import diff
from app.proposals.document import Document


@dataclass(frozen=True, slots=True)
class Splice:
    """`document.bodies[start:end]` become `lines`; no line in it that stays is named."""

    start: int
    end: int
    lines: tuple[bytes, ...]

    def overlaps(self, other: "Splice") -> bool:
        """Whether both replace a common line, or one inserts inside what the other replaces."""
        if self.start == self.end and other.start == other.end:
            return False
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class NewLine:
    """A line to insert."""

    text: str
    ending: str | None = None
    """Its ending if the edit spells it (`""` for a last line without newline), None to take that of its surroundings."""


Parts = Sequence[int | NewLine]
"""What a range of lines becomes: numbers of lines that stay, in order, and new lines between them."""


def kept_and_new(document: Document, start: int, end: int, new_texts: Sequence[str]) -> list[int | NewLine]:
    """The parts that turn the texts of lines `start` to `end` into `new_texts`, with as many lines staying as can."""
    parts: list[int | NewLine] = []
    at = 0
    for change in diff(document.texts[start:end], new_texts):
        parts.extend(range(start + at, start + change.old_start))
        parts.extend(NewLine(text) for text in new_texts[change.new_start : change.new_end])
        at = change.old_end
    parts.extend(range(start + at, end))
    return parts


def splices(document: Document, start: int, end: int, parts: Parts) -> list[Splice]:
    """The least runs of lines to replace so that `start` to `end` reads as `parts`."""
    result = []
    at = start
    waiting: list[NewLine] = []
    for part in [*parts, end]:
        if isinstance(part, NewLine):
            waiting.append(part)
            continue
        if at < part or waiting:
            result.append(_splice(document, at, part, waiting))
            waiting = []
        at = part + 1
    return result


def _splice(document: Document, start: int, end: int, new: Sequence[NewLine]) -> Splice:
    open_end = end == len(document.bodies) and not document.final_newline
    endings = [_ending(document, start, end, index, line) for index, line in enumerate(new)]
    lines = [document.encode_text(line.text) for line in new]
    if open_end and new and new[-1].ending is None:
        endings[-1] = ""
    encoded = tuple(line + document.encode_ending(ending) for line, ending in zip(lines, endings, strict=True))
    if open_end and new and start == end and start:
        last = document.bodies[start - 1] + document.encode_ending(document.ending_near(start - 1))
        return Splice(start - 1, end, (last, *encoded))
    return Splice(start, end, encoded)


def _ending(document: Document, start: int, end: int, index: int, line: NewLine) -> str:
    if line.ending is not None:
        return line.ending
    return document.ending_near(min(start + index, end - 1) if start < end else start)


def spliced(document: Document, changes: Iterable[Splice]) -> bytes:
    """The bytes of the document with the splices made; they must not overlap, and insertions at one place keep their order."""
    bodies = document.bodies
    pieces = [document.mark]
    at = 0
    for splice in sorted(changes, key=lambda splice: (splice.start, splice.end)):
        pieces += bodies[at : splice.start]
        pieces += splice.lines
        at = splice.end
    pieces += bodies[at:]
    return b"".join(pieces)
