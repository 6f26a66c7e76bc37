"""Capabilities of an endpoint, as data that the projection and the client follow."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.config.config_tables import PriceTable


def filter_accepted_tools(tools: list[dict[str, Any]], refused: Sequence[str]) -> list[dict[str, Any]]:
    """Return the tools without those that the server refused; the same list if it refused none."""
    return [tool for tool in tools if tool_key(tool) not in refused] if refused else tools


def tool_name(tool: Mapping[str, Any]) -> str:
    """Return the name of a tool in OpenAI's form."""
    return str((tool.get("function") or {}).get("name", ""))


def tool_key(tool: Mapping[str, Any]) -> str:
    """Return a key that tells a tool from another of the same name with another schema."""
    said = json.dumps(tool, sort_keys=True).encode("utf-8", "surrogatepass")
    return f"{tool_name(tool)} {hashlib.sha256(said).hexdigest()[:16]}"


Placement = Literal["inline", "fold_first", "fold_user"]
NEXT_PLACEMENT: dict[Placement, Placement] = {"inline": "fold_first", "fold_first": "fold_user"}
"""Where a system message of mid-conversation goes next, if it does not reach the model where it is."""


def _price(fields: dict[str, float] | None) -> dict[str, float] | None:
    """Kept as plain numbers, as everything that is learned."""
    if fields is not None:
        PriceTable.model_validate(fields)
    return fields


class Profile(BaseModel):
    """Capabilities of one endpoint and model. The defaults are those of an unknown server."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str = "unknown"
    """The kind of server, a key of `app.llm.capabilities.profiles.SEEDS`; nothing depends on it."""
    wire: Literal["chat", "anthropic", "responses"] = "chat"
    """The protocol: chat completions, Anthropic's messages, or OpenAI's Responses."""
    mid_system: Placement = "inline"
    """Where a system message in mid-conversation goes: in place, appended to the first system message, or as a
    marked block at the head of the next user message (only where the server takes no system message at all)."""
    rendered: Placement | None = None
    """The first placement that the server's own renderings of a conversation kept whole, when they were last looked
    at; None if the server cannot render, or was never asked."""
    tool_choice_none: Literal["honoured", "ignored", "rejected", "fails"] = "honoured"
    """What the server does with `tool_choice: "none"`; `fails` is an error if the model calls a tool all the same."""
    tools_supported: bool = True
    """The model takes tools at all; without, it can only talk."""
    images_supported: bool | None = None
    """The model takes images, where known; where it takes none, it is told which ones it does not see."""
    refused_images: list[str] = []
    """Images that the server refused although it takes others, by their SHA-256."""
    refused_tools: list[str] = []
    """Tools of MCP servers whose schema the server refused, by `refused_tools.key_of`."""
    bridge_tool_user: bool = False
    """Put a short assistant message between a tool result and a user message, as Mistral's templates insist."""
    single_call_turns: bool = False
    """The chat template takes one call per assistant message: split the others."""
    merge_users: bool = True
    """Join user messages that follow each other into one."""
    tool_id: str = Field(default="any", pattern=r"^(?:any|alnum9|word64|max[1-9][0-9]{1,2})$")
    """What ids of tool calls may look like: anything within reason, nine letters and digits (`alnum9`, Mistral),
    at most so many characters (`max64`), or 64 letters, digits, `_` and `-` (`word64`, Anthropic)."""
    tool_name_on_result: bool = False
    """Put the tool's name on every result."""
    empty_content: Literal["empty", "null", "absent"] = "empty"
    """What stands as content beside tool calls without text."""
    text_beside_calls: bool = True
    """A message may have both a text and calls; where it may not (Mistral's first templates), the calls count."""
    developer_role: bool = False
    """Send `developer` where others take `system`."""
    parallel_tool_calls: bool | None = None
    """Sent when set."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the limit of a response is called, where one is sent."""
    stream_usage: bool = True
    """Ask for usage in the stream."""
    reasoning_echo: Literal["never", "same_model", "required_on_calls"] = "never"
    """Whether reasoning goes back: not at all, opaque as it came to the model that made it, or as
    `reasoning_content` beside every tool call, even if empty (DeepSeek, Moonshot)."""
    call_extras_echo: bool = False
    """Opaque fields of tool calls go back as they came (Gemini's thought signature)."""
    opaque_echo: bool = True
    """Signed thinking (Anthropic) and encrypted reasoning (Responses) go back to the model that made them."""
    cache_breakpoints: bool = True
    """Say how far the prompt can be cached, where the wire wants it said (Anthropic)."""
    output_limit: int | None = None
    """Tokens that a response may have, where the wire wants a limit said (Anthropic); by the model, if not set."""
    finish_optional: bool = False
    """The server never sends a finish reason: a clean end is an end."""
    refused: dict[str, Any] = Field(default_factory=dict)
    """Request settings of the user's that the server does not take, with the value that it refused."""
    price: Annotated[dict[str, float] | None, AfterValidator(_price)] = None
    """US dollars per million tokens, by the names of `PriceTable`, where the list of models says it."""
    context_window: int | None = None
    """Tokens, where known."""

    @property
    def accepts_images(self) -> bool:
        """Return whether images are sent: until it is known that they are refused."""
        return self.images_supported is not False
