"""What the user wants in each request beside the conversation, and how it gets into a body.

The wire knows what the effort is called; everything else is a field of the body as the user wrote it.

Kept apart: the wires and what is learned of refusals rest on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EFFORT = "reasoning_effort"
"""The name of the setting, under which a refusal of it is kept."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """Request settings."""

    effort: str = "off"
    """How much the model is to reason, as in `Settings.reasoning_effort`; `off` leaves it to the server."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the body: the `[request]` table."""

    def values(self) -> dict[str, Any]:
        """Each wish by its name."""
        effort = {} if self.effort == "off" else {EFFORT: self.effort}
        return {**effort, **self.fields}

    def without(self, refused: Mapping[str, Any]) -> "Wishes":
        """Those that the server has not refused; with another value, a refused one is a wish again."""
        fields = {name: value for name, value in self.fields.items() if not _among(refused, name, value)}
        return Wishes("off" if _among(refused, EFFORT, self.effort) else self.effort, fields)


NO_WISHES = Wishes()


def _among(refused: Mapping[str, Any], name: str, value: Any) -> bool:
    return name in refused and refused[name] == value
