"""Apply an edit that matched tolerantly to the file's own lines.

The model's copy of the lines around its change is never written. Only the inserted and removed lines of the edit are
used, and every kept line keeps the file's bytes.
"""

from collections.abc import Sequence, Set
from enum import Enum

from msgspec import Struct

from app.proposals.locate.line_index import BlockPlace
from app.proposals.text.diff import diff_lines
from app.proposals.text.document import Document, encode_surrogateescape, split_lines_without_endings
from app.proposals.text.line_edits import InsertedLine
from app.proposals.values.proposal_errors import NoMatch


def encode_preserving_unchanged_lines(document: Document, text: str) -> bytes:
    """Return the bytes of `text` as the new content of the document; unchanged lines keep their bytes.

    New lines get the encoding and the line endings of their surroundings. `text` decides whether the result ends in
    a newline. Raises EditRefused (NotEditable) if the encoding cannot represent a character.
    """
    if document.is_binary or not document.data:
        return encode_surrogateescape(text)
    text = text.removeprefix("\ufeff")
    new_texts = split_lines_without_endings(text)
    old_lines = document.lines_without_mark
    lines: list[bytes] = []
    position = 0
    for change in diff_lines(document.line_texts, new_texts):
        lines += old_lines[position : change.old_start]
        position = change.old_end
        for offset in range(change.added):
            near = min(change.old_start + offset, max(change.old_end - 1, change.old_start))
            lines.append(document.encode_line(new_texts[change.new_start + offset], near))
    lines += old_lines[position:]
    ends_with_newline = text.replace("\r\n", "\n").endswith("\n")
    for index, line in enumerate(lines):
        is_last = index == len(lines) - 1
        lines[index] = _with_or_without_ending(document, line, index, ends_with_newline or not is_last)
    return document.byte_order_mark + b"".join(lines)


def _with_or_without_ending(document: Document, line: bytes, index: int, needs_ending: bool) -> bytes:
    """Return the line with or without a line ending; only a line that was or becomes the last one is changed."""
    endings = [document.encode_ending(ending) for ending in ("\r\n", "\n")]
    ending = next((mark for mark in endings if line.endswith(mark)), b"")
    if needs_ending and not ending:
        return line + document.encode_ending(document.ending_for_line(index))
    return line if needs_ending else line[: len(line) - len(ending)]


class LineOperation(Enum):
    """The operation of an edit on a line: keep, remove or insert."""

    KEEP = " "
    REMOVE = "-"
    INSERT = "+"


class EditScriptLine(Struct, frozen=True):
    """A line of an edit; kept and removed ones must be found in the file."""

    operation: LineOperation
    text: str
    ending: str | None = None
    """`\\n`, `\\r\\n` or empty; None if the edit does not specify it."""


def diff_as_edit_script(old: Sequence[str], new: Sequence[str]) -> list[EditScriptLine]:
    """Return the line diff of two texts as a script."""
    script: list[EditScriptLine] = []
    at = 0
    for change in diff_lines(old, new):
        script += [EditScriptLine(LineOperation.KEEP, text) for text in old[at : change.old_start]]
        script += [EditScriptLine(LineOperation.REMOVE, text) for text in old[change.old_start : change.old_end]]
        script += [EditScriptLine(LineOperation.INSERT, text) for text in new[change.new_start : change.new_end]]
        at = change.old_end
    script += [EditScriptLine(LineOperation.KEEP, text) for text in old[at:]]
    return script


def removed_line_numbers(script: Sequence[EditScriptLine]) -> set[int]:
    """Return the lines (from 0) of the old side that the script removes."""
    old_side = [line for line in script if line.operation is not LineOperation.INSERT]
    return {index for index, line in enumerate(old_side) if line.operation is LineOperation.REMOVE}


def list_kept_and_inserted_lines(script: Sequence[EditScriptLine], place: BlockPlace) -> list[int | InsertedLine]:
    """Apply the script at a place: return the numbers of the kept lines with the inserted lines between them.

    Raises:
        NoMatch: the position of an inserted line is ambiguous.
    """
    replaced = removed_line_numbers(script)
    removed: set[int] = set()
    inserted: dict[int, list[InsertedLine]] = {}
    at = 0
    for line in script:
        match line.operation:
            case LineOperation.INSERT:
                text = place.shift.apply(line.text)
                if text is None:
                    raise NoMatch(
                        "The lines were found at a smaller indentation than given, and a new line has less than the "
                        f"difference: {line.text.strip()[:80]!r}.",
                        "Give old and new with the file's own indentation.",
                    )
                inserted.setdefault(_find_insert_line(place, at, replaced), []).append(
                    InsertedLine(text, line.ending)
                )
            case LineOperation.REMOVE:
                target = place.alignment[at]
                assert target is not None, "a place has all lines that are removed"
                removed.add(target)
                at += 1
            case LineOperation.KEEP:
                at += 1
    parts: list[int | InsertedLine] = []
    for index in range(place.start, place.end):
        parts += inserted.get(index, ())
        if index not in removed:
            parts.append(index)
    parts += inserted.get(place.end, ())
    return parts


def _find_insert_line(place: BlockPlace, at: int, removed: Set[int]) -> int:
    """Return the line of the file before which an insertion goes that is before line `at` of the block.

    The position is known if the new line replaces a neighbour (`removed`, lines of the block), or if both neighbours
    are found. A neighbour that is only similar to the file's line does not count.

    Raises:
        NoMatch: the position is not known.
    """
    alignment = place.alignment
    if not alignment:
        return place.start
    before = alignment[at - 1] if at else None
    after = alignment[at] if at < len(alignment) else None
    neighbours = {at - 1, at}
    is_certain = not neighbours & place.similar_only or bool(neighbours & removed)
    if is_certain and at == 0 and after is not None:
        return after
    if not is_certain or before is None or (at < len(alignment) and after != before + 1):
        raise NoMatch(
            "The lines were nearly found, but the file has other text just where new lines would go.",
            "Read the file again and give the lines around the change as they are.",
        )
    return before + 1
