"""Hands a text to the user's own editor and takes it back; the app sleeps meanwhile, the model does not."""

import asyncio
import os
import shlex
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from app.ui.terminal.attention import Attention


class EditorFailed(Exception):
    """There is no editor, or it failed; the message is one line that says what to set."""


def editor_command(configured: str, environment: Mapping[str, str]) -> list[str]:
    """The editor's command: the configured one, then `$VISUAL`, then `$EDITOR`.

    Raises:
        EditorFailed: none is set, or it cannot be read as a command.
    """
    line = configured or environment.get("VISUAL", "") or environment.get("EDITOR", "")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise EditorFailed(f"The editor's command cannot be read: {error}.") from error
    if not words:
        raise EditorFailed("No editor is set: set $EDITOR, or `editor` in the configuration.")
    return words


class ExternalEditor:
    """The user's editor, for one app.

    Args:
        app: Sleeps meanwhile.
        attention: Does not call meanwhile.
        configured: The editor's command as it is set, if it is.
        folder: Where it runs.
        environment: Has it else.
    """

    def __init__(
        self,
        app: App[Any],
        attention: Attention,
        configured: Callable[[], str],
        folder: Path,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._app = app
        self._attention = attention
        self._configured = configured
        self._folder = folder
        self._environment = environment

    async def edit(self, text: str, *, name: str = "message.md") -> str:
        """Let the user edit a text in a file with this name; return it as saved.

        Raises:
            EditorFailed: there is no editor, it cannot be started, or it ended with an error.
        """
        command = editor_command(self._configured(), self._environment)
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="signoff-edit-"))
                file = Path(folder) / (Path(name).name or "text.txt")
                await asyncio.to_thread(_write, file, text)
            except OSError as error:
                why = f"The text can't be written for {command[0]}: {error.strerror}."
                raise EditorFailed(f"{why} Set TMPDIR to a folder with room.") from error
            # Read before the terminal is back: what is typed from then on goes on with this text.
            with self._asleep():
                if code := await self._run([*command, str(file)]):
                    raise EditorFailed(f"{command[0]} ended with exit code {code}; the text is as it was.")
                try:
                    return await asyncio.to_thread(_read, file)
                except OSError as error:
                    raise EditorFailed(f"What {command[0]} saved cannot be read: {error.strerror}.") from error

    async def _run(self, command: list[str]) -> int:
        try:
            process = await asyncio.create_subprocess_exec(*command, cwd=self._folder)
        except OSError as error:
            raise EditorFailed(
                f"{command[0]} cannot be started: {error.strerror}. Set $EDITOR, or `editor` in the configuration."
            ) from error
        return await process.wait()

    @contextmanager
    def _asleep(self) -> Iterator[None]:
        """Give the terminal away; nothing is drawn until it is back.

        An error is raised once it is: Textual takes it back only where the body of `suspend` ends without one.
        """
        failed: BaseException | None = None
        with ExitStack() as stack:
            # The terminal's Ctrl+C goes to this process too; only the editor shall act on it. A handler, unlike
            # "ignore", is not inherited by the editor.
            before = signal.signal(signal.SIGINT, lambda *_: None)
            stack.callback(signal.signal, signal.SIGINT, before)
            self._attention.paused = True
            stack.callback(setattr, self._attention, "paused", False)
            stack.enter_context(self._app.batch_update())
            try:
                stack.enter_context(self._app.suspend())
            except SuspendNotSupported as error:
                raise EditorFailed("This terminal cannot be handed to an editor.") from error
            try:
                yield
            except BaseException as error:
                failed = error
        if failed is not None:
            raise failed


def _write(file: Path, text: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogateescape"))


def _read(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "surrogateescape")
