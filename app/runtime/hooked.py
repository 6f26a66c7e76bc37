"""Tells hooks of what is written to the store of a workspace: by the process that wrote it, so once."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.config.hook_table import Hook
    from app.conversation.events import Event
    from app.hooks.runner import HookRunner
    from app.proposals.models import Proposal


class Hooked:
    """What the stores call once something is on disk, on any thread; what runs hooks is loaded with the first."""

    def __init__(self, root: Path, environment: Mapping[str, str], hooks: "Callable[[], Sequence[Hook]]") -> None:
        """Nothing is told yet.

        Args:
            root: of the workspace.
            environment: the program's own.
            hooks: gives those that are configured and trusted now.
        """
        self._root = root
        self._environment = environment
        self._configured = hooks
        self._runner: HookRunner | None = None
        self._making = threading.Lock()
        self.tell: Callable[[str], None] = lambda line: None
        """Takes a line for the user where a hook fails, on any thread."""
        self.patience: float | None = None
        """Seconds that `close` waits for hooks that run; None for as long as they may take."""

    def happened(self, session: str, events: "Sequence[Event]") -> None:
        """Events were written to the log of a session, or a decision to that of none."""
        with self._in_no_ones_way():
            if hooks := self._hooks():
                from app.hooks.documents import of_event

                for event in events:
                    if document := of_event(event, session, str(self._root), time.time()):
                        self._running().put(hooks, document)

    def staged(self, proposal: "Proposal") -> None:
        """A proposal is new."""
        with self._in_no_ones_way():
            if hooks := self._hooks():
                from app.hooks.documents import of_proposal

                self._running().put(hooks, of_proposal(proposal, str(self._root)))

    def close(self) -> None:
        """Wait for the hooks that run as long as patience lasts, then end them."""
        if self._runner is not None:
            self._runner.patience = self.patience
            self._runner.close()

    @contextmanager
    def _in_no_ones_way(self) -> Iterator[None]:
        """What was written is written: whatever keeps hooks from being told is a line, and no failure of that."""
        try:
            yield
        except Exception as error:
            self.tell(f"Hooks could not be told: {type(error).__name__}: {error}")

    def _hooks(self) -> "Sequence[Hook]":
        # A `signoff` that a hook runs tells no hooks: that would have no end.
        return () if self._environment.get("SIGNOFF_IN_HOOK") else self._configured()

    def _running(self) -> "HookRunner":
        from app.hooks.runner import HookRunner

        with self._making:
            if self._runner is None:
                self._runner = HookRunner(self._root, self._environment)
                self._runner.tell = lambda line: self.tell(line)
            return self._runner
