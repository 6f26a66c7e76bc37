"""The keys of the plain review that don't decide: split, edit, comment, ask."""

import asyncio
import os
import re
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from msgspec import Struct

from app.agent.decision_service import DecisionService
from app.cli.command_output import CUT_ANSWER
from app.cli.plain_terminal import PlainTerminal
from app.conversation.events import ProposalLocation, SideExchange
from app.proposals.decide.conflicts import find_editable_result
from app.proposals.stack.hunk_splitting import SelectedLines
from app.proposals.values.models import FileDiff, Hunk, Proposal
from app.proposals.values.proposal_errors import ProposalError
from app.review.hunk_lines import Side, diff_side_text, hunk_line_numbers
from app.review.review_state import ReviewQueueState
from app.review.unfinished_review import UnsentComment, add_quoted_lines
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.user_editor import edit_in_user_editor, editor_command
from app.storage import StorageError

_LINE_RANGE = re.compile(r"(-?)(\d{1,9})(?:-(\d{1,9}))?")


class NonDecidingKeyHandler(Struct, frozen=True):
    """Handles the keys of the plain review that decide nothing: split, edit, comment, ask."""

    terminal: PlainTerminal
    runtime: OpenWorkspace
    state: ReviewQueueState
    service: Callable[[], DecisionService]
    """Returns the service that records the user's edits."""
    ask_aside: Callable[[Proposal, ProposalLocation, str], Awaitable[SideExchange]]
    """Asks the model a side question."""

    async def run_command(
        self, key: str, proposal: Proposal, diffs: Sequence[FileDiff], current_hunk: tuple[FileDiff, Hunk] | None
    ) -> None:
        """Carry out a command by its key. Raises ProposalError, StorageError, EditorFailed or CommandError."""
        if current_hunk is None:
            await self._ask_about_hunk(proposal, ProposalLocation(proposal.id, diffs[0].change.path))
            return
        diff, hunk = current_hunk
        match key:
            case "s":
                await self._split_hunk(proposal, diff, hunk)
            case "e":
                await self._edit_file(proposal, diff)
            case "c":
                await self._comment_on_line(proposal, diff, hunk)
            case _:
                await self._ask_about_hunk(proposal, ProposalLocation(proposal.id, diff.change.path, hunk.id))

    async def _split_hunk(self, proposal: Proposal, diff: FileDiff, hunk: Hunk) -> None:
        answer = await self.terminal.read_line(f"Which lines apart? {_describe_line_ranges(hunk)} Lines: ")
        picked = _parse_picked_lines(answer or "", hunk)
        if picked is None:
            self.terminal.print_lines(
                "Not split. Name lines of this hunk, such as 14, 16-18 or -12 for a removed one."
            )
            return
        numbers = SelectedLines(diff.change.path, frozenset(picked["old"]), frozenset(picked["new"]))
        parts = await asyncio.to_thread(self.runtime.service.split_hunks, proposal.id, numbers, proposal.revision)
        if not parts:
            self.terminal.print_lines("Not split: these are all of its lines.")
        self.state.select_split_parts(proposal, parts, ())
        self.state.hunk_exclusions.left_out.pop(proposal.id, None)

    async def _edit_file(self, proposal: Proposal, diff: FileDiff) -> None:
        path, text = diff.change.path, diff_side_text(diff, "new")
        find_editable_result(proposal, path)
        command = editor_command(self.runtime.settings.editor, os.environ)
        folder = self.runtime.workspace.root
        edited = await edit_in_user_editor(command, text, file_name=path, cwd=folder, suspend=nullcontext)
        if edited == text:
            self.terminal.print_lines("Nothing was changed.")
            return
        try:
            await self.service().edit_proposal(proposal.id, path, edited, proposal.revision)
        except (ProposalError, StorageError):
            self.terminal.print_lines(
                f"Not saved; your text is in {await asyncio.to_thread(_keep_text, path, edited)}."
            )
            raise
        self.terminal.print_lines(f"{path} in {proposal.id} is yours now.")

    async def _comment_on_line(self, proposal: Proposal, diff: FileDiff, hunk: Hunk) -> None:
        last = hunk.new_start + hunk.new_count if hunk.new_count else -(hunk.old_start + hunk.old_count)
        answer = await self.terminal.read_line(f"On which line? {_describe_line_ranges(hunk)} Line ({last}): ")
        picked = _parse_picked_lines(answer or str(last), hunk)
        places: list[tuple[Side, int]] = [(side, line) for side, lines in (picked or {}).items() for line in lines]
        if len(places) != 1:
            self.terminal.print_lines("No comment. Name one line of this hunk, such as 14, or -12 for a removed one.")
            return
        text = (await self.terminal.read_line("Comment: ") or "").strip()
        if not text:
            self.terminal.print_lines("No comment.")
            return
        side, line = places[0]
        self.state.feedback_drafts.set_comment(
            proposal, add_quoted_lines(UnsentComment(diff.change.path, side, line, text), [diff])
        )
        self.terminal.print_lines("Kept. It goes to the model with the decision.")

    async def _ask_about_hunk(self, proposal: Proposal, place: ProposalLocation) -> None:
        question = (await self.terminal.read_line("Your question: ") or "").strip()
        if not question:
            self.terminal.print_lines("Nothing was asked.")
            return
        if (answer := (await self.ask_aside(proposal, place, question)).answer) is None:
            return
        if answer.text.strip():
            self.terminal.print_lines(answer.text.strip("\n"))
        if answer.state == "truncated":
            self.terminal.print_lines(CUT_ANSWER)
        if answer.note:
            self.terminal.print_lines(answer.note)


def _describe_line_ranges(hunk: Hunk) -> str:
    """Return the line numbers of a hunk: `New 12-15, removed -12-13.`"""
    sides: tuple[tuple[str, Side], ...] = (("new ", "new"), ("removed -", "old"))
    parts = [
        f"{words}{lines.start + 1}{f'-{lines.stop}' if len(lines) > 1 else ''}"
        for words, side in sides
        if (lines := hunk_line_numbers(hunk, side))
    ]
    return f"{', '.join(parts).capitalize()}."


def _keep_text(path: str, text: str) -> str:
    """Write a text that could not be saved to a temporary file, and return the file's path."""
    with tempfile.NamedTemporaryFile("wb", prefix="signoff-", suffix=f"-{Path(path).name}", delete=False) as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    return file.name


def _parse_picked_lines(answer: str, hunk: Hunk) -> dict[Side, list[int]] | None:
    """Return the lines of a hunk that an answer names, from 0, by side; None if it names no lines, or others."""
    found: dict[Side, list[int]] = {"old": [], "new": []}
    for part in answer.replace(",", " ").split():
        if (match := _LINE_RANGE.fullmatch(part)) is None:
            return None
        side: Side = "old" if match[1] else "new"
        lines = range(int(match[2]) - 1, int(match[3] or match[2]))
        if not lines or any(line not in hunk_line_numbers(hunk, side) for line in (lines[0], lines[-1])):
            return None
        found[side] += lines
    return found if found["old"] or found["new"] else None
