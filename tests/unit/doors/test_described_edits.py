"""What the described tools make of files, and what they refuse.

The bytes are those that Qwen Code 0.24.4, Copilot CLI 1.0.102, OpenCode 1.18.33, Droid 0.225.2 and Kimi Code 2.1.0
wrote for the same calls.
"""

from pathlib import Path
from typing import Any

import pytest

from app.doors.hook.agents import AGENTS, HookOptions, find_agent
from app.doors.hook.call_errors import EditNotStaged
from app.doors.hook.hook_installation import add_hook, find_hook, remove_hook, render_toml_hooks
from app.doors.hook.turn_files import InMemoryFilesOfOneCall
from app.workspace.paths import Workspace

NAMES = ("qwen", "copilot", "opencode", "droid", "kimi")
EDIT = {
    "qwen": ("edit", "file_path", "old_string", "new_string", "replace_all"),
    "copilot": ("edit", "path", "old_str", "new_str", ""),
    "opencode": ("edit", "filePath", "oldString", "newString", "replaceAll"),
    "droid": ("Edit", "file_path", "old_str", "new_str", "change_all"),
    "kimi": ("Edit", "path", "old_string", "new_string", "replace_all"),
}
WRITE = {
    "qwen": ("write_file", "file_path", "content"),
    "copilot": ("create", "path", "file_text"),
    "opencode": ("write", "filePath", "content"),
    "droid": ("Create", "file_path", "content"),
    "kimi": ("Write", "path", "content"),
}


def made(folder: Path, agent: str, before: str | None, tool: str, arguments: dict[str, Any]) -> bytes | None:
    if before is not None:
        (folder / "f").write_bytes(before.encode())
    files = InMemoryFilesOfOneCall(Workspace(folder), str(folder))
    find_agent(agent).edits[tool](files, arguments)
    return files.read("f")


def edited(folder: Path, agent: str, before: str | None, old: str, new: str, **more: Any) -> bytes | None:
    tool, path, *keys = EDIT[agent]
    return made(folder, agent, before, tool, {path: "f", keys[0]: old, keys[1]: new, **more})


def written(folder: Path, agent: str, before: str | None, content: str, **more: Any) -> bytes | None:
    tool, path, key = WRITE[agent]
    return made(folder, agent, before, tool, {path: "f", key: content, **more})


@pytest.mark.parametrize("agent", NAMES)
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("one\r\ntwo\r\nthree\r\n", "two", "2\nhalf", "one\r\n2\r\nhalf\r\nthree\r\n"),
        ("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", "1\r\n2\r\nthree\r\n"),
        ("one\ntwo\nthree", "three", "3", "one\ntwo\n3"),
        ("def f():\n\treturn 1\n", "\treturn 1", "\treturn 2  ", "def f():\n\treturn 2  \n"),
        ("a\nb\n", "b", "$& $1 $$", "a\n$& $1 $$\n"),
    ],
)
def test_all_replace_alike(tmp_path: Path, agent: str, before: str, old: str, new: str, after: str) -> None:
    assert edited(tmp_path, agent, before, old, new) == after.encode()


@pytest.mark.parametrize(
    ("agent", "mixed", "mostly_lf"),
    [
        ("qwen", "one\r\ntwo\r\n3\r\nhalf\r\nfour\r\n", "one\r\ntwo\r\n3\r\nhalf\r\nfour\r\n"),
        ("copilot", "one\r\ntwo\n3\r\nhalf\r\nfour\r\n", "one\ntwo\r\n3\nhalf\nfour\n"),
        ("opencode", "one\r\ntwo\n3\r\nhalf\r\nfour\r\n", "one\ntwo\r\n3\r\nhalf\nfour\n"),
        ("droid", "one\r\ntwo\r\n3\r\nhalf\r\nfour\r\n", "one\ntwo\n3\nhalf\nfour\n"),
        ("kimi", "one\r\ntwo\n3\nhalf\r\nfour\r\n", "one\ntwo\r\n3\nhalf\nfour\n"),
    ],
)
def test_mixed_endings_follow_the_agent(tmp_path: Path, agent: str, mixed: str, mostly_lf: str) -> None:
    for before, after in (("one\r\ntwo\nthree\r\nfour\r\n", mixed), ("one\ntwo\r\nthree\nfour\n", mostly_lf)):
        assert edited(tmp_path, agent, before, "three", "3\nhalf") == after.encode()


@pytest.mark.parametrize(
    ("agent", "before", "old", "new", "after"),
    [
        ("qwen", "one\ntwo\n", "one\r\ntwo", "1\r\n2", "1\r\n2\n"),
        ("copilot", "one\ntwo\n", "one\r\ntwo", "1\r\n2", "1\n2\n"),
        ("opencode", "one\ntwo\n", "one\r\ntwo", "1\r\n2", "1\n2\n"),
        ("qwen", None, "", "new\r\nlines\n", "new\r\nlines\n"),
        ("copilot", "one\r\ntwo\r\nthree\r\n", "two", "", "one\r\nthree\r\n"),
    ],
)
def test_other_line_endings_in_a_call_follow_the_agent(
    tmp_path: Path, agent: str, before: str | None, old: str, new: str, after: str
) -> None:
    assert edited(tmp_path, agent, before, old, new) == after.encode()


@pytest.mark.parametrize("agent", [name for name in NAMES if EDIT[name][-1]])
def test_the_word_false_does_not_replace_every_occurrence(tmp_path: Path, agent: str) -> None:
    """Qwen Code and OpenCode call the hook before they check the types of the arguments."""
    with pytest.raises(EditNotStaged, match="2 times"):
        edited(tmp_path, agent, "one one\n", "one", "1", **{EDIT[agent][-1]: "false"})


@pytest.mark.parametrize("agent", NAMES)
def test_an_edit_has_the_same_bytes_as_in_the_agent(tmp_path: Path, agent: str) -> None:
    if agent in ("qwen", "opencode"):
        assert edited(tmp_path, agent, None, "", "new\n") == b"new\n"
    else:
        with pytest.raises(EditNotStaged):
            edited(tmp_path, agent, None, "", "new\n")
    after = "one\nthree\n" if agent in ("qwen", "copilot") else "one\n\nthree\n"
    assert edited(tmp_path, agent, "one\ntwo\nthree\n", "two", "") == after.encode()
    if agent in ("droid", "kimi"):
        after = "one\n2\n" if agent == "droid" else "one\n2"
        assert edited(tmp_path, agent, "one\ntwo\n", "two\n", "2") == after.encode()
    mark = "" if agent == "kimi" else "\ufeff"
    assert edited(tmp_path, agent, "\ufeffone\ntwo\n", "two", "2") == f"{mark}one\n2\n".encode()
    if agent != "copilot":
        assert written(tmp_path, agent, "\ufeffone\n", "1\n") == f"{mark}1\n".encode()
    if EDIT[agent][-1]:
        assert edited(tmp_path, agent, "a b a\nb a\n", "a", "A", **{EDIT[agent][-1]: True}) == b"A b A\nb A\n"


@pytest.mark.parametrize("agent", NAMES)
def test_a_written_file_has_the_same_bytes_as_in_the_agent(tmp_path: Path, agent: str) -> None:
    assert written(tmp_path, agent, None, "x") == (b"x\n" if agent == "droid" else b"x")
    assert written(tmp_path, agent, None, "a\r\nb\n") == b"a\r\nb\n"
    if agent != "copilot":
        after = b"1\r\n2\r\n" if agent in ("qwen", "droid") else b"1\n2\n"
        assert written(tmp_path, agent, "one\r\ntwo\r\n", "1\n2\n") == after
        after = b"1\r\n2\r\n" if agent == "qwen" else b"1\n2\n"
        assert written(tmp_path, agent, "one\r\ntwo\nthree\n", "1\n2\n") == after


def test_writes_of_agents_keep_to_their_ways(tmp_path: Path) -> None:
    assert written(tmp_path, "kimi", "one\n", "two", mode="append") == b"one\ntwo"
    assert written(tmp_path, "qwen", "\ufeffone\n", "\ufeff1\n") == "\ufeff1\n".encode()
    long = "x" * 5000
    assert edited(tmp_path, "droid", f"{long}\ntwo\r\nthree\r\n", "two", "2") == f"{long}\r\n2\r\nthree\r\n".encode()
    with pytest.raises(EditNotStaged, match="makes new files only"):
        written(tmp_path, "copilot", "one\n", "two\n")


@pytest.mark.parametrize("agent", NAMES)
@pytest.mark.parametrize(
    ("before", "old"),
    [("x\nsame\nsame\n", "same"), ("one\n", "two"), (None, "two"), ("one\n", ""), ("  two\n", " two x")],
)
def test_text_that_is_missing_or_ambiguous_is_refused(
    tmp_path: Path, agent: str, before: str | None, old: str
) -> None:
    with pytest.raises(EditNotStaged):
        edited(tmp_path, agent, before, old, "new")


def test_the_plugin_holds_the_command_and_an_altered_plugin_is_reported() -> None:
    agent, options = find_agent("opencode"), HookOptions(wait=60, commands="deny")
    text = add_hook(agent, "", options)
    found = find_hook(agent, text)
    assert found and found.options == options and list(found.weaknesses(agent)) == []
    assert add_hook(agent, text, HookOptions()) == add_hook(agent, "", HookOptions())
    assert remove_hook(agent, text) == "" and remove_hook(agent, "export {}\n") == "export {}\n"
    altered = find_hook(agent, text.replace("code !== 0", "code === 7"))
    assert altered and list(altered.weaknesses(agent)) == [
        "it is not as signoff writes it; `signoff doors install opencode` does"
    ]


def test_tables_for_settings_in_toml_are_found_there_with_a_valid_time_limit() -> None:
    agent, options = find_agent("kimi"), HookOptions(commands="deny")
    found = find_hook(agent, f'default_model = "x"\n{render_toml_hooks(agent, options)}')
    assert found and found.options == options and found.limit == 600 and list(found.weaknesses(agent)) == []
    assert find_hook(agent, 'hooks = "none"\n') is None
    found = find_hook(agent, render_toml_hooks(agent, HookOptions(wait=600)))
    assert found and found.limit == 600 and "too short" in "".join(found.weaknesses(agent))


def test_a_name_and_a_tool_mean_one_thing_in_an_agent() -> None:
    assert len({agent.name for agent in AGENTS}) == len(AGENTS)
    assert all(not set(agent.edits) & set(agent.shells) for agent in AGENTS)


@pytest.mark.parametrize(
    ("before", "arguments", "after"),
    [
        (
            '{"cells": [{"cell_type": "code", "id": "a", "source": ["x\\n"], "outputs": [1]}], "n": 1e3, "f": 2.0}',
            {"cell_id": "a", "new_source": "y\n\u2028z"},
            '{"cells":[{"cell_type":"code","id":"a","source":["y\\n","\u2028z"],"outputs":[],"metadata":{},'
            '"execution_count":null}],"n":1000,"f":2}',
        ),
        (
            '{\r\n  "cells": [\r\n    {"cell_type": "code", "source": "x", "outputs": []}\r\n  ]\r\n}\r\n',
            {"cell_id": "cell-0", "new_source": "# y", "cell_type": "markdown"},
            '{\r\n  "cells": [\r\n    {\r\n      "cell_type": "markdown",\r\n      "source": "# y",\r\n'
            '      "metadata": {}\r\n    }\r\n  ]\r\n}\r\n',
        ),
        (
            '{"cells": [{"id": "qwen-cell-1", "source": "x"}], "nbformat": 4, "nbformat_minor": 5}\n',
            {"cell_id": "qwen-cell-1", "new_source": "y", "edit_mode": "insert"},
            '{"cells":[{"id":"qwen-cell-1","source":"x"},{"cell_type":"code","metadata":{},"source":"y",'
            '"id":"qwen-cell-2","execution_count":null,"outputs":[]}],"nbformat":4,"nbformat_minor":5}\n',
        ),
        ('{"cells": [{"id": "a"}, {"id": "b"}]}', {"cell_id": "a", "edit_mode": "delete"}, '{"cells":[{"id":"b"}]}'),
    ],
)
def test_qwen_keeps_notebook_layout(tmp_path: Path, before: str, arguments: dict[str, Any], after: str) -> None:
    found = made(tmp_path, "qwen", before, "notebook_edit", {"notebook_path": "f", **arguments})
    assert found == after.encode()


@pytest.mark.parametrize("wanted", ["a", "none", ""])
def test_qwen_edits_only_the_single_cell_of_an_id(tmp_path: Path, wanted: str) -> None:
    before = '{"cells": [{"id": "a", "source": ""}, {"id": "a", "source": ""}]}'
    arguments = {"notebook_path": "f", "cell_id": wanted, "new_source": "x"}
    with pytest.raises(EditNotStaged, match="no single cell"):
        made(tmp_path, "qwen", before, "notebook_edit", arguments)
