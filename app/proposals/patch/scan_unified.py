"""Reading unified diffs, also sloppy ones, by what their bodies hold.

The counts in hunk headers are hints: a body is taken by its counts only if it then ends where a body can end;
otherwise it is taken as far as its lines look like one, and the hunk is in doubt. A text that ends before its last
hunk does by its counts is cut off, unless the file shows that the counts are wrong. A line with a change mark that
belongs to no hunk is never passed over, unless it is plain that a list in prose begins there.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, takewhile

from app.proposals.locate.carry_over import ScriptLine, Step
from app.proposals.patch.hunk_header import HunkHeader, is_damaged_header, read_hunk_header
from app.proposals.patch.names import NO_FILE, header_name, named, plain_names
from app.proposals.patch.parts import FilePatch, PatchHunk, script_line
from app.proposals.patch.prose import (
    begins_file,
    begins_mail,
    ends_file,
    is_blank,
    is_fence,
    is_header_pair,
    is_list_line,
    is_new_section,
    is_signature,
    list_end,
    skip_blank,
)
from app.proposals.patch.unified_part import UnifiedPart, finished_parts
from app.proposals.refusals import MalformedPatch, UnsupportedPatch

_MARKS = ("+", "-")
_UNCLOSED = "the mail ends without its closing line (`-- `), so the patch may be cut off"
_LIST_AFTER = "the lines after it were taken for text around the patch"


class UnifiedScanner:
    """Reads the lines of one patch text from first to last."""

    def __init__(self, lines: Sequence[str], *, whole: bool = True, open_end: bool = False) -> None:
        """Nothing is read yet.

        Args:
            lines: The patch.
            whole: It is not cut off for certain, so that a hunk with too few lines is only miscounted.
            open_end: Its last line has no newline.
        """
        self._lines = lines
        self._whole = whole
        self._open_end = open_end and not whole
        self._parts: list[UnifiedPart] = []
        self._part: UnifiedPart | None = None
        self._in_changes = False
        """Whether a change mark on a line outside any hunk would be a lost change."""
        self._fenced = False
        """Whether the patch stands in a block of code."""
        self._stray: int | None = None
        """A line, from 0, since the last hunk that is neither part of the patch nor plainly around it."""
        self._in_mail = False
        """Whether this is in a mail as `git format-patch` writes it."""
        self._in_message = False
        """Whether this is above the diff of such a mail."""
        self.header_pairs = 0
        """How many `---` lines with their `+++` lines were taken as headers."""
        self.prose: set[int] = set()
        """Lines with a change mark, from 0, that were taken for text around the patch."""

    def scan(self) -> list[FilePatch]:
        """The files of the patch, in order; raises MalformedPatch and UnsupportedPatch."""
        at = 0
        while at < len(self._lines):
            at = self._take(at)
        part = next((part for part in reversed(self._parts) if part.hunks), None)
        if self._in_mail and not self._whole and part:
            part.hunks[-1] = replace(part.hunks[-1], doubt=part.hunks[-1].doubt or _UNCLOSED)
        return finished_parts(self._parts)

    def _take(self, at: int) -> int:
        """Take what begins at a line, return where the next thing begins."""
        line = self._lines[at]
        if begins_mail(line):
            self._in_mail = self._in_message = True
        elif self._in_message and not self._begins_diff(at):
            if line[:1] in _MARKS:
                self.prose.add(at)
            return at + 1
        else:
            self._in_message = False
        if line.startswith(("diff --cc ", "diff --combined ", "@@@ ")):
            raise UnsupportedPatch(
                f"Line {at + 1}: this is the combined diff of a merge, which says no single change. "
                "Make it against one parent (`git diff PARENT`)."
            )
        if line.startswith("diff --git "):
            self._begin(UnifiedPart.of_git(at, line[11:]))
        elif begins_file(self._lines, at):
            return self._take_names(at)
        elif line.startswith("@@"):
            return self._take_hunk(at, at + 1)
        elif not self._take_extended(line, at):
            self._pass_over(at)
        return at + 1

    def _begins_diff(self, at: int) -> bool:
        """Whether the message of a mail ends here; names without a numbered hunk are text, as git has it."""
        line = self._lines[at]
        return line.startswith(("diff --git ", "diff --cc ", "@@ -")) or (
            begins_file(self._lines, at) and self._lines[at + 2].startswith("@@ -")
        )

    def _closes_mail(self, at: int) -> bool:
        """Whether the line, which no hunk needs, closes a mail: above git's version, or its last `-- `."""
        if is_signature(self._lines, at):
            return True
        if not self._in_mail or self._lines[at].rstrip("\r") != "-- ":
            return False
        later = (line.rstrip("\r") for line in islice(self._lines, at + 1, None))
        return "-- " not in takewhile(lambda line: not begins_mail(line), later)

    def _begin(self, part: UnifiedPart) -> UnifiedPart:
        self._parts.append(part)
        self._part = part
        self._in_changes, self._stray = False, None
        return part

    def _take_names(self, at: int) -> int:
        part = self._part
        if part is None or part.named or part.hunks or part.no_data:
            part = self._begin(UnifiedPart(at + 1))
        part.old, part.new = named(self._lines[at][4:]), named(self._lines[at + 1][4:])
        self.header_pairs += 1
        self._in_changes = True
        after = at + 2
        if after < len(self._lines) and self._lines[after].startswith("+++ "):
            raise MalformedPatch(f"Line {after + 1}: a second `+++` line for the same file.")
        if self._is_body(after) and not is_header_pair(self._lines, after):
            return self._take_hunk(at + 1, after)
        return after

    def _take_extended(self, line: str, at: int) -> bool:
        """Take a line of a header that is neither names nor hunk; False if it is none."""
        part = self._part
        if part is not None and not part.hunks and part.take_extended(line, at):
            return True
        if part is None or part.named or part.hunks:
            alone = UnifiedPart(at + 1)
            if not alone.take_binary(line):
                return False
            self._begin(alone)
            return True
        return part.take_binary(line)

    def _pass_over(self, at: int) -> None:
        """Leave a line aside that is text around the patch; raises MalformedPatch if it may be a lost change."""
        line = self._lines[at]
        if is_fence(line):
            self._in_changes = self._in_changes and not self._fenced
            self._fenced = not self._fenced
        elif self._closes_mail(at):
            if not is_signature(self._lines, at):
                self.prose.add(at)
            self._in_changes, self._part, self._in_mail = False, None, False
        elif is_new_section(line):
            self._in_changes, self._part = False, None
        elif self._in_changes and line[:1] in _MARKS:
            self._refuse_loose(at)
        elif self._in_changes and not is_blank(line):
            self._stray = at
        elif is_header_pair(self._lines, at):
            self.prose.update((at, at + 1))
        elif is_list_line(line):
            self.prose.add(at)

    def _names_one_file(self, at: int) -> bool:
        old, new = header_name(self._lines[at][4:]), header_name(self._lines[at + 1][4:])
        old, new = plain_names(old, new, None)
        return old == new or NO_FILE in (old, new)

    def _take_hunk(self, header_at: int, body: int) -> int:
        part = self._part
        if part is None or not (part.named or part.git_names):
            raise MalformedPatch(
                f"Line {header_at + 1}: a hunk without a file. Put `--- a/PATH` and `+++ b/PATH` lines before it."
            )
        if self._stray is not None and part.hunks:
            # Perhaps a line of the hunk before that was broken in two.
            doubt = f"line {self._stray + 1} of the patch, which follows it, has no mark"
            part.hunks[-1] = replace(part.hunks[-1], doubt=doubt)
        self._stray = None
        line = self._lines[header_at]
        header = read_hunk_header(line, header_at) if line.startswith("@@") else HunkHeader()
        counted = self._counted_end(header, header_at, body)
        prose_end = None if counted is None else self._list_after(counted)
        complete = prose_end is not None or (counted is not None and not self._goes_on(counted))
        end = counted if counted is not None and complete else self._visible_end(body)
        lines = self._body(body, end)
        hunk = PatchHunk(
            lines,
            header.old_start,
            header.new_start,
            seek=(header.names,) if header.names else (),
            source_line=header_at + 1,
            unended=self._open_end and end == len(self._lines) and lines[-1:] != () and lines[-1].step is Step.INSERT,
        )
        if not self._whole and skip_blank(self._lines, end) == len(self._lines):
            hunk = _ending_early(hunk, header, ends_text=end == len(self._lines))
        if hunk.changes:
            doubt = _LIST_AFTER if prose_end is not None else _miscounted(hunk, header) or _ending_within(hunk)
            part.hunks.append(replace(hunk, doubt=doubt or _headed_badly(line, header, lines[0].text)))
        elif not lines and skip_blank(self._lines, end) == len(self._lines):
            raise MalformedPatch(f"Line {header_at + 1}: a hunk without lines. Is the patch cut off?")
        elif said := _miscounted(hunk, header):
            raise MalformedPatch(f"Line {header_at + 1}: a hunk without a change: {said}. Is the patch damaged?")
        self._in_changes = True
        return end if prose_end is None else prose_end

    def _counted_end(self, header: HunkHeader, header_at: int, at: int) -> int | None:
        """Where the body ends by its counts, or None if they can't be right.

        Raises:
            MalformedPatch: the text ends before the hunk does, and not after a whole line that is kept.
        """
        if header.old_count is None or header.new_count is None:
            return None
        old, new = header.old_count, header.new_count
        while old > 0 or new > 0:
            if at == len(self._lines):
                if self._whole or old < 0 or new < 0 or self._ends_in_context():
                    return None
                raise MalformedPatch(
                    f"Line {header_at + 1}: the text ends before this hunk does, by the counts in its header "
                    f"({old} old and {new} new lines are missing).",
                    "Give the whole patch, or the right counts.",
                )
            if is_header_pair(self._lines, at) and self._names_one_file(at):
                return None
            match self._lines[at][:1]:
                case " " | "":
                    old, new = old - 1, new - 1
                case "\r" if self._lines[at] == "\r":
                    old, new = old - 1, new - 1
                case "-":
                    old -= 1
                case "+":
                    new -= 1
                case "\\" if ends_file(self._lines[at]):
                    pass
                case _:
                    return None
            at += 1
        while at < len(self._lines) and ends_file(self._lines[at]):
            at += 1
        return None if old < 0 or new < 0 else at

    def _ends_in_context(self) -> bool:
        """Whether the text ends in a whole line that is kept."""
        return not self._open_end and self._lines[-1][:1] in (" ", "")

    def _goes_on(self, at: int) -> bool:
        """Whether the line, or the one after empty lines, looks like one more of a body."""
        at = skip_blank(self._lines, at)
        if at == len(self._lines) or is_header_pair(self._lines, at) or self._closes_mail(at):
            return False
        if at == len(self._lines) - 1 and (self._lines[at].startswith("--- ") or self._begins_names(at)):
            return False
        return self._is_body(at)

    def _is_body(self, at: int) -> bool:
        return at < len(self._lines) and self._lines[at][:1] in (*_MARKS, " ")

    def _begins_names(self, at: int) -> bool:
        """Whether the text was cut off in the very mark of a `---` line."""
        return self._open_end and "--- ".startswith(self._lines[at])

    def _list_after(self, at: int) -> int | None:
        """Where text with a list in it ends that follows a complete body, if there is any."""
        if self._is_body(at):
            return None
        end = list_end(self._lines, at)
        if end is not None:
            self.prose.update(line for line in range(at, end) if self._lines[line][:1] in _MARKS)
        return end

    def _visible_end(self, at: int) -> int:
        """Where the body ends by the look of its lines; empty lines at its end are left out."""
        end = at
        while at < len(self._lines):
            line = self._lines[at]
            if is_blank(line):
                at += 1
                continue
            if (
                (line[0] not in " +-" and not ends_file(line))
                or is_header_pair(self._lines, at)
                or is_signature(self._lines, at)
            ):
                break
            at += 1
            end = at
        return end

    def _body(self, start: int, end: int) -> tuple[ScriptLine, ...]:
        lines: list[ScriptLine] = []
        for at in range(start, end):
            if ends_file(self._lines[at]):
                continue
            terminated = not (at + 1 < len(self._lines) and ends_file(self._lines[at + 1]))
            lines.append(script_line(self._lines[at], terminated=terminated))
        return tuple(lines)

    def _refuse_loose(self, at: int) -> None:
        before = self._lines[at - 1] if at else ""
        reason = "belongs to no hunk"
        if before and before[0] not in " +-@\\":
            reason = f"follows line {at}, which has no mark (a context line begins with a space)"
        raise MalformedPatch(f"Line {at + 1}: the change {self._lines[at][:80]!r} {reason}. Nothing was applied.")


def _headed_badly(line: str, header: HunkHeader, first: str) -> str:
    """What is wrong with the line above a hunk, if it is no sound header and no placeholder for one."""
    if line.startswith("@@"):
        return "the numbers in its `@@` line are damaged" if header.damaged else ""
    if is_damaged_header(first):
        return "its first line looks like a damaged `@@` line"
    return "no `@@` line stands above it"


def _ending_within(hunk: PatchHunk) -> str:
    return "a line in its middle is said to end the file" if hunk.ends_within else ""


def _ending_early(hunk: PatchHunk, header: HunkHeader, *, ends_text: bool) -> PatchHunk:
    """The last hunk, marked if its header states more lines than it has; `ends_text` if no empty line follows it."""
    old = max(0, (header.old_count or 0) - len(hunk.old_side))
    new = (header.new_count or 0) - len(hunk.new_side)
    stated_end = (header.old_start or 0) + (header.old_count or 0) - 1 if old and new >= 0 else None
    return replace(hunk, short=ends_text and new > old, stated_end=stated_end)


def _miscounted(hunk: PatchHunk, header: HunkHeader) -> str:
    """What is wrong with the counts of a header, if anything is."""
    old, new = len(hunk.old_side), len(hunk.new_side)
    if not header.counted or (header.old_count, header.new_count) == (old, new):
        return ""
    return f"the hunk states {header.old_count} old and {header.new_count} new lines, but has {old} and {new}"
