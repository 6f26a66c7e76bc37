"""Shows which commits of the branch are covered by signed reviews, before they are pushed."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.attestation.commit_verification import CommitVerification, describe_signers
from app.attestation.range_verification import VerifiedRange, verify_range
from app.git.run_git import GitFailed
from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import Dialog
from app.workspace.git_repository import folder_in_repository
from widgets.common.key_hints import KeyHint

_QUIET = "$foreground 65%"


@dataclass(frozen=True, slots=True)
class UnreviewedFiles:
    """Changes of the branch that no review covers."""

    base: str
    """The commit before the branch."""
    paths: Sequence[str]
    """From the workspace."""


class VerifyScreen(Dialog[UnreviewedFiles]):
    """Shows the commits of the branch that its upstream lacks; the result is the files that the user wants to
    review."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "review", "Review")]
    HEADING = "Verify"
    KEYS = (
        KeyHint("r", "review what is not covered"),
        KeyHint("up,down,pageup,pagedown", "scroll"),
        KeyHint("escape", "close"),
    )
    DEFAULT_CSS = """
    VerifyScreen {
        VerticalScroll { height: auto; max-height: 1fr; }
        VerticalScroll Static { height: auto; }
    }
    """

    def __init__(self, root: Path) -> None:
        super().__init__(classes="-small")
        self._root = root
        self._unreviewed: UnreviewedFiles | None = None

    def body(self) -> Iterable[Widget]:
        """The conclusion, then the commits."""
        yield Static("Verifying…", id="verify-summary", classes="text")
        with VerticalScroll():
            yield Static(id="verify-commits", classes="text gap")

    def on_mount(self) -> None:
        """Begin."""
        self.query_one(VerticalScroll).focus()
        self._verify()

    def action_review(self) -> None:
        """Close the screen and stage the uncovered changes, to be kept or reverted."""
        if self._unreviewed is not None:
            self.dismiss(self._unreviewed)

    @work(group="verify", exclusive=True, exit_on_error=False, description="verify the branch")
    async def _verify(self) -> None:
        summary = self.query_one("#verify-summary", Static)
        try:
            verified = await asyncio.to_thread(verify_range, self._root, "", time.time())
        except GitFailed as error:
            summary.update(Content.styled(escape_unsafe(str(error), keep=""), "$text-error"))
            return
        style = "bold $text-success" if verified.covered else "bold $text-error"
        summary.update(Content.styled(escape_unsafe(verified.summary, keep=""), style))
        rows = [row for commit in verified.commits for row in _rows(commit)]
        self.query_one("#verify-commits", Static).update(Content("\n").join(rows))
        self._unreviewed = self._find_unreviewed(verified)

    def _find_unreviewed(self, verified: VerifiedRange) -> UnreviewedFiles | None:
        folder = folder_in_repository(self._root)
        lead = f"{folder}/" if folder else ""
        paths = {file.path for commit in verified.commits for file in commit.files if not file.covered}
        here = sorted(path.removeprefix(lead) for path in paths if path.startswith(lead))
        return UnreviewedFiles(verified.base, here) if here and verified.base else None


def _rows(commit: CommitVerification) -> Iterable[Content]:
    mark, style = ("✓", "$text-success") if commit.covered else ("✗", "$text-error")
    exempt = f"  {commit.exempt}" if commit.exempt else ""
    yield Content.assemble(
        (f"{mark} ", style),
        (f"{commit.commit[:7]} ", _QUIET),
        (escape_unsafe(commit.subject, keep=""), "bold"),
        (exempt, _QUIET),
    )
    for file in commit.files:
        sign, style = ("✓", "$text-success") if file.covered else ("✗", "$text-error")
        words = describe_signers(file.reviews) if file.covered else f"{file.problem} not reviewed"
        yield Content.assemble(
            (f"  {sign} ", style),
            escape_unsafe(file.path, keep=""),
            (f"  {escape_unsafe(words, keep='')}", _QUIET),
        )
