"""The wires by name.

Kept apart: the only place that knows all of them.
"""

from app.llm.capabilities.profile import Profile
from app.llm.wires.anthropic import AnthropicWire
from app.llm.wires.chat import ChatWire
from app.llm.wires.responses import ResponsesWire
from app.llm.wires.wire import Wire

WIRES: dict[str, Wire] = {wire.name: wire for wire in (ChatWire(), AnthropicWire(), ResponsesWire())}


def wire_of(profile: Profile) -> Wire:
    """The wire that a profile names."""
    return WIRES[profile.wire]
