"""Has the user's own diff program show what is reviewed, where there is one."""

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING

from app.ui.means import Means

if TYPE_CHECKING:
    from app.git.external_diff import Printed
    from app.proposals.models import FileChange
    from app.runtime.workspace import Runtime
    from widgets.approval.review import Review


class ExternalDiffs:
    """Knows the program, and opens the screen on what it prints."""

    def __init__(self, review: "Review", runtime: "Runtime", means: Means) -> None:
        """Know nothing yet.

        Args:
            review: offers the key.
            runtime: the open workspace.
            means: of the app.
        """
        self._review = review
        self._runtime = runtime
        self._means = means
        self._looked = False

    async def look(self) -> None:
        """Find out once whether there is a program, so that its key is offered."""
        if not self._looked:
            await self._find()
            self._looked = True

    async def show(self, proposal_id: str, path: str) -> None:
        """Show a file of a proposal by it; the others of the proposal are a key away."""
        from app.git.external_diff import HOW_TO_SET
        from app.proposals.attention.order import in_order
        from app.ui.screens.external_diff import ExternalDiffScreen

        # Of the proposal that was on the screen when the key was pressed; another may be by now.
        proposal, by_path = self._review.state.get(proposal_id), self._review.preview.by_path
        if proposal is None or all(change.path != path for change in proposal.files):
            return
        paths = [change.path for change in proposal.files]
        changes = dict(zip(paths, proposal.files, strict=True))
        shown = in_order(paths, paths, () if by_path else proposal.order)
        command = await self._find()
        if not command:
            self._review.say(HOW_TO_SET)
            return
        run = partial(self._run, command, changes)
        name = f"{proposal_id} · {command}"
        await self._means.ask(ExternalDiffScreen(name, shown, shown.index(path), run))

    async def _find(self) -> str:
        from app.git.external_diff import external_diff

        configured = self._runtime.settings.external_diff
        command = await asyncio.to_thread(external_diff, configured, os.environ)
        self._review.view.has_external_diff = bool(command)
        self._review.refresh_bindings()
        return command

    async def _run(self, command: str, changes: "dict[str, FileChange]", path: str, width: int) -> "Printed":
        from app.git.external_diff import Printed, Sides, run_external_diff
        from app.proposals.overlay import Contents

        change, contents = changes[path], Contents(self._runtime.proposals)

        def sides() -> Sides:
            old, new = (None if one is None else contents.get(one) for one in (change.base, change.result))
            return Sides(path, old, new)

        dark = self._review.app.current_theme.dark
        try:
            both = await asyncio.to_thread(sides)
        except KeyError:
            return Printed("", f"What {path} was is not kept any more.")
        return await run_external_diff(command, both, width=width, dark=dark, environment=os.environ)
