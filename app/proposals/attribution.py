"""What of a commit was reviewed here: the decisions that led to its contents, and the lines that they brought."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from app.proposals.record import Entry, RecordedFile
from app.proposals.text.diff import diff


@dataclass(frozen=True, slots=True)
class Step:
    """A decision that wrote a file."""

    entry: Entry
    file: RecordedFile


def steps_to(entries: Sequence[Entry], path: str, blob: str) -> list[Step]:
    """The decisions that led to a content of a file, oldest first, as far as each wrote on what the one before left.

    Args:
        entries: The record, oldest first.
        path: Of the file.
        blob: The git blob that it is now.
    """
    steps: list[Step] = []
    wanted = blob
    for entry in reversed(entries):
        found = next((file for file in entry.files if file.path == path), None)
        if entry.writes and found is not None and found.result == wanted != found.base:
            steps.insert(0, Step(entry, found))
            wanted = found.base
    return steps


def lines_brought(steps: Sequence[Step], contents: Callable[[str], bytes]) -> list[Entry | None]:
    """For each line of the last content the decision that brought it; None for a line that was there before.

    Args:
        steps: As of `steps_to`, at least one.
        contents: Gives a content by its SHA-256; raises KeyError for one that is gone.
    """
    lines = _lines(steps[0].file.base_sha256, contents)
    brought: list[Entry | None] = [None] * len(lines)
    for step in steps:
        new = _lines(step.file.result_sha256, contents)
        after: list[Entry | None] = []
        at = 0
        for change in diff(lines, new):
            after += brought[at : change.old_start]
            after += [step.entry] * (change.new_end - change.new_start)
            at = change.old_end
        lines, brought = new, after + brought[at:]
    return brought


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in order as text: `1-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _lines(sha256: str, contents: Callable[[str], bytes]) -> list[bytes]:
    return contents(sha256).splitlines(keepends=True) if sha256 else []
