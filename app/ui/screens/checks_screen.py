"""Shows the output of a proposal's checks."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from app.automation.check_results import CheckResult, CheckState, ProposalChecks
from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint
from widgets.common.text_view import TextLine, TextView

_SIGNS = {
    CheckState.PASSED: "✓",
    CheckState.BROKEN: "!",
    CheckState.RUNNING: "▸",
    CheckState.WAITING: "·",
    CheckState.NOT_ASKED: "·",
}


class ChecksScreen(Dialog[None]):
    """The kept output of all checks of a proposal, failed ones first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next", "Next check"),
        Binding("c", "copy", "Copy"),
    ]
    KEYS = (
        KeyHint("n", "next check"),
        KeyHint("c", "copy all"),
        KeyHint("g,G", "top, end"),
        KeyHint("escape", "close"),
    )
    DEFAULT_CSS = """
    ChecksScreen {
        TextView { height: 1fr; }
    }
    """

    def __init__(self, checked: ProposalChecks) -> None:
        super().__init__(classes="-large")
        self._proposal = checked.proposal
        self._lines = list(output_lines(checked))

    def heading(self) -> str:
        """Which proposal."""
        return f"Checks of {self._proposal}"

    def body(self) -> Iterable[Widget]:
        """The text."""
        yield TextView()

    def on_mount(self) -> None:
        """Show it."""
        view = self.query_one(TextView)
        view.set_lines(self._lines)
        view.focus()

    def action_next(self) -> None:
        """Go to the next check; after the last, to the first."""
        view = self.query_one(TextView)
        heads = [number for number, line in enumerate(self._lines) if line.mark]
        following = [number for number in heads if number > view.first_line]
        view.go_to_line(following[0] if following and not view.is_at_end else heads[0])

    def action_copy(self) -> None:
        """All of it."""
        self.app.copy_to_clipboard("\n".join(line.text for line in self._lines))
        self.notify("Copied.", timeout=2)


def output_lines(checked: ProposalChecks) -> Iterator[TextLine]:
    """Return the lines of the screen."""
    for result in sorted(checked.results, key=lambda one: (not one.has_new_failure, one.outcome is None)):
        yield TextLine(
            ((f"{result.name} {_SIGNS.get(result.state, '✗')} {result.summary}", "heading"),), mark="program"
        )
        yield from _printed(result)
        yield TextLine((("", ""),))


def _printed(result: CheckResult) -> Iterator[TextLine]:
    outcome = result.outcome
    if outcome is None:
        yield TextLine((("not run", "quiet"),))
        return
    for line in outcome.output.rstrip("\n").split("\n") if outcome.output.strip() else ():
        yield TextLine(((line, ""),))
    if not outcome.output.strip():
        yield TextLine((("no output", "quiet"),))
    if result.before is not None and result.before.output.strip():
        yield TextLine((("Without the proposal:", "heading"),))
        for line in result.before.output.rstrip("\n").split("\n"):
            yield TextLine(((line, "quiet"),))
