"""What a client may send to `POST /v1/chat/completions`, checked as strictly as OpenAI does.

The shapes follow the public Chat Completions reference. The order of messages follows the two refusals that
OpenAI's servers give: an assistant message with tool calls is followed by one tool message for each of them
before anything else, and a tool message answers such a call.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MODEL_ID = "signoff-demo"

_WIRE_ID = Annotated[str, Field(min_length=1, max_length=64)]
_NAME = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


_UNION_TAGS = {
    *("system", "developer", "user", "assistant", "tool"),
    *("str", "list[TextPart]", "ForcedTool", "literal['none','auto','required']", "list[str]"),
}
"""Parts of pydantic's locations that name a variant of a union and no field."""


class RequestRefused(Exception):
    """The request is wrong; `status` is the HTTP status and the text is what the client is told."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


class _Shape(BaseModel):
    """A part of the request; an unknown field is an error, as it is at OpenAI."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TextPart(_Shape):
    """A piece of a message's content."""

    type: Literal["text"]
    text: str


Content = str | list[TextPart]


class SystemMessage(_Shape):
    """An instruction."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class UserMessage(_Shape):
    """What the user said."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class CalledFunction(_Shape):
    """A call's name and its arguments as JSON text."""

    name: _NAME
    arguments: str


class ToolCall(_Shape):
    """A call that an earlier response made."""

    id: _WIRE_ID
    type: Literal["function"]
    function: CalledFunction


class AssistantMessage(_Shape):
    """An earlier response."""

    role: Literal["assistant"]
    content: Content | None = None
    tool_calls: list[ToolCall] | None = Field(default=None, min_length=1)
    name: str | None = None
    refusal: str | None = None


class ToolMessage(_Shape):
    """The result of a call."""

    role: Literal["tool"]
    tool_call_id: _WIRE_ID
    content: Content


Message = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage,
    Field(discriminator="role"),
]


class Function(_Shape):
    """What a tool is called and takes."""

    name: _NAME
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    strict: bool | None = None


class Tool(_Shape):
    """A tool that the model may call."""

    type: Literal["function"]
    function: Function


class FunctionName(_Shape):
    """The function that must be called."""

    name: _NAME


class ForcedTool(_Shape):
    """`tool_choice` that names one function."""

    type: Literal["function"]
    function: FunctionName


class StreamOptions(_Shape):
    """What to add to a stream."""

    include_usage: bool = False
    include_obfuscation: bool = False


class ChatRequest(_Shape):
    """One request. The fields after `stream_options` are taken and have no effect on this model."""

    model: str
    messages: list[Message] = Field(min_length=1)
    tools: list[Tool] | None = Field(default=None, min_length=1, max_length=128)
    tool_choice: Literal["none", "auto", "required"] | ForcedTool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    max_completion_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    metadata: dict[str, str] | None = None
    n: Literal[1] | None = None
    parallel_tool_calls: bool | None = None
    presence_penalty: float | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: str | None = None
    response_format: dict[str, Any] | None = None
    safety_identifier: str | None = None
    seed: int | None = None
    service_tier: str | None = None
    stop: str | list[str] | None = None
    store: bool | None = None
    temperature: float | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    user: str | None = None
    verbosity: str | None = None


def content_text(content: Content | None) -> str:
    """The text of a message's content, its parts joined."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)


def parse_request(body: bytes) -> ChatRequest:
    """The request in `body`; raises RequestRefused with the reason if anything in it is not as it must be."""
    try:
        data = json.loads(body)
    except ValueError as error:
        raise RequestRefused(f"We could not parse the JSON body of your request: {error}") from error
    try:
        request = ChatRequest.model_validate(data)
    except ValidationError as error:
        raise _refusal(error) from error
    if request.model != MODEL_ID:
        raise RequestRefused(
            f"The model `{request.model}` does not exist; this server has `{MODEL_ID}`.",
            status=404,
            param="model",
            code="model_not_found",
        )
    _check_tools(request)
    _check_order(request.messages)
    return request


def _refusal(error: ValidationError) -> RequestRefused:
    """The first thing that pydantic found, with the place as OpenAI writes it (`messages[2].role`)."""
    first = error.errors(include_url=False)[0]
    place = ""
    for part in first["loc"]:
        if isinstance(part, int):
            place += f"[{part}]"
        elif not place:
            place = part
        elif part not in _UNION_TAGS:
            place += f".{part}"
    if first["type"] == "extra_forbidden":
        return RequestRefused(f"Unrecognized request argument supplied: {place}", param=place)
    return RequestRefused(f"Invalid value for '{place}': {first['msg']}.", param=place or None)


def _check_tools(request: ChatRequest) -> None:
    names = [tool.function.name for tool in request.tools or ()]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise RequestRefused(f"Tool names must be unique; repeated: {', '.join(sorted(repeated))}.", param="tools")
    if request.tool_choice is not None and not names:
        raise RequestRefused("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    if isinstance(request.tool_choice, ForcedTool) and request.tool_choice.function.name not in names:
        raise RequestRefused(
            f"Tool choice '{request.tool_choice.function.name}' is not among the tools.", param="tool_choice"
        )
    if request.stream_options is not None and not request.stream:
        raise RequestRefused(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )


def _check_order(messages: list[Message]) -> None:
    """Refuse a history in which calls and results are not paired, or in which a message says nothing."""
    open_ids: list[str] = []
    for position, message in enumerate(messages):
        place = f"messages[{position}]"
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_ids:
                raise RequestRefused(
                    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'; "
                    f"{place} answers '{message.tool_call_id}'.",
                    param=f"{place}.tool_call_id",
                )
            open_ids.remove(message.tool_call_id)
            continue
        _refuse_open_calls(open_ids)
        if isinstance(message, AssistantMessage):
            open_ids = _called_ids(message, place)
    _refuse_open_calls(open_ids)


def _refuse_open_calls(open_ids: list[str]) -> None:
    if open_ids:
        raise RequestRefused(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. These had no response: {', '.join(open_ids)}.",
            param="messages",
        )


def _called_ids(message: AssistantMessage, place: str) -> list[str]:
    """The ids of the message's calls, which must be distinct, with arguments that are JSON objects."""
    calls = message.tool_calls or []
    if not calls and not content_text(message.content).strip():
        raise RequestRefused(f"An assistant message needs content or tool_calls; {place} has neither.", param=place)
    identifiers = [call.id for call in calls]
    if len(set(identifiers)) < len(identifiers):
        raise RequestRefused(f"The ids of the tool calls in {place} are not unique.", param=f"{place}.tool_calls")
    for number, call in enumerate(calls):
        if not isinstance(_parsed(call.function.arguments), dict):
            raise RequestRefused(
                f"The arguments of a tool call must be a JSON object, as text; those of '{call.id}' are not.",
                param=f"{place}.tool_calls[{number}].function.arguments",
            )
    return identifiers


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
