"""`signoff proposals --json --watch`, and the editors' examples of the documentation over it."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from app.automation.check_results import CheckRunResult, CheckState, ProposalCheckResult, ProposalChecks
from app.review.review_stores import CheckResultStore
from app.runtime.open_workspace import open_workspace
from tests.command_line import run_command
from tests.commands.test_commands import endpoint
from tests.forking import Forking
from tests.terminal.terminal import signoff_command, terminal_environment
from tests.wire.server import WireServer

pytestmark = pytest.mark.timeout(120)
EDITORS = (Path(__file__).resolve().parents[2] / "docs" / "editors.md").read_text(encoding="utf-8")
PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"
OTHER = "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+new\n"
PATIENCE = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (root := tmp_path / "workspace").mkdir()
    (root / "a.txt").write_text("one\n")
    return root


def environment(folder: Path) -> dict[str, str]:
    """With a command `signoff` on the path, as editors call it."""
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    command = " ".join(signoff_command())
    (programs / "signoff").write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (programs / "signoff").chmod(0o755)
    found = terminal_environment(folder.parent / "home")
    return {**found, "PATH": f"{programs}{os.pathsep}{found['PATH']}"}


@pytest.fixture
def run(folder: Path, processes: Forking) -> Callable[..., None]:
    def run(*arguments: str, stdin: str = "") -> None:
        done = run_command(processes, arguments, folder=folder, environment=environment(folder), stdin=stdin)
        assert done.returncode == 0, done.stderr

    return run


class Lines:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._found: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._found.put(line)

    def next(self) -> str:
        return self._found.get(timeout=PATIENCE)

    def until(self, text: str) -> str:
        while text not in (line := self.next()):
            pass
        return line

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.next())
        return found


@contextmanager
def started(folder: Path, *command: str) -> Iterator[Lines]:
    process = subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    try:
        yield Lines(process)
    finally:
        process.kill()
        process.wait()


def watching(folder: Path) -> "Any":
    return started(folder, *signoff_command("proposals", "--json", "--watch"))


def test_watch_prints_waiting_proposals_and_then_each_change(
    folder: Path, run: Callable[..., None], server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("stage", stdin=PATCH)
    monkeypatch.setenv("SIGNOFF_HOME", environment(folder)["SIGNOFF_HOME"])
    workspace = open_workspace(folder, {}, {})
    with watching(folder) as watch, watching(folder) as terminated:
        first = watch.document()
        assert (first["change"], first["waiting"], first["proposal"]["id"]) == ("waiting", 1, "P1")
        result = ProposalCheckResult("tests", CheckState.FAILED, "staged", CheckRunResult(CheckState.FAILED, 1))
        CheckResultStore(workspace.sessions, workspace.signal).save(ProposalChecks("P1", 1, (result,)))
        checked = watch.document()
        assert (checked["change"], checked["id"]) == ("checks", "P1")
        assert [(one["name"], one["state"]) for one in checked["checks"]] == [("tests", "failed")]
        run("stage", stdin=OTHER)
        second = watch.document()
        assert (second["change"], second["waiting"], second["proposal"]["files"][0]["path"]) == ("staged", 2, "b.txt")
        run("approve", "P1")
        third = watch.document()
        assert (third["change"], third["decision"], third["proposal"]["state"]) == ("decided", "approved", "applied")
        run("deny", "P2")
        assert (fourth := watch.document())["decision"] == "denied" and fourth["waiting"] == 0
        run("undo", "P2")
        assert watch.document()["decision"] == "reopened"
        server.call("ask_user", {"question": "Which of them?", "options": ["a", "b"]})
        run("run", "ask me", *endpoint(server))
        asked = watch.document()
        assert (asked["change"], asked["text"], asked["options"]) == ("question", "Which of them?", ["a", "b"])
        server.say("Then a.")
        run("run", "a", "--session", asked["session"], *endpoint(server))
        answered = watch.document()
        assert (answered["change"], answered["session"]) == ("answered", asked["session"])
        watch.process.send_signal(signal.SIGINT)
        assert watch.process.wait(PATIENCE) == 128 + signal.SIGINT
        terminated.process.send_signal(signal.SIGTERM)
        assert terminated.process.wait(PATIENCE) == 128 + signal.SIGTERM
    workspace.close()


def test_watch_ends_when_its_reader_closes_although_nothing_happens(folder: Path, run: Callable[..., None]) -> None:
    run("stage", stdin=PATCH)
    command, pipe = signoff_command("proposals", "--json", "--watch"), subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout and process.stderr
            assert process.stdout.read(1) == b"{"
            process.stdout.close()
            assert process.wait(PATIENCE) == 128 + signal.SIGPIPE
            assert process.stderr.read() == b""
        finally:
            process.kill()


def damage_database(folder: Path) -> None:
    state = Path(environment(folder)["SIGNOFF_HOME"]) / "state"
    state.mkdir(parents=True, exist_ok=True)
    (state / "signoff.db").write_text("no database")


def test_a_watch_that_cannot_start_names_the_reason_in_one_line(folder: Path, processes: Forking) -> None:
    listed = run_command(processes, ("proposals", "--watch"), folder=folder, environment=environment(folder))
    assert listed.returncode == 2, "it needs --json"
    damage_database(folder)
    with watching(folder) as watch:
        found = watch.document()
        assert found["code"] == watch.process.wait(PATIENCE) == 1
        assert "signoff.db is damaged" in found["error"]


def example(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", EDITORS, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.skipif(shutil.which("nvim") is None, reason="needs nvim")
def test_the_neovim_example_shows_pending_proposals(folder: Path, run: Callable[..., None]) -> None:
    plugin = folder.parent / "signoff.lua"
    told = folder.parent / "told"
    assert len(example("lua").splitlines()) <= 60
    plugin.write_text(
        example("lua")
        + f"""
local file = io.open("{told}", "a")
local function note()
  local names = vim.tbl_map(function(one) return vim.fn.bufname(one.bufnr) .. " " .. one.text end, vim.fn.getqflist())
  file:write((vim.g.signoff_waiting or 0) .. ": " .. table.concat(names, "; ") .. "\\n")
  file:flush()
end
vim.fn.timer_start(50, note, {{ ["repeat"] = -1 }})
"""
    )
    run("stage", stdin=PATCH)
    command = ("sh", "-c", f"nvim --headless --clean -c 'luafile {plugin}' & tail -n +1 -F {told} 2>/dev/null")
    with started(folder, *command) as editor:
        try:
            assert editor.until("1: ") == "1: a.txt P1 +1 -1 Patch: a.txt\n"
            run("stage", stdin=OTHER)
            assert "b.txt P2 +1 -0" in editor.until("2: ")
            run("deny", "P1", "P2")
            assert editor.until("0: ") == "0: \n"
        finally:
            subprocess.run(["pkill", "-P", str(editor.process.pid)], check=False)


STAND_IN = """
const Module = require("node:module");
const told = (kind) => (text) => console.log(kind + ": " + text);
const vscode = {
  StatusBarAlignment: { Left: 1 }, DiagnosticSeverity: { Information: 2 },
  Range: class {}, Diagnostic: class { constructor(range, message) { this.message = message; } },
  Uri: { joinPath: (base, path) => base.fsPath + "/" + path },
  workspace: { workspaceFolders: [{ uri: { fsPath: process.cwd() } }] },
  languages: { createDiagnosticCollection: () => {
    const kept = new Map();
    return { clear: () => kept.clear(), get: (uri) => kept.get(uri), dispose: () => {},
      set: (uri, marks) => { kept.set(uri, marks); console.log("mark: " + marks.map((one) => one.message)); } };
  } },
  window: {
    createStatusBarItem: () => ({
      show() { console.log("bar: " + this.text); }, hide: () => console.log("no bar"), dispose: () => {},
    }),
    showInformationMessage: told("said"), showWarningMessage: told("warned"), showErrorMessage: told("failed"),
  },
  commands: { registerCommand: () => ({ dispose: () => {} }) },
};
const load = Module._load;
Module._load = (name, ...more) => (name === "vscode" ? vscode : load(name, ...more));
const context = { subscriptions: [] };
require(process.argv[2]).activate(context);
process.stdin.on("end", () => context.subscriptions.forEach((one) => one.dispose())).resume();
"""
"""What VS Code gives an extension, as far as the example uses it."""


@contextmanager
def vs_code(folder: Path) -> Iterator[Lines]:
    """The extension of the documentation, in a stand-in for VS Code."""
    (extension := folder.parent / "extension.js").write_text(example("js"))
    (stand_in := folder.parent / "editor.js").write_text(STAND_IN)
    with started(folder, "node", str(stand_in), str(extension)) as editor:
        yield editor


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_vs_code_example_shows_pending_proposals_and_ends_with_the_editor(
    folder: Path, run: Callable[..., None]
) -> None:
    assert json.loads(example("json"))["main"] == "./extension.js"
    run("stage", stdin=PATCH)
    with vs_code(folder) as editor:
        assert editor.until("bar") == "bar: signoff 1\n"
        assert editor.until("mark") == "mark: P1 +1 -1: Patch: a.txt\n"
        run("stage", stdin=OTHER)
        assert "said: P2 waits: " in editor.until("said")
        run("deny", "P1", "P2")
        assert editor.until("no bar")
        assert editor.process.stdin is not None
        editor.process.stdin.close()
        assert editor.process.wait(PATIENCE) == 0


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_vs_code_example_shows_the_error_of_the_watch(folder: Path) -> None:
    damage_database(folder)
    with vs_code(folder) as editor:
        assert "signoff.db is damaged" in editor.until("failed: signoff: ")
