"""The bottom line: model, gate, what waits, context, cost, branch."""

from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from app.safe_text import visible
from widgets.common.key_hints import MAIN_BUTTON

_ACTION = "status_action"
"""Under this name the style of a part carries the action of the app that a click on it stands for."""


@dataclass(frozen=True, slots=True)
class Status:
    """What the status bar shows."""

    model: str = ""
    demo: bool = False
    """The answers come from the demo model."""
    gate_closed: bool = False
    policy: str = "every-edit"
    """`every-edit`, or `chain 2/3`."""
    waiting: int = 0
    """Proposals that await a decision."""
    context_tokens: int = 0
    context_window: int = 0
    """0 where it is not known."""
    session_tokens: int = 0
    cost: float = 0.0
    """US dollars."""
    branch: str = ""
    denials: int = 0
    """Denials in a row without an approval between."""


class StatusBar(Widget):
    """One line that is complete when wide and keeps what matters most when narrow.

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

    status: reactive[Status] = reactive(Status())
    hovered: reactive[str] = reactive("")
    """The action under the mouse."""
    _held = ""
    """The action on which the mouse button went down."""

    def render(self) -> Content:
        """The line, cut from its least important end."""
        left = _join(self._left())
        optional = self._right()
        while optional and left.cell_length + _join(optional).cell_length + 2 > self.size.width - 2:
            optional.pop(0)
        right = _join(optional)
        gap = max(1, self.size.width - 2 - left.cell_length - right.cell_length)
        return Content.assemble(left, " " * gap, right)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show what a click leads to."""
        self.hovered = event.style.meta.get(_ACTION, "")

    def on_leave(self) -> None:
        """Nothing is under the mouse."""
        self.hovered = ""

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remember where a click begins."""
        self._held = event.style.meta.get(_ACTION, "")

    async def on_click(self, event: events.Click) -> None:
        """Go where the part leads to."""
        action, self._held = self._held, ""
        if action and event.button == MAIN_BUTTON and event.style.meta.get(_ACTION) == action:
            event.stop()
            await self.run_action(action)

    def _left(self) -> list[Content]:
        status = self.status
        parts = []
        if status.gate_closed:
            gate = Content.styled("● gate closed", "bold $text-warning")
        else:
            gate = Content.styled("○ gate open", "$text-success")
        parts.append(self._leading_to("app.command('gate')", gate))
        if status.waiting:
            plural = "" if status.waiting == 1 else "s"
            waiting = Content.styled(f"{status.waiting} proposal{plural} waiting", "bold $text-accent")
            parts.append(self._leading_to("app.focus_approvals", waiting))
        if status.demo or status.model:
            model = Content.styled("demo model", "$text-secondary") if status.demo else Content(visible(status.model))
            parts.append(self._leading_to("app.command('model')", model))
        return parts

    def _leading_to(self, action: str, part: Content) -> Content:
        """A part that a click leads on from."""
        part = part.stylize(Style.from_meta({_ACTION: action}))
        return part.stylize("underline") if action == self.hovered else part

    def _right(self) -> list[Content]:
        """The rest, the least important first."""
        status = self.status
        parts = []
        if status.policy != "every-edit":
            parts.append(Content.styled(f"policy {status.policy}", "$foreground 60%"))
        if status.session_tokens:
            parts.append(Content.styled(f"{_thousands(status.session_tokens)} tokens", "$foreground 60%"))
        if status.cost:
            parts.append(Content.styled(f"${status.cost:.3f}", "$foreground 60%"))
        if status.context_tokens and status.context_window:
            share = 100 * status.context_tokens // status.context_window
            parts.append(Content.styled(f"context {share} %", "$text-warning" if share >= 80 else "$foreground 60%"))
        elif status.context_tokens:
            parts.append(Content.styled(f"context {_thousands(status.context_tokens)}", "$foreground 60%"))
        if status.denials:
            parts.append(Content.styled(f"{status.denials} denied in a row", "$text-warning"))
        if status.branch:
            parts.append(Content(f"⎇ {visible(status.branch)}"))
        return parts


def _join(parts: list[Content]) -> Content:
    return Content("  ·  ").join(parts)


def _thousands(number: int) -> str:
    return str(number) if number < 1_000 else f"{number / 1_000:.1f}k"
