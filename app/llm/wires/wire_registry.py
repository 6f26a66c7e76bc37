"""The protocols by name, and a request in one of them."""

from typing import Any

from msgspec import Struct

from app.config.config_tables import merge_nested_tables
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload
from app.llm.wires.anthropic import AnthropicWire
from app.llm.wires.chat import ChatWire
from app.llm.wires.responses import ResponsesWire
from app.llm.wires.wire import Wire

WIRES: dict[str, Wire] = {wire.name: wire for wire in (ChatWire(), AnthropicWire(), ResponsesWire())}


def wire_for(profile: EndpointProfile) -> Wire:
    """Return the protocol of a profile."""
    return WIRES[profile.wire]


class RequestInputs(Struct, frozen=True):
    """Model, profile and payload of a request, from which its body is made; it does not have the key."""

    model: str
    profile: EndpointProfile
    payload: Payload

    @property
    def wire(self) -> Wire:
        """The protocol of the request."""
        return wire_for(self.profile)

    def make_body(self) -> dict[str, Any]:
        """Return the body; the user's own fields override all others."""
        body = self.wire.make_body(self.model, self.profile, self.payload)
        wishes = self.payload.options.without_refused(self.profile.refused)
        if wishes.effort != "off":
            body |= self.wire.make_effort_fields(wishes.effort, body)
        return merge_nested_tables(body, wishes.fields)
