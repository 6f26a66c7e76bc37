"""Whole new text for a file, written the way the file is written."""

from app.proposals.text.diff import diff
from app.proposals.text.document import Document, encode, split_text


def rewrite(document: Document, text: str) -> bytes:
    """The bytes of `text` as a new content of the document.

    Lines that stay keep their bytes; new ones get the encoding and the line endings of their surroundings. The text
    itself says whether it ends in a newline. Raises EditRefused (NotEditable) for what the encoding can't hold.
    """
    if document.binary or not document.data:
        return encode(text)
    text = text.removeprefix("\ufeff")
    wanted = split_text(text)
    bodies = document.bodies
    lines: list[bytes] = []
    position = 0
    for change in diff(document.texts, wanted):
        lines += bodies[position : change.old_start]
        position = change.old_end
        for offset in range(change.added):
            near = min(change.old_start + offset, max(change.old_end - 1, change.old_start))
            lines.append(document.encode_line(wanted[change.new_start + offset], near))
    lines += bodies[position:]
    closed = text.replace("\r\n", "\n").endswith("\n")
    for index, line in enumerate(lines):
        last = index == len(lines) - 1
        lines[index] = _ended(document, line, index, closed or not last)
    return document.mark + b"".join(lines)


def _ended(document: Document, line: bytes, index: int, closed: bool) -> bytes:
    """The line with a line ending, or without; only a line that was or becomes the last one needs a change."""
    endings = [document.encode_ending(ending) for ending in ("\r\n", "\n")]
    ending = next((mark for mark in endings if line.endswith(mark)), b"")
    if closed and not ending:
        return line + document.encode_ending(document.ending_near(index))
    return line if closed else line[: len(line) - len(ending)]
