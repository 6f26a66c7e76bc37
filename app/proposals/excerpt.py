"""A hunk and what is around it as plain text, for a reader who has nothing else before them."""

from app.proposals.models import FileDiff, Hunk, HunkState


def hunk_text(diff: FileDiff, hunk: Hunk, characters: int) -> str:
    """The removed and the added lines with their `-` and `+`, the middle left out where they are too many."""
    removed = [f"-{line}" for line in diff.old[hunk.old_start : hunk.old_start + hunk.old_count]]
    added = [f"+{line}" for line in diff.new[hunk.new_start : hunk.new_start + hunk.new_count]]
    return clipped("\n".join([*removed, *added]), characters)


def surroundings(diff: FileDiff, hunk: Hunk | None, lines: int, characters: int) -> str:
    """The file with the proposal in it, numbered, so many lines to each side of a hunk; of a deleted file, as it was.

    Without a hunk from the beginning of the file. As many lines as fit, those next to the hunk first.
    """
    text = diff.new or diff.old
    start, end = _place(diff, hunk)
    room = characters
    first, last = start, start
    above, below = min(lines, start), min(lines + end - start, len(text) - start)
    for step in range(max(above, below)):
        if step < below and (room := room - _cost(text[start + step])) >= 0:
            last = start + step + 1
        if step < above and (room := room - _cost(text[start - step - 1])) >= 0:
            first = start - step - 1
    width = len(str(last))
    return "\n".join(f"{number + 1:>{width}}  {text[number]}" for number in range(first, last))


def clipped(text: str, characters: int) -> str:
    """The text, or its beginning and its end with a line that says how much of it is left out between them."""
    if len(text) <= characters:
        return text
    head, tail = max(0, characters * 2 // 3), max(0, characters // 3)
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out} characters left out …]\n{text[len(text) - tail :]}"


def _place(diff: FileDiff, hunk: Hunk | None) -> tuple[int, int]:
    """From where to where a hunk is in the text that is shown."""
    if hunk is None:
        return 0, 0
    if not diff.new:
        return min(hunk.old_start, len(diff.old)), min(hunk.old_start + hunk.old_count, len(diff.old))
    count = 0 if hunk.state is HunkState.DENIED else hunk.new_count
    return min(hunk.new_start, len(diff.new)), min(hunk.new_start + count, len(diff.new))


def _cost(line: str) -> int:
    return len(line) + 8
