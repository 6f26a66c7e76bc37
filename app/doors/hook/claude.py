"""What Claude Code's edit tools make of files, byte for byte."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from app.doors.hook.errors import NotStaged, text_of, unknown_place
from app.doors.hook.files import TurnFiles

Arguments = Mapping[str, Any]
_LOOKED_AT = 4096
"""Characters from which the line endings of a file are detected."""
_LARGEST_WHOLE = 2**53


def edit(files: TurnFiles, arguments: Arguments) -> None:
    """`Edit`: one replacement."""
    path = text_of(arguments, "file_path")
    _replace(files, path, [arguments])


def multi_edit(files: TurnFiles, arguments: Arguments) -> None:
    """`MultiEdit`: several in one file, one after the other, all or none."""
    _replace(files, text_of(arguments, "file_path"), arguments["edits"])


def write(files: TurnFiles, arguments: Arguments) -> None:
    """`Write`: the whole file."""
    files.write(text_of(arguments, "file_path"), text_of(arguments, "content").encode())


def notebook_edit(files: TurnFiles, arguments: Arguments) -> None:
    """`NotebookEdit`: one cell of a Jupyter notebook."""
    path = text_of(arguments, "notebook_path")
    text = files.text(path)
    try:
        notebook = json.loads(text, parse_float=_number, parse_int=_number)
        cells = notebook["cells"]
        _change_cell(path, notebook, cells, arguments)
    except (ValueError, KeyError, TypeError) as error:
        raise NotStaged(f"{path} is no notebook that can be edited by cell: {error}.") from error
    ending = "\n" if text.endswith("\n") else ""
    files.write(
        path, f"{json.dumps(notebook, indent=1, ensure_ascii=False)}{ending}".encode("utf-8", "surrogatepass")
    )


TOOLS: Mapping[str, Callable[[TurnFiles, Arguments], None]] = {
    "Edit": edit,
    "MultiEdit": multi_edit,
    "Write": write,
    "NotebookEdit": notebook_edit,
}


def _replace(files: TurnFiles, path: str, edits: list[Arguments]) -> None:
    data = files.read(path)
    text = files.text(path) if data is not None else ""
    crlf = _has_crlf(text)
    text = text.replace("\r\n", "\n")
    for each in edits:
        old, new = text_of(each, "old_string"), text_of(each, "new_string")
        text = _replaced(path, data is not None, text, old, new, everywhere=bool(each.get("replace_all")))
    files.write(path, (text.replace("\n", "\r\n") if crlf else text).encode())


def _replaced(path: str, exists: bool, text: str, old: str, new: str, *, everywhere: bool) -> str:
    if not old:
        if text.strip():
            raise NotStaged(f"{path} exists; an empty old_string makes new files only.")
        return new
    if not exists and not text:
        raise NotStaged(f"{path} does not exist.")
    found = text.count(old)
    if not found or (found > 1 and not everywhere):
        raise unknown_place(path, "old_string", found)
    if not new and not old.endswith("\n") and f"{old}\n" in text:
        # What takes a line away takes its end, too.
        old = f"{old}\n"
    return text.replace(old, new, -1 if everywhere else 1)


def _has_crlf(text: str) -> bool:
    head = text[:_LOOKED_AT]
    both = head.count("\r\n")
    return both > head.count("\n") - both


def _change_cell(path: str, notebook: dict[str, Any], cells: list[dict[str, Any]], arguments: Arguments) -> None:
    mode = str(arguments.get("edit_mode") or "replace")
    wanted, source = arguments.get("cell_id"), text_of({"new_source": "", **arguments}, "new_source")
    at = 0 if not wanted and mode == "insert" else _cell(path, cells, str(wanted or ""))
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


def _cell(path: str, cells: list[dict[str, Any]], wanted: str) -> int:
    """The number of a cell, by its id or as `cell-3`."""
    for number, cell in enumerate(cells):
        if cell.get("id") == wanted:
            return number
    digits = wanted.removeprefix("cell-")
    if wanted.startswith("cell-") and digits.isdecimal() and int(digits) < len(cells):
        return int(digits)
    raise NotStaged(f"There is no cell {wanted!r} in {path}. Read the notebook again.")


def _new_cell(notebook: dict[str, Any], kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind}
    if (notebook.get("nbformat", 0), notebook.get("nbformat_minor", 0)) >= (4, 5):
        import secrets

        cell["id"] = secrets.token_hex(4)
    cell["source"] = source
    cell["metadata"] = {}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _number(text: str) -> int | float:
    """Parse a number so that it is written as JavaScript writes it."""
    value = float(text)
    if math.isfinite(value) and value.is_integer() and abs(value) < 1e21:
        return int(text) if text.lstrip("-").isdigit() and abs(int(text)) <= _LARGEST_WHOLE else int(value)
    return value
