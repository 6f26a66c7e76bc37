"""Opens a text in the user's editor; the app is suspended meanwhile, the model continues."""

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
    """Lets the user edit a text in their own editor, while the app is suspended.

    Args:
        app: Suspended while the editor runs.
        attention: Sends no notification while the editor runs.
        configured: Returns the configured editor command; empty if none is set.
        folder: Working directory of the editor.
        environment: Names the editor if none is configured.
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
        self._notifier = attention
        self._configured_command = configured
        self._folder = folder
        self._environment = environment

    async def edit(self, text: str, *, name: str = "message.md") -> str:
        """Let the user edit a text in a file with this name; return the saved text.

        Raises:
            EditorFailed: there is no editor, it cannot be started, or it ended with an error.
        """
        command = editor_command(self._configured_command(), self._environment)
        return await edit_in_user_editor(command, text, file_name=name, cwd=self._folder, suspend=self._suspend_app)

    @contextmanager
    def _suspend_app(self) -> Iterator[None]:
        """Suspend the app: it draws nothing and leaves the terminal to the editor.

        An exception of the body is raised after the app has resumed: Textual takes the terminal back only if the body
        of `suspend` raises none.
        """
        failed: BaseException | None = None
        with ExitStack() as stack:
            # The terminal sends Ctrl+C to this process, too; only the editor must handle it. A handler is used
            # because the editor would inherit SIG_IGN.
            former_handler = signal.signal(signal.SIGINT, lambda *_: None)
            stack.callback(signal.signal, signal.SIGINT, former_handler)
            self._notifier.paused = True
            stack.callback(setattr, self._notifier, "paused", False)
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
