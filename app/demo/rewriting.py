"""Turns a text and the text that it should become into the edits of an `edit_file` call."""

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any


def edits_between(before: str, after: str) -> list[dict[str, Any]]:
    """Search/replace pairs that turn `before` into `after`; each `old` occurs once in `before`.

    Every changed block of lines takes in its neighbouring lines until it is unique; blocks that meet become one.
    """
    old_lines, new_lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    opcodes = SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes()
    blocks = [_Block(*opcode[1:]) for opcode in opcodes if opcode[0] != "equal"]
    while (index := _first_ambiguous(blocks, before, old_lines)) is not None:
        _widen(blocks, index, len(old_lines))
    return [
        {
            "old": "".join(old_lines[block.start : block.end]),
            "new": "".join(new_lines[block.new_start : block.new_end]),
        }
        for block in blocks
    ]


@dataclass(slots=True)
class _Block:
    """Changed lines, as half-open ranges in the old and in the new text."""

    start: int
    end: int
    new_start: int
    new_end: int


def _first_ambiguous(blocks: list[_Block], before: str, lines: list[str]) -> int | None:
    """The first block whose old text is blank or occurs more than once."""
    for index, block in enumerate(blocks):
        old = "".join(lines[block.start : block.end])
        if block.end - block.start < len(lines) and not (old.strip() and _occurs_once(old, before)):
            return index
    return None


def _occurs_once(part: str, text: str) -> bool:
    """Whether `part` begins at one place of `text` only; `str.count` would miss places that overlap."""
    return text.find(part, text.find(part) + 1) < 0


def _widen(blocks: list[_Block], index: int, line_count: int) -> None:
    """Take in the equal line above and below the block, and any block that it then touches."""
    block = blocks[index]
    before = blocks[index - 1] if index else None
    after = blocks[index + 1] if index + 1 < len(blocks) else None
    if block.start > (before.end if before else 0):
        block.start -= 1
        block.new_start -= 1
    if block.end < (after.start if after else line_count):
        block.end += 1
        block.new_end += 1
    if after and block.end == after.start:
        block.end, block.new_end = after.end, after.new_end
        blocks.remove(after)
    if before and block.start == before.end:
        block.start, block.new_start = before.start, before.new_start
        blocks.remove(before)
