"""Interface of a protocol: where a request goes, its body, and how its response is read as chunks.

Its content is the same for each protocol: `Item`s say who says what, in order, each call with its result. The
projection yields these; a wire makes messages of them. A call holds its result, so none can lack one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from app.llm.values.endpoint import Profile
from app.llm.values.requests_and_updates import Payload

NOTE_OPENING = "<signoff-note>"
NOTE_CLOSING = "</signoff-note>"
NOTE_PREAMBLE = "Written by the program signoff, not by the user:"
NO_BEGINNING = "The beginning of this conversation is not shown."


def mark_program_text(text: str) -> str:
    """Return program text as a marked block, for a place where only a user message is accepted."""
    inert = text.replace(NOTE_CLOSING, "<\\/signoff-note>")
    return f"{NOTE_OPENING}\n{NOTE_PREAMBLE}\n{inert}\n{NOTE_CLOSING}"


OPAQUE_BLOCKS = "opaque_blocks"
"""Under this name a response's extras keep what a wire gave beside text and calls and wants back as it was: a list of
`{"wire": …, "index": …, "at": …, "block": …}`. `at` is where it stood: 0 before the text, 1 after it, 2 after the
first call, and so on."""


WORDS_FOLLOW = "The user's own words on it follow as the user's message."


@dataclass(frozen=True, slots=True)
class SystemText:
    """A text of the program for the model."""

    text: str
    folded: tuple[str, ...] = ()
    """Notes that belong in mid-conversation, where the endpoint takes no system message but the first."""
    introduces: bool = False
    """The next item is what the user said on it; `text` leaves that to the wire, which knows where they stand."""

    def full_text(self) -> str:
        """All of it as one text, for a wire that keeps the order of the items."""
        text = f"{self.text}\n{WORDS_FOLLOW}" if self.introduces else self.text
        return "\n\n".join([part for part in (text,) if part] + list(self.folded))


IMAGE_PARTS = frozenset({"image_url", "image", "input_image"})
"""What the part of a message that is an image is called, on one wire or another."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image of a user message or a tool result."""

    media_type: str
    data: str = field(repr=False)
    """Base64."""

    @property
    def data_url(self) -> str:
        """The whole of it as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


@dataclass(frozen=True, slots=True)
class UserText:
    """A text of the user, or a marked note of the program where no system message is accepted."""

    text: str
    spoken: bool = True
    """The user said at least some of it."""
    attachments: tuple[Attachment, ...] = ()
    """Images; they come before the text, which may be empty then."""


@dataclass(frozen=True, slots=True)
class OpaqueResponseBlocks:
    """Opaque parts of a response, which go back only to the endpoint and model that made them."""

    same_model: bool = False
    """The request goes where the response came from."""
    reasoning: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)

    def blocks_for(self, wire: str) -> dict[int, list[dict[str, Any]]]:
        """The opaque blocks of this wire by where they stood, empty unless the request goes to the same model."""
        found: dict[int, list[dict[str, Any]]] = {}
        kept = self.extras.get(OPAQUE_BLOCKS) if self.same_model else None
        for entry in kept if isinstance(kept, list) else ():
            if isinstance(entry, dict) and entry.get("wire") == wire and isinstance(entry.get("block"), dict):
                at = entry.get("at")
                found.setdefault(at if isinstance(at, int) else 0, []).append(entry["block"])
        return found


@dataclass(frozen=True, slots=True)
class CallWithResult:
    """A tool call and its result."""

    id: str
    name: str
    arguments: str
    """A JSON object."""
    result: str
    attachments: tuple[Attachment, ...] = ()
    """Images of the result, where the wire takes them there."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Opaque fields of the call, as they came."""


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A response of the model: a text, calls, or both."""

    text: str
    calls: tuple[CallWithResult, ...] = ()
    echo: OpaqueResponseBlocks = OpaqueResponseBlocks()


Item = SystemText | UserText | ModelTurn


_MAX_TOKENS = 10**9
"""More than any model reads or writes."""


def make_chunk(delta: Mapping[str, Any] | None = None, *, finish: str = "", **more: Any) -> dict[str, Any]:
    """Return a chunk; `more` are fields beside `choices` (`model`, `usage`)."""
    choice: dict[str, Any] = {"index": 0, "delta": dict(delta or {})}
    if finish:
        choice["finish_reason"] = finish
    return {"choices": [choice], **{name: value for name, value in more.items() if value}}


def make_call_delta(index: int, *, identity: str = "", name: str = "", arguments: str = "") -> dict[str, Any]:
    """Return a delta with (a piece of) one tool call."""
    return {"tool_calls": [{"index": index, "id": identity, "function": {"name": name, "arguments": arguments}}]}


def make_usage(prompt: int, completion: int, cached: int, *, written: int = 0, cost: Any = None) -> dict[str, Any]:
    """Return a usage object; `prompt` counts the tokens read from or written to a cache, too."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "cost": cost,
    }


def parse_token_count(value: Any) -> int:
    """Return a number of tokens; 0 for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 < value < _MAX_TOKENS else 0


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of a response; empty if it is something else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> Sequence[Any]:
    """Return an array of a response; empty if it is something else."""
    return value if isinstance(value, list) else ()


class OpaqueBlockRecorder:
    """Notes where in a response each block stood that is sent back unchanged; see `OPAQUE_BLOCKS`."""

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._index = 0
        self._at = 0

    def note_text(self) -> None:
        """Note that text was received."""
        self._at = max(self._at, 1)

    def note_call(self) -> None:
        """Note that a call was received."""
        self._at = max(self._at, 1) + 1

    def make_delta(self, block: Mapping[str, Any]) -> dict[str, Any]:
        """The delta that keeps a block."""
        self._index += 1
        entry = {"wire": self._wire, "index": self._index, "at": self._at, "block": dict(block)}
        return {OPAQUE_BLOCKS: [entry]}


class WireMessages(NamedTuple):
    """A conversation in the form of a protocol."""

    messages: list[dict[str, Any]]
    system: str | list[dict[str, Any]] = ""
    """The system prompt, where it does not stand among the messages."""


def make_tool_fields(
    profile: Profile, payload: Payload, tools: list[dict[str, Any]], none: Any = "none"
) -> dict[str, Any]:
    """Return the body's fields about tools in the form of its wire, tool choice included.

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


class ResponseDecoder(Protocol):
    """Decodes one response to chat completion chunks, which `ResponseAssembly` takes."""

    def read_event(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the chunk of one event; empty if the event adds nothing. An error is a chunk with `error`."""
        ...

    def read_document(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the chunk of a whole document that the server sent instead of a stream."""
        ...


class ItemWriter(Protocol):
    """Writes the items of one request as messages, one after the other."""

    def add(self, item: Item) -> None:
        """Write the next item."""
        ...

    def fork(self) -> "ItemWriter":
        """Return an independent copy; messages already written stay the same objects."""
        ...

    def finish(self, first: SystemText | None = None) -> WireMessages:
        """Return the written items, behind `first`; nothing may be added afterwards."""
        ...


def write_items(writer: ItemWriter, items: Sequence[Item]) -> WireMessages:
    """Return the items as messages."""
    for item in items:
        writer.add(item)
    return writer.finish()


class Wire(Protocol):
    """A protocol."""

    @property
    def name(self) -> Literal["chat", "anthropic", "responses"]:
        """Return the name, as in `Profile.wire`."""
        ...

    @property
    def title(self) -> str:
        """Return the name for people."""
        ...

    def adapt_profile(self, profile: Profile) -> Profile:
        """Return the profile with what this wire requires or does not need, whatever the endpoint."""
        ...

    def make_messages(self, items: Sequence[Item], profile: Profile) -> WireMessages:
        """Return the items as messages; valid for any items."""
        ...

    def make_writer(self, profile: Profile) -> ItemWriter:
        """Return a writer that writes items as `make_messages` does, for a request that is built step by step."""
        ...

    def make_body(self, model: str, profile: Profile, payload: Payload) -> dict[str, Any]:
        """The body of the request, without the user's request settings."""
        ...

    def make_effort_fields(self, effort: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a body for the reasoning effort; empty where the wire has none."""
        ...

    def request_path(self, base_url: str, resource: Literal["answer", "models"] = "answer") -> str:
        """Return the path below the base URL for requests, or for the list of models."""
        ...

    def make_headers(self, key: str) -> dict[str, str]:
        """Return the headers of the protocol; with the key only where it is no bearer token."""
        ...

    def make_decoder(self) -> ResponseDecoder:
        """For one response."""
        ...
