"""The footer: the keys of the focused pane and of the app.

Where it is too narrow for all of them, it leaves out the ones that matter least, and never cuts one in two.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from textual.reactive import reactive
from textual.screen import Screen

from app.keys.actions import ACTIONS, Action
from widgets.common.key_hints import HintLine, KeyHint, Placed

if TYPE_CHECKING:
    from textual.binding import ActiveBinding

_GAP = 2
_ACTIONS: dict[str, tuple[int, Action]] = {action.id: (order, action) for order, action in enumerate(ACTIONS)}


@runtime_checkable
class Retitles(Protocol):
    """A widget whose keys change their meaning."""

    def title_of(self, action: str) -> str | None:
        """Return what an action means now; empty for its usual name, None to hide it."""
        ...


@runtime_checkable
class NamesKeys(Protocol):
    """A widget that shows some keys itself, so that the footer leaves them out."""

    @property
    def named_keys(self) -> Collection[str]:
        """Return the handlers of the actions whose keys are shown."""
        ...


class KeyBar(HintLine):
    """One line with the keys of the focused pane on the left and of the app on the right."""

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
        """Return the pane's hints from the left and the app's from the right."""
        kept = fitting_hints(self.hints, width)
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
    """Return the keys to show, in the order of the registry.

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


def fitting_hints(hints: Sequence[tuple[KeyHint, int, bool]], width: int) -> Sequence[tuple[KeyHint, int, bool]]:
    """Return as many hints as fit, highest rank first."""
    kept = list(hints)
    while sum(hint.width + _GAP for hint, _, _ in kept) - _GAP > width:
        highest = max(rank for _, rank, _ in kept)
        if highest <= 1:
            break
        kept.pop(max(at for at, (_, rank, _) in enumerate(kept) if rank == highest))
    return kept
