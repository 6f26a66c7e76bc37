"""Interface of a protocol: where a request goes, its body, and how its response is read."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from app.llm.values.profile import Profile
from app.llm.values.types import Payload
from app.llm.wires.items import Item, SystemText


class WireMessages(NamedTuple):
    """A conversation in the form of a protocol."""

    messages: list[dict[str, Any]]
    system: str | list[dict[str, Any]] = ""
    """The system prompt, where it does not stand among the messages."""


def tool_fields(
    profile: Profile, payload: Payload, tools: list[dict[str, Any]], none: Any = "none"
) -> dict[str, Any]:
    """What a body says about tools, given in the form of its wire, and how the wire says that none may be called.

    `tools` is left out only where there are none or the server takes none: an empty list is an error on some, and the
    prompt cache lives on the list staying the same. `tool_choice` is sent only as "none" and only beside tools: an
    explicit "auto" is an error on some servers, "none" without tools on others.
    """
    if not tools or not profile.tools_supported:
        return {}
    fields: dict[str, Any] = {"tools": tools}
    if payload.tool_choice == "none":
        if profile.tool_choice_none != "rejected":
            fields["tool_choice"] = none
    elif profile.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = profile.parallel_tool_calls
    return fields


class Decoder(Protocol):
    """Decodes one response to chat completion chunks, which `ResponseAssembly` takes."""

    def read(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """What one event adds; empty for one that adds nothing. An error is a chunk with `error`."""
        ...

    def whole(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """A document that came where a stream was asked for."""
        ...


class ItemWriter(Protocol):
    """Writes the items of one request as messages, one after the other."""

    def add(self, item: Item) -> None:
        """Write the next item."""
        ...

    def copy(self) -> "ItemWriter":
        """Another one that goes on from here by itself; messages that are written stay the same objects."""
        ...

    def end(self, first: SystemText | None = None) -> WireMessages:
        """What is written, once all items are in, behind `first`; then nothing more may be added."""
        ...


def write_items(writer: ItemWriter, items: Sequence[Item]) -> WireMessages:
    """Return the items as messages."""
    for item in items:
        writer.add(item)
    return writer.end()


class Wire(Protocol):
    """A protocol."""

    @property
    def name(self) -> Literal["chat", "anthropic", "responses"]:
        """As in `Profile.wire`."""
        ...

    @property
    def title(self) -> str:
        """What people call it."""
        ...

    def fitted(self, profile: Profile) -> Profile:
        """The profile with what this wire demands or has no need of, whatever the endpoint."""
        ...

    def written(self, items: Sequence[Item], profile: Profile) -> WireMessages:
        """The items as messages; valid whatever they are."""
        ...

    def writer(self, profile: Profile) -> ItemWriter:
        """What writes items as `written` does, for a request that is made little by little."""
        ...

    def body(self, model: str, profile: Profile, payload: Payload) -> dict[str, Any]:
        """The body of the request, without the user's request settings."""
        ...

    def effort(self, effort: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a body that say how much the model is to reason; empty where it cannot be said."""
        ...

    def path(self, base_url: str, resource: Literal["answer", "models"] = "answer") -> str:
        """Where it is sent, below the base URL; or where the list of models is."""
        ...

    def headers(self, key: str) -> dict[str, str]:
        """Headers of the protocol; those that carry the key only where it does not go as a bearer token."""
        ...

    def decoder(self) -> Decoder:
        """For one response."""
        ...
