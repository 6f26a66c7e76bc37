"""Lines of hunks: their numbers and texts, which lines the user has seen, and where checks give reasons to look.

Seen lines stay seen when a re-base moves their hunk.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from app.proposals.text.file_warnings import describe_mode_change
from app.proposals.values.attention_reason import AttentionReason, HunkLineReference, ReasonKind
from app.proposals.values.models import FileChange, FileDiff, Hunk, HunkState

if TYPE_CHECKING:
    from app.automation.check_results import ChangedLineInCoverageReport, ProposalChecks
    from app.automation.evidence.proposal_evidence import ProposalTestEvidence

Side = Literal["old", "new"]
"""Which text of a file a line belongs to."""


class HunkPartRanges(NamedTuple):
    """The ranges of old and new lines of a part of a hunk."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int


def hunk_line_numbers(hunk: Hunk | HunkPartRanges, side: Side) -> range:
    """Return the line numbers of a hunk on one side."""
    if side == "old":
        return range(hunk.old_start, hunk.old_start + hunk.old_count)
    return range(hunk.new_start, hunk.new_start + hunk.new_count)


def removed_and_added_lines(diff: FileDiff, hunk: Hunk | HunkPartRanges) -> tuple[Sequence[str], Sequence[str]]:
    """Return the removed and the added lines of a hunk."""
    return (
        diff.old[hunk.old_start : hunk.old_start + hunk.old_count],
        diff.new[hunk.new_start : hunk.new_start + hunk.new_count],
    )


def diff_side_lines(diff: FileDiff, side: Side) -> Sequence[str]:
    """Return the lines of the old or the new text of a file."""
    return diff.old if side == "old" else diff.new


def changed_line_index(hunk: Hunk, side: Side, line: int) -> int:
    """Return the index of a changed line in its hunk, removed lines before added ones."""
    return line - hunk.old_start if side == "old" else hunk.old_count + line - hunk.new_start


def changed_line_at(hunk: Hunk | HunkPartRanges, index: int) -> tuple[Side, int]:
    """Return the side and number of the changed line with this index in its hunk."""
    if index < hunk.old_count:
        return "old", hunk.old_start + index
    return "new", hunk.new_start + index - hunk.old_count


def diff_side_text(diff: FileDiff, side: Side) -> str:
    """Return the old or the new text of a file with its newlines."""
    lines, has_final_newline = (
        (diff.old, diff.old_final_newline) if side == "old" else (diff.new, diff.new_final_newline)
    )
    return "\n".join(lines) + ("\n" if lines and has_final_newline else "")


def describe_hunk_lines(hunk: Hunk) -> str:
    """Return the lines of a hunk in words: `lines 12 to 15`, `old line 3`."""
    side, lines = ("", hunk_line_numbers(hunk, "new")) if hunk.new_count else ("old ", hunk_line_numbers(hunk, "old"))
    if len(lines) == 1:
        return f"{side}line {lines.start + 1}"
    return f"{side}lines {lines.start + 1} to {lines.stop}"


def heading_shows_change(change: FileChange) -> bool:
    """Return whether an approval writes what only the heading of a file shows: no hunks, a rename or a mode."""
    return not change.hunks or bool(change.old_path or describe_mode_change(change))


Span = tuple[int, int]
"""Start and end of a range of characters."""


def changed_line_count(hunk: Hunk) -> int:
    """Return the number of removed and added lines."""
    return hunk.old_count + hunk.new_count


class SeenLines:
    """The lines of one proposal that have been on the screen."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        """Paths of the files whose head shows a change and was drawn."""
        self.count = 0
        """Increases whenever the user sees something for the first time."""
        self.lines = 0
        """Number of seen lines."""
        self._seen_by_hunk: dict[str, bytearray] = {}
        """By hunk id, one byte for each line: 1 if all its changed characters were drawn."""
        self._unseen_counts: dict[str, int] = {}
        """By hunk id, the number of lines that are still 0 in `_lines`."""
        self._drawn_spans: dict[tuple[str, int], list[Span]] = {}
        """The drawn characters of lines that were drawn in part, as sorted spans that do not touch."""
        self._unsaved: set[str] = set()
        """Hunk ids, and paths of files without hunks, of which something was seen since `pop_new_lines`."""

    # Recording

    def mark_file_seen(self, path: str) -> None:
        """Record that the head of a file was drawn."""
        if path not in self.files:
            self.files.add(path)
            self.count += 1
            self._unsaved.add(path)

    def mark_seen(self, hunk: Hunk, number: int) -> None:
        """Record that a line was drawn from its first to its last changed character."""
        lines = self._seen_by_hunk.get(hunk.id)
        if lines is None:
            lines = self._seen_by_hunk[hunk.id] = bytearray(changed_line_count(hunk))
            self._unseen_counts[hunk.id] = len(lines)
        if number < len(lines) and not lines[number]:
            lines[number] = 1
            self._unseen_counts[hunk.id] -= 1
            self._drawn_spans.pop((hunk.id, number), None)
            self.count += 1
            self.lines += 1
            self._unsaved.add(hunk.id)

    def mark_characters_seen(self, hunk: Hunk, number: int, drawn: Span, wanted: Sequence[Span]) -> None:
        """Record drawn characters of a line; once all `wanted` characters were drawn, the line counts as seen."""
        if self.is_seen(hunk, number):
            return
        earlier_spans = self._drawn_spans.get((hunk.id, number), [])
        spans = _add_span(earlier_spans, drawn)
        if spans != earlier_spans:
            self._drawn_spans[hunk.id, number] = spans
            self.count += 1
        if _find_first_gap(spans, wanted) is None:
            self.mark_seen(hunk, number)

    def copy_seen_lines(self, whole: Hunk, part: Hunk) -> None:
        """Copy the seen lines of a hunk to a part that was split off."""
        for number in range(changed_line_count(part)):
            if self.is_seen(whole, changed_line_index(whole, *changed_line_at(part, number))):
                self.mark_seen(part, number)

    # Sharing with other windows and runs

    def pop_new_lines(self) -> dict[str, bytes]:
        """Return the lines seen since the last call: by hunk id a byte per line, by path one byte for a file without
        hunks.
        """
        new, self._unsaved = self._unsaved, set()
        return {key: bytes(self._seen_by_hunk.get(key, b"\1")) for key in new}

    def restore(self, seen: Mapping[str, bytes], changes: Iterable[FileChange]) -> None:
        """Add lines of these files that were seen in another window or run."""
        for change in changes:
            if change.path in seen:
                self.files.add(change.path)
            for hunk in change.hunks:
                stored = seen.get(hunk.id, b"")
                if len(stored) == changed_line_count(hunk) and any(stored):
                    lines = bytearray(map(max, stored, self._seen_by_hunk.get(hunk.id, bytes(len(stored)))))
                    self.lines += sum(lines) - sum(self._seen_by_hunk.get(hunk.id, b""))
                    self._seen_by_hunk[hunk.id], self._unseen_counts[hunk.id] = lines, len(lines) - sum(lines)

    # Queries

    def is_seen(self, hunk: Hunk, number: int) -> bool:
        """Return whether a line was seen."""
        lines = self._seen_by_hunk.get(hunk.id)
        return lines is not None and number < len(lines) and bool(lines[number])

    def count_unseen_lines(self, hunk: Hunk) -> int:
        """Return how many of its lines were not on the screen."""
        return self._unseen_counts.get(hunk.id, changed_line_count(hunk)) if hunk.old_count or hunk.new_count else 0

    def count_unseen_of_hunks(self, hunks: Iterable[Hunk], left_out: Collection[str]) -> tuple[int, int]:
        """Return how many lines of the waiting, chosen hunks were not on the screen, and how many there are."""
        missing = total = 0
        unseen_count_of = self._unseen_counts.get
        for hunk in hunks:  # called after every page, for up to tens of thousands of hunks
            if hunk.state is HunkState.PENDING and hunk.id not in left_out:
                lines = hunk.old_count + hunk.new_count
                unseen = unseen_count_of(hunk.id)
                total += lines
                missing += lines if unseen is None else unseen
        return missing, total

    def first_unseen(self, hunk: Hunk, start: int = 0) -> int | None:
        """Return the first of its lines from `start` on that was not seen; None if all were."""
        if start >= changed_line_count(hunk):
            return None
        lines = self._seen_by_hunk.get(hunk.id)
        index = start if lines is None else lines.find(0, start)
        return None if index < 0 else index

    def first_undrawn_character(self, hunk: Hunk, number: int, wanted: Sequence[Span]) -> int:
        """Return the first wanted character of a line that was not drawn; the first wanted one if all were drawn."""
        gap = _find_first_gap(self._drawn_spans.get((hunk.id, number), []), wanted)
        return gap if gap is not None else wanted[0][0] if wanted else 0


def _add_span(spans: Sequence[Span], new: Span) -> list[Span]:
    """Return the spans with one more; touching spans are joined."""
    start, end = new
    if start >= end:
        return list(spans)
    spans_before = [span for span in spans if span[1] < start]
    spans_after = [span for span in spans if span[0] > end]
    touching = spans[len(spans_before) : len(spans) - len(spans_after)]
    if touching:
        start, end = min(start, touching[0][0]), max(end, touching[-1][1])
    return [*spans_before, (start, end), *spans_after]


def _find_first_gap(spans: Sequence[Span], wanted: Sequence[Span]) -> int | None:
    """Return the first wanted character outside all spans; None if there is none."""
    for start, end in wanted:
        at = start
        for low, high in spans:
            if low <= at < high:
                at = high
        if at < end:
            return at
    return None


_EVIDENCE_KINDS = (ReasonKind.UNHELD, ReasonKind.UNCOVERED)


def add_evidence_reasons(
    diffs: Sequence[FileDiff], checks: "ProposalChecks | None", evidence: "ProposalTestEvidence | None"
) -> list[FileDiff]:
    """Return the diffs with reasons for attention: hunks that no test or check depends on, and changed lines that no
    test runs.

    Earlier reasons of these kinds are replaced.
    """
    unheld = frozenset(evidence.unnoticed_hunks) if evidence is not None else frozenset()
    uncovered: dict[str, list[ChangedLineInCoverageReport]] = {}
    for line in checks.uncovered_lines if checks is not None else ():
        uncovered.setdefault(line.hunk, []).append(line)
    marked = []
    for diff in diffs:
        reasons = (
            *(reason for reason in diff.reasons if reason.kind not in _EVIDENCE_KINDS),
            *_find_evidence_reasons(diff, unheld, uncovered),
        )
        marked.append(diff if reasons == diff.reasons else diff.model_copy(update={"reasons": reasons}))
    return marked


def has_evidence_reason(diff: FileDiff) -> bool:
    """Return whether checks or tests gave a reason to look at a file."""
    return any(reason.kind in _EVIDENCE_KINDS for reason in diff.reasons)


def uncovered_line_numbers(diff: FileDiff) -> list[int]:
    """Return the changed lines of a file, from 0 in the new text, that no test runs."""
    places = [place for reason in diff.reasons if reason.kind is ReasonKind.UNCOVERED for place in reason.places]
    starts = {hunk.id: hunk.new_start for hunk in diff.change.hunks} if places else {}
    return [starts[place.hunk] + place.offset for place in places if place.hunk in starts]


def _find_evidence_reasons(
    diff: FileDiff, unheld: frozenset[str], uncovered: "dict[str, list[ChangedLineInCoverageReport]]"
) -> Iterator[AttentionReason]:
    hunks = diff.change.hunks if unheld or uncovered else ()
    unheld_places = [
        HunkLineReference(hunk=hunk.id, side=changed_line_at(hunk, 0)[0], offset=0)
        for hunk in hunks
        if hunk.id in unheld
    ]
    if unheld_places:
        yield AttentionReason(
            kind=ReasonKind.UNHELD, path=diff.change.path, count=len(unheld_places), places=tuple(unheld_places)
        )
    uncovered_places = [
        HunkLineReference(hunk=hunk.id, side="new", offset=line.offset)
        for hunk in hunks
        for line in uncovered.get(hunk.id, ())
    ]
    if uncovered_places:
        yield AttentionReason(
            kind=ReasonKind.UNCOVERED,
            path=diff.change.path,
            count=len(uncovered_places),
            places=tuple(uncovered_places),
        )
