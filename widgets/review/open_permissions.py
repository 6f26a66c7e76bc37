"""What tools wait for, and how wide a yes would be: the forms that commands and tools of servers are allowed by."""

from dataclasses import dataclass
from functools import lru_cache

from app.tools.base.command_forms import CommandForm, NotSimple, allowable_forms
from app.tools.base.contract import Confirmation
from app.tools.base.tool_form import ToolForm


@dataclass(frozen=True, slots=True)
class PermissionScopes:
    """What else a yes can be made to cover."""

    forms: tuple[CommandForm | ToolForm, ...] = ()
    """The widest first, the very command last; empty if it can only be allowed as it is, and not for good."""
    reason: str = ""
    """Why there is none: `it has a |`."""


@lru_cache(maxsize=64)
def widths(confirmation: Confirmation) -> PermissionScopes:
    """The forms that what is asked can be allowed by."""
    if confirmation.form is not None:
        return PermissionScopes((confirmation.form,))
    if confirmation.kind != "command":
        return PermissionScopes()
    try:
        return PermissionScopes(allowable_forms(confirmation.detail))
    except NotSimple as why:
        return PermissionScopes(reason=f"it has {why}")


class OpenPermissions:
    """The open questions of tools, the oldest first."""

    def __init__(self) -> None:
        self.asked: dict[str, Confirmation] = {}
        self._narrowed: dict[str, int] = {}
        """How many steps the user made the form of a command narrower."""

    def remove(self, key: str) -> None:
        """A question is gone, answered or not."""
        self.asked.pop(key, None)
        self._narrowed.pop(key, None)

    def form(self, key: str) -> CommandForm | ToolForm | None:
        """What a lasting yes would cover; None for just this."""
        forms = widths(self.asked[key]).forms if key in self.asked else ()
        return forms[max(0, min(self._narrowed.get(key, 0), len(forms) - 1))] if forms else None

    def narrow(self, key: str, step: int) -> None:
        """Make the form of a command narrower, or wider with a negative step, as far as that goes."""
        if key in self.asked:
            most = len(widths(self.asked[key]).forms) - 1
            self._narrowed[key] = max(0, min(self._narrowed.get(key, 0) + step, most))
