"""Checks that run on a draft before it becomes a proposal; the model gets the failures in the result of its edit.

They only inform the model. The gate closes whether they fail or pass, and the user decides.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from app.config.settings import CheckTable

if TYPE_CHECKING:
    from app.automation.check_runner import CheckRunner
    from app.proposals.decide.workspace_versions import FilesToCheckBeforeAndAfter
    from app.proposals.stack.draft import Draft


class DraftCheckRunner(Struct, frozen=True):
    """Runs the checks of a draft and returns the failures as text for the model."""

    runner: "Callable[[], CheckRunner]"
    configured: Callable[[], tuple[CheckTable, ...]]
    trees: "Callable[[Draft], FilesToCheckBeforeAndAfter]"
    """Returns the contents to check for a draft; called on a thread."""

    async def __call__(self, draft: "Draft", before_start: Callable[[], None]) -> str:
        """Return the text to add to the result of the step; empty if no check fails.

        Args:
            before_start: Called if a check runs, before it starts.
        """
        checks = [check for check in self.configured() if check.feed and check.when == "staged"]
        if not checks:
            return ""
        from app.automation.check_results import format_failures_for_model
        from app.automation.check_runner import files_for_check

        trees = await asyncio.to_thread(self.trees, draft)
        checks = [check for check in checks if files_for_check(check, trees.files) is not None]
        if not checks or await self.runner().unavailable_reason():
            return ""
        before_start()
        results = []
        for check in checks:
            # Don't wait longer for an earlier check, which may hang, than this check may run itself.
            with suppress(TimeoutError):
                results.append(await self.runner().run_check(check, trees, max_wait_seconds=check.seconds))
        return format_failures_for_model(results)
