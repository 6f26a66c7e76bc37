"""Interface of a protocol: the URL of a request, its body, and how its response is decoded to chunks.

The content is the same for each protocol: the projection yields `Item`s in order, and a wire converts them to
messages. Each call item contains its result, so no call can lack one.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload

NOTE_OPENING = "<signoff-note>"
NOTE_CLOSING = "</signoff-note>"
NOTE_PREAMBLE = "Written by the program signoff, not by the user:"
NO_BEGINNING = "The beginning of this conversation is not shown."


def mark_program_text(text: str) -> str:
    """Return text of the program as a marked block, for places where only a user message is accepted."""
    inert = text.replace(NOTE_CLOSING, "<\\/signoff-note>")
    return f"{NOTE_OPENING}\n{NOTE_PREAMBLE}\n{inert}\n{NOTE_CLOSING}"


def to_valid_json(value: Any, depth: int = 0) -> Any:
    """Return a value for JSON: NaN and infinities become null, other objects their text, deep levels null."""
    if depth > 50:
        return None
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(key): to_valid_json(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [to_valid_json(item, depth + 1) for item in value]
    return str(value)


OPAQUE_BLOCKS = "opaque_blocks"
"""Key in a response's extras for blocks that a wire received besides text and calls and must send back unchanged: a
list of `{"wire": …, "index": …, "at": …, "block": …}`. `at` is the position: 0 before the text, 1 after it, 2 after
the first call, and so on."""


WORDS_FOLLOW = "The user's own words on it follow as the user's message."


class SystemItem(Struct, frozen=True):
    """A system message: text of the program for the model."""

    text: str
    folded: tuple[str, ...] = ()
    """Notes from mid-conversation, if the endpoint accepts only the first system message."""
    introduces: bool = False
    """The next item is the user's feedback on it; the wire adds a sentence that says where that is."""

    def full_text(self) -> str:
        """Return the complete text, for a wire that keeps the order of the items."""
        text = f"{self.text}\n{WORDS_FOLLOW}" if self.introduces else self.text
        return "\n\n".join([part for part in (text,) if part] + list(self.folded))


IMAGE_PARTS = frozenset({"image_url", "image", "input_image"})
"""Values of `type` for image parts of a message on the wires."""


@dataclass(frozen=True, slots=True)
class AttachedImage:
    """An image of a user message or a tool result, with its bytes as base64."""

    media_type: str
    data: str = field(repr=False)
    """The image as base64."""

    @property
    def data_url(self) -> str:
        """Return the image as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


class UserItem(Struct, frozen=True):
    """A message of the user, or a marked note of the program if no system message is accepted."""

    text: str
    spoken: bool = True
    """Whether the user wrote at least a part of it."""
    attachments: tuple[AttachedImage, ...] = ()
    """Images; they come before the text, which may then be empty."""


class OpaqueResponseBlocks(Struct, frozen=True):
    """Opaque parts of a response, which are sent back only to the endpoint and model that produced them."""

    same_model: bool = False
    """Whether the request goes to the endpoint and model of the response."""
    reasoning: str = ""
    extras: Mapping[str, Any] = {}

    def blocks_for(self, wire: str) -> dict[int, list[dict[str, Any]]]:
        """Return the opaque blocks of this wire by position; empty unless the request goes to the same model."""
        found: dict[int, list[dict[str, Any]]] = {}
        kept = self.extras.get(OPAQUE_BLOCKS) if self.same_model else None
        for entry in kept if isinstance(kept, list) else ():
            if isinstance(entry, dict) and entry.get("wire") == wire and isinstance(entry.get("block"), dict):
                at = entry.get("at")
                found.setdefault(at if isinstance(at, int) else 0, []).append(entry["block"])
        return found


class CallWithResult(Struct, frozen=True):
    """A tool call and its result."""

    id: str
    name: str
    arguments: str
    """A JSON object as text."""
    result: str
    attachments: tuple[AttachedImage, ...] = ()
    """Images of the result, if the wire supports images there."""
    extras: Mapping[str, Any] = {}
    """Opaque fields of the call, unchanged."""


class ModelTurn(Struct, frozen=True):
    """A response of the model: a text, calls, or both."""

    text: str
    calls: tuple[CallWithResult, ...] = ()
    echo: OpaqueResponseBlocks = OpaqueResponseBlocks()


Item = SystemItem | UserItem | ModelTurn


_MAX_TOKENS = 10**9
"""Upper limit of plausible token counts."""


def make_chat_chunk(
    delta: Mapping[str, Any] | None = None, *, finish_reason: str = "", **more: Any
) -> dict[str, Any]:
    """Return a chat completion chunk; `more` are fields beside `choices` (`model`, `usage`)."""
    choice: dict[str, Any] = {"index": 0, "delta": dict(delta or {})}
    if finish_reason:
        choice["finish_reason"] = finish_reason
    return {"choices": [choice], **{name: value for name, value in more.items() if value}}


def make_call_delta(index: int, *, call_id: str = "", name: str = "", arguments: Any = "") -> dict[str, Any]:
    """Return a delta with one tool call or a piece of it; `arguments` may be an object instead of text."""
    return {"tool_calls": [{"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}]}


def make_usage(
    prompt: int, completion: int, cached: int, *, cache_written: int = 0, cost: Any = None
) -> dict[str, Any]:
    """Return a usage object; `prompt` includes the tokens read from or written to a cache."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": cache_written},
        "cost": cost,
    }


def parse_token_count(value: Any) -> int:
    """Return a number of tokens; 0 for any other value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 < value < _MAX_TOKENS else 0


def mapping_or_empty(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a JSON object; else an empty mapping."""
    return value if isinstance(value, dict) else {}


def list_or_empty(value: Any) -> Sequence[Any]:
    """Return the value if it is a JSON array; else an empty sequence."""
    return value if isinstance(value, list) else ()


class OpaqueBlockDeltaBuilder:
    """Builds the deltas that keep blocks to be sent back unchanged, with their positions in the response."""

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._index = 0
        self.position = 0
        """The position of a block that begins now."""

    def note_text(self) -> None:
        """Note that text was received."""
        self.position = max(self.position, 1)

    def note_call(self) -> None:
        """Note that a call was received."""
        self.position = max(self.position, 1) + 1

    def make_delta(self, block: Mapping[str, Any], position: int) -> dict[str, Any]:
        """Return the delta that records a block that began at this position."""
        self._index += 1
        entry = {"wire": self._wire, "index": self._index, "at": position, "block": dict(block)}
        return {OPAQUE_BLOCKS: [entry]}


class WireMessages(NamedTuple):
    """A conversation in the format of a protocol."""

    messages: list[dict[str, Any]]
    system: str | list[dict[str, Any]] = ""
    """The system prompt, if it is not one of the messages."""


def make_tool_fields(
    profile: EndpointProfile, payload: Payload, tools: list[dict[str, Any]], no_calls_choice: Any = "none"
) -> dict[str, Any]:
    """Return the body's fields about tools, including the tool choice, in the format of the wire.

    `tools` is left out only if there are none or the server accepts none: some servers refuse an empty list, and the
    prompt cache depends on an unchanged list. `tool_choice` is sent only as "none" and only with tools: some servers
    refuse an explicit "auto", others "none" without tools.
    """
    if not tools or not profile.tools_supported:
        return {}
    fields: dict[str, Any] = {"tools": tools}
    if payload.tool_choice == "none":
        if profile.tool_choice_none != "rejected":
            fields["tool_choice"] = no_calls_choice
    elif profile.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = profile.parallel_tool_calls
    return fields


class ResponseToChatDecoder(Protocol):
    """Decodes one response to chat completion chunks for `ResponseAssembly`."""

    def read_event(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the chunk of one event; empty if the event adds nothing. An error is a chunk with `error`."""

    def read_document(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the chunk of a whole document that the server sent instead of a stream."""


class ItemWriter(Protocol):
    """Writes the items of one request as messages, one after the other."""

    def add(self, item: Item) -> None:
        """Write the next item."""

    def fork(self) -> "ItemWriter":
        """Return an independent copy; it shares the messages already written."""

    def finish(self, first: SystemItem | None = None) -> WireMessages:
        """Return the written messages after `first`; nothing may be added afterwards."""


class Wire(ABC):
    """A protocol of model APIs: chat completions, Anthropic's messages or OpenAI's Responses."""

    name: Literal["chat", "anthropic", "responses"]
    """The name, as in `EndpointProfile.wire`."""
    title: str
    """The name for the user."""

    def adapt_profile(self, profile: EndpointProfile) -> EndpointProfile:
        """Return the profile with the fields changed that this wire determines, whatever the endpoint."""
        return profile

    def make_messages(self, items: Sequence[Item], profile: EndpointProfile) -> WireMessages:
        """Return the items as messages; any items are valid."""
        writer = self.make_writer(profile)
        for item in items:
            writer.add(item)
        return writer.finish()

    @abstractmethod
    def make_writer(self, profile: EndpointProfile) -> ItemWriter:
        """Return a writer that writes the same messages as `make_messages`, item by item."""

    @abstractmethod
    def make_body(self, model: str, profile: EndpointProfile, payload: Payload) -> dict[str, Any]:
        """Return the body of the request without the user's request settings."""

    @abstractmethod
    def make_effort_fields(self, effort: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a body for the reasoning effort; empty if the wire has none."""

    @abstractmethod
    def request_path(self, base_url: str, resource: Literal["answer", "models"] = "answer") -> str:
        """Return the path below the base URL for requests, or for the list of models."""

    def make_headers(self, key: str) -> dict[str, str]:
        """Return the headers of the protocol; they contain the key only if it is not sent as bearer token."""
        return {}

    @abstractmethod
    def make_decoder(self) -> ResponseToChatDecoder:
        """Return a decoder for one response."""
