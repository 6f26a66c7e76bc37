"""What the view without white space leaves out of a change, hunk by hunk.

It is a way to look, and nothing else: the proposal's hunks, their numbers, what is chosen and what is written stay as
they are. What it leaves out was not seen, nor was a hunk that is said in one row: that row tells how much there is,
not what it is, and white space can do harm where nobody expects it, in a text of several lines or in a language that
is not what the file's name says. So an approval asks about it as about all that was never on screen, and the key that
goes on to what was not seen shows it.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from app.proposals.models import FileDiff, Hunk
from app.proposals.text.spaces import beyond_space, meaning_in
from app.text.plural import plural
from widgets.diff.rows import NoteRow, Place, SourceLine, lines_of, texts_of

HunkKey = tuple[int, int]
"""A hunk by the index of its file and its own index in the file."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is left of the hunks that change white space, among other things or alone."""

    parts: Mapping[HunkKey, tuple[Place, ...]] = field(default_factory=dict)
    """What there is to show of a hunk; nothing of one that changes white space alone."""
    lines: Mapping[HunkKey, int] = field(default_factory=dict)
    """How many of its lines are left out."""
    indented: Mapping[int, int] = field(default_factory=dict)
    """By file, how many lines change in their indentation alone and stay, since it has meaning there or may have."""

    def but(self, diffs: Sequence[FileDiff], shown: Collection[str], lines: Collection[SourceLine]) -> "LeftOut":
        """The same without the hunks with these ids, or with one of these lines in them: they are shown whole."""
        whole = {(file, index) for file, index in self.parts if diffs[file].change.hunks[index].id in shown}
        whole |= {(line.file, _hunk_of(diffs[line.file].change.hunks, line)) for line in lines}
        return LeftOut(
            {key: parts for key, parts in self.parts.items() if key not in whole},
            {key: count for key, count in self.lines.items() if key not in whole},
            self.indented,
        )

    @property
    def total(self) -> int:
        """Lines that are left out in all."""
        return sum(self.lines.values())

    def notes(self, diffs: Sequence[FileDiff], key: str) -> dict[int, list[NoteRow]]:
        """What stands under the heads of files: how much is left out of each, which key shows it, and what stays."""
        found: dict[int, list[NoteRow]] = {}
        counts: dict[int, int] = {}
        for (file, _), count in self.lines.items():
            counts[file] = counts.get(file, 0) + count
        for file, count in counts.items():
            found.setdefault(file, []).append(NoteRow(file, f"{space_words(count)} · {key} shows them", "note"))
        for file, count in self.indented.items():
            language = meaning_in(diffs[file].change.path).language
            why = f"which has meaning in {language}" if language else "which may have meaning here"
            verb = "changes" if count == 1 else "change"
            text = f"{plural(count, 'line')} {verb} in indentation alone, {why}: shown"
            found.setdefault(file, []).append(NoteRow(file, text, "note"))
        return found


def _hunk_of(hunks: Sequence[Hunk], line: SourceLine) -> int:
    """The index of the hunk that a line is in; -1 if it is in none. There may be many of both."""
    at = bisect_right(hunks, line.line, key=lambda hunk: lines_of(hunk, line.side).start) - 1
    return at if at >= 0 and line.line in lines_of(hunks[at], line.side) else -1


def space_words(lines: int) -> str:
    """`12 lines differ in white space only`."""
    return f"{plural(lines, 'line')} {'differs' if lines == 1 else 'differ'} in white space only"


def left_out(diffs: Sequence[FileDiff]) -> LeftOut:
    """What the view without white space leaves out of a change; a large one is looked through in a thread."""
    parts: dict[HunkKey, tuple[Place, ...]] = {}
    lines: dict[HunkKey, int] = {}
    indented: dict[int, int] = {}
    for file, diff in enumerate(diffs):
        meaning = meaning_in(diff.change.path)
        for index, hunk in enumerate(diff.change.hunks):
            rest = beyond_space(*texts_of(diff, hunk), meaning)
            if rest is None:
                continue
            if rest.indented:
                indented[file] = indented.get(file, 0) + rest.indented
            if rest.left_out:
                lines[file, index] = rest.left_out
                parts[file, index] = tuple(
                    Place(
                        hunk.old_start + change.old_start,
                        change.removed,
                        hunk.new_start + change.new_start,
                        change.added,
                    )
                    for change in rest.changes
                )
    return LeftOut(parts, lines, indented)
