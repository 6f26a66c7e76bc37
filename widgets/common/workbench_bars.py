"""The bars of the workbench: pane tabs for a narrow terminal, status bar, key bar."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.style import Style

from app.conversation.token_totals import TokenTotals
from app.keys.actions import ACTIONS, UserAction
from app.text.quantities import format_count
from app.text.safe_text import escape_unsafe
from widgets.common.figures import (
    RankedLinePart,
    format_dollars,
    format_short_number,
    format_tokens,
    join_parts,
    select_fitting_parts,
)
from widgets.common.key_hints import ClickableKeyHints, ClickTargets, KeyHint, PlacedHint

if TYPE_CHECKING:
    from textual.binding import ActiveBinding


Pane = Literal["chat", "diff", "approvals"]

PANES: tuple[Pane, ...] = ("chat", "diff", "approvals")
"""In the order of the Tab key."""

_TABS: tuple[tuple[Pane, str, str], ...] = (
    ("chat", "F2", "Chat"),
    ("diff", "F3", "Diff"),
    ("approvals", "F4", "Approvals"),
)


class PaneTabs(ClickTargets):
    """Shows the panes, which one is visible and what waits; a click shows another pane."""

    DEFAULT_CSS = "PaneTabs { height: 1; background: $panel; }"

    @dataclass
    class Chosen(Message):
        """The user clicked a tab."""

        pane: Pane

    shown: reactive[Pane] = reactive[Pane]("chat")
    waiting: reactive[int] = reactive(0)
    """Number of proposals that await a decision."""
    asked: reactive[bool] = reactive(False)
    """Whether the model waits for the user's permission."""
    unread: reactive[bool] = reactive(False)
    """Whether a turn ended while another pane than the chat was shown."""

    def render(self) -> Content:
        return Content("").join(content for _, content in self._tabs())

    def mark_unread(self) -> None:
        """Mark the chat as unread, unless it is shown."""
        self.unread = bool(self.display) and self.shown != "chat"

    def watch_shown(self, shown: Pane) -> None:
        if shown == "chat":
            self.unread = False

    async def click_target(self, target: Pane) -> None:
        self.post_message(self.Chosen(target))

    def target_at(self, event: events.MouseEvent) -> Pane | None:
        position = 0
        for pane, content in self._tabs():
            position += content.cell_length
            if event.x < position:
                return pane
        return None

    def _tabs(self) -> list[tuple[Pane, Content]]:
        tabs: list[tuple[Pane, Content]] = []
        for pane, key, title in _TABS:
            note = ""
            if pane == "approvals" and self.asked:
                note = " (asks)"
            elif pane == "approvals" and self.waiting:
                note = f" ({self.waiting})"
            elif pane == "chat" and self.unread:
                note = " (new)"
            style = "bold reverse" if pane == self.shown else "$text-accent bold" if note else "$foreground 60%"
            tabs.append((pane, Content.styled(f" {key} {title}{note} ", style)))
        return tabs


_ACTION_META_KEY = "status_action"
"""Key in a part's style meta; the value is the app action that a click on the part runs."""


_QUIET_STYLE = "$foreground 60%"
_PART_GAP = "  ·  "


class ReviewReadingStatus(NamedTuple):
    """How many of the waiting changed lines the user has read."""

    read: int = 0
    """Changed lines that were on screen."""
    lines: int = 0
    """All changed lines."""
    minutes: float | None = None
    """Minutes for the rest at the user's reading speed; None if that is unknown or not wanted."""


class StatusValues(NamedTuple):
    """The values that the status bar shows."""

    model: str = ""
    effort: str = ""
    """Reasoning effort of the model; empty if it is not set."""
    gate_closed: bool | None = None
    """None until it is known."""
    follows: bool = False
    """Whether another window runs the session."""
    plan: bool = False
    """Whether the model may change nothing."""
    policy: str = "every-edit"
    """`every-edit`, or `chain 2/3`."""
    waiting: int = 0
    """Number of proposals that await a decision."""
    reading: ReviewReadingStatus = ReviewReadingStatus()
    """How much of these the user has read."""
    context_tokens: int = 0
    context_window: int = 0
    """0 if it is unknown."""
    spent: TokenTotals = TokenTotals()
    """Tokens and cost of the session."""
    branch: str = ""
    denials: int = 0
    """Number of successive denials without an approval."""
    asks: Literal["", "permission", "question"] = ""
    """The kind of answer that the model waits for."""
    answer_key: str = ""
    """The key that answers, or that leads to the place for the answer."""


def _reading_text(reading: ReviewReadingStatus) -> str:
    """Return for example `read 180 of 410 lines, about 6 min`."""
    read = f"read {reading.read:,} of {format_count(reading.lines, 'line')}"
    if reading.minutes is None or reading.read == reading.lines:
        return read
    return f"{read}, about {max(1, round(reading.minutes))} min"


class SeenLinesSaved(Message):
    """The seen lines were saved, because more waiting lines were on the screen."""


class StatusBar(ClickTargets):
    """Shows the `StatusValues` in one line; drops the least important parts if it is too narrow.

    A click on the gate opens its policy, on the waiting proposals the approvals, and on the model the choice of
    models.
    """

    DEFAULT_CSS = "StatusBar { height: 1; background: $panel; color: $foreground; padding: 0 1; }"

    status: reactive[StatusValues] = reactive(StatusValues())
    hovered: reactive[str] = reactive("")
    """The action under the mouse."""

    def render(self) -> Content:
        """Return as many complete parts as fit."""
        width = self.size.width
        parts = select_fitting_parts(self._all_parts(), width, _PART_GAP)
        left, right = (
            join_parts([part for part in parts if part.at_right is side], _PART_GAP) for side in (False, True)
        )
        return Content.assemble(left, " " * max(0, width - left.cell_length - right.cell_length), right)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.hovered = event.style.meta.get(_ACTION_META_KEY, "")

    def on_leave(self) -> None:
        self.hovered = ""

    def target_at(self, event: events.MouseEvent) -> str | None:
        return event.style.meta.get(_ACTION_META_KEY)

    async def click_target(self, target: str) -> None:
        await self.run_action(target)

    def _all_parts(self) -> list[RankedLinePart]:
        """Return all parts, from left to right."""
        status = self.status
        parts = []
        if status.asks:
            need = "needs your permission" if status.asks == "permission" else "asks you"
            request = Content.assemble((f" The model {need} ", "bold $warning reverse"), f" {status.answer_key}")
            pane = "approvals" if status.asks == "permission" else "chat"
            parts.append(RankedLinePart(9, self._clickable_part(f"app.focus_{pane}", request)))
        if status.follows:
            parts.append(RankedLinePart(9, Content.styled("open in another window", "bold $text-warning")))
        if status.gate_closed is not None:
            open_gate, closed_gate = ("○ model may act", "$text-success"), ("● model must wait", "bold $text-warning")
            gate = closed_gate if status.gate_closed else open_gate
            parts.append(RankedLinePart(8, self._clickable_part("app.command('gate')", Content.styled(*gate))))
        if status.plan:
            plan = Content.styled("plan", "bold $accent")
            parts.append(RankedLinePart(8, self._clickable_part("app.command('plan')", plan)))
        if status.waiting:
            waiting = Content.styled(f"{format_count(status.waiting, 'proposal')} waiting", "bold $text-accent")
            parts.append(RankedLinePart(7, self._clickable_part("app.focus_approvals", waiting)))
        if status.reading.lines:
            parts.append(RankedLinePart(4, Content.styled(_reading_text(status.reading), _QUIET_STYLE)))
        if status.model:
            effort = f" {status.effort}" if status.effort else ""
            model_name = Content.assemble(escape_unsafe(status.model), (effort, "$text-secondary"))
            parts.append(RankedLinePart(5, self._clickable_part("app.command('model')", model_name)))
        return [*parts, *(RankedLinePart(rank, content, at_right=True) for rank, content in self._ranked_figures())]

    def _clickable_part(self, action: str, part: Content) -> Content:
        """Return a part that runs an action when clicked."""
        part = part.stylize(Style.from_meta({_ACTION_META_KEY: action}))
        return part.stylize("underline") if action == self.hovered else part

    def _ranked_figures(self) -> list[tuple[int, Content]]:
        """Return the figures at the right, each with its rank."""
        status = self.status
        figures = []
        if status.policy != "every-edit":
            figures.append((3, Content.styled(f"policy {status.policy}", _QUIET_STYLE)))
        if read_and_written := format_tokens(status.spent):
            figures.append((0, Content.styled(read_and_written, _QUIET_STYLE)))
        if cost := format_dollars(status.spent):
            figures.append((1, Content.styled(cost, _QUIET_STYLE)))
        if status.context_tokens and status.context_window:
            share = 100 * status.context_tokens // status.context_window
            style = "$text-warning" if share >= 80 else _QUIET_STYLE
            figures.append((2, Content.styled(f"context {share} %", style)))
        elif status.context_tokens:
            figures.append((2, Content.styled(f"context {format_short_number(status.context_tokens)}", _QUIET_STYLE)))
        if status.denials:
            in_a_row = " in a row" if status.denials > 1 else ""
            denied = f"{format_count(status.denials, 'proposal')} denied{in_a_row}"
            figures.append((6, Content.styled(denied, "$text-warning")))
        if status.branch:
            figures.append((4, Content(f"⎇ {escape_unsafe(status.branch)}")))
        return figures


_HINT_GAP_CELLS = 2
_ACTIONS: dict[str, tuple[int, UserAction]] = {action.id: (order, action) for order, action in enumerate(ACTIONS)}


class HasChangingKeyTitles:
    """Mixin of a widget that names its keys in the footer, because their meaning changes."""

    @abstractmethod
    def title_of(self, action: str) -> str | None:
        """Return the title of an action now; empty for the default title, None to hide the key."""


class ShowsOwnActionKeys:
    """Mixin of a widget that shows some keys itself, so that the footer omits them."""

    @property
    @abstractmethod
    def actions_with_shown_keys(self) -> Collection[str]:
        """Return the handlers of the actions whose keys are shown."""


FooterHint = tuple[KeyHint, int, bool]
"""(hint, drop rank, works everywhere): higher ranks are dropped first, 1 never."""


class KeyBar(ClickableKeyHints):
    """One line with the keys of the focused pane on the left and of the app on the right."""

    DEFAULT_CSS = "KeyBar { dock: bottom; height: 1; padding: 0 1; background: $background; }"

    hints: reactive[tuple[FooterHint, ...]] = reactive(())

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._update_hints)

    def _update_hints(self, screen: Screen[object]) -> None:
        # A dialog has its own keys, so the dimmed line below it does not change.
        if self.app.screen is screen:
            above = screen.focused.ancestors_with_self if screen.focused is not None else ()
            nodes = [node for node in above if isinstance(node, ShowsOwnActionKeys)]
            actions = {action for node in nodes for action in node.actions_with_shown_keys}
            self.hints = select_shown_keys(list(screen.active_bindings.values()), actions)

    def place_hints(self, width: int) -> Sequence[PlacedHint]:
        """Return the pane's hints from the left and the app's from the right."""
        fitting = select_fitting_hints(self.hints, width)
        placed: list[PlacedHint] = []
        column = 0
        for hint in (hint for hint, _, everywhere in fitting if not everywhere):
            placed.append((0, column, hint))
            column += hint.width + _HINT_GAP_CELLS
        everywhere = [hint for hint, _, everywhere in fitting if everywhere]
        column = max(column, width - sum(hint.width + _HINT_GAP_CELLS for hint in everywhere) + _HINT_GAP_CELLS)
        for hint in everywhere:
            placed.append((0, column, hint))
            column += hint.width + _HINT_GAP_CELLS
        return placed


def select_shown_keys(
    bindings: "Sequence[ActiveBinding]", shown_elsewhere: Collection[str] = ()
) -> tuple[FooterHint, ...]:
    """Return the keys to show, in the order of the registry.

    Args:
        shown_elsewhere: Handlers of actions whose keys are shown elsewhere on the screen.
    """
    shown_by_action: dict[str, tuple[tuple[bool, int], KeyHint, int, bool]] = {}
    for position, (node, binding, enabled, _tooltip) in enumerate(bindings):
        if not binding.show or binding.action in shown_by_action:
            continue
        order, action = _ACTIONS.get(binding.id or "", (position - len(bindings), None))
        if action is not None and action.handler in shown_elsewhere:
            continue
        everywhere = action is not None and action.scope == "app"
        title = node.title_of(binding.action) if isinstance(node, HasChangingKeyTitles) else ""
        if title is None:
            continue
        hint = KeyHint(binding.key, title or binding.description, enabled)
        shown_by_action[binding.action] = ((everywhere, order), hint, action.footer if action else 1, everywhere)
    return tuple(shown[1:] for shown in sorted(shown_by_action.values(), key=lambda shown: shown[0]))


def select_fitting_hints(hints: Sequence[FooterHint], width: int) -> Sequence[FooterHint]:
    """Return as many hints as fit; drop those with the highest rank first."""
    fitting = list(hints)
    while sum(hint.width + _HINT_GAP_CELLS for hint, _, _ in fitting) - _HINT_GAP_CELLS > width:
        highest = max(rank for _, rank, _ in fitting)
        if highest <= 1:
            break
        fitting.pop(max(index for index, (_, rank, _) in enumerate(fitting) if rank == highest))
    return fitting
