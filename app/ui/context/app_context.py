"""Services of the app for controllers, and how errors are shown to the user."""

import os
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from textual.app import App
from textual.screen import Screen

if TYPE_CHECKING:
    from app.images.image import Image
    from app.images.mentions import Mention
    from app.storage.session_store import SessionRecord

Job = Callable[[], Coroutine[Any, Any, Any]]
"""A function that returns a coroutine: a coroutine that is never awaited would be a defect."""
_ScreenResult = TypeVar("_ScreenResult")


class RunInBackground(Protocol):
    """Runs a coroutine in the background; errors are shown in one line and do not end the app."""

    def __call__(self, job: Job, *, group: str = "work", exclusive: bool = False) -> None:
        """Start the job.

        Args:
            job: Function that returns the coroutine.
            group: Name of the worker group.
            exclusive: Whether to cancel the other workers of the group.
        """


class Notify(Protocol):
    """Shows a line to the user in a toast."""

    def __call__(self, text: str, *, problem: bool = False) -> None:
        """Show the line."""


class PushScreenWait(Protocol):
    """Shows a screen and returns its result; works only in jobs of `RunInBackground`."""

    async def __call__(self, screen: Screen[_ScreenResult]) -> _ScreenResult:
        """Show the screen."""


class AppContext(NamedTuple):
    """Services of the app for its controllers."""

    run: RunInBackground
    notify: Notify
    push_screen: PushScreenWait
    close_app: Callable[[], Awaitable[None]]


class ChatActions(Protocol):
    """The actions of `ChatController` that the other controllers use; it cannot be imported there without a cycle."""

    @property
    def show_proposals(self) -> Callable[[], Awaitable[None]]:
        """Return a function that updates the review with the current proposals."""

    async def open_session(self, record: "SessionRecord | None") -> None:
        """Show a session, a new one if `record` is None."""

    async def go_to_event(self, session_id: str, event: int) -> None:
        """Show an event of a session; opens the session if it is not on the screen."""

    async def open_proposal(self, proposal_id: str) -> None:
        """Show a proposal in the review, however old it is."""

    async def answer_question(self, text: str, call_id: str, mentions: "Sequence[Mention]") -> None:
        """Answer the model's question."""

    async def load_images(self, mentions: "Sequence[Mention]", consequence: str) -> "tuple[Image, ...]":
        """Return the images among the mentioned files. Raises ImageNotAttached."""

    def show_chat(self) -> None:
        """Show the chat and focus its composer."""

    def show_hint(self, text: str) -> None:
        """Show a hint in the empty composer."""

    def add_to_composer(self, text: str) -> None:
        """Add feedback whose proposal is already decided to the composer."""

    def toggle_todos(self) -> bool:
        """Unfold or fold the to-do list; return whether there is one."""


def open_link(app: App[object], href: str, notify: Notify) -> None:
    """Open a web address in the browser; refuse other addresses with a notice."""
    if href.startswith(("https://", "http://")):
        app.open_url(href)
    else:
        notify(f"Not opened, because it is not a web address: {href}", problem=True)


_MAX_LOG_BYTES = 2**20
"""Bytes; a larger log is overwritten."""


def describe_and_log_error(error: Exception, log: Path) -> str:
    """Return the line for the user; log an unexpected error with its traceback, without values of variables."""
    if _has_user_message(error):
        return str(error)
    is_logged = append_to_error_log("".join(traceback.format_exception(error)), log)
    log_hint = f" Details are in {log}." if is_logged else ""
    return f"Something in signoff went wrong: {type(error).__name__}.{log_hint} Your last action was not completed."


def _has_user_message(error: Exception) -> bool:
    """Return whether the message of this error is written for the user."""
    from app.agent.turns import SessionOpenElsewhere
    from app.config.settings import ConfigError
    from app.llm.failures.request_errors import RequestError
    from app.proposals.values.proposal_errors import ProposalError
    from app.runtime.model_connection import ModelNotConfigured
    from app.runtime.user_editor import EditorFailed
    from app.storage import StorageError
    from app.ui.context.slash_commands import BadArgument
    from app.workspace.path_rules import WorkspaceError

    return isinstance(
        error,
        BadArgument
        | ConfigError
        | EditorFailed
        | ModelNotConfigured
        | SessionOpenElsewhere
        | ProposalError
        | RequestError
        | StorageError
        | WorkspaceError,
    )


def is_user_error(error: Exception) -> bool:
    """Return whether the user can fix the error by other input or by setting an editor."""
    from app.runtime.user_editor import EditorFailed
    from app.ui.context.slash_commands import BadArgument

    return isinstance(error, BadArgument | EditorFailed)


def append_to_error_log(text: str, log: Path) -> bool:
    """Append a text to the log; return whether it was written."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_flag = os.O_APPEND
        if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
            write_flag = os.O_TRUNC
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | write_flag | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as out:
            out.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')}\n{text}\n")
    except OSError:
        return False
    return True
