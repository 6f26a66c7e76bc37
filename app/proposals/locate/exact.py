"""The first rung of a search/replace edit: the text as it is, whole lines or a part of one.

Endings count as `\\n` on both sides. A place that begins or ends inside a word is no match unless that is asked for:
`timeout=3` is not meant by one who quotes it out of `timeout=30`. It counts as a place all the same: a text is unique
only if it stands nowhere else at all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.proposals.locate.equivalence import BLANKS
from app.proposals.locate.line_index import TextIndex
from app.proposals.refusals import AlreadyApplied, AmbiguousMatch, MalformedEdit
from app.proposals.text.document import split_text
from app.proposals.text.edits import LineEdit, NewLine, kept_and_new, line_edits


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place of the text, by characters of `document.text` (plus a newline at an open end)."""

    start: int
    end: int
    first: int
    """Line of the first character, from 0."""
    last: int
    """Line of the last character, from 0."""
    cuts_word: bool
    """Whether it begins or ends inside a word."""


def occurrences(index: TextIndex, old: str, *, overlapping: bool = True) -> list[Occurrence]:
    """Every place of `old` (with `\\n` endings, not empty)."""
    text = index.document.text
    if not index.document.final_newline:
        text += "\n"
    return [_occurrence(index, text, start, start + len(old)) for start in _starts(text, old, overlapping)]


def _starts(text: str, old: str, overlapping: bool) -> Iterator[int]:
    start = text.find(old)
    step = 1 if overlapping else len(old)
    while start >= 0:
        yield start
        start = text.find(old, start + step)


def _occurrence(index: TextIndex, text: str, start: int, end: int) -> Occurrence:
    cuts = _inside_word(text, start) or _inside_word(text, end)
    return Occurrence(start, end, index.line_at(start), index.line_at(end - 1), cuts)


def _inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and _is_word(text[at - 1]) and _is_word(text[at])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def check_words(index: TextIndex, found: Sequence[Occurrence]) -> None:
    """Raise AmbiguousMatch if all of the occurrences, one or more, begin or end inside a word."""
    if all(occurrence.cuts_word for occurrence in found):
        lines = ", ".join(str(occurrence.first + 1) for occurrence in found[:5])
        raise AmbiguousMatch(
            f"The text to replace occurs only as part of a longer word or number (line {lines}).",
            "Give the whole word or line, or inside_words if the part is meant. "
            f"Line {found[0].first + 1} reads: {index.texts[found[0].first].strip()[:200]}",
        )


def replacement_edits(index: TextIndex, place: Occurrence, old: str, new: str) -> list[LineEdit]:
    """The lines that change when `new` takes the place of `old` there.

    When `old` reaches to the end of a line, a newline at the end of one text and not of the other is an oversight,
    not a wish to join lines or to open an empty one.
    """
    document = index.document
    first_offset = index.offsets[place.first]
    line_end = index.offsets[place.last + 1] - 1
    before = index.texts[place.first][: place.start - first_offset]
    to_end = place.end >= line_end
    removal = not new
    if to_end:
        old, new = _without_newline(old, new)
    whole = to_end and not (before.strip(BLANKS) if removal else before)
    if whole:
        new_texts = [] if removal else new.split("\n")
        _check_not_there(index, place, old.split("\n"), new_texts)
    else:
        if to_end and "\n" not in old and "\n" in new and not before.strip(BLANKS):
            _check_indented(before, new)
        after = "" if to_end else index.texts[place.last][place.end - index.offsets[place.last] :]
        new_texts = (before + new + after).split("\n")
    end = place.last + 1
    if end == len(document.bodies) and not document.final_newline and len(new_texts) > 1 and not new_texts[-1]:
        return _closing(index, place.first, end, new_texts[:-1])
    return line_edits(document, place.first, end, kept_and_new(document, place.first, end, new_texts))


def _closing(index: TextIndex, start: int, end: int, new_texts: list[str]) -> list[LineEdit]:
    """The edit that gives the last line of the file the newline it lacked.

    Apart, since an empty line of the file could else be taken for the nothing behind that newline, and keep its own.
    """
    document = index.document
    parts = kept_and_new(document, start, end, new_texts)
    last = parts.pop()
    text = last.text if isinstance(last, NewLine) else document.texts[last]
    return line_edits(document, start, end, [*parts, NewLine(text, document.ending_near(end - 1))])


def _without_newline(old: str, new: str) -> tuple[str, str]:
    bare_old, bare_new = old.removesuffix("\n"), new.removesuffix("\n")
    if not bare_old or bare_old == bare_new:
        return old, new
    return bare_old, bare_new


def _check_indented(before: str, new: str) -> None:
    """Refuse a stripped line that is to become several of which one would stand further left than it."""
    if any(line.strip(BLANKS) and not line.startswith(before) for line in new.split("\n")[1:]):
        raise MalformedEdit(
            "old leaves out the indentation of its line and new has several lines, so it is not clear how far they "
            "are to be indented.",
            "Give whole lines in old and new, with the file's indentation.",
        )


def _check_not_there(index: TextIndex, place: Occurrence, old: list[str], new: list[str]) -> None:
    """Refuse an insertion next to lines that stay, when just those lines stand there already."""
    extra = len(new) - len(old)
    if new[: len(old)] == old:
        added, at = new[len(old) :], place.last + 1
    elif new[extra:] == old:
        added, at = new[:extra], place.first - extra
    else:
        return
    if at >= 0 and list(index.texts[at : at + extra]) == added and sum(map(str.isalnum, "".join(added))) >= 3:
        raise AlreadyApplied(
            f"The file already has these lines at line {at + 1}: {added[0].strip()[:200]!r}. "
            "The edit seems to be in place."
        )


def lines_of(text: str) -> list[str]:
    """The lines that an edit's text stands for when it is taken as whole lines."""
    return split_text(text)
