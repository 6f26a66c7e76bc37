"""Parse unified diffs, also careless ones, by the contents of their bodies.

The counts in hunk headers are hints. A body is read by its counts only if it then ends where a body can end.
Otherwise it extends as far as its lines look like a body, and the hunk is in doubt. A text that ends before its last
hunk does by its counts is cut off, unless the file shows that the counts are wrong. A line with a change mark that
belongs to no hunk is an error, unless a list in prose clearly begins there.
"""

import re
from collections.abc import Collection, Sequence
from itertools import islice, takewhile

from msgspec import Struct, field

from app.copies import replace
from app.proposals.locate.edit_script import EditScriptLine, LineOperation
from app.proposals.patch.diff_header_names import (
    NO_FILE,
    DiffHeaderName,
    PrefixPair,
    find_path_prefixes,
    parse_header_name,
    parse_rename_path,
    split_git_header_names,
    strip_path_prefixes,
)
from app.proposals.patch.parsed_patch import (
    MIN_BLOB_ID_DIGITS,
    FilePatch,
    PatchHunk,
    matches_blob_id_prefix,
    parse_hunk_body_line,
)
from app.proposals.patch.prose import (
    HunkHeader,
    begins_next_patch_part,
    can_be_prose_list_line,
    find_prose_list_end,
    is_code_fence,
    is_damaged_hunk_header,
    is_empty_line,
    is_file_header_with_hunk,
    is_format_patch_start,
    is_mail_signature,
    is_no_newline_marker,
    looks_like_file_header,
    parse_hunk_header,
    skip_blank_lines,
)
from app.proposals.values.models import FileOperation
from app.proposals.values.proposal_errors import MalformedPatch, UnsupportedPatch

_INDEX_LINE = re.compile(r"^index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: (\d+))?")
_BINARY_LINE = re.compile(r"^Binary files? (.+) and (.+) differ$")
_MULTIPART_HEADER = re.compile(r'^Content-Type: multipart/mixed; boundary="(.+)"')
_SIMILARITY_LINES = ("similarity index ", "dissimilarity index ")
_MODE_DIGITS = re.compile(r"[0-7]{6}")
_MODE_LINES = ("old mode ", "new mode ", "new file mode ", "deleted file mode ")
BINARY_WITHOUT_DATA = "binary, and the patch does not contain its data"


class FilePatchBuilder(Struct):
    """Collects the headers and hunks of one file of a unified diff, and builds its FilePatch."""

    line: int
    """Its first line, from 1."""
    git_text: str = ""
    """Text after `diff --git`, if it begins with this line."""
    git_names: tuple[str, str] | None = None
    old: DiffHeaderName | None = None
    """The name in its `---` line."""
    new: DiffHeaderName | None = None
    rename: dict[str, str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    old_blob: str = ""
    new_blob: str = ""
    is_binary_without_data: bool = False
    """Whether it says only that the file is binary."""
    hunks: list[PatchHunk] = field(default_factory=list)

    @property
    def has_names(self) -> bool:
        """Return whether its `---` and `+++` lines have been read."""
        return self.old is not None

    @property
    def names(self) -> tuple[str, str]:
        """Return both names as written, `/dev/null` for a missing one; raises MalformedPatch if there are none."""
        if self.old is not None and self.new is not None:
            return self.old.path, self.new.path
        if self.git_names:
            old, new = self.git_names
            if "new file mode" in self.modes:
                return NO_FILE, new
            return old, NO_FILE if "deleted file mode" in self.modes else new
        raise MalformedPatch(f"Line {self.line}: can't tell which file is named by {self.git_text[:120]!r}.")

    @property
    def prefixes(self) -> PrefixPair | None:
        """Return the prefixes of both names that are not part of the paths."""
        return None if self.rename else find_path_prefixes(*self.names, self.git_names)

    def read_extended_header(self, line: str, at: int) -> bool:
        """Read one of git's extended header lines, line `at` (from 0); return False for any other line."""
        line = line.rstrip("\r")
        for prefix in _MODE_LINES:
            if line.startswith(prefix):
                self.modes[prefix.strip()] = self._parse_mode(line[len(prefix) :], at)
                return True
        for prefix in ("rename from ", "rename to "):
            if line.startswith(prefix):
                self.rename[prefix.strip()] = parse_rename_path(line[len(prefix) :])
                return True
        if index := _INDEX_LINE.match(line):
            self.old_blob, self.new_blob = index[1], index[2]
            if index[3]:
                self._parse_mode(index[3], at)
            return True
        if line.startswith(("copy from ", "copy to ")):
            raise UnsupportedPatch(f"Line {at + 1}: copies are not supported. Make the diff without -C.")
        if line.startswith("GIT binary patch"):
            raise self._unsupported("binary", at)
        return line.startswith(_SIMILARITY_LINES)

    def _parse_mode(self, text: str, at: int) -> int:
        mode = int(text, 8) if _MODE_DIGITS.fullmatch(text) else 0
        match mode & 0o170000:
            case 0o100000:
                return mode & 0o777
            case 0o120000:
                raise self._unsupported("a symbolic link", at)
            case 0o160000:
                raise self._unsupported("a submodule", at)
            case _:
                raise MalformedPatch(f"Line {at + 1}: {text.strip()[:40]!r} is not a file mode.")

    def _unsupported(self, kind: str, at: int) -> UnsupportedPatch:
        name = strip_path_prefixes(*self.git_names, self.git_names)[1] if self.git_names else "this file"
        return UnsupportedPatch(f"Line {at + 1}: the part for {name} is {kind}; patches can change only text files.")

    def read_binary_line(self, line: str) -> bool:
        """Read a line about a binary difference of the part; return False for any other line."""
        line = line.rstrip("\r")
        match = _BINARY_LINE.match(line) if line.endswith(" differ") else None
        if match is None:
            return False
        self.is_binary_without_data = True
        if not self.git_names:
            self.old, self.new = parse_header_name(match[1]), parse_header_name(match[2])
        return True

    def build(self, known_prefixes: Collection[PrefixPair]) -> FilePatch:
        """Return the FilePatch of the lines read so far. Raises `MalformedPatch`.

        Args:
            known_prefixes: The prefixes in other parts, for a name beside `/dev/null`.
        """
        old, new = (
            self._renamed_paths() if self.rename else strip_path_prefixes(*self.names, self.git_names, known_prefixes)
        )
        if self.old and self.old.missing and not any(hunk.old_side for hunk in self.hunks):
            old = NO_FILE
        elif self.new and self.new.missing and not any(hunk.new_side for hunk in self.hunks):
            new = NO_FILE
        if old == NO_FILE:
            path, op, old_path = new, FileOperation.CREATE, ""
        elif new == NO_FILE:
            path, op, old_path = old, FileOperation.DELETE, ""
        elif self.rename and old != new:
            path, op, old_path = new, FileOperation.RENAME, old
        else:
            path, op, old_path = new, FileOperation.EDIT if self.hunks else FileOperation.MODE, ""
        if not path or path == NO_FILE:
            raise MalformedPatch(f"Line {self.line}: the header names no file.")
        if self.has_names and not self.rename:
            self._check_same_file(old, new)
        if self.is_binary_without_data:
            return FilePatch(path, op, old_path=old_path, left_out=BINARY_WITHOUT_DATA)
        new_mode = self.modes.get("new mode", self.modes.get("new file mode"))
        self._check_hunks_present(path, op, new_mode)
        return FilePatch(
            path,
            op,
            tuple(self.hunks),
            old_path,
            self.modes.get("old mode", self.modes.get("deleted file mode")),
            new_mode,
            self.old_blob,
            self.new_blob,
            shows_deleted_lines=True,
        )

    def _renamed_paths(self) -> tuple[str, str]:
        """Return the names of a rename; raise MalformedPatch if they do not fit the `diff --git` line."""
        old, new = self.rename.get("rename from", ""), self.rename.get("rename to", "")
        stated = self.git_names[1] if self.git_names else self.git_text.rstrip("\r")
        if not old or not new or not f"/{stated}".endswith(("/" + new, " " + new)):
            raise MalformedPatch(
                f"Line {self.line}: the rename does not say from where to where. Is the patch cut off?"
            )
        return old, new

    def _check_same_file(self, old: str, new: str) -> None:
        """Refuse a header whose lines name different files."""
        paths = {name for name in (old, new) if name != NO_FILE}
        if self.git_names:
            is_consistent = paths <= set(strip_path_prefixes(*self.git_names, self.git_names))
        else:
            # The lines that a hunk removes or keeps show which of the two files is meant.
            is_consistent = len(paths) == 1 or any(hunk.old_side for hunk in self.hunks)
        if not is_consistent:
            raise MalformedPatch(f"Line {self.line}: the header names different files ({', '.join(sorted(paths))}).")

    def _check_hunks_present(self, path: str, op: FileOperation, new_mode: int | None) -> None:
        """Refuse a part without hunks whose header announces a change of content."""
        if self.hunks:
            return
        if op is FileOperation.DELETE and len(self.old_blob) >= MIN_BLOB_ID_DIGITS:
            return  # `git diff -D` omits the deleted lines; `_check_deletion` compares the file by its id.
        blob = self.new_blob if op is FileOperation.CREATE else self.old_blob if op is FileOperation.DELETE else ""
        announces_change = not matches_blob_id_prefix(b"", blob) if blob else self.old_blob != self.new_blob
        if announces_change or (op is FileOperation.MODE and new_mode is None):
            raise MalformedPatch(f"Line {self.line}: there is no change for {path}. Is the patch cut off?")


_CHANGE_MARKS = ("+", "-")
_UNCLOSED_MAIL_DOUBT = "the mail ends without its closing line (`-- `), so the patch may be cut off"
_LIST_AFTER_DOUBT = "the lines after it were taken for text around the patch"


class UnifiedDiffParser:
    """Parser of a unified diff over any number of files.

    Args:
        is_complete: Whether the text is certainly complete; then a hunk with too few lines is only miscounted.
        open_end: Whether its last line has no newline.
    """

    def __init__(self, lines: Sequence[str], *, is_complete: bool = True, open_end: bool = False) -> None:
        self._lines = lines
        self._is_complete = is_complete
        self._has_open_end = open_end and not is_complete
        self._parts: list[FilePatchBuilder] = []
        self._part: FilePatchBuilder | None = None
        self._expects_changes = False
        """Whether a change mark on a line outside any hunk would be a lost change."""
        self._is_in_code_fence = False
        """Whether the patch is in a block of code."""
        self._stray_line: int | None = None
        """A line, from 0, since the last hunk that is neither part of the patch nor clearly text around it."""
        self._is_in_mail = False
        """Whether the scanner is in a mail as `git format-patch` writes it."""
        self._is_in_message = False
        """Whether the scanner is above the diff of this mail."""
        self._mail_end = ""
        """The line that closes this mail, without CR."""
        self.header_pairs = 0
        """Number of `---` lines with their `+++` lines that were taken as headers."""
        self.prose_lines: set[int] = set()
        """Lines with a change mark, from 0, that were taken for text around the patch."""

    def parse(self) -> list[FilePatch]:
        """Return the files of the patch, in order; raises MalformedPatch and UnsupportedPatch."""
        at = 0
        while at < len(self._lines):
            at = self._parse_element(at)
        part = next((part for part in reversed(self._parts) if part.hunks), None)
        if self._is_in_mail and not self._is_complete and part:
            part.hunks[-1] = replace(part.hunks[-1], doubt=part.hunks[-1].doubt or _UNCLOSED_MAIL_DOUBT)
        known_prefixes = {pair for part in self._parts if (pair := part.prefixes)}
        return [part.build(known_prefixes) for part in self._parts]

    def _parse_element(self, at: int) -> int:
        """Read the element at a line; return the line where the next one begins."""
        line = self._lines[at]
        if is_format_patch_start(line):
            self._is_in_mail = self._is_in_message = True
            self._mail_end = "-- "
        elif self._is_in_message and not self._begins_diff(at):
            if boundary := _MULTIPART_HEADER.match(line):
                self._mail_end = f"--{boundary[1]}--"
            if line[:1] in _CHANGE_MARKS:
                self.prose_lines.add(at)
            return at + 1
        else:
            self._is_in_message = False
        if line.startswith(("diff --cc ", "diff --combined ", "@@@ ")):
            raise UnsupportedPatch(
                f"Line {at + 1}: this is the combined diff of a merge, which has no single change. "
                "Make it against one parent (`git diff PARENT`)."
            )
        if line.startswith("diff --git "):
            self._begin_part(FilePatchBuilder(at + 1, line[11:], split_git_header_names(line[11:])))
        elif is_file_header_with_hunk(self._lines, at):
            return self._parse_names(at)
        elif line.startswith("@@"):
            return self._parse_hunk(at, at + 1)
        elif not self._parse_extended_header(line, at):
            self._skip_line(at)
        return at + 1

    def _begins_diff(self, at: int) -> bool:
        """Return whether the message of a mail ends here; as in git, names without a numbered hunk are part of it."""
        line = self._lines[at]
        return line.startswith(("diff --git ", "diff --cc ", "@@ -")) or (
            is_file_header_with_hunk(self._lines, at) and self._lines[at + 2].startswith("@@ -")
        )

    def _closes_mail(self, at: int) -> bool:
        """Return whether a line that belongs to no hunk closes a mail: `-- ` above git's version, or its last end."""
        if is_mail_signature(self._lines, at):
            return True
        if not self._is_in_mail or self._lines[at].rstrip("\r") != self._mail_end:
            return False
        later = (line.rstrip("\r") for line in islice(self._lines, at + 1, None))
        return self._mail_end not in takewhile(lambda line: not is_format_patch_start(line), later)

    def _begin_part(self, part: FilePatchBuilder) -> FilePatchBuilder:
        self._parts.append(part)
        self._part = part
        self._expects_changes, self._stray_line = False, None
        return part

    def _parse_names(self, at: int) -> int:
        part = self._part
        if part is None or part.has_names or part.hunks or part.is_binary_without_data:
            part = self._begin_part(FilePatchBuilder(at + 1))
        part.old, part.new = parse_header_name(self._lines[at][4:]), parse_header_name(self._lines[at + 1][4:])
        self.header_pairs += 1
        self._expects_changes = True
        after = at + 2
        if after < len(self._lines) and self._lines[after].startswith("+++ "):
            raise MalformedPatch(f"Line {after + 1}: a second `+++` line for the same file.")
        if self._is_body_line(after) and not looks_like_file_header(self._lines, after):
            return self._parse_hunk(at + 1, after)
        return after

    def _parse_extended_header(self, line: str, at: int) -> bool:
        """Read a header line that is neither names nor hunk; return False for any other line."""
        part = self._part
        if part is not None and not part.hunks and part.read_extended_header(line, at):
            return True
        if part is None or part.has_names or part.hunks:
            new_part = FilePatchBuilder(at + 1)
            if not new_part.read_binary_line(line):
                return False
            self._begin_part(new_part)
            return True
        return part.read_binary_line(line)

    def _skip_line(self, at: int) -> None:
        """Skip a line of text around the patch; raise MalformedPatch if it may be a lost change."""
        line = self._lines[at]
        if is_code_fence(line):
            self._expects_changes = self._expects_changes and not self._is_in_code_fence
            self._is_in_code_fence = not self._is_in_code_fence
        elif self._closes_mail(at):
            if not is_mail_signature(self._lines, at):
                self.prose_lines.add(at)
            self._expects_changes, self._part, self._is_in_mail = False, None, False
        elif begins_next_patch_part(line):
            self._expects_changes, self._part = False, None
        elif self._expects_changes and line[:1] in _CHANGE_MARKS:
            self._refuse_loose_change(at)
        elif self._expects_changes and not is_empty_line(line):
            self._stray_line = at
        elif looks_like_file_header(self._lines, at):
            self.prose_lines.update((at, at + 1))
        elif can_be_prose_list_line(line):
            self.prose_lines.add(at)

    def _names_one_file(self, at: int) -> bool:
        old, new = (parse_header_name(self._lines[line][4:]).path for line in (at, at + 1))
        old, new = strip_path_prefixes(old, new, None)
        return old == new or NO_FILE in (old, new)

    def _parse_hunk(self, header_at: int, body: int) -> int:
        part = self._part
        if part is None or not (part.has_names or part.git_names):
            raise MalformedPatch(
                f"Line {header_at + 1}: a hunk without a file. Put `--- a/PATH` and `+++ b/PATH` lines before it."
            )
        if self._stray_line is not None and part.hunks:
            # The stray line may be part of the previous hunk, from a line that was broken in two.
            doubt = f"line {self._stray_line + 1} of the patch, which follows it, has no mark"
            part.hunks[-1] = replace(part.hunks[-1], doubt=doubt)
        self._stray_line = None
        line = self._lines[header_at]
        header = parse_hunk_header(line, header_at) if line.startswith("@@") else HunkHeader()
        counted = self._find_counted_end(header, header_at, body)
        prose_end = None if counted is None else self._find_list_end_after(counted)
        complete = prose_end is not None or (counted is not None and not self._seems_to_continue(counted))
        end = counted if counted is not None and complete else self._find_visible_end(body)
        lines = self._parse_body(body, end)
        hunk = PatchHunk(
            lines,
            header.old_start,
            header.new_start,
            section_headings=(header.section_heading,) if header.section_heading else (),
            source_line=header_at + 1,
            may_end_mid_line=self._has_open_end
            and end == len(self._lines)
            and lines[-1:] != ()
            and lines[-1].operation is LineOperation.INSERT,
        )
        if not self._is_complete and skip_blank_lines(self._lines, end) == len(self._lines):
            hunk = _mark_short_hunk(hunk, header, ends_text=end == len(self._lines))
        if hunk.has_changes:
            doubt = _LIST_AFTER_DOUBT if prose_end is not None else _describe_wrong_counts(hunk, header)
            if not doubt and hunk.has_unterminated_inner_line:
                doubt = "a line in its middle is said to end the file"
            part.hunks.append(replace(hunk, doubt=doubt or _describe_bad_header(line, header, lines[0].text)))
        elif not lines and skip_blank_lines(self._lines, end) == len(self._lines):
            raise MalformedPatch(f"Line {header_at + 1}: a hunk without lines. Is the patch cut off?")
        elif wrong_counts := _describe_wrong_counts(hunk, header):
            raise MalformedPatch(
                f"Line {header_at + 1}: a hunk without a change: {wrong_counts}. Is the patch damaged?"
            )
        self._expects_changes = True
        return end if prose_end is None else prose_end

    def _find_counted_end(self, header: HunkHeader, header_at: int, at: int) -> int | None:
        """Return the end of the body by its counts; None if these cannot be right.

        Raises:
            MalformedPatch: the text ends before the hunk does, and not after a complete context line.
        """
        if header.old_count is None or header.new_count is None:
            return None
        old, new = header.old_count, header.new_count
        while old > 0 or new > 0:
            if at == len(self._lines):
                ends_in_context_line = not self._has_open_end and self._lines[-1][:1] in (" ", "")
                if self._is_complete or old < 0 or new < 0 or ends_in_context_line:
                    return None
                raise MalformedPatch(
                    f"Line {header_at + 1}: the text ends before this hunk does, by the counts in its header "
                    f"({old} old and {new} new lines are missing).",
                    "Give the whole patch, or the right counts.",
                )
            if looks_like_file_header(self._lines, at) and self._names_one_file(at):
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
                case "\\" if is_no_newline_marker(self._lines[at]):
                    pass
                case _:
                    return None
            at += 1
        while at < len(self._lines) and is_no_newline_marker(self._lines[at]):
            at += 1
        return None if old < 0 or new < 0 else at

    def _seems_to_continue(self, at: int) -> bool:
        """Return whether the line, or the one after empty lines, looks like one more of the body."""
        at = skip_blank_lines(self._lines, at)
        if at == len(self._lines) or looks_like_file_header(self._lines, at) or self._closes_mail(at):
            return False
        last_line = self._lines[at] if at == len(self._lines) - 1 else ""
        is_cut_off_header = bool(last_line) and self._has_open_end and "--- ".startswith(last_line)
        return self._is_body_line(at) and not last_line.startswith("--- ") and not is_cut_off_header

    def _is_body_line(self, at: int) -> bool:
        return at < len(self._lines) and self._lines[at][:1] in (*_CHANGE_MARKS, " ")

    def _find_list_end_after(self, at: int) -> int | None:
        """Return the end of text with a list that follows a complete body; None if there is none."""
        if self._is_body_line(at):
            return None
        end = find_prose_list_end(self._lines, at)
        if end is not None:
            self.prose_lines.update(line for line in range(at, end) if self._lines[line][:1] in _CHANGE_MARKS)
        return end

    def _find_visible_end(self, at: int) -> int:
        """Return the end of the body by the form of its lines, without empty lines at the end."""
        end = at
        while at < len(self._lines):
            line = self._lines[at]
            if is_empty_line(line):
                at += 1
                continue
            if (
                (line[0] not in " +-" and not is_no_newline_marker(line))
                or looks_like_file_header(self._lines, at)
                or is_mail_signature(self._lines, at)
            ):
                break
            at += 1
            end = at
        return end

    def _parse_body(self, start: int, end: int) -> tuple[EditScriptLine, ...]:
        lines: list[EditScriptLine] = []
        for at in range(start, end):
            if is_no_newline_marker(self._lines[at]):
                continue
            terminated = not (at + 1 < len(self._lines) and is_no_newline_marker(self._lines[at + 1]))
            lines.append(parse_hunk_body_line(self._lines[at], ends_with_newline=terminated))
        return tuple(lines)

    def _refuse_loose_change(self, at: int) -> None:
        before = self._lines[at - 1] if at else ""
        reason = "belongs to no hunk"
        if before and before[0] not in " +-@\\":
            reason = f"follows line {at}, which has no mark (a context line begins with a space)"
        raise MalformedPatch(f"Line {at + 1}: the change {self._lines[at][:80]!r} {reason}. Nothing was applied.")


def _describe_bad_header(line: str, header: HunkHeader, first: str) -> str:
    """Return what is wrong with the line above a hunk; empty for a sound header or a placeholder."""
    if line.startswith("@@"):
        return "the numbers in its `@@` line are damaged" if header.damaged else ""
    if is_damaged_hunk_header(first):
        return "its first line looks like a damaged `@@` line"
    return "no `@@` line stands above it"


def _mark_short_hunk(hunk: PatchHunk, header: HunkHeader, *, ends_text: bool) -> PatchHunk:
    """Return the last hunk, marked if its header states more lines than it has; `ends_text` if no empty line
    follows.
    """
    old = max(0, (header.old_count or 0) - len(hunk.old_side))
    new = (header.new_count or 0) - len(hunk.new_side)
    stated_end = (header.old_start or 0) + (header.old_count or 0) - 1 if old and new >= 0 else None
    return replace(hunk, lacks_inserted_lines=ends_text and new > old, stated_end=stated_end)


def _describe_wrong_counts(hunk: PatchHunk, header: HunkHeader) -> str:
    """Return what is wrong with the counts of a header; empty if nothing is."""
    old, new = len(hunk.old_side), len(hunk.new_side)
    if header.old_start is None or (header.old_count, header.new_count) == (old, new):
        return ""
    return f"the hunk states {header.old_count} old and {header.new_count} new lines, but has {old} and {new}"
