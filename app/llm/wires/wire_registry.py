"""The wires by name, and a request on one of them.

Kept apart: the only place that knows all of them.
"""

from dataclasses import dataclass
from typing import Any

from app.config.config_tables import merge_tables
from app.llm.values.profile import Profile
from app.llm.values.types import Payload
from app.llm.wires.anthropic import AnthropicWire
from app.llm.wires.chat import ChatWire
from app.llm.wires.responses import ResponsesWire
from app.llm.wires.wire import Wire

WIRES: dict[str, Wire] = {wire.name: wire for wire in (ChatWire(), AnthropicWire(), ResponsesWire())}


def wire_of(profile: Profile) -> Wire:
    """The wire that a profile names."""
    return WIRES[profile.wire]


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as it goes out; the key is in no part of it."""

    model: str
    profile: Profile
    payload: Payload

    @property
    def wire(self) -> Wire:
        """The protocol that it is in."""
        return wire_of(self.profile)

    def body(self) -> dict[str, Any]:
        """Its body; what the user wants goes over all the rest."""
        body = self.wire.body(self.model, self.profile, self.payload)
        wishes = self.payload.wishes.without(self.profile.refused)
        if wishes.effort != "off":
            body |= self.wire.effort(wishes.effort, body)
        return merge_tables(body, wishes.fields)
