"""What the agents' edit tools make of files: the bytes that the real ones wrote (tests/doors compares them anew)."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.doors.hook import text_edits
from app.doors.hook.agents import find_agent
from app.doors.hook.call_errors import EditNotStaged
from app.doors.hook.turn_files import InMemoryFilesOfOneCall
from app.workspace.paths import Workspace

TOOLS = {name: edit for agent in ("claude", "gemini", "codex") for name, edit in find_agent(agent).edits.items()}
NOTEBOOK = (
    '{"cells": [{"cell_type": "code", "id": "a1", "metadata": {}, "source": ["x = 1\\n"], "outputs": [{"x": 1.50}],'
    ' "execution_count": 3}, {"cell_type": "markdown", "id": "b2", "metadata": {}, "source": "# Grüße <b>"}],'
    ' "metadata": {"n": 1e3, "f": 2.0, "z": []}, "nbformat": 4, "nbformat_minor": 5}\n'
)
Make = Callable[[Mapping[str, str]], InMemoryFilesOfOneCall]


@pytest.fixture
def files(tmp_path: Path) -> Make:
    def make(texts: Mapping[str, str]) -> InMemoryFilesOfOneCall:
        for name, text in texts.items():
            (tmp_path / name).write_bytes(text.encode())
        return InMemoryFilesOfOneCall(Workspace(tmp_path), str(tmp_path))

    return make


def replacing(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"file_path": "f", "old_string": old, "new_string": new, **more}


def inserting(source: str, **more: str) -> dict[str, Any]:
    return {"edit_mode": "insert", "new_source": source, **more}


def updating(*lines: str, path: str = "f") -> dict[str, Any]:
    return {"command": "\n".join(["*** Begin Patch", f"*** Update File: {path}", *lines, "*** End Patch"])}


@pytest.mark.parametrize(
    ("tool", "arguments", "before", "after"),
    [
        ("Edit", replacing("two", "2\n3"), "one\r\ntwo\r\n", "one\r\n2\r\n3\r\n"),
        ("Edit", replacing("two", "2"), "one\r\ntwo\nthree\r\nfour\r\n", "one\r\n2\r\nthree\r\nfour\r\n"),
        ("Edit", replacing("three", "3"), "one\ntwo\nthree", "one\ntwo\n3"),
        ("apply_patch", updating("@@", " ", "+x", "*** End of File"), "one\ntwo\n", "\nx\none\ntwo\n"),
        ("Edit", replacing("two", ""), "one\ntwo\nthree\n", "one\nthree\n"),
        ("Edit", replacing("a", "A", replace_all=True), "a b a\nb a\n", "A b A\nb A\n"),
        ("Edit", replacing("\treturn 1", "\treturn 2  "), "def f():\n\treturn 1\n", "def f():\n\treturn 2  \n"),
        ("Edit", replacing("", "new\n"), None, "new\n"),
        ("Write", {"file_path": "f", "content": "1\n2\n"}, "one\r\ntwo\r\n", "1\n2\n"),
        ("Write", {"file_path": "f", "content": "1\n"}, "\ufeffone\n", "\ufeff1\n"),
        ("MultiEdit", {"file_path": "f", "edits": [replacing("a", "b"), replacing("b", "c")]}, "a\n", "c\n"),
        ("replace", replacing("two", "2\n3"), "one\r\ntwo\r\n", "one\r\n2\r\n3\r\n"),
        ("replace", replacing("a", "A", allow_multiple=True), "a b a\n", "A b A\n"),
        ("replace", replacing("a", "A", expected_replacements=2), "a b a\n", "A b A\n"),
        ("replace", replacing("", "new"), None, "new"),
        ("replace", replacing("two\n", "2"), "one\ntwo\n", "one\n2\n"),
        ("replace", replacing("two", "2\n"), "one\r\ntwo", "one\r\n2"),
        ("write_file", {"file_path": "f", "content": "1\n2\n"}, "one\r\ntwo\r\n", "1\r\n2\r\n"),
        ("apply_patch", updating("@@", "-two", "+2", "+3"), "one\r\ntwo\r\n", "one\r\n2\r\n3\r\n"),
        ("apply_patch", updating("@@", "-two", "+2"), "one\ntwo", "one\n2\n"),
        ("apply_patch", updating("@@", "+last"), "one\n", "one\nlast\n"),
        ("apply_patch", updating("@@ y", "-same", "+other"), "x\nsame\ny\nsame\nz\n", "x\nsame\ny\nother\nz\n"),
        ("apply_patch", updating("@@", "-same", "+other"), "x\nsame\ny\nsame\n", "x\nother\ny\nsame\n"),
        ("apply_patch", updating("@@", "-same", "+other", "*** End of File"), "same\nx\nsame\n", "same\nx\nother\n"),
        ("apply_patch", updating("@@", '-say "no" - yes', "+2"), "say “no” – yes\n", "2\n"),
        ("apply_patch", updating("@@", "-  one", "+1", " two"), "one\ntwo\n", "1\ntwo\n"),
        ("apply_patch", updating("-one", "+1"), "one\n", "1\n"),
        ("apply_patch", updating("@@", " one", "-two", "+2"), " one \ntwo\n", " one \n2\n"),
        ("apply_patch", updating("@@", " one", "-two", "+2"), "x\r\none\ntwo\n", "x\r\none\n2\r\n"),
        ("apply_patch", updating("@@", "+x", "@@", "+y"), "one\n", "one\nx\ny\n"),
        ("apply_patch", updating("@@", "+x"), "one\n\n", "one\n\nx\n"),
        ("apply_patch", updating("@@ one ", "-x", "+y"), "one\nx\none \nx\n", "one\ny\none \nx\n"),
        ("apply_patch", updating("", "+x"), "one\n", "\nx\none\n"),
    ],
)
def test_the_bytes(files: Make, tool: str, arguments: dict[str, Any], before: str | None, after: str) -> None:
    made = files({} if before is None else {"f": before})
    TOOLS[tool](made, arguments)
    (file,) = made.edited_files
    assert file.after == after.encode()
    assert file.before == (None if before is None else before.encode())


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("Edit", replacing("nine", "9"), "is not in f"),
        ("Edit", replacing("o", "0"), "2 times"),
        ("Edit", replacing("", "x"), "exists"),
        ("Edit", {**replacing("a", "b"), "file_path": "none"}, "does not exist"),
        ("replace", replacing("o", "0"), "2 times"),
        ("replace", replacing("", "x"), "exists"),
        ("NotebookEdit", {"notebook_path": "f", "cell_id": "a", "new_source": ""}, "no notebook"),
        ("apply_patch", updating("@@", "-nine", "+9"), "does not have these lines"),
        ("apply_patch", updating("@@ nowhere", "-one", "+9"), "has no line"),
        ("apply_patch", updating("@@ two", "-two", "+2", "*** End of File"), "does not have these lines"),
        ("apply_patch", updating(), "changes nothing"),
        ("apply_patch", updating("@@", "one"), "a place in it"),
        ("apply_patch", updating("@@", "*** End of File"), "a place in it"),
        ("apply_patch", updating("-two", "+2", "*** End of File", "-one"), "a line with @@ was expected, not '-one'"),
        ("apply_patch", updating("@@", "-x", "+y", path="none"), r"^none does not exist\."),
        ("apply_patch", {"command": "one"}, "has to begin with"),
        ("apply_patch", {"command": "*** Begin Patch\n*** Delete File: none\n*** End Patch"}, "does not exist"),
        ("Write", {"file_path": "/etc/passwd", "content": ""}, "the workspace in which edits"),
        ("Write", {"file_path": "../f", "content": ""}, "leads out"),
        ("Write", {"file_path": "", "content": ""}, "names no file"),
        ("Write", {"file_path": "f/a/b", "content": ""}, r"^f/a/b can't be made: f is a file\.$"),
    ],
)
def test_refused_edit_says_why(files: Make, tool: str, arguments: dict[str, Any], why: str) -> None:
    made = files({"f": "one\ntwo\n"})
    with pytest.raises(EditNotStaged, match=why):
        TOOLS[tool](made, arguments)


def test_a_file_that_is_deleted_makes_room_for_a_folder(files: Make) -> None:
    made = files({"f": "one\n"})
    TOOLS["apply_patch"](
        made, {"command": "*** Begin Patch\n*** Delete File: f\n*** Add File: f/g\n+x\n*** End Patch"}
    )
    assert [(file.path, file.after) for file in made.edited_files] == [("f", None), ("f/g", b"x\n")]


def test_a_relative_path_is_found_if_the_root_folder_is_the_workspace() -> None:
    made = InMemoryFilesOfOneCall(Workspace(Path("/")), "/")
    made.write("signoff-test.txt", b"x\n")
    assert [file.path for file in made.edited_files] == ["signoff-test.txt"]


def test_folders_pipes_and_files_that_are_not_utf8_are_refused(tmp_path: Path, files: Make) -> None:
    made = files({})
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("folder", r"^folder is a folder\.$"), ("pipe", "^pipe can't be read: ")):
        with pytest.raises(EditNotStaged, match=why):
            TOOLS["Write"](made, {"file_path": name, "content": "x"})
    (tmp_path / "f").write_bytes(b"caf\xe9 one\n")
    for tool in ("Edit", "replace"):
        with pytest.raises(EditNotStaged, match="not UTF-8"):
            TOOLS[tool](made, replacing("one", "1"))


def test_a_patch_of_several_files_moves_deletes_and_makes(files: Make) -> None:
    made = files({"old.txt": "one\ntwo\n", "gone.txt": "x\n"})
    text = (
        "*** Begin Patch\n*** Update File: old.txt\n*** Move to: sub/new.txt\n@@\n one\n-two\n+2\n"
        "*** Delete File: gone.txt\n*** Add File: made.txt\n+a\n+\n*** End Patch\n"
    )
    text_edits.apply_codex_patch(made, {"command": f"<<'EOF'\n{text}EOF\n"})
    assert {file.path: file.after for file in made.edited_files} == {
        "old.txt": None,
        "sub/new.txt": b"one\n2\n",
        "gone.txt": None,
        "made.txt": b"a\n\n",
    }


def test_a_notebook_is_written_as_javascript_does(files: Make) -> None:
    made = files({"f": NOTEBOOK})
    text_edits.apply_claude_notebook_edit(
        made, {"notebook_path": "f", "cell_id": "a1", "new_source": "x = 2\ny = 'ü\ud800'"}
    )
    (file,) = made.edited_files
    assert file.after is not None
    text = file.after.decode()
    assert text.startswith('{\n "cells": [\n  {\n   "cell_type": "code",\n   "id": "a1",\n   "metadata": {},\n')
    assert '"source": "x = 2\\ny = \'ü\\ud800\'",\n   "outputs": [],\n   "execution_count": null' in text
    assert text.endswith('"n": 1000,\n  "f": 2,\n  "z": []\n },\n "nbformat": 4,\n "nbformat_minor": 5\n}\n')


@pytest.mark.parametrize(
    ("arguments", "sources"),
    [
        (inserting("new", cell_id="a1", cell_type="markdown"), ["x = 1\n", "new", "#"]),
        (inserting("first", cell_type="code"), ["first", "x = 1\n", "#"]),
        ({"edit_mode": "delete", "cell_id": "cell-1", "new_source": ""}, ["x = 1\n"]),
    ],
)
def test_notebook_cells_are_inserted_and_deleted(files: Make, arguments: dict[str, Any], sources: list[str]) -> None:
    made = files({"f": NOTEBOOK})
    text_edits.apply_claude_notebook_edit(made, {"notebook_path": "f", **arguments})
    (file,) = made.edited_files
    cells = json.loads(file.after or b"")["cells"]
    assert len(cells) == len(sources) and len({cell["id"] for cell in cells}) == len(cells)
    for cell, wanted in zip(cells, sources, strict=True):
        assert "".join(cell["source"]).startswith(wanted)


def test_a_later_edit_is_made_on_top_of_an_earlier(files: Make) -> None:
    made = files({"f": "one\n"})
    TOOLS["Edit"](made, replacing("one", "two"))
    TOOLS["Edit"](made, replacing("two", "three"))
    (file,) = made.edited_files
    assert (file.before, file.after) == (b"one\n", b"three\n")
