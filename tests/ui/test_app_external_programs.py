"""The user's own diff program and editor: offered where there is one; the terminal is the app's again in any case."""

import asyncio
import contextlib
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.app import App

from app.runtime.user_editor import EditorFailed
from app.ui.screens.output_screens import ExternalDiffScreen
from app.ui.terminal.attention import TerminalNotifier
from app.ui.terminal.external_editor import ExternalEditor
from tests.ui.running_app import Running, staged
from tests.wire.server import WireServer
from widgets.common.text_view import TextView
from widgets.common.workbench_bars import KeyBar

TOOL = """\
import sys
print("\\x1b[31m" + open(sys.argv[2]).read().strip() + "\\x1b[0m\\x1b[2J")
print("\\n".join(f"line {n}" for n in range(90)))
print("\\x1b[32m" + open(sys.argv[5]).read().strip() + "\\x1b[0m")
"""


@pytest.fixture(autouse=True)
def nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No diff program is set."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_EXTERNAL_DIFF", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def footer(run: Running) -> str:
    return " ".join(hint.label for hint, _, _ in run.app.workbench.query_one(KeyBar).hints)


async def test_the_diff_programs_output_is_shown_and_decides_nothing(tmp_path: Path, server: WireServer) -> None:
    (tmp_path / "tool.py").write_text(TOOL)
    command = shlex.join([sys.executable, str(tmp_path / "tool.py")])
    async with staged(tmp_path, server, external_diff=command) as run:
        await run.review()
        await run.until(lambda: "Diff program" in footer(run), "the key")
        await run.screen("ExternalDiffScreen", "D")
        await run.see("'Hello '", "line 3", "greet.py")
        screen = run.app.screen
        assert isinstance(screen, ExternalDiffScreen)
        view = screen.query_one(TextView)
        strip = view.render_line(1)
        assert any(segment.style and segment.style.color for segment in strip if "Hello" in segment.text)
        await run.pilot.press("slash", *"77", "enter")
        await run.until(lambda: view.scroll_offset.y > 40, "the match")
        await run.see("match 1 of 1", "line 77")
        await run.pilot.press("G")
        await run.see("return")
        await run.screen("Workbench", "y", "escape")
        assert run.proposals[0].state == "pending"
        # A proposal that comes up meanwhile is not shown.
        draft = run.runtime.service.new_draft("")
        draft.write("greet.py", "another = 1\n")
        run.runtime.service.stage(draft, "Another")
        await run.app.show_proposals()
        await run.review()
        assert run.app.controllers.review is not None
        for gone in (("P9", "greet.py"), ("P1", "gone.py")):
            await run.app.controllers.review.actions.external_diffs.show_file(*gone)
        # The second key is there before anything that the first one wants is done.
        run.app.workbench.review.view.action_external_diff()
        run.app.workbench.review.action_next_proposal()
        await run.screen("ExternalDiffScreen")
        await run.see("P1 ·", "'Hello '")
        assert "another = 1" not in run.text
        # A notice says that the old content is no longer stored.
        await run.screen("Workbench", "escape")
        await run.review()
        with run.runtime.database.transaction() as connection:
            connection.execute("DELETE FROM blobs")
        await run.screen("ExternalDiffScreen", "D")
        await run.see("The old content of greet.py is no longer stored.")


async def test_without_a_diff_program_or_a_check_the_key_says_what_is_missing(
    tmp_path: Path, server: WireServer
) -> None:
    async with staged(tmp_path, server) as run:
        await run.review()
        assert "Diff program" not in footer(run)
        await run.pilot.press("D")
        await run.see("No diff program is set", "diff.external")
        assert "Diff program" not in footer(run)
        await run.review("E")
        await run.see("There is no check whose tests could tell")


class Lending(App[None]):
    """Its terminal can be lent; as with Textual's own, it is taken back only where nothing was raised meanwhile."""

    has_terminal = True
    heard = False
    """Whether the app has turned to anything else since, such as a key."""

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        self.has_terminal = False
        yield
        self.has_terminal = True
        asyncio.get_running_loop().call_soon(setattr, self, "heard", True)


async def edited(app: App[None], command: str, folder: Path) -> str:
    """What becomes of a text in an editor."""
    attention = TerminalNotifier({})
    before = signal.getsignal(signal.SIGINT)
    async with app.run_test():
        try:
            text = await ExternalEditor(app, attention, lambda: command, folder, {}).edit("text\n", name="a/b.py")
            assert not (isinstance(app, Lending) and app.heard), "what is typed goes on with the text"
            return text
        finally:
            assert signal.getsignal(signal.SIGINT) is before and not attention.paused


async def test_a_browser_is_not_taken_from_the_workspace(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tmp_path / "opened"
    async with staged(tmp_path, server) as run:
        root = run.runtime.workspace.root
        for folder in (root, tmp_path / "programs"):
            folder.mkdir(exist_ok=True)
            (folder / "browse").write_text(f'#!/bin/sh\necho "$0 $1" >> {opened}\n')
            (folder / "browse").chmod(0o755)
        monkeypatch.setenv("PATH", f"{root}:{tmp_path}/programs:/usr/bin:/bin")
        monkeypatch.setenv("BROWSER", "browse")
        run.app.open_url("https://example.org/")
        await run.until(opened.exists, "the browser")
    assert opened.read_text() == f"{tmp_path}/programs/browse https://example.org/\n"


async def test_an_editor_is_not_taken_from_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my-editor").write_text('#!/bin/sh\necho new > "$1"\n')
    (tmp_path / "my-editor").chmod(0o755)
    for folder in (str(tmp_path), "."):
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        with pytest.raises(EditorFailed, match="not in PATH outside the workspace"):
            await edited(Lending(), "my-editor", tmp_path)
    assert await edited(Lending(), "./my-editor", tmp_path) == "new\n"


async def test_text_saved_in_the_editor_comes_back(tmp_path: Path) -> None:
    app = Lending()
    command = shlex.join(["sh", "-c", 'echo "more in $(basename $0), here: $(pwd)" >> "$0"'])
    assert await edited(app, command, tmp_path) == f"text\nmore in b.py, here: {tmp_path}\n"
    assert app.has_terminal


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "No editor is set: set $EDITOR, or `editor` in the configuration."),
        ("'vim", "The editor's command cannot be read: No closing quotation."),
        ("no-such-editor -w", "no-such-editor is not in PATH outside the workspace. Set $EDITOR, or"),
        ("sh -c 'echo half > $0; exit 3'", "sh ended with exit code 3; the text is as it was."),
        ("rm", "What rm saved cannot be read: No such file or directory."),
    ],
)
async def test_an_editor_that_fails_is_reported_in_one_line(tmp_path: Path, command: str, said: str) -> None:
    app = Lending()
    with pytest.raises(EditorFailed) as failed:
        await edited(app, command, tmp_path)
    assert str(failed.value).startswith(said)
    assert app.has_terminal


async def test_a_missing_temporary_folder_or_terminal_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EditorFailed, match="This terminal cannot be handed to an editor"):
        await edited(App(), "true", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    app = Lending()
    with pytest.raises(EditorFailed, match=r"^The text can't be written for vi: No such file.* Set TMPDIR"):
        await edited(app, "vi", tmp_path)
    assert app.has_terminal
