"""Applies the calls of agents' tools that write files, replace texts or edit notebooks, byte for byte.

The agents have the same two tools under different names: one writes a whole file, the other replaces a text. They
differ in line endings, byte order marks and the last line; a description lists the differences. If an agent would
accept an inexact match, the call is refused: it is never applied to a guess.

Codex writes patches instead. signoff's own engine reads the same format, but refuses a patch whose text occurs twice;
Codex takes the first place after the previous hunk. The proposal contains what Codex would have written.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from app.doors.hook.call_errors import EditNotStaged, not_exactly_once_error, require_string_argument

if TYPE_CHECKING:
    from app.doors.hook.turn_files import InMemoryFilesOfOneCall

CallArguments = Mapping[str, Any]
_LINE_ENDING_SAMPLE_CHARACTERS = 4096
"""Characters from which most agents detect the line endings of a file."""
_BYTE_ORDER_MARK = "\ufeff"


def has_crlf(text: str) -> bool:
    """Return whether a text has any CRLF."""
    return "\r\n" in text


def has_mostly_crlf(text: str) -> bool:
    """Return whether most lines of a text end with CRLF."""
    both = text.count("\r\n")
    return both > text.count("\n") - both


def begins_with_mostly_crlf(text: str) -> bool:
    """Return whether most lines at the beginning of a text end with CRLF."""
    return has_mostly_crlf(text[:_LINE_ENDING_SAMPLE_CHARACTERS])


def has_only_crlf(text: str) -> bool:
    """Return whether all lines of a text end with CRLF."""
    return has_crlf(text) and "\n" not in text.replace("\r\n", "").replace("\r", "\n")


class WholeFileTool(NamedTuple):
    """A tool that writes a whole file."""

    path: str = "file_path"
    """Name of the argument with the path."""
    content: str = "content"
    mode: str = ""
    """Name of the argument whose value `append` adds the content to the end of the file; empty if there is none."""
    only_new: bool = False
    """Whether it refuses a file that exists."""
    uses_crlf: Callable[[str], bool] | None = None
    """Whether all lines get CRLF if the existing file has this text; None if they never do."""
    keeps_mark: bool = False
    """Whether a byte order mark of an existing file is preserved."""
    ends_line: bool = False
    """Whether it adds a missing line end to the last line."""

    def apply(self, files: "InMemoryFilesOfOneCall", arguments: CallArguments) -> None:
        """Write the file. Raises EditNotStaged."""
        path = require_string_argument(arguments, self.path)
        content = require_string_argument(arguments, self.content)
        data = files.read(path)
        if self.only_new and data is not None:
            raise EditNotStaged(f"{path} exists; this tool makes new files only.")
        if self.mode and arguments.get(self.mode) == "append":
            files.write(path, (data or b"") + content.encode())
            return
        if self.ends_line and not content.endswith("\n"):
            content = f"{content}\n"
        if self.uses_crlf is not None and data is not None and self.uses_crlf(data.decode("latin-1")):
            content = _with_crlf(content)
        if self.keeps_mark and data is not None and data.startswith(_BYTE_ORDER_MARK.encode()):
            content = _BYTE_ORDER_MARK + content.removeprefix(_BYTE_ORDER_MARK)
        files.write(path, content.encode())


class ReplacementTool(NamedTuple):
    """A tool that replaces a text in a file."""

    path: str = "file_path"
    """Name of the argument with the path; the next four are names of arguments, too."""
    old: str = "old_string"
    new: str = "new_string"
    everywhere: str = "replace_all"
    """If true, all occurrences are replaced."""
    expected: str = ""
    """The number of occurrences that the call expects; by default one."""
    edits: str = ""
    """Name of the argument with a list of replacements, applied one after the other, all or none."""
    uses_crlf: Callable[[str], bool] = has_crlf
    """Whether new lines in a file with this text end with CRLF."""
    changes_all_endings: bool = True
    """Whether all lines of the file get that ending; otherwise only those of the new text."""
    keeps_new_text: bool = False
    """Whether CRLF in the new text is not converted if the file has LF; in the text of a new file it never is."""
    takes_line_end: bool = False
    """Whether removing the last text of a line also removes its line end."""
    makes_new: bool = True
    """Whether an empty old text creates a new file."""
    fills_blank: bool = False
    """Whether an empty old text replaces a file that contains only white space."""
    drops_mark: bool = False
    """Whether it drops a byte order mark."""
    keeps_last_ending: bool = False
    """Whether the end of an existing file keeps, or keeps lacking, a line end."""

    def apply(self, files: "InMemoryFilesOfOneCall", arguments: CallArguments) -> None:
        """Write the file with the text replaced. Raises EditNotStaged."""
        path = require_string_argument(arguments, self.path)
        edits = arguments.get(self.edits) if self.edits else [arguments]
        if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
            raise EditNotStaged(f"{self.edits} has to be a list of objects.")
        data = files.read(path)
        raw = files.decode_file(path) if data is not None else ""
        crlf = self.uses_crlf(raw)
        text = _with_lf(raw) if self.changes_all_endings else raw
        for edit in edits:
            old, new = (require_string_argument(edit, key) for key in (self.old, self.new))
            if crlf and not self.changes_all_endings:
                old, new = _with_crlf(old), _with_crlf(new)
            elif not self.keeps_new_text:
                old, new = _with_lf(old), new if data is None else _with_lf(new)
            elif self.changes_all_endings:
                old = _with_lf(old)
            text = self._replace_text(path, data is not None, text, old, new, edit)
        if self.keeps_last_ending and data is not None:
            text = text.removesuffix("\n") + "\n" * raw.endswith("\n")
        if self.changes_all_endings and crlf:
            text = _with_crlf(text)
        files.write(path, (text.removeprefix(_BYTE_ORDER_MARK) if self.drops_mark else text).encode())

    def _replace_text(self, path: str, exists: bool, text: str, old: str, new: str, arguments: CallArguments) -> str:
        if not old:
            if (exists or not self.makes_new) and not (exists and self.fills_blank and not text.strip()):
                raise EditNotStaged(
                    f"{path} exists; an empty {self.old} makes new files only."
                    if exists
                    else f"{path} does not exist, and {self.old} is empty."
                )
            return new
        if not exists and not text:
            raise EditNotStaged(f"{path} does not exist.")
        found = text.count(old)
        if not found or not self._is_expected_count(arguments, found):
            raise not_exactly_once_error(path, self.old, found)
        ending = "\r\n" if f"{old}\r\n" in text else "\n"
        if self.takes_line_end and not new and not old.endswith("\n") and f"{old}{ending}" in text:
            old = f"{old}{ending}"
        return text.replace(old, new)

    def _is_expected_count(self, arguments: CallArguments, found: int) -> bool:
        """Return whether the call expects this number of occurrences."""
        if self.everywhere and arguments.get(self.everywhere) in (True, "true"):
            return True
        return found == int((self.expected and arguments.get(self.expected)) or 1)


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _with_crlf(text: str) -> str:
    return _with_lf(text).replace("\n", "\r\n")


_MAX_SAFE_INTEGER = 2**53


def apply_claude_notebook_edit(files: "InMemoryFilesOfOneCall", arguments: Mapping[str, Any]) -> None:
    """Change one cell of a notebook as Claude Code's NotebookEdit does. Raises EditNotStaged."""
    path = require_string_argument(arguments, "notebook_path")
    text = files.decode_file(path)
    try:
        notebook = json.loads(text, parse_float=_javascript_number, parse_int=_javascript_number)
        cells = notebook["cells"]
        _change_cell(path, notebook, cells, arguments)
    except (ValueError, KeyError, TypeError) as error:
        raise EditNotStaged(f"{path} is no notebook that can be edited by cell: {error}.") from error
    ending = "\n" if text.endswith("\n") else ""
    # JavaScript, too, writes half of a surrogate pair as an escape.
    made = f"{json.dumps(notebook, indent=1, ensure_ascii=False)}{ending}"
    files.write(path, made.encode("utf-8", "backslashreplace"))


def apply_qwen_notebook_edit(files: "InMemoryFilesOfOneCall", arguments: Mapping[str, Any]) -> None:
    """Change one cell as Qwen Code does, which keeps layout and kind of texts. Raises EditNotStaged."""
    path = require_string_argument(arguments, "notebook_path")
    raw = files.decode_file(path)
    text = raw.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        notebook = json.loads(text, parse_float=_javascript_number, parse_int=_javascript_number)
        _change_cell_as_qwen(path, notebook, notebook["cells"], arguments)
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise EditNotStaged(f"{path} is no notebook that can be edited by cell: {error}.") from error
    found = re.search(r'\n([ \t]+)"', text)
    indent = found[1][:10] if found else None
    made = json.dumps(notebook, indent=indent, separators=(",", ": " if indent else ":"), ensure_ascii=False)
    made += "\n" if text.endswith("\n") else ""
    made = made.replace("\n", "\r\n") if "\r\n" in raw else made
    mark = "\ufeff" if raw.startswith("\ufeff") else ""
    files.write(path, f"{mark}{made}".encode("utf-8", "backslashreplace"))


def _change_cell_as_qwen(
    path: str, notebook: dict[str, Any], cells: list[dict[str, Any]], arguments: Mapping[str, Any]
) -> None:
    mode = arguments.get("edit_mode") or "replace"
    wanted, kind = arguments.get("cell_id"), arguments.get("cell_type")
    names = [cell.get("id") or f"cell-{number}" for number, cell in enumerate(cells)]
    if mode not in ("insert", "delete", "replace"):
        raise EditNotStaged(f"edit_mode can't be {mode!r}.")
    if names.count(wanted) != 1 and (wanted or mode != "insert"):
        raise EditNotStaged(f"There is no single cell {wanted!r} in {path}. Read the notebook again.")
    at = names.index(wanted) if wanted else -1
    if mode == "delete":
        del cells[at]
        return
    source = require_string_argument(arguments, "new_source")
    if mode == "insert":
        at += 1
        beside = [*cells[max(at - 1, 0) : at], *cells[at : at + 1], *cells]
        like: object = next((cell["source"] for cell in beside if "source" in cell), [])
        cell: dict[str, Any] = {"cell_type": kind or "code", "metadata": {}, "source": like}
        if (notebook.get("nbformat", 0), notebook.get("nbformat_minor", 0)) >= (4, 5):
            cell["id"] = next(
                name for number in range(1, len(names) + 2) if (name := f"qwen-cell-{number}") not in names
            )
        cells.insert(at, cell)
    cell = cells[at]
    # Not splitlines(), which also splits at other characters.
    cell["source"] = re.findall(r"[^\n]*\n|[^\n]+", source) if isinstance(cell.get("source"), list) else source
    cell["cell_type"] = kind or cell.get("cell_type")
    cell.setdefault("metadata", {})
    if cell["cell_type"] == "code":
        cell["execution_count"], cell["outputs"] = None, []
    else:
        cell.pop("execution_count", None)
        cell.pop("outputs", None)


def _change_cell(
    path: str, notebook: dict[str, Any], cells: list[dict[str, Any]], arguments: Mapping[str, Any]
) -> None:
    mode = str(arguments.get("edit_mode") or "replace")
    wanted, source = arguments.get("cell_id"), require_string_argument({"new_source": "", **arguments}, "new_source")
    at = 0 if not wanted and mode == "insert" else _find_cell(path, cells, str(wanted or ""))
    if mode == "insert" and wanted:
        at += 1
    if mode == "delete":
        del cells[at]
    elif mode == "insert" or at == len(cells):
        cells.insert(at, _new_cell(notebook, str(arguments.get("cell_type") or "code"), source))
    else:
        cell = cells[at]
        cell["source"] = source
        if cell.get("cell_type") == "code":
            cell["execution_count"], cell["outputs"] = None, []
        kind = arguments.get("cell_type")
        if kind and kind != cell.get("cell_type"):
            cell["cell_type"] = kind


def _find_cell(path: str, cells: list[dict[str, Any]], wanted: str) -> int:
    """Return the index of a cell, by its id or as `cell-3`. Raises EditNotStaged."""
    for number, cell in enumerate(cells):
        if cell.get("id") == wanted:
            return number
    digits = wanted.removeprefix("cell-")
    if wanted.startswith("cell-") and digits.isdecimal() and int(digits) < len(cells):
        return int(digits)
    raise EditNotStaged(f"There is no cell {wanted!r} in {path}. Read the notebook again.")


def _new_cell(notebook: dict[str, Any], kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind}
    if (notebook.get("nbformat", 0), notebook.get("nbformat_minor", 0)) >= (4, 5):
        import secrets

        cell["id"] = secrets.token_hex(4)
    cell["source"] = source
    cell["metadata"] = {}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _javascript_number(text: str) -> int | float:
    """Return a number that `json.dumps` writes as JavaScript does."""
    value = float(text)
    if math.isfinite(value) and value.is_integer() and abs(value) < 1e21:
        return int(text) if text.lstrip("-").isdigit() and abs(int(text)) <= _MAX_SAFE_INTEGER else int(value)
    return value


_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
_END_OF_FILE_LINE = "*** End of File"
_HEREDOCS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_PATCH_ARGUMENTS = ("command", "input", "patch", "patchText")
"""Names of the argument with the patch, depending on the agent."""
_LOOK_ALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_LINE_NORMALISATIONS: tuple[Callable[[str], str], ...] = (
    str,
    str.rstrip,
    str.strip,
    lambda line: line.strip().translate(_LOOK_ALIKES),
)
"""Line normalisations, from exact to tolerant; the first one with a match is used."""


class CodexHunk(NamedTuple):
    """A hunk of `apply_patch`."""

    context: str
    """A line above the hunk; empty for none."""
    lines: list[tuple[str, str]]
    """Each line with its sign before it: a space, `-` or `+`."""
    at_end: bool


def apply_codex_patch(files: "InMemoryFilesOfOneCall", arguments: Mapping[str, Any]) -> None:
    """Apply a patch of Codex's `apply_patch` to the files in memory. Raises EditNotStaged."""
    text = next((arguments[key] for key in _PATCH_ARGUMENTS if arguments.get(key)), "")
    lines = _patch_lines(str(text[-1] if isinstance(text, list) else text))
    at = 0
    while at < len(lines):
        head = lines[at].strip()
        if head.startswith(_ADD):
            end = _skip_while(lines, at + 1, lambda line: line.startswith("+"))
            files.write(head.removeprefix(_ADD), "".join(f"{line[1:]}\n" for line in lines[at + 1 : end]).encode())
            at = end
        elif head.startswith(_DELETE):
            path = head.removeprefix(_DELETE)
            if files.read(path) is None:
                raise EditNotStaged(f"The patch was not staged: {path} does not exist.")
            files.write(path, None)
            at += 1
        elif head.startswith(_UPDATE):
            at = _update_file(files, head.removeprefix(_UPDATE), lines, at + 1)
        elif not head:
            at += 1
        else:
            raise EditNotStaged(f"The patch was not staged: {head!r} begins no file.")


def _patch_lines(text: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    if lines[0].strip() in _HEREDOCS and lines[-1].strip().endswith("EOF"):
        lines = lines[1:-1]
    if len(lines) < 2 or lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        raise EditNotStaged(f"The patch was not staged: it has to begin with {_BEGIN!r} and to end with {_END!r}.")
    return lines[1:-1]


def _skip_while(lines: Sequence[str], at: int, belongs: Callable[[str], bool]) -> int:
    while at < len(lines) and belongs(lines[at]):
        at += 1
    return at


def _update_file(files: "InMemoryFilesOfOneCall", path: str, lines: Sequence[str], at: int) -> int:
    target = path
    if at < len(lines) and lines[at].startswith(_MOVE):
        target = lines[at].removeprefix(_MOVE).strip()
        at += 1
    chunks: list[CodexHunk] = []
    while at < len(lines):
        if chunks and not lines[at].strip():
            at += 1
        elif lines[at].startswith("***"):
            break
        else:
            chunk, at = _parse_chunk(lines, at, first=not chunks)
            chunks.append(chunk)
    if not chunks:
        raise EditNotStaged(f"The patch was not staged: it changes nothing in {path}.")
    data = _apply_chunks(path, files.decode_file(path), chunks).encode()
    if target != path:
        files.write(path, None)
    files.write(target, data)
    return at


def _parse_chunk(lines: Sequence[str], at: int, *, first: bool) -> tuple[CodexHunk, int]:
    context = ""
    if (head := lines[at].rstrip()) == "@@" or head.startswith("@@ "):
        context = head[3:]
        at += 1
    elif not first:
        raise EditNotStaged(f"The patch was not staged: a line with @@ was expected, not {lines[at]!r}.")
    hunk: list[tuple[str, str]] = []
    while at < len(lines) and lines[at][:1] in ("", " ", "-", "+"):
        hunk.append((lines[at][:1] or " ", lines[at][1:]))
        at += 1
    if not hunk:
        raise EditNotStaged("The patch was not staged: a place in it has no lines, or one without a space, + or -.")
    at_end = lines[at : at + 1] == [_END_OF_FILE_LINE]
    return CodexHunk(context, hunk, at_end), at + at_end


def _apply_chunks(path: str, text: str, chunks: Sequence[CodexHunk]) -> str:
    """Apply all chunks: unchanged lines keep their endings, new ones get that of the file's first line."""
    whole = [f"{line}\n" for line in text.split("\n")]
    last = whole.pop().removesuffix("\n")
    whole += [last] if last else []
    endings = ["\r\n" if line.endswith("\r\n") else "\n" for line in whole]
    new_ending = endings[0] if "\n" in text else "\n"
    lines = [line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line for line in whole]
    if last:
        # All updates of this agent end the last line.
        endings[-1] = new_ending
    # From the last place to the first, also of places at the same line.
    places = reversed(_find_places(path, lines, chunks))
    for start, count, put in sorted(places, key=lambda place: place[0], reverse=True):
        lines[start : start + count] = put
        endings[start : start + count] = [new_ending] * len(put)
    return "".join(map("".join, zip(lines, endings, strict=True)))


def _find_places(path: str, lines: Sequence[str], chunks: Sequence[CodexHunk]) -> list[tuple[int, int, list[str]]]:
    """Return for each change its first line, the number of removed lines, and the new lines. Raises EditNotStaged.

    Unchanged lines are in no change: the file's may differ from the patch's in white space.
    """
    places: list[tuple[int, int, list[str]]] = []
    at = 0
    for chunk in chunks:
        if chunk.context:
            found = _find_lines(lines, [chunk.context], at, at_end=False)
            if found is None:
                raise EditNotStaged(f"The patch was not staged: {path} has no line {chunk.context!r} there.")
            at = found + 1
        hunk, found = chunk.lines, len(lines)
        if old := [text for sign, text in hunk if sign != "+"]:
            place = _find_lines(lines, old, at, at_end=chunk.at_end)
            if place is None and old[-1] == "":
                # The last line may stand for the end of the file.
                hunk = _without_last_line(hunk, "-")
                if [text for sign, text in hunk if sign != "-"][-1:] == [""]:
                    hunk = _without_last_line(hunk, "+")
                place = _find_lines(lines, old[:-1], at, at_end=chunk.at_end)
            if place is None:
                quoted = "\n".join(old)
                raise EditNotStaged(
                    f"The patch was not staged: {path}, as it is on disk, does not have these lines:\n{quoted}"
                )
            found = place
        for is_unchanged, lines_of_run in groupby(hunk, key=lambda line: line[0] == " "):
            run = [*lines_of_run]
            removed = sum(sign != "+" for sign, _ in run)
            if not is_unchanged:
                places.append((found, removed, [text for sign, text in run if sign == "+"]))
            found += removed
        at = found if old else at
    return places


def _without_last_line(hunk: Sequence[tuple[str, str]], side: str) -> list[tuple[str, str]]:
    """Return a hunk without its last old (`-`) or new line (`+`); an unchanged line stays on the other side."""
    at = max(at for at, (sign, _) in enumerate(hunk) if sign in (" ", side))
    other_side = [("+" if side == "-" else "-", hunk[at][1])] if hunk[at][0] == " " else []
    return [*hunk[:at], *other_side, *hunk[at + 1 :]]


def _find_lines(lines: Sequence[str], wanted: Sequence[str], start: int, *, at_end: bool) -> int | None:
    """Return the first line at or after `start` where these lines match; None if there is none."""
    if not wanted:
        return start
    last = len(lines) - len(wanted)
    for looked_at in _LINE_NORMALISATIONS:
        sought = [looked_at(line) for line in wanted]
        compared = [looked_at(line) for line in lines]
        for at in range(max(start, last) if at_end else start, last + 1):
            if compared[at : at + len(sought)] == sought:
                return at
    return None
