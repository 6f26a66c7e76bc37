"""Carries out what the user decides in the review, and says there what it came to."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from widgets.approval import messages

if TYPE_CHECKING:
    from app.main import SignoffApp
    from app.proposals.models import FileDiff, Proposal


Decided = messages.Approve | messages.ApproveAll | messages.Deny | messages.DenyAll | messages.Undo | messages.Redo
"""The messages of the review that are decisions."""


class Decisions:
    """The effects behind the review's messages; every one of them may raise `ProposalError` or `StorageError`."""

    def __init__(self, app: "SignoffApp") -> None:
        self._app = app

    async def carry_out(self, event: Decided) -> None:
        """Do what was decided."""
        match event:
            case messages.Approve():
                await self.approve(event)
            case messages.ApproveAll():
                await self.approve_all(event)
            case messages.Deny():
                await self.deny(event)
            case messages.DenyAll():
                await self.deny_all(event)
            case messages.Undo():
                await self.undo(event)
            case messages.Redo():
                await self.redo(event)

    async def approve(self, event: messages.Approve) -> None:
        """Write a proposal, or some hunks of it."""
        result = await self._app.session().approve(event.proposal_id, event.hunks, event.revision)
        self._say_written(result.proposal, [file.path for file in result.files])

    async def approve_all(self, event: messages.ApproveAll) -> None:
        """Write several proposals, the oldest first; the first that cannot be written stops it."""
        written: list[str] = []
        for proposal_id, revision, hunks in zip(event.ids, event.revisions, event.hunks, strict=True):
            result = await self._app.session().approve(proposal_id, hunks, revision)
            written.append(result.proposal.id)
            self._say_written(result.proposal, [file.path for file in result.files])
        if len(written) > 1:
            self._say(f"{len(written)} proposals written: {', '.join(written)}. {self._key('undo')} undoes the last.")

    async def deny(self, event: messages.Deny) -> None:
        """Discard a proposal; with feedback the model goes on at once."""
        await self._app.session().deny(event.proposal_id, event.hunks, event.feedback, event.comments)
        said = " Your words are on their way to the model." if event.feedback or event.comments else ""
        what = f"{len(event.hunks)} hunk of {event.proposal_id}" if event.hunks else event.proposal_id
        self._say(f"{what} denied; nothing was written.{said}")

    async def deny_all(self, event: messages.DenyAll) -> None:
        """Discard several proposals."""
        for proposal_id in event.ids:
            await self._app.session().deny(proposal_id)
        self._say(f"{len(event.ids)} proposals denied; nothing was written.")

    async def undo(self, event: messages.Undo) -> None:
        """Take an applied proposal back."""
        result = await self._app.session().undo(event.proposal_id)
        paths = _listed([file.path for file in result.files])
        self._say(f"{event.proposal_id} undone: {paths}. {self._key('redo')} applies it again.")

    async def redo(self, event: messages.Redo) -> None:
        """Apply an undone proposal again."""
        result = await self._app.session().redo(event.proposal_id)
        self._say_written(result.proposal, [file.path for file in result.files])

    async def load_diffs(self, event: messages.DiffsWanted) -> None:
        """Compute a proposal's diffs off the event loop."""
        diffs = await asyncio.to_thread(self._diffs, event.proposal_id)
        self._app.workbench.review.set_diffs(event.proposal_id, diffs)

    def _diffs(self, proposal_id: str) -> "list[FileDiff]":
        # The desk is made, and imported, when it is first asked for: on the same thread.
        return self._app.runtime.desk.diffs(proposal_id)

    async def load_versions(self, event: messages.VersionsWanted) -> None:
        """Compute what changed from the version before to this one."""
        from app.proposals.versions import version_diffs

        diffs = await asyncio.to_thread(version_diffs, self._app.runtime.proposals, event.proposal_id)
        self._app.workbench.review.set_versions(event.proposal_id, diffs)

    async def edit(self, event: messages.Edit) -> None:
        """Let the user change the proposed text of a file, and put the result in its place."""
        from app.screens.edit import EditScreen, proposed_text

        diffs = await asyncio.to_thread(self._diffs, event.proposal_id)
        diff = next((one for one in diffs if one.change.path == event.path), None)
        if diff is None or diff.change.binary or diff.change.result is None:
            self._say(f"{event.path} has no text to edit.", problem=True)
            return

        async def save(text: str) -> None:
            await self._app.session().edit_proposal(event.proposal_id, event.path, text)
            self._say(f"{event.path} in {event.proposal_id} is yours now; {self._key('approve')} writes it.")

        app = self._app
        text = proposed_text(diff)
        await app.push_screen_wait(
            EditScreen(event.proposal_id, event.path, text, save, app.external_editor, app.tell, line=event.line)
        )

    def _say_written(self, proposal: "Proposal", paths: Sequence[str]) -> None:
        from app.proposals.models import ProposalState

        rest = " Other hunks still wait." if proposal.state is ProposalState.PARTLY_APPROVED else ""
        self._say(f"{proposal.id} written: {_listed(paths)}.{rest} {self._key('undo')} undoes it.")

    def _key(self, action: str) -> str:
        return self._app.workbench.review.key_of(action)

    def _say(self, text: str, *, problem: bool = False) -> None:
        self._app.workbench.review.outcome(text, problem=problem)


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:4])
    return f"{shown} and {len(paths) - 4} more" if len(paths) > 4 else shown
