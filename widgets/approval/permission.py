"""How wide a yes to a command would be: the forms that it can be allowed by, and the one that is chosen."""

from dataclasses import dataclass
from functools import lru_cache

from app.tools.command.forms import CommandForm, forms_of
from app.tools.command.shell_words import NotSimple
from app.tools.contract import Confirmation


@dataclass(frozen=True, slots=True)
class Widths:
    """What else a yes can be made to cover."""

    forms: tuple[CommandForm, ...] = ()
    """The widest first, the very command last; empty if it can only be allowed as it is, and not for good."""
    reason: str = ""
    """Why there is none: `it has a |`."""


@lru_cache(maxsize=64)
def widths(confirmation: Confirmation) -> Widths:
    """The forms that what is asked can be allowed by."""
    if confirmation.kind != "command":
        return Widths()
    try:
        return Widths(forms_of(confirmation.detail))
    except NotSimple as why:
        return Widths(reason=f"it has {why}")


def form_of(confirmation: Confirmation, step: int) -> CommandForm | None:
    """The form `step` steps narrower than the widest; the nearest there is."""
    forms = widths(confirmation).forms
    return forms[max(0, min(step, len(forms) - 1))] if forms else None
