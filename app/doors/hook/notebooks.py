"""What the tools that edit a Jupyter notebook by cell make of the file, byte for byte."""

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.doors.hook.errors import NotStaged, text_of

if TYPE_CHECKING:
    from app.doors.hook.files import TurnFiles

_LARGEST_WHOLE = 2**53


def notebook_edit(files: "TurnFiles", arguments: Mapping[str, Any]) -> None:
    """Change one cell, or raise NotStaged."""
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


def qwen_notebook_edit(files: "TurnFiles", arguments: Mapping[str, Any]) -> None:
    """Change one cell as Qwen Code does, which keeps layout and kind of texts; raises NotStaged."""
    path = text_of(arguments, "notebook_path")
    raw = files.text(path)
    text = raw.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        notebook = json.loads(text, parse_float=_number, parse_int=_number)
        _change_cell_as_qwen(path, notebook, notebook["cells"], arguments)
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise NotStaged(f"{path} is no notebook that can be edited by cell: {error}.") from error
    found = re.search(r'\n([ \t]+)"', text)
    indent = found[1][:10] if found else None
    made = json.dumps(notebook, indent=indent, separators=(",", ": " if indent else ":"), ensure_ascii=False)
    made += "\n" if text.endswith("\n") else ""
    made = made.replace("\n", "\r\n") if "\r\n" in raw else made
    mark = "\ufeff" if raw.startswith("\ufeff") else ""
    files.write(path, f"{mark}{made}".encode("utf-8", "surrogatepass"))


def _change_cell_as_qwen(
    path: str, notebook: dict[str, Any], cells: list[dict[str, Any]], arguments: Mapping[str, Any]
) -> None:
    mode = arguments.get("edit_mode") or "replace"
    wanted, kind = arguments.get("cell_id"), arguments.get("cell_type")
    names = [cell.get("id") or f"cell-{number}" for number, cell in enumerate(cells)]
    if mode not in ("insert", "delete", "replace"):
        raise NotStaged(f"edit_mode can't be {mode!r}.")
    if names.count(wanted) != 1 and (wanted or mode != "insert"):
        raise NotStaged(f"There is no single cell {wanted!r} in {path}. Read the notebook again.")
    at = names.index(wanted) if wanted else -1
    if mode == "delete":
        del cells[at]
        return
    source = text_of(arguments, "new_source")
    if mode == "insert":
        at += 1
        beside = [*cells[max(at - 1, 0) : at], *cells[at : at + 1], *cells]
        like: object = next((each["source"] for each in beside if "source" in each), [])
        cell: dict[str, Any] = {"cell_type": kind or "code", "metadata": {}, "source": like}
        if (notebook.get("nbformat", 0), notebook.get("nbformat_minor", 0)) >= (4, 5):
            cell["id"] = next(
                name for number in range(1, len(names) + 2) if (name := f"qwen-cell-{number}") not in names
            )
        cells.insert(at, cell)
    cell = cells[at]
    # Not splitlines, which takes other characters for the end of a line, too.
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
