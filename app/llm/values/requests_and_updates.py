"""Requests to the client and updates from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from app.config.config_tables import PriceTable
from app.images.image import Image
from app.llm.values.endpoint import BaseUrlWithSecrets, EndpointProfile, Placement, split_base_url_and_secrets

EFFORT = "reasoning_effort"
"""Name of the effort setting, also used to store a refusal of it."""


class RequestOptions(Struct, frozen=True):
    """Optional settings of the user for a request, such as temperature and effort."""

    effort: str = "off"
    """The reasoning effort, as in `Settings.reasoning_effort`; `off` sends none."""
    fields: Mapping[str, Any] = {}
    """Additional fields of the body: the `[request]` table."""

    def as_fields(self) -> dict[str, Any]:
        """Return the options that are set, by name."""
        effort = {} if self.effort == "off" else {EFFORT: self.effort}
        return {**effort, **self.fields}

    def without_refused(self, refused: Mapping[str, Any]) -> "RequestOptions":
        """Return the options without those that the server refused; a refused option with a new value is kept."""
        fields = {name: value for name, value in self.fields.items() if not _is_refused(refused, name, value)}
        return RequestOptions("off" if _is_refused(refused, EFFORT, self.effort) else self.effort, fields)


NO_OPTIONS = RequestOptions()


def _is_refused(refused: Mapping[str, Any], name: str, value: Any) -> bool:
    return name in refused and refused[name] == value


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint with a model: base URL, credentials, headers, and the user's request settings and price."""

    base_url: str
    """The URL without secrets, even if the argument has some: it is stored, shown and exported."""
    model: str
    api_key: SecretStr | None = None
    headers: dict[str, str] = field(default_factory=dict)
    options: RequestOptions = NO_OPTIONS
    """The user's settings for each request of a conversation."""
    price: PriceTable | None = None
    """The price of the model as set by the user."""
    key_from: str = ""
    """The source of the key for the user: `$OPENAI_API_KEY`, `config.toml`; empty if unknown."""
    model_from: str = ""
    """The source of the model's name, in the same format."""
    address: BaseUrlWithSecrets = field(init=False, repr=False)
    """The parsed base URL with its secrets."""

    def __post_init__(self) -> None:
        address = split_base_url_and_secrets(self.base_url)
        object.__setattr__(self, "address", address)
        object.__setattr__(self, "base_url", address.url)


class Payload(Struct, frozen=True):
    """The content of one request; a pure projection of the log. `tools` is the same list, byte for byte, in every
    request."""

    messages: list[dict[str, Any]]
    """The conversation in the format of the profile's wire."""
    tools: list[dict[str, Any]]
    """Tools in the format of chat completions; the wire converts them."""
    tool_choice: Literal["none"] | None = None
    max_tokens: int | None = None
    """Limit of the response in tokens; sent if set."""
    system: str | list[dict[str, Any]] = ""
    """The system prompt, if the wire has a separate field for it."""
    options: RequestOptions = NO_OPTIONS
    """The user's settings; refused ones are left out when the request is sent."""
    images: tuple[Image, ...] = ()
    """The images in the messages, in order."""


class ReceivedToolCall(BaseModel):
    """A tool call as assembled from the stream."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    wire_id: str = ""
    """The id from the server; may be empty, repeated or too long."""
    name: str
    arguments: dict[str, Any] | None
    """The parsed arguments; None if `raw_arguments` is not a JSON object."""
    raw_arguments: str = ""
    """The arguments as received."""
    invalid: str = ""
    """Why the call cannot run; empty for a valid call."""
    extras: dict[str, Any] = Field(default_factory=dict)
    """Opaque fields that some servers require to be sent back (Gemini's thought signature)."""


class TokenUsage(BaseModel):
    """Tokens of one request as counted by the server, and their cost."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    prompt_tokens: int = 0
    """Includes tokens read from or written to a cache."""
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """US dollars; None if neither the server nor a price gives it."""


class TextDelta(Struct, frozen=True):
    """Update of a running request: a piece of the answer's text."""

    text: str


class ReasoningDelta(Struct, frozen=True):
    """Update of a running request: a piece of the model's reasoning."""

    text: str


class CallProgress(Struct, frozen=True):
    """Progress of a tool call: the known part of its name, and the size of its arguments so far."""

    index: int
    name: str
    characters: int


class RetryScheduled(Struct, frozen=True):
    """The attempt failed; the request is sent again after `delay` seconds."""

    attempt: int
    delay: float
    reason: str


class AttemptDiscarded(Struct, frozen=True):
    """The text of this attempt is discarded; the next attempt starts again."""

    text: str
    reason: str
    calls: tuple[ReceivedToolCall, ...] = ()
    """Calls received before the failure."""


class ProfileCorrected(Struct, frozen=True):
    """The endpoint refused a request and accepted it with `profile`; yielded with the response."""

    profile: EndpointProfile
    notice: str


class MessagePlacementChecked(Struct, frozen=True):
    """Outcome of a test of the server's chat template: the placement in which it keeps all messages, if known."""

    server: str
    """The kind of server: `llama.cpp`, `vllm`, `ollama`; empty if it cannot render."""
    placement: Placement | None
    """The first placement in which its chat template keeps all messages; None if none does or it is unknown."""


class ResponseCompleted(Struct, frozen=True):
    """The complete response; the last update of every successful request."""

    text: str
    reasoning: str
    calls: tuple[ReceivedToolCall, ...]
    finish_reason: str | None
    truncated: bool
    """The stream ended early or a length limit cut it off: its calls must not run."""
    usage: TokenUsage | None
    model: str
    extras: dict[str, Any] = {}


StreamUpdate = (
    TextDelta
    | ReasoningDelta
    | CallProgress
    | RetryScheduled
    | AttemptDiscarded
    | ProfileCorrected
    | MessagePlacementChecked
    | ResponseCompleted
)
