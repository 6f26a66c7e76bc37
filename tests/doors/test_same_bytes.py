"""A proposal holds the bytes that the agent would write: the same calls with and without the hook."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.doors.hook.agent_trial import ScriptedModelServer
from app.doors.hook.agent_trial import ScriptedToolCall as Call
from tests.doors.driving import FOLDER, PACKAGES, SETTINGS, DrivenAgent, program

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


def common_calls(driven: DrivenAgent) -> list[Call]:
    """Return calls that every agent can make."""
    return [
        driven.edit_call("crlf.txt", "two", "zwei\nzweieinhalb"),
        driven.edit_call("mixed.txt", "two", "zwei"),
        driven.edit_call("end.txt", "three", "drei"),
        driven.edit_call("space.txt", "\treturn 1", "\treturn 2  "),
        driven.edit_call("unicode.txt", "zwei", "two – “2”"),
        driven.edit_call("bom.txt", "two", "zwei"),
        # Copilot creates no folders and writes only into existing ones.
        driven.write_call("new.txt" if driven.agent == "copilot" else "folder/new.txt", "new\nlines\n"),
    ]


def claude_calls(driven: DrivenAgent) -> list[Call]:
    book, bare = (str(driven.workspace / f"{name}.ipynb") for name in ("book", "bare"))
    return [
        driven.edit_call("many.txt", "a", "A", replace_all=True),
        driven.edit_call("gone.txt", "two", ""),
        driven.write_call("whole.txt", "eins\nzwei\n"),
        driven.write_call("empty.txt", ""),
        Call("NotebookEdit", {"notebook_path": book, "cell_id": "a1", "new_source": "x = 2\ny = 'ü'"}),
        Call("NotebookEdit", {"notebook_path": bare, "cell_id": "b2", "new_source": "", "edit_mode": "delete"}),
        driven.edit_call("blank.txt", "two\n", ""),
    ]


def codex_calls(driven: DrivenAgent) -> list[Call]:
    patch = (
        "*** Begin Patch\n*** Update File: twice.txt\n@@ y\n-same\n+other\n*** Update File: old.txt\n"
        "*** Move to: sub/renamed.txt\n@@\n one\n-two\n+zwei\n*** Delete File: gone.txt\n"
        "*** Update File: many.txt\n@@\n+at the end\n*** End Patch\n"
    )
    loose = "*** Begin Patch\n*** Update File: whole.txt\n@@\n-  one\n+eins\n two\n*** End of File\n*** End Patch\n"
    typed = "*** Begin Patch\n*** Update File: quotes.txt\n@@\n-say \"hello\" and 'bye'\n+say no\n*** End Patch\n"
    empty = "*** Begin Patch\n*** Update File: blank.txt\n@@\n two\n-\n+three\n*** End Patch\n"
    return [Call("apply_patch", {}, patch_text) for patch_text in (patch, loose, typed, empty)]


def gemini_calls(driven: DrivenAgent) -> list[Call]:
    return [
        driven.edit_call("many.txt", "a", "A", allow_multiple=True),
        driven.edit_call("gone.txt", "two\n", ""),
        driven.write_call("whole.txt", "eins\nzwei\n"),
    ]


def qwen_calls(driven: DrivenAgent) -> list[Call]:
    book, bare = (str(driven.workspace / f"{name}.ipynb") for name in ("book", "bare"))
    return [
        driven.edit_call("many.txt", "a", "A", replace_all=True),
        driven.edit_call("gone.txt", "two", ""),
        driven.write_call("whole.txt", "eins\nzwei\n"),
        Call("notebook_edit", {"notebook_path": book, "cell_id": "a1", "new_source": "x = 2\ny = 'ü'"}),
        Call(
            "notebook_edit", {"notebook_path": bare, "cell_id": "b2", "new_source": "# <b>", "cell_type": "markdown"}
        ),
    ]


def copilot_calls(driven: DrivenAgent) -> list[Call]:
    return [
        driven.edit_call("gone.txt", "two", ""),
        driven.edit_call("blank.txt", "two\n", ""),
        driven.write_call("crlf_new.txt", "new\r\nlines"),
    ]


def opencode_calls(driven: DrivenAgent) -> list[Call]:
    return [
        driven.edit_call("many.txt", "a", "A", replaceAll=True),
        driven.edit_call("gone.txt", "two", ""),
        driven.edit_call("made.txt", "", "new\n"),
        driven.write_call("whole.txt", "eins\nzwei\n"),
    ]


def droid_calls(driven: DrivenAgent) -> list[Call]:
    return [
        driven.edit_call("many.txt", "a", "A", change_all=True),
        driven.edit_call("gone.txt", "two", ""),
        driven.write_call("whole.txt", "eins\nzwei"),
    ]


def kimi_calls(driven: DrivenAgent) -> list[Call]:
    return [
        driven.edit_call("many.txt", "a", "A", replace_all=True),
        driven.edit_call("gone.txt", "two", ""),
        driven.write_call("whole.txt", "eins\nzwei\n"),
        Call("Write", {"path": str(driven.workspace / "old.txt"), "content": "three", "mode": "append"}),
    ]


AGENT_CALLS: dict[str, Callable[[DrivenAgent], list[Call]]] = {
    "claude": claude_calls,
    "codex": codex_calls,
    "gemini": gemini_calls,
    "qwen": qwen_calls,
    "copilot": copilot_calls,
    "opencode": opencode_calls,
    "droid": droid_calls,
    "kimi": kimi_calls,
}


def read_workspace(driven: DrivenAgent) -> dict[str, bytes]:
    names = driven.git("ls-files", "--cached", "--others", "-z").split("\0")
    paths = {name: driven.workspace / name for name in names if name and not name.startswith(SETTINGS)}
    return {name: path.read_bytes() for name, path in paths.items() if path.exists()}


@pytest.mark.parametrize("agent", PACKAGES)
def test_approved_bytes_equal_those_written_without_the_hook(agent: str, tmp_path: Path) -> None:
    if program(agent) is None:
        pytest.skip(f"{agent} is not installed: npm install --prefix FOLDER {PACKAGES[agent]}, and {FOLDER}=FOLDER")
    results: list[dict[str, bytes]] = []
    printed = ""
    for has_hook in (False, True):
        folder = tmp_path / str(has_hook)
        folder.mkdir()
        with ScriptedModelServer() as model:
            driven = DrivenAgent(agent, folder, model)
            driven.commit(FILES)
            if has_hook:
                driven.install()
            calls = [*common_calls(driven), *AGENT_CALLS[agent](driven)]
            printed += driven.send_prompt("change them", [driven.read_call(name) for name in FILES], calls)
            if has_hook:
                assert driven.changed_paths() == [], printed
                (proposal,) = driven.proposals()
                driven.signoff("approve", proposal["id"])
            results.append(read_workspace(driven))
    written, approved = results
    assert written != {name: text.encode() for name, text in FILES.items()}, printed
    different = {name: (written.get(name), approved.get(name)) for name in written.keys() | approved.keys()}
    assert {name: pair for name, pair in different.items() if pair[0] != pair[1]} == {}
