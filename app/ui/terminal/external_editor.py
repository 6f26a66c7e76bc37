"""Hands a text to the user's own editor and takes it back; the app sleeps meanwhile, the model does not."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from app.runtime.user_editor import EditorFailed, edit_in_user_editor, editor_command
from app.ui.terminal.attention import TerminalNotifier


class ExternalEditor:
    """The user's editor, for one app.

    Args:
        app: Sleeps meanwhile.
        attention: Does not call meanwhile.
        configured: The editor's command as it is set, if it is.
        folder: The folder in which the editor runs.
        environment: Has it else.
    """

    def __init__(
        self,
        app: App[Any],
        attention: TerminalNotifier,
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
        return await edit_in_user_editor(command, text, name=name, folder=self._folder, suspend=self._asleep)

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
