"""Search/replace edits: find the place of each, on which level, and the resulting bytes.

The ladder stops at the first level that finds a place: exact text; lines equal except for trailing space; except for
a uniform shift of the indentation; except for spacing and look-alike characters; finally, lines aligned with a few
different context lines. One place is an edit, several are a refusal that lists them. Before the tolerant levels, the
file is searched for the new text: an edit must not be applied twice.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from app.proposals.locate.alignment import describe_nearest_text, describe_places, find_aligned_places
from app.proposals.locate.edit_script import (
    EditScriptLine,
    diff_as_edit_script,
    list_kept_and_inserted_lines,
    removed_line_numbers,
)
from app.proposals.locate.line_index import (
    BLANKS,
    BlockPlace,
    LineIndex,
    find_block_places,
    find_duplicate_ignoring_whitespace,
)
from app.proposals.text.document import Document, split_lines_without_endings
from app.proposals.text.line_comparison import find_offsets, is_inside_word
from app.proposals.text.line_edits import (
    InsertedLine,
    LineEdit,
    LineEdits,
    diff_kept_and_inserted_lines,
    make_edits_between_kept_lines,
)
from app.proposals.values.models import EditMatch, MatchLevel
from app.proposals.values.proposal_errors import (
    AlreadyApplied,
    AmbiguousMatch,
    EditRefused,
    ElidedText,
    NoMatch,
    NotEditable,
    OverlappingEdits,
    PointlessEdit,
)

_DOTS = r"(?:\.{3}|…)"
_BARE_DOTS = re.compile(rf"\s*{_DOTS}\s*")
_COMMENT_LINE = re.compile(
    r"\s*(?:#|//|--|;+|%|/\*+|\*|<!--|\{/\*)\s*[\[(]?(?P<content>.*?)[\])]?\s*(?:\*/\}?|-->)?\s*"
)
_BETWEEN_DOTS = re.compile(rf"\s*{_DOTS}(?:[^.…]*{_DOTS})?\s*")
_LEADING_OR_TRAILING_DOTS = re.compile(rf"\s*(?:{_DOTS}.*|.*{_DOTS})\s*")
_ELISION_WORD = re.compile(
    r"\b(?:rest|remainder|remaining|existing|unchanged|previous|same|other|omitted|code)\b", re.I
)
_ELISION_PHRASE = re.compile(
    r"(?:the\s+)?(?:rest|remainder|remaining|existing|other|previous)\b.*"
    r"\b(?:unchanged|omitted|as before|the same|goes here|stays here)\.?",
    re.I,
)


def find_placeholder_line(lines: Iterable[str], *, allows_bare_dots: bool = False) -> str | None:
    """Return the first placeholder line (`// ... rest of the code`), or None.

    A bare `...` is code in Python, so it counts only with `allows_bare_dots`.
    """
    for line in lines:
        if (allows_bare_dots and _BARE_DOTS.fullmatch(line)) or (len(line) < 200 and _is_placeholder(line)):
            return line.strip()
    return None


def _is_placeholder(line: str) -> bool:
    comment = _COMMENT_LINE.fullmatch(line)
    content = comment["content"] if comment else line
    if not comment:
        return bool(_BETWEEN_DOTS.fullmatch(content) and _ELISION_WORD.search(content))
    if _BETWEEN_DOTS.fullmatch(content) or _ELISION_PHRASE.fullmatch(content):
        return True
    return bool(_LEADING_OR_TRAILING_DOTS.fullmatch(content) and _ELISION_WORD.search(content))


class TextOccurrence(Struct, frozen=True):
    """Where a text occurs in the document: its offsets and lines, and whether it cuts a word."""

    start: int
    end: int
    first: int
    """Line of the first character, from 0."""
    last: int
    """Line of the last character, from 0."""
    cuts_word: bool
    """Whether it begins or ends inside a word."""


def find_occurrences(index: LineIndex, old: str, *, overlapping: bool = True) -> list[TextOccurrence]:
    """Return every place of `old`, which has `\\n` endings and is not empty."""
    text = index.document.text
    if not index.document.has_final_newline:
        text += "\n"
    offsets = find_offsets(text, old, 1 if overlapping else len(old))
    return [_make_occurrence(index, text, start, start + len(old)) for start in offsets]


def _make_occurrence(index: LineIndex, text: str, start: int, end: int) -> TextOccurrence:
    cuts = is_inside_word(text, start) or is_inside_word(text, end)
    return TextOccurrence(start, end, index.line_at(start), index.line_at(end - 1), cuts)


def check_not_only_inside_words(index: LineIndex, occurrences: Sequence[TextOccurrence]) -> None:
    """Raise AmbiguousMatch if every occurrence begins or ends inside a word."""
    if all(occurrence.cuts_word for occurrence in occurrences):
        lines = ", ".join(str(occurrence.first + 1) for occurrence in occurrences[:5])
        raise AmbiguousMatch(
            f"The text to replace occurs only as part of a longer word or number (line {lines}).",
            "Give the whole word or line, or inside_words if the part is meant. "
            f"Line {occurrences[0].first + 1} reads: {index.texts[occurrences[0].first].strip()[:200]}",
        )


def make_replacement_edits(index: LineIndex, place: TextOccurrence, old: str, new: str) -> list[LineEdit]:
    """Return the line edits that replace `old` by `new` at a place.

    If `old` reaches to the end of a line and only one of the texts ends with a newline, that is taken as an
    oversight: lines are neither joined nor split.
    """
    document = index.document
    first_offset = index.offsets[place.first]
    line_end = index.offsets[place.last + 1] - 1
    before = index.texts[place.first][: place.start - first_offset]
    reaches_line_end = place.end >= line_end
    is_removal = not new
    if reaches_line_end:
        old, new = _drop_lone_newline(old, new)
    is_whole_lines = reaches_line_end and not (before.strip(BLANKS) if is_removal else before)
    if is_whole_lines:
        new_texts = [] if is_removal else new.split("\n")
        _check_not_inserted_already(index, place, old.split("\n"), new_texts)
    else:
        if reaches_line_end and "\n" not in old and "\n" in new and not before.strip(BLANKS):
            _check_indentation(before, new)
        after = "" if reaches_line_end else index.texts[place.last][place.end - index.offsets[place.last] :]
        new_texts = (before + new + after).split("\n")
    end = place.last + 1
    if (
        end == len(document.lines_without_mark)
        and not document.has_final_newline
        and len(new_texts) > 1
        and not new_texts[-1]
    ):
        return _add_final_newline(index, place.first, end, new_texts[:-1])
    return make_edits_between_kept_lines(
        document, place.first, end, diff_kept_and_inserted_lines(document, place.first, end, new_texts)
    )


def _add_final_newline(index: LineIndex, start: int, end: int, new_texts: list[str]) -> list[LineEdit]:
    """Return the edit that adds the missing newline to the last line of the file.

    A plain diff could match an empty line of the file with the empty text after that newline.
    """
    document = index.document
    parts = diff_kept_and_inserted_lines(document, start, end, new_texts)
    last = parts.pop()
    text = last.text if isinstance(last, InsertedLine) else document.line_texts[last]
    return make_edits_between_kept_lines(
        document, start, end, [*parts, InsertedLine(text, document.ending_for_line(end - 1))]
    )


def _drop_lone_newline(old: str, new: str) -> tuple[str, str]:
    stripped_old, stripped_new = old.removesuffix("\n"), new.removesuffix("\n")
    if not stripped_old or stripped_old == stripped_new:
        return old, new
    return stripped_old, stripped_new


def _check_indentation(before: str, new: str) -> None:
    """Refuse a line without its indentation that becomes several lines, if one of these has less indentation."""
    if any(line.strip(BLANKS) and not line.startswith(before) for line in new.split("\n")[1:]):
        raise PointlessEdit(
            "old leaves out the indentation of its line and new has several lines, so it is not clear how far they "
            "are to be indented.",
            "Give whole lines in old and new, with the file's indentation.",
        )


def _check_not_inserted_already(index: LineIndex, place: TextOccurrence, old: list[str], new: list[str]) -> None:
    """Refuse an insertion of lines that the file already has beside the unchanged lines."""
    extra_count = len(new) - len(old)
    if new[: len(old)] == old:
        added, at = new[len(old) :], place.last + 1
    elif new[extra_count:] == old:
        added, at = new[:extra_count], place.first - extra_count
    else:
        return
    if at >= 0 and list(index.texts[at : at + extra_count]) == added and sum(map(str.isalnum, "".join(added))) >= 3:
        raise AlreadyApplied(
            f"The file already has these lines at line {at + 1}: {added[0].strip()[:200]!r}. "
            "The edit seems to be in place."
        )


TOLERANT_LEVELS = (MatchLevel.TRAILING_SPACE, MatchLevel.INDENTATION, MatchLevel.SPACING)
HINT_RATIO = 3
"""How many times nearer to the hinted line a place must be than every other place."""


class TextReplacement(Struct, frozen=True):
    """A search/replace edit."""

    old: str
    """Text of the file to replace; empty only for a file with no text."""
    new: str
    replace_all: bool = False
    """Replace every exact occurrence."""
    line: int | None = None
    """Approximate line, from 1; it chooses only among several exact places."""
    inside_words: bool = False
    """Also replace places that begin or end inside a word."""


class LocatedEdit(Struct, frozen=True):
    """The line edits that an edit makes in the file, and how each of its places was matched."""

    line_edits: tuple[LineEdit, ...]
    matches: tuple[EditMatch, ...]


def locate_replacement(index: LineIndex, replacement: TextReplacement) -> LocatedEdit:
    """Find the place of a search/replace edit, and the lines that it changes there.

    Raises:
        EditRefused: One of its subclasses, with the text for the model.
    """
    document = index.document
    document.check_editable()
    old, new = _normalize_text(replacement.old, document), _normalize_text(replacement.new, document)
    _check_characters(document, new)
    if not old:
        return _fill_empty_file(document, new)
    if old == new:
        raise PointlessEdit("old and new are the same text, so there is nothing to change.")
    _check_no_placeholder(index, old, new)
    occurrences = find_occurrences(index, old, overlapping=not replacement.replace_all)
    if occurrences and not replacement.inside_words:
        check_not_only_inside_words(index, occurrences)
    if occurrences and replacement.replace_all:
        return _replace_all(index, occurrences, old, new, inside_words=replacement.inside_words)
    if occurrences:
        return _replace_one(index, occurrences, old, new, replacement)
    old_lines, new_lines = split_lines_without_endings(old), split_lines_without_endings(new)
    check_not_already_applied(index, new_lines)
    if replacement.replace_all:
        raise NoMatch(
            "replace_all needs the exact text, and it is not in the file.", describe_nearest_text(index, old_lines)
        )
    script = diff_as_edit_script(old_lines, new_lines)
    places = require_tolerant_places(index, script, old_lines)
    return locate_edit_at_single_place(index, script, places, replacement.line)


def _normalize_text(text: str, document: Document) -> str:
    text = text.replace("\r\n", "\n")
    return text.removeprefix("\ufeff") if document.byte_order_mark else text


def _check_characters(document: Document, new: str) -> None:
    """Refuse characters that cannot be encoded, before any search."""
    if document.encoding != "bytes" and any("\ud800" <= character <= "\udfff" for character in new):
        raise NotEditable(
            "The new text holds half of a surrogate pair.", "Give each character whole, not as \\ud escapes."
        )
    document.encode_text(new)


def _fill_empty_file(document: Document, new: str) -> LocatedEdit:
    if document.text:
        raise PointlessEdit(
            "old is empty, but the file has text.",
            "Give the lines next to the change as old and repeat them in new, or write the whole file.",
        )
    if not new:
        raise PointlessEdit("old and new are both empty, so there is nothing to change.")
    edit = LineEdit(0, len(document.lines_without_mark), (document.encode_text(new),))
    return LocatedEdit((edit,), (EditMatch(rung=MatchLevel.EXACT, line=1, note="into an empty file"),))


def _check_no_placeholder(index: LineIndex, old: str, new: str) -> None:
    placeholder = find_placeholder_line(new.split("\n"))
    if placeholder and placeholder not in old and placeholder not in index.document.text:
        raise ElidedText(
            f"new has the placeholder {placeholder[:120]!r} instead of text, and nothing fills it in.",
            "Give the full text, or make a smaller edit for each place that changes.",
        )


def _replace_all(
    index: LineIndex, occurrences: Sequence[TextOccurrence], old: str, new: str, *, inside_words: bool
) -> LocatedEdit:
    """Replace every occurrence literally, except inside words; occurrences on the same line become one edit."""
    replaced = [place for place in occurrences if inside_words or not place.cuts_word]
    document = index.document
    text = document.text if document.has_final_newline else document.text + "\n"
    line_edits: list[LineEdit] = []
    at = 0
    while at < len(replaced):
        group = [replaced[at]]
        while at + len(group) < len(replaced) and replaced[at + len(group)].first <= group[-1].last:
            group.append(replaced[at + len(group)])
        start, end = group[0].start, group[-1].end
        gaps = [text[before.end : after.start] for before, after in pairwise(group)]
        span = TextOccurrence(start, end, group[0].first, group[-1].last, False)
        line_edits += make_replacement_edits(
            index, span, text[start:end], new + "".join(f"{gap}{new}" for gap in gaps)
        )
        at += len(group)
    skipped_count = len(occurrences) - len(replaced)
    note = f"{skipped_count} more inside longer words left as they are" if skipped_count else ""
    matches = [EditMatch(rung=MatchLevel.EXACT, line=place.first + 1) for place in replaced]
    return LocatedEdit(tuple(line_edits), (matches[0].model_copy(update={"note": note}), *matches[1:]))


def _replace_one(
    index: LineIndex, occurrences: Sequence[TextOccurrence], old: str, new: str, replacement: TextReplacement
) -> LocatedEdit:
    place, level, note = occurrences[0], MatchLevel.EXACT, ""
    hint = replacement.line
    if len(occurrences) > 1:
        chosen = index_clearly_nearest_to_hint([occurrence.first for occurrence in occurrences], hint)
        if chosen is None:
            spans = [(occurrence.first, occurrence.last + 1) for occurrence in occurrences]
            inside_count = sum(occurrence.cuts_word for occurrence in occurrences)
            inside_note = f", {inside_count} inside longer words" if inside_count else ""
            raise AmbiguousMatch(
                f"The text to replace occurs {len(occurrences)} times{inside_note}.",
                "Give more of the lines around the one you mean"
                f"{', or replace_all to change every one' if hint is None else ''}. Found at "
                f"{describe_places(index, spans)}",
            )
        place, level = occurrences[chosen], MatchLevel.LINE_HINT
        note = f"{len(occurrences)} places; the hint was {hint}"
        if not replacement.inside_words:
            check_not_only_inside_words(index, [place])
    elif note := whitespace_doubt_about_match(index, place.first, place.last + 1, replacement.line):
        level = MatchLevel.DOUBTFUL
    line_edits = tuple(make_replacement_edits(index, place, old, new))
    return LocatedEdit(line_edits, (EditMatch(rung=level, line=place.first + 1, note=note),))


def whitespace_doubt_about_match(index: LineIndex, start: int, end: int, line_hint: int | None) -> str:
    """Return the doubt about a match if other lines differ from it only in white space; empty if there is none.

    Args:
        start: First line of the match, from 0.
        end: One past its last line.
        line_hint: The line, from 1, that the model names; there is no doubt if it can only mean this match.
    """
    other = find_duplicate_ignoring_whitespace(index, start, end)
    if other is None or line_hint == start + 1 or index_clearly_nearest_to_hint([start, other], line_hint) == 0:
        return ""
    return f"the lines from line {other + 1} differ from it in white space alone"


def index_clearly_nearest_to_hint(lines: Sequence[int], hint: int | None) -> int | None:
    """Return the index in `lines` of the line nearest to the hint; None if another one is nearly as near."""
    if hint is None:
        return None
    distances = sorted((abs(line + 1 - hint), at) for at, line in enumerate(lines))
    (nearest, chosen), (second, _) = distances[0], distances[1]
    return chosen if second >= HINT_RATIO * max(nearest, 1) else None


def check_not_already_applied(index: LineIndex, new: Sequence[str]) -> None:
    """Raise AlreadyApplied if the new lines, two or more, are in the file unchanged."""
    if len([line for line in new if line.strip(BLANKS)]) < 2:
        return
    places = find_block_places(index, new, MatchLevel.EXACT)
    if places:
        raise AlreadyApplied(
            f"The file already holds the new text, at line {places[0].start + 1}, and not the old.",
            "The edit seems to be in place; read the file again before editing it.",
        )


def require_tolerant_places(
    index: LineIndex, script: Sequence[EditScriptLine], block: Sequence[str]
) -> list[BlockPlace]:
    """Return the places where the lines to replace fit, though not exactly; raise EditRefused if there are none."""
    if not any(line.strip(BLANKS) for line in block):
        raise NoMatch("The text to replace is only blank lines.", "Give the lines next to them too.")
    for level in TOLERANT_LEVELS:
        places = find_block_places(index, block, level)
        if places:
            return places
    placeholder = find_placeholder_line(block, allows_bare_dots=True)
    if placeholder:
        raise ElidedText(
            f"old has the placeholder {placeholder[:120]!r} instead of text, so it can't be found.",
            "Give the lines in full, or make a smaller edit for each place that changes.",
        )
    places = find_aligned_places(index, block, removed_line_numbers(script))
    if places:
        return places
    raise NoMatch(
        "The text to replace is not in the file, neither exactly nor with other spacing or indentation.",
        f"{describe_nearest_text(index, block)}\nGive the lines as they are in the file.",
    )


def locate_edit_at_single_place(
    index: LineIndex, script: Sequence[EditScriptLine], places: Sequence[BlockPlace], line_hint: int | None
) -> LocatedEdit:
    """Return the line edits of the script at the one place found; raise AmbiguousMatch if there are several."""
    if len(places) > 1:
        spans = [(place.start, place.end) for place in places]
        raise AmbiguousMatch(
            f"The text to replace is not in the file exactly, and {len(places)} places are like it "
            f"({_LEVEL_DESCRIPTIONS[places[0].level]}).",
            f"Give the lines exactly, and more of them. Found at {describe_places(index, spans)}",
        )
    place = places[0]
    line_edits = make_edits_between_kept_lines(
        index.document, place.start, place.end, list_kept_and_inserted_lines(script, place)
    )
    doubt = whitespace_doubt_about_match(index, place.start, place.end, line_hint) if place.level.is_exact else ""
    match = EditMatch(rung=MatchLevel.DOUBTFUL if doubt else place.level, line=place.start + 1, note=doubt)
    return LocatedEdit(tuple(line_edits), (match,))


_LEVEL_DESCRIPTIONS = {
    MatchLevel.TRAILING_SPACE: "but for trailing space",
    MatchLevel.INDENTATION: "but for indentation",
    MatchLevel.SPACING: "but for spacing and look-alike marks",
    MatchLevel.ALIGNED: "with some context lines different",
}


def apply_replacements(
    document: Document, replacements: Sequence[TextReplacement]
) -> tuple[bytes, tuple[EditMatch, ...]]:
    """Apply several edits to one file, all or none.

    Each edit is searched in the document as given, so that line numbers and counts of places match what the model
    read. An edit that is not found there, or that changes the same lines as an earlier one, is searched in the text
    after the earlier edits, and only exactly; later edits continue from that text.

    Returns:
        The new bytes, and one or more matches for each edit, in order.

    Raises:
        EditRefused: an edit cannot be made; the message says which one.
    """
    if not replacements:
        raise PointlessEdit("There is no edit in the call.")
    index = LineIndex(document)
    edits = LineEdits()
    matches: list[EditMatch] = []
    for number, replacement in enumerate(replacements, 1):
        try:
            try:
                located = locate_replacement(index, replacement)
                if edits.has_overlap_with(located.line_edits):
                    raise OverlappingEdits("The edit changes lines that an earlier edit of the call changes too.")
            except (NoMatch, OverlappingEdits, AlreadyApplied, AmbiguousMatch) as error:
                if not edits or isinstance(error, AmbiguousMatch):
                    raise
                index, edits = LineIndex(Document(edits.apply_to(index.document))), LineEdits()
                old = _normalize_text(replacement.old, index.document)
                if not old or not find_occurrences(index, old):
                    raise
                located = locate_replacement(index, replacement)
        except EditRefused as error:
            if len(replacements) == 1:
                raise
            prefix = f"Edit {number} of {len(replacements)} (none was made): "
            raise type(error)(prefix + error.fact, error.advice) from error
        edits.add(located.line_edits)
        matches += located.matches
    result = edits.apply_to(index.document)
    if result == document.data:
        raise PointlessEdit("The edits leave the file as it is.")
    return result, tuple(matches)
