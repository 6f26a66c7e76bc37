"""The user's own editor: what is said where it does not do, and that the terminal is the app's again in any case."""

import asyncio
import contextlib
import shlex
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.app import App

from app.runtime.user_editor import EditorFailed
from app.ui.terminal.attention import Attention
from app.ui.terminal.external_editor import ExternalEditor


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
    attention = Attention({})
    before = signal.getsignal(signal.SIGINT)
    async with app.run_test():
        try:
            text = await ExternalEditor(app, attention, lambda: command, folder, {}).edit("text\n", name="a/b.py")
            assert not (isinstance(app, Lending) and app.heard), "what is typed goes on with the text"
            return text
        finally:
            assert signal.getsignal(signal.SIGINT) is before and not attention.paused


async def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    app = Lending()
    command = shlex.join(["sh", "-c", 'echo "more in $(basename $0), here: $(pwd)" >> "$0"'])
    assert await edited(app, command, tmp_path) == f"text\nmore in b.py, here: {tmp_path}\n"
    assert app.has_terminal


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "No editor is set: set $EDITOR, or `editor` in the configuration."),
        ("'vim", "The editor's command cannot be read: No closing quotation."),
        ("no-such-editor -w", "no-such-editor cannot be started: No such file or directory. Set $EDITOR, or"),
        ("sh -c 'echo half > $0; exit 3'", "sh ended with exit code 3; the text is as it was."),
        ("rm", "What rm saved cannot be read: No such file or directory."),
    ],
)
async def test_an_editor_that_does_not_do_is_one_clear_line(tmp_path: Path, command: str, said: str) -> None:
    app = Lending()
    with pytest.raises(EditorFailed) as failed:
        await edited(app, command, tmp_path)
    assert str(failed.value).startswith(said)
    assert app.has_terminal


async def test_no_place_for_the_text_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    app = Lending()
    with pytest.raises(EditorFailed, match=r"^The text can't be written for vi: No such file.* Set TMPDIR"):
        await edited(app, "vi", tmp_path)
    assert app.has_terminal


async def test_a_terminal_that_cannot_be_lent_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(EditorFailed, match="This terminal cannot be handed to an editor"):
        await edited(App(), "true", tmp_path)
