"""Services of the app for its parts, so that none of them depends on the app."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol, TypeVar

from textual.app import App
from textual.screen import Screen

Job = Callable[[], Coroutine[Any, Any, Any]]
"""Something to do, as a function: a coroutine that is never begun would be a defect."""
_Answer = TypeVar("_Answer")


class RunWork(Protocol):
    """Runs a coroutine beside the message loop; errors are shown in one line and do not end the app."""

    def __call__(self, job: Job, *, group: str = "work", exclusive: bool = False) -> None:
        """Begin.

        Args:
            job: what to do.
            group: what it belongs to.
            exclusive: cancels the others of its group.
        """
        ...


class Notify(Protocol):
    """Shows a line to the user that belongs to no pane."""

    def __call__(self, text: str, *, problem: bool = False) -> None:
        """Show it."""
        ...


class PushScreen(Protocol):
    """Shows a screen and returns its result; only within work that `RunWork` runs."""

    async def __call__(self, screen: Screen[_Answer]) -> _Answer:
        """Ask."""
        ...


class Leave(Protocol):
    """Closes the app after the user has agreed to lose unsaved text."""

    async def __call__(self) -> None:
        """End it."""
        ...


class AppContext(NamedTuple):
    """Runs work, notifies and asks the user, and closes the app for one of its parts."""

    run: RunWork
    notify: Notify
    push_screen: PushScreen
    leave: Leave


def open_link(app: App[object], href: str, tell: Notify) -> None:
    """Open a web address; nothing else is ever opened."""
    if href.startswith(("https://", "http://")):
        app.open_url(href)
    else:
        tell(f"Not opened, since it is no web address: {href}", problem=True)
