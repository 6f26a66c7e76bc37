"""Open permission requests of tools, and how much a lasting permission would cover."""

from dataclasses import dataclass
from functools import lru_cache

from app.tools.base.command_forms import CommandForm, NotSimple, allowable_forms
from app.tools.base.contract import Confirmation
from app.tools.base.tool_form import ToolForm


@dataclass(frozen=True, slots=True)
class PermissionScopes:
    """The forms that a permission can cover."""

    forms: tuple[CommandForm | ToolForm, ...] = ()
    """The widest first, the very command last; empty if it can only be allowed as it is, and not for good."""
    reason: str = ""
    """Why there is none: `it has a |`."""


@lru_cache(maxsize=64)
def permission_scopes(confirmation: Confirmation) -> PermissionScopes:
    """Return the forms in which the requested action can be allowed."""
    if confirmation.form is not None:
        return PermissionScopes((confirmation.form,))
    if confirmation.kind != "command":
        return PermissionScopes()
    try:
        return PermissionScopes(allowable_forms(confirmation.detail))
    except NotSimple as why:
        return PermissionScopes(reason=f"it has {why}")


class OpenPermissions:
    """Open permission requests, the oldest first."""

    def __init__(self) -> None:
        self.asked: dict[str, Confirmation] = {}
        self._narrowed: dict[str, int] = {}
        """How many steps the user made the form of a command narrower."""

    def remove(self, key: str) -> None:
        """Remove a request, answered or not."""
        self.asked.pop(key, None)
        self._narrowed.pop(key, None)

    def form(self, key: str) -> CommandForm | ToolForm | None:
        """Return what a lasting permission would cover; None for just this call."""
        forms = permission_scopes(self.asked[key]).forms if key in self.asked else ()
        return forms[max(0, min(self._narrowed.get(key, 0), len(forms) - 1))] if forms else None

    def narrow(self, key: str, step: int) -> None:
        """Make the form of a command narrower, or wider with a negative step, as far as possible."""
        if key in self.asked:
            most = len(permission_scopes(self.asked[key]).forms) - 1
            self._narrowed[key] = max(0, min(self._narrowed.get(key, 0) + step, most))
