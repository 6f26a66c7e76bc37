"""Runs the command of a proposal again on a fresh layer, and compares the results byte for byte."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from app.automation.check_runner import CheckRunner, checks_unavailable_reason
from app.automation.evidence.proposal_evidence import CommandReproductionResult
from app.copies import replace
from app.proposals.files.filesystem import make_file_version
from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import HunkState, Proposal
from app.proposals.values.origin import CommandRecipe
from app.sandbox.captured_changes import PathChange, PendingFiles
from app.sandbox.environment import command_environment_digest
from app.sandbox.process import StartFailed
from app.sandbox.sandbox import Sandbox
from app.tools.command.command_result import read_changes
from app.tools.command.run_command import find_command_shell

_ContentByPath = Mapping[str, tuple[str, int] | None]
"""SHA-256 and mode by path, None for a removed path."""


class CommandNotRepeatable(Exception):
    """The command can't be run again; the message says why."""


class CommandReproducer(Struct, frozen=True):
    """Runs a pending proposal's command again; marks the proposal as reproduced, or replaces its changes.

    Args:
        checks: Schedules the runs, and provides the sandbox.
        service: Provides the proposals.
        tree_id: Returns the id of the workspace's tree with pending changes applied; blocks.
    """

    checks: CheckRunner
    service: ProposalService
    tree_id: Callable[[PendingFiles], str]

    async def reproduce(self, proposal_id: str) -> CommandReproductionResult:
        """Run the command of a pending proposal again, on the current files without the proposal.

        If the result is the same, store this with the proposal. If it differs, and the files have changed since the
        first run, the new result replaces the proposal's changes.

        Raises:
            CommandNotRepeatable: There is no single command, or it can't run here.
            ProposalError: It is no longer pending, has changed while the command ran, or would be empty.
            OSError: The workspace can't be read.
        """
        proposal = self.service.get(proposal_id)
        recipe = _require_recipe(proposal)
        below = await asyncio.to_thread(self.service.overlay_of_older_proposals, proposal_id)
        tree = await asyncio.to_thread(self.tree_id, below)

        async def run(sandbox: Sandbox, root: Path) -> Sequence[PathChange]:
            return await _run_recipe(sandbox, root, recipe, below)

        environment = command_environment_digest(os.environ, self.checks.sandbox.permissions.variables)
        changes = await self.checks.run_at_low_priority(run)
        if await asyncio.to_thread(self.tree_id, below) != tree:
            raise CommandNotRepeatable("files changed while the command ran; run it again")
        got = {change.path: _content_after(change) for change in changes}
        wanted = _proposed_content(proposal)
        differing = tuple(sorted(path for path in {*got, *wanted} if got.get(path, ...) != wanted.get(path, ...)))
        found = CommandReproductionResult(
            proposal_id, proposal.revision, recipe, "same", len(got), differing, environment == recipe.environment
        )
        if not differing:
            await asyncio.to_thread(self.service.mark_reproduced, proposal_id, proposal.revision)
            return found
        if tree == recipe.tree:
            return replace(found, outcome="differs")
        moved = recipe.model_copy(update={"tree": tree, "environment": environment, "reproduced": 0})
        after = await asyncio.to_thread(
            self.service.replace_command_changes, proposal_id, proposal.revision, changes, moved
        )
        return replace(found, outcome="replaced", revision=after.revision, recipe=moved)


def _require_recipe(proposal: Proposal) -> CommandRecipe:
    if proposal.recipe is None:
        raise CommandNotRepeatable(f"{proposal.id} was not made by one command alone")
    if not proposal.state.is_pending:
        raise CommandNotRepeatable(f"{proposal.id} does not wait for a decision")
    states = {change.state for change in proposal.files} | {hunk.state for hunk in proposal.hunks}
    if states != {HunkState.PENDING}:
        raise CommandNotRepeatable(f"{proposal.id} is decided in part; only a whole proposal can be compared")
    return proposal.recipe


async def _run_recipe(
    sandbox: Sandbox, root: Path, recipe: CommandRecipe, below: PendingFiles
) -> Sequence[PathChange]:
    """Run the command on a new layer; return its changes. Raises CommandNotRepeatable."""
    if reason := await checks_unavailable_reason(sandbox):
        raise CommandNotRepeatable(reason.replace("checks need", "running it again needs"))
    program = [*find_command_shell(root), recipe.command]
    try:
        async with sandbox.open_run(below) as run:
            ended = await run.execute(program, folder=recipe.folder, seconds=recipe.seconds, output=lambda data: None)
            if ended.timed_out or ended.limit:
                raise CommandNotRepeatable(f"the command was stopped: {ended.limit or 'its time limit'}")
            found = await run.find_changes()
            changes, left_out = await asyncio.to_thread(read_changes, run, found)
    except StartFailed as error:
        raise CommandNotRepeatable(f"the command could not be started: {error}") from error
    if left_out:
        raise CommandNotRepeatable(left_out[0])
    return changes


def _content_after(change: PathChange) -> tuple[str, int] | None:
    after = change.after
    return None if after is None else (make_file_version(after.data, after.mode).sha256, after.mode)


def _proposed_content(proposal: Proposal) -> _ContentByPath:
    """Return the content that an approval would leave at each path of a proposal."""
    found: dict[str, tuple[str, int] | None] = {}
    for change in proposal.files:
        if change.old_path:
            found.setdefault(change.old_path, None)
        found[change.path] = None if change.result is None else (change.result.sha256, change.result.mode)
    return found
