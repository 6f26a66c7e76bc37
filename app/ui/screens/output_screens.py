"""Screens with outputs for a proposal: of its checks, of the user's diff program, of the model's reads.

Lines on these screens do not count as seen: the diff program may leave some out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import on, work
from textual.widget import Widget

from app.automation.check_results import CheckState, ProposalCheckResult, ProposalChecks
from app.git.diff_program import (
    HOW_TO_SET,
    ExternalDiffInput,
    ExternalDiffOutput,
    external_diff_command,
    run_external_diff,
)
from app.sandbox.environment import environment_without_workspace
from app.ui.context.app_context import AppContext
from app.ui.screens.dialog import DialogKey, TextDialog
from widgets.common.text_view import TextView, TextViewLine, parse_ansi_text
from widgets.diff.diff_search import SearchBar

if TYPE_CHECKING:
    from app.proposals.values.models import FileChange
    from app.runtime.open_workspace import OpenWorkspace
    from widgets.review.review import ReviewPane


_STATE_SIGNS = {
    CheckState.PASSED: "✓",
    CheckState.BROKEN: "!",
    CheckState.RUNNING: "▸",
    CheckState.WAITING: "·",
    CheckState.NOT_ASKED: "·",
}


class ChecksScreen(TextDialog):
    """The stored output of all checks of a proposal, failed ones first."""

    KEYS = (DialogKey("n", "next check", "next"), DialogKey("c", "copy all", "copy"), *TextDialog.KEYS)

    def __init__(self, checks: ProposalChecks) -> None:
        super().__init__(f"Checks of {checks.proposal}", list(check_output_lines(checks)))

    def action_next(self) -> None:
        """Go to the next check; after the last one, to the first."""
        view = self.query_one(TextView)
        headings = [number for number, line in enumerate(self._lines) if line.mark]
        following = [number for number in headings if number > view.first_line]
        view.go_to_line(following[0] if following and not view.is_at_end else headings[0])

    def action_copy(self) -> None:
        """Copy the whole output."""
        self.copy_text("\n".join(line.text for line in self._lines))


def check_output_lines(checks: ProposalChecks) -> Iterator[TextViewLine]:
    """Yield the lines of the checks screen: each check with its output, failed ones first."""
    for result in sorted(checks.results, key=lambda result: (not result.has_new_failure, result.outcome is None)):
        yield TextViewLine(
            ((f"{result.name} {_STATE_SIGNS.get(result.state, '✗')} {result.summary}", "heading"),), mark="program"
        )
        yield from _result_lines(result)
        yield TextViewLine((("", ""),))


def _result_lines(result: ProposalCheckResult) -> Iterator[TextViewLine]:
    outcome = result.outcome
    if outcome is None:
        yield TextViewLine((("not run", "quiet"),))
        return
    for line in outcome.output.rstrip("\n").split("\n") if outcome.output.strip() else ():
        yield TextViewLine(((line, ""),))
    if not outcome.output.strip():
        yield TextViewLine((("no output", "quiet"),))
    if result.before is not None and result.before.output.strip():
        yield TextViewLine((("Without the proposal:", "heading"),))
        for line in result.before.output.rstrip("\n").split("\n"):
            yield TextViewLine(((line, "quiet"),))


class ReadsBeforeProposalScreen(TextDialog):
    """The files and lines that the model had read before it wrote a proposal."""

    def __init__(self, proposal: str, lines: Sequence[str]) -> None:
        super().__init__(f"Read before {proposal} was written", [TextViewLine(((line, ""),)) for line in lines])


RunDiffProgram = Callable[[str, int], Awaitable[ExternalDiffOutput]]
"""Runs the diff program on a file, given its path and the width in columns."""


class ExternalDiffScreen(TextDialog):
    """The output of the diff program for one file at a time, the first being number `file_index` of `paths`."""

    KEYS = (
        DialogKey("slash", "search", "search"),
        DialogKey("full_stop,comma", "next, previous match", "match(1)|match(-1)"),
        DialogKey("right_curly_bracket,left_curly_bracket", "files", "file(1)|file(-1)"),
        *TextDialog.KEYS,
    )

    def __init__(self, heading: str, paths: Sequence[str], file_index: int, run: RunDiffProgram) -> None:
        super().__init__(heading)
        self._paths = paths
        self._file_index = file_index
        self._run_program = run

    def compose_body(self) -> Iterable[Widget]:
        yield from super().compose_body()
        yield SearchBar()

    def on_mount(self) -> None:
        self.call_after_refresh(self._load_diff)

    @work(group="load", exclusive=True, exit_on_error=False, description="run the diff program")
    async def _load_diff(self) -> None:
        view, path = self.query_one(TextView), self._paths[self._file_index]
        position = f"{path} · file {self._file_index + 1} of {len(self._paths)}" if len(self._paths) > 1 else path
        self.show_status(f"{position} …")
        output = await self._run_program(path, max(20, view.size.width - 3))
        lines = await asyncio.to_thread(parse_ansi_text, output.output)
        if not output.output.strip():
            lines = [] if output.problem else [TextViewLine((("It shows no difference.", "quiet"),))]
        if output.problem:
            lines = [TextViewLine(((output.problem, ""),), mark="important"), *lines]
        view.set_lines(lines)
        self.show_status(position)

    def action_file(self, by: int) -> None:
        """Show the next file, or the previous one if `by` is -1."""
        self._file_index = (self._file_index + by) % len(self._paths)
        self._load_diff()

    def action_search(self) -> None:
        self.query_one(SearchBar).open()

    def action_match(self, by: int) -> None:
        """Go to the next matching line, or to the previous one if `by` is -1."""
        number, total = self.query_one(TextView).go_to_match(by)
        if self.query_one(TextView).query_text:
            self.show_status(f"match {number} of {total}" if total else "no match")

    @on(SearchBar.Typed)
    def _update_query(self, event: SearchBar.Typed) -> None:
        self.query_one(TextView).set_query(event.query)

    @on(SearchBar.Finished)
    def _end_search(self, event: SearchBar.Finished) -> None:
        view = self.query_one(TextView)
        view.focus()
        view.set_query(event.query)
        if event.query:
            self.action_match(1)


class ExternalDiffController:
    """Runs the configured diff program and shows its output on a screen."""

    def __init__(self, review: "ReviewPane", runtime: "OpenWorkspace", app_context: AppContext) -> None:
        self._review = review
        self._runtime = runtime
        self._app_context = app_context
        self._environment = environment_without_workspace(runtime.workspace.root)
        self._is_detected = False

    async def detect_program(self) -> None:
        """Check once whether a diff program is configured, so that the review offers its key."""
        if not self._is_detected:
            await self._find_program()
            self._is_detected = True

    async def show_file(self, proposal_id: str, path: str) -> None:
        """Show a file of a proposal in the diff program; keys lead to the proposal's other files."""
        from app.proposals.risk.edited_file import sort_in_path_order

        # Look up the proposal by id: the review may show another one by now.
        proposal, by_path = self._review.state.get(proposal_id), self._review.preview.by_path
        if proposal is None or all(change.path != path for change in proposal.files):
            return
        paths = [change.path for change in proposal.files]
        changes = dict(zip(paths, proposal.files, strict=True))
        shown = sort_in_path_order(paths, paths, () if by_path else proposal.order)
        command = await self._find_program()
        if not command:
            self._review.show_notice(HOW_TO_SET)
            return
        run = partial(self._diff_file, command, changes)
        heading = f"{proposal_id} · {command}"
        await self._app_context.push_screen(ExternalDiffScreen(heading, shown, shown.index(path), run))

    async def _find_program(self) -> str:
        configured = self._runtime.settings.external_diff
        command = await asyncio.to_thread(external_diff_command, configured, self._environment)
        self._review.view.has_external_diff = bool(command)
        self._review.refresh_bindings()
        return command

    async def _diff_file(
        self, command: str, changes: "dict[str, FileChange]", path: str, width: int
    ) -> "ExternalDiffOutput":
        from app.proposals.files.overlay import ContentStore

        change, contents = changes[path], ContentStore(self._runtime.proposals)

        def load_sides() -> ExternalDiffInput:
            old, new = (
                None if blob_id is None else contents.get(blob_id) for blob_id in (change.base, change.result)
            )
            return ExternalDiffInput(path, old, new)

        dark = self._review.app.current_theme.dark
        try:
            diff_sides = await asyncio.to_thread(load_sides)
        except KeyError:
            return ExternalDiffOutput("", f"The old content of {path} is no longer stored.")
        return await run_external_diff(command, diff_sides, width=width, dark=dark, environment=self._environment)
