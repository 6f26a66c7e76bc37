"""What is proposed is what the agent would have written: the same calls with the hook and without it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.doors.hook.agent_trial import ScriptedCall as Call
from app.doors.hook.agent_trial import ScriptedModel
from tests.doors.driving import FOLDER, PACKAGES, SETTINGS, Driven, program

pytestmark = pytest.mark.timeout(600)

NOTEBOOK = (
    '{"cells": [{"cell_type": "code", "id": "a1", "metadata": {}, "source": ["x = 1\\n"], "outputs": [{"x": 1.50}],'
    ' "execution_count": 3}, {"cell_type": "markdown", "id": "b2", "metadata": {}, "source": "# Grüße <b>"}],'
    ' "metadata": {"n": 1e3, "f": 2.0, "z": []}, "nbformat": 4, "nbformat_minor": 5}\n'
)
FILES = {
    "crlf.txt": "one\r\ntwo\r\nthree\r\n",
    "mixed.txt": "one\r\ntwo\nthree\r\nfour\r\n",
    "end.txt": "one\ntwo\nthree",
    "many.txt": "a b a\nb a\n",
    "gone.txt": "one\ntwo\nthree\n",
    "space.txt": "def f():\n\treturn 1\n",
    "unicode.txt": "Grüße – “zitiert”\nzwei\n",
    "bom.txt": "\ufeffone\ntwo\n",
    "whole.txt": "one\r\ntwo\r\n",
    "twice.txt": "x\nsame\ny\nsame\nz\n",
    "book.ipynb": NOTEBOOK,
    "old.txt": "one\ntwo\n",
    "bare.ipynb": NOTEBOOK.strip(),
    "blank.txt": "one\n\ntwo\n\n",
    "quotes.txt": "say “hello” and ‘bye’\n",
}


def common(driven: Driven) -> list[Call]:
    """Calls that every agent can make."""
    return [
        driven.edits("crlf.txt", "two", "zwei\nzweieinhalb"),
        driven.edits("mixed.txt", "two", "zwei"),
        driven.edits("end.txt", "three", "drei"),
        driven.edits("space.txt", "\treturn 1", "\treturn 2  "),
        driven.edits("unicode.txt", "zwei", "two – “2”"),
        driven.edits("bom.txt", "two", "zwei"),
        # Copilot makes no folder, and writes nothing where there is none.
        driven.writes("new.txt" if driven.agent == "copilot" else "folder/new.txt", "new\nlines\n"),
    ]


def of_claude(driven: Driven) -> list[Call]:
    book, bare = (str(driven.workspace / f"{name}.ipynb") for name in ("book", "bare"))
    return [
        driven.edits("many.txt", "a", "A", replace_all=True),
        driven.edits("gone.txt", "two", ""),
        driven.writes("whole.txt", "eins\nzwei\n"),
        driven.writes("empty.txt", ""),
        Call("NotebookEdit", {"notebook_path": book, "cell_id": "a1", "new_source": "x = 2\ny = 'ü'"}),
        Call("NotebookEdit", {"notebook_path": bare, "cell_id": "b2", "new_source": "", "edit_mode": "delete"}),
        driven.edits("blank.txt", "two\n", ""),
    ]


def of_codex(driven: Driven) -> list[Call]:
    patch = (
        "*** Begin Patch\n*** Update File: twice.txt\n@@ y\n-same\n+other\n*** Update File: old.txt\n"
        "*** Move to: sub/renamed.txt\n@@\n one\n-two\n+zwei\n*** Delete File: gone.txt\n"
        "*** Update File: many.txt\n@@\n+at the end\n*** End Patch\n"
    )
    loose = "*** Begin Patch\n*** Update File: whole.txt\n@@\n-  one\n+eins\n two\n*** End of File\n*** End Patch\n"
    typed = "*** Begin Patch\n*** Update File: quotes.txt\n@@\n-say \"hello\" and 'bye'\n+say no\n*** End Patch\n"
    empty = "*** Begin Patch\n*** Update File: blank.txt\n@@\n two\n-\n+three\n*** End Patch\n"
    return [Call("apply_patch", {}, each) for each in (patch, loose, typed, empty)]


def of_gemini(driven: Driven) -> list[Call]:
    return [
        driven.edits("many.txt", "a", "A", allow_multiple=True),
        driven.edits("gone.txt", "two\n", ""),
        driven.writes("whole.txt", "eins\nzwei\n"),
    ]


def of_qwen(driven: Driven) -> list[Call]:
    book, bare = (str(driven.workspace / f"{name}.ipynb") for name in ("book", "bare"))
    return [
        driven.edits("many.txt", "a", "A", replace_all=True),
        driven.edits("gone.txt", "two", ""),
        driven.writes("whole.txt", "eins\nzwei\n"),
        Call("notebook_edit", {"notebook_path": book, "cell_id": "a1", "new_source": "x = 2\ny = 'ü'"}),
        Call(
            "notebook_edit", {"notebook_path": bare, "cell_id": "b2", "new_source": "# <b>", "cell_type": "markdown"}
        ),
    ]


def of_copilot(driven: Driven) -> list[Call]:
    return [
        driven.edits("gone.txt", "two", ""),
        driven.edits("blank.txt", "two\n", ""),
        driven.writes("crlf_new.txt", "new\r\nlines"),
    ]


def of_opencode(driven: Driven) -> list[Call]:
    return [
        driven.edits("many.txt", "a", "A", replaceAll=True),
        driven.edits("gone.txt", "two", ""),
        driven.edits("made.txt", "", "new\n"),
        driven.writes("whole.txt", "eins\nzwei\n"),
    ]


def of_droid(driven: Driven) -> list[Call]:
    return [
        driven.edits("many.txt", "a", "A", change_all=True),
        driven.edits("gone.txt", "two", ""),
        driven.writes("whole.txt", "eins\nzwei"),
    ]


def of_kimi(driven: Driven) -> list[Call]:
    return [
        driven.edits("many.txt", "a", "A", replace_all=True),
        driven.edits("gone.txt", "two", ""),
        driven.writes("whole.txt", "eins\nzwei\n"),
        Call("Write", {"path": str(driven.workspace / "old.txt"), "content": "three", "mode": "append"}),
    ]


OWN: dict[str, Callable[[Driven], list[Call]]] = {
    "claude": of_claude,
    "codex": of_codex,
    "gemini": of_gemini,
    "qwen": of_qwen,
    "copilot": of_copilot,
    "opencode": of_opencode,
    "droid": of_droid,
    "kimi": of_kimi,
}


def contents(driven: Driven) -> dict[str, bytes]:
    names = driven.git("ls-files", "--cached", "--others", "-z").split("\0")
    paths = {name: driven.workspace / name for name in names if name and not name.startswith(SETTINGS)}
    return {name: path.read_bytes() for name, path in paths.items() if path.exists()}


@pytest.mark.parametrize("agent", PACKAGES)
def test_the_bytes_are_those_that_the_agent_writes(agent: str, tmp_path: Path) -> None:
    if program(agent) is None:
        pytest.skip(f"{agent} is not installed: npm install --prefix FOLDER {PACKAGES[agent]}, and {FOLDER}=FOLDER")
    made: list[dict[str, bytes]] = []
    printed = ""
    for hooked in (False, True):
        folder = tmp_path / str(hooked)
        folder.mkdir()
        with ScriptedModel() as model:
            driven = Driven(agent, folder, model)
            driven.commit(FILES)
            if hooked:
                driven.install()
            calls = [*common(driven), *OWN[agent](driven)]
            printed += driven.says("change them", [driven.reads(name) for name in FILES], calls)
            if hooked:
                assert driven.changed() == [], printed
                (proposal,) = driven.proposals()
                driven.signoff("approve", proposal["id"])
            made.append(contents(driven))
    written, approved = made
    assert written != {name: text.encode() for name, text in FILES.items()}, printed
    different = {name: (written.get(name), approved.get(name)) for name in written.keys() | approved.keys()}
    assert {name: pair for name, pair in different.items() if pair[0] != pair[1]} == {}
