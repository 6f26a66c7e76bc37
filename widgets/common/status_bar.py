"""The bottom line: who acts next, gate, waiting proposals, model, context, cost, branch."""

from typing import Literal, NamedTuple

from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from app.conversation.token_totals import TokenTotals
from app.text.plural import plural
from app.text.safe_text import escape_unsafe
from widgets.common.figures import (
    LinePart,
    fitting_parts,
    format_dollars,
    format_thousands,
    format_tokens,
    join_parts,
)
from widgets.common.key_hints import MAIN_BUTTON

_ACTION = "status_action"
"""Under this name the style of a part carries the action of the app that a click on it stands for."""


_QUIET = "$foreground 60%"
_GAP = "  ·  "
_NOTHING = TokenTotals()


class StatusValues(NamedTuple):
    """The values that the status bar shows."""

    model: str = ""
    effort: str = ""
    """How much it is asked to reason, if it is."""
    gate_closed: bool | None = None
    """None until it is known."""
    follows: bool = False
    """Another window runs the session."""
    plan: bool = False
    """The model can change nothing."""
    policy: str = "every-edit"
    """`every-edit`, or `chain 2/3`."""
    waiting: int = 0
    """Proposals that await a decision."""
    context_tokens: int = 0
    context_window: int = 0
    """0 where it is not known."""
    spent: TokenTotals = _NOTHING
    """By the session."""
    branch: str = ""
    denials: int = 0
    """Denials in a row without an approval between."""
    asks: Literal["", "permission", "question"] = ""
    """What the model cannot go on without."""
    answer_key: str = ""
    """The key that answers it, or leads to where it is answered."""


class StatusBar(Widget):
    """One line that drops its least important parts when narrow.

    A click on the gate leads to its policy, on what waits to the approvals, on the model to the choice of models.
    """

    DEFAULT_CSS = """
    StatusBar {
        height: 1;
        background: $panel;
        color: $foreground;
        padding: 0 1;
    }
    """

    status: reactive[StatusValues] = reactive(StatusValues())
    hovered: reactive[str] = reactive("")
    """The action under the mouse."""
    _held = ""
    """The action on which the mouse button went down."""

    def render(self) -> Content:
        """Render as many whole parts as fit."""
        width = self.size.width
        parts = fitting_parts(self._parts(), width, _GAP)
        left, right = (join_parts([part for part in parts if part.at_right is side], _GAP) for side in (False, True))
        return Content.assemble(left, " " * max(0, width - left.cell_length - right.cell_length), right)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Highlight the part under the mouse."""
        self.hovered = event.style.meta.get(_ACTION, "")

    def on_leave(self) -> None:
        """Remove the highlight."""
        self.hovered = ""

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remember where a click starts."""
        self._held = event.style.meta.get(_ACTION, "")

    async def on_click(self, event: events.Click) -> None:
        """Go where the clicked part leads."""
        action, self._held = self._held, ""
        if action and event.button == MAIN_BUTTON and event.style.meta.get(_ACTION) == action:
            event.stop()
            await self.run_action(action)

    def _parts(self) -> list[LinePart]:
        """Return all parts, from left to right."""
        status = self.status
        parts = []
        if status.asks:
            words = "needs your permission" if status.asks == "permission" else "asks you"
            asked = Content.assemble((f" The model {words} ", "bold $warning reverse"), f" {status.answer_key}")
            pane = "approvals" if status.asks == "permission" else "chat"
            parts.append(LinePart(9, self._leading_to(f"app.focus_{pane}", asked)))
        if status.follows:
            parts.append(LinePart(9, Content.styled("open in another window", "bold $text-warning")))
        if status.gate_closed is not None:
            open_now, closed = ("○ model may act", "$text-success"), ("● model must wait", "bold $text-warning")
            gate = closed if status.gate_closed else open_now
            parts.append(LinePart(8, self._leading_to("app.command('gate')", Content.styled(*gate))))
        if status.plan:
            parts.append(LinePart(8, self._leading_to("app.command('plan')", Content.styled("plan", "bold $accent"))))
        if status.waiting:
            plural = "" if status.waiting == 1 else "s"
            waiting = Content.styled(f"{status.waiting} proposal{plural} waiting", "bold $text-accent")
            parts.append(LinePart(7, self._leading_to("app.focus_approvals", waiting)))
        if status.model:
            effort = f" {status.effort}" if status.effort else ""
            named = Content.assemble(escape_unsafe(status.model), (effort, "$text-secondary"))
            parts.append(LinePart(5, self._leading_to("app.command('model')", named)))
        return [*parts, *(LinePart(rank, content, at_right=True) for rank, content in self._figures())]

    def _leading_to(self, action: str, part: Content) -> Content:
        """A part that a click leads on from."""
        part = part.stylize(Style.from_meta({_ACTION: action}))
        return part.stylize("underline") if action == self.hovered else part

    def _figures(self) -> list[tuple[int, Content]]:
        """Return the figures at the right, each with its priority."""
        status = self.status
        figures = []
        if status.policy != "every-edit":
            figures.append((3, Content.styled(f"policy {status.policy}", _QUIET)))
        if read_and_written := format_tokens(status.spent):
            figures.append((0, Content.styled(read_and_written, _QUIET)))
        if cost := format_dollars(status.spent):
            figures.append((1, Content.styled(cost, _QUIET)))
        if status.context_tokens and status.context_window:
            share = 100 * status.context_tokens // status.context_window
            figures.append((2, Content.styled(f"context {share} %", "$text-warning" if share >= 80 else _QUIET)))
        elif status.context_tokens:
            figures.append((2, Content.styled(f"context {format_thousands(status.context_tokens)}", _QUIET)))
        if status.denials:
            in_row = " in a row" if status.denials > 1 else ""
            denied = f"{plural(status.denials, 'proposal')} denied{in_row}"
            figures.append((6, Content.styled(denied, "$text-warning")))
        if status.branch:
            figures.append((4, Content(f"⎇ {escape_unsafe(status.branch)}")))
        return figures
