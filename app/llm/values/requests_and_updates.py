"""Requests to the client and updates from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from app.config.config_tables import PriceTable
from app.images.image import Image
from app.llm.values.endpoint import EndpointAddress, Placement, Profile, parse_address

EFFORT = "reasoning_effort"
"""The name of the setting, under which a refusal of it is kept."""


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Request settings of the user."""

    effort: str = "off"
    """How much the model is to reason, as in `Settings.reasoning_effort`; `off` leaves it to the server."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the body: the `[request]` table."""

    def as_fields(self) -> dict[str, Any]:
        """Return the options that are set, by name."""
        effort = {} if self.effort == "off" else {EFFORT: self.effort}
        return {**effort, **self.fields}

    def without_refused(self, refused: Mapping[str, Any]) -> "RequestOptions":
        """Return the options that the server has not refused; a refused one with another value counts as new."""
        fields = {name: value for name, value in self.fields.items() if not _among(refused, name, value)}
        return RequestOptions("off" if _among(refused, EFFORT, self.effort) else self.effort, fields)


NO_OPTIONS = RequestOptions()


def _among(refused: Mapping[str, Any], name: str, value: Any) -> bool:
    return name in refused and refused[name] == value


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address and credentials of an endpoint."""

    base_url: str
    """Without anything secret, whatever was given: it is stored, shown and exported."""
    model: str
    api_key: SecretStr | None = None
    headers: dict[str, str] = field(default_factory=dict)
    options: RequestOptions = NO_OPTIONS
    """What the user wants in each request of a conversation."""
    price: PriceTable | None = None
    """What the model costs, as the user says."""
    key_from: str = ""
    """Where the key comes from, as the user knows it: `$OPENAI_API_KEY`, `config.toml`; empty if nobody said."""
    model_from: str = ""
    """Where the model's name comes from, likewise."""
    address: EndpointAddress = field(init=False, repr=False)
    """With what was secret in the base URL."""

    def __post_init__(self) -> None:
        address = parse_address(self.base_url)
        object.__setattr__(self, "address", address)
        object.__setattr__(self, "base_url", address.url)


@dataclass(frozen=True, slots=True)
class Payload:
    """The content of one request; a pure projection of the log. `tools` is the same list, byte for byte, in every
    one."""

    messages: list[dict[str, Any]]
    """The conversation, in the form of the profile's wire."""
    tools: list[dict[str, Any]]
    """As chat completions has them; the wire gives them its form."""
    tool_choice: Literal["none"] | None = None
    max_tokens: int | None = None
    """Limit of the response; sent when set."""
    system: str | list[dict[str, Any]] = ""
    """The system prompt, where the wire has it apart from the messages."""
    options: RequestOptions = NO_OPTIONS
    """Fields that the user wants, as far as the server takes them."""
    images: tuple[Image, ...] = ()
    """The images in the messages, in order."""


class ReceivedCall(BaseModel):
    """A tool call as assembled from the stream."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    wire_id: str = ""
    """The id that the server gave; may be empty, repeated or too long."""
    name: str
    arguments: dict[str, Any] | None
    """The parsed arguments, or None if `raw_arguments` is not a JSON object."""
    raw_arguments: str = ""
    """The arguments as they came, kept where they did not parse."""
    invalid: str = ""
    """Why the call cannot run (the parser's message); empty for a good call."""
    extras: dict[str, Any] = Field(default_factory=dict)
    """Opaque fields that some servers want echoed (Gemini's thought signature)."""


class TokenUsage(BaseModel):
    """Tokens as the server counted them."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    prompt_tokens: int = 0
    """Those from a cache, or written to one, among them."""
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """US dollars, where the server or a price says so."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class CallProgress:
    """Progress of a tool call: its name as far as known, and the size of its arguments so far."""

    index: int
    name: str
    characters: int


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """The attempt failed; the same request goes out again after `delay` seconds."""

    attempt: int
    delay: float
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptDiscarded:
    """Text already shown by this attempt is void; the next attempt starts over."""

    text: str
    reason: str
    calls: tuple[ReceivedCall, ...] = ()
    """What had come of its calls."""


@dataclass(frozen=True, slots=True)
class ProfileCorrected:
    """The endpoint refused a request, and accepted it in the form of `profile`; sent with the response."""

    profile: Profile
    notice: str


@dataclass(frozen=True, slots=True)
class ChatTemplateChecked:
    """The server has rendered conversations, before this request or during the one before it."""

    server: str
    """Which kind of server can do that: `llama.cpp`, `vllm`, `ollama`; empty if this one cannot."""
    placement: Placement | None
    """The first placement that its chat template keeps whole; None: none, or it is not known."""


@dataclass(frozen=True, slots=True)
class ResponseCompleted:
    """The complete response; always the last update of a request that did not fail."""

    text: str
    reasoning: str
    calls: tuple[ReceivedCall, ...]
    finish_reason: str | None
    truncated: bool
    """The stream ended early or the length limit cut it: calls must not run."""
    usage: TokenUsage | None
    model: str
    extras: dict[str, Any] = field(default_factory=dict)


StreamUpdate = (
    TextDelta
    | ReasoningDelta
    | CallProgress
    | RetryScheduled
    | AttemptDiscarded
    | ProfileCorrected
    | ChatTemplateChecked
    | ResponseCompleted
)
