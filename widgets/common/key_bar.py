"""The footer: what the keys do where the focus is, and those that work everywhere.

Where it is too narrow for all of them, it leaves out the ones that matter least, and never cuts one in two.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from textual.reactive import reactive
from textual.screen import Screen

from app.keys.registry import ACTIONS, Action
from widgets.common.key_hints import HintLine, KeyHint, Placed

if TYPE_CHECKING:
    from textual.binding import ActiveBinding

_GAP = 2
_ACTIONS: dict[str, tuple[int, Action]] = {action.id: (order, action) for order, action in enumerate(ACTIONS)}


@runtime_checkable
class Retitles(Protocol):
    """A widget whose keys mean something else at times, such as the answer to a question."""

    def title_of(self, action: str) -> str | None:
        """What an action means now; empty if it means what it is called, None if it is not to be offered."""
        ...


@runtime_checkable
class NamesKeys(Protocol):
    """A widget that names some keys on lines of its own, where they are not to be repeated."""

    @property
    def named_keys(self) -> Collection[str]:
        """The handlers of the actions whose keys are named now."""
        ...


class KeyBar(HintLine):
    """One line; the keys of the focused pane at the left, those of the app at the right."""

    DEFAULT_CSS = """
    KeyBar {
        dock: bottom;
        height: 1;
        padding: 0 1;
        background: $background;
    }
    """

    hints: reactive[tuple[tuple[KeyHint, int, bool], ...]] = reactive(())
    """In their order: the hint, how soon it is left out (1 is never), and whether it works everywhere."""

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._follow)

    def _follow(self, screen: Screen[object]) -> None:
        # Behind a dialog the keys are the dialog's; the line is dimmed then, and stays as it was.
        if self.app.screen is screen:
            above = screen.focused.ancestors_with_self if screen.focused is not None else ()
            named = {action for node in above if isinstance(node, NamesKeys) for action in node.named_keys}
            self.hints = shown_keys(list(screen.active_bindings.values()), named)

    def places(self, width: int) -> Sequence[Placed]:
        """The pane's keys from the left, the app's from the right."""
        kept = fitting(self.hints, width)
        placed: list[Placed] = []
        column = 0
        for hint in (hint for hint, _, everywhere in kept if not everywhere):
            placed.append((0, column, hint))
            column += hint.width + _GAP
        everywhere = [hint for hint, _, everywhere in kept if everywhere]
        column = max(column, width - sum(hint.width + _GAP for hint in everywhere) + _GAP)
        for hint in everywhere:
            placed.append((0, column, hint))
            column += hint.width + _GAP
        return placed


def shown_keys(
    active: "Sequence[ActiveBinding]", named: Collection[str] = ()
) -> tuple[tuple[KeyHint, int, bool], ...]:
    """The keys to name, in the order of the registry; what is in no registry belongs to the focused widget.

    Args:
        active: The bindings in force.
        named: Handlers of actions whose keys stand elsewhere on the screen.
    """
    found: dict[str, tuple[tuple[bool, int], KeyHint, int, bool]] = {}
    for position, (node, binding, enabled, _tooltip) in enumerate(active):
        if not binding.show or binding.action in found:
            continue
        order, action = _ACTIONS.get(binding.id or "", (position - len(active), None))
        if action is not None and action.handler in named:
            continue
        everywhere = action is not None and action.scope == "app"
        title = node.title_of(binding.action) if isinstance(node, Retitles) else ""
        if title is None:
            continue
        hint = KeyHint(binding.key, title or binding.description, enabled)
        found[binding.action] = ((everywhere, order), hint, action.footer if action else 1, everywhere)
    return tuple(
        (hint, rank, everywhere) for _, hint, rank, everywhere in sorted(found.values(), key=lambda one: one[0])
    )


def fitting(hints: Sequence[tuple[KeyHint, int, bool]], width: int) -> Sequence[tuple[KeyHint, int, bool]]:
    """As many as there is room for: those of the highest rank go first, the last of them before the others."""
    kept = list(hints)
    while sum(hint.width + _GAP for hint, _, _ in kept) - _GAP > width:
        highest = max(rank for _, rank, _ in kept)
        if highest <= 1:
            break
        kept.pop(max(at for at, (_, rank, _) in enumerate(kept) if rank == highest))
    return kept
