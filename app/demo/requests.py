"""What a client may send to `POST /v1/chat/completions`: the model, the tools and the order of the messages.

The order follows the two refusals that OpenAI's servers give: an assistant message with tool calls is followed by one
tool message for each of them before anything else, and a tool message answers such a call.
"""

import json
from collections.abc import Sequence
from typing import Any

MODEL_ID = "signoff-demo"

ChatRequest = dict[str, Any]
"""The body of a request, as it was sent: `messages`, `tools`, `tool_choice`, `stream` and more."""
_ROLES = ("system", "developer", "user", "assistant", "tool")


class RequestRefused(Exception):
    """The request is wrong; `status` is the HTTP status and the text is what the client is told."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


def parse_request(body: bytes) -> ChatRequest:
    """The request in `body`; raises RequestRefused with the reason if it can't be answered."""
    try:
        request = json.loads(body)
    except ValueError as error:
        raise RequestRefused(f"We could not parse the JSON body of your request: {error}") from error
    if not isinstance(request, dict):
        raise RequestRefused("The body of the request must be a JSON object.")
    model = request.get("model")
    if model != MODEL_ID:
        message = f"The model `{model}` does not exist; this server has `{MODEL_ID}`."
        raise RequestRefused(message, status=404, param="model", code="model_not_found")
    try:
        _check_tools(request)
        _check_order(request.get("messages"))
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        message = f"The request is not in the form of the Chat Completions API ({type(error).__name__}: {error})."
        raise RequestRefused(message) from error
    return request


def content_text(content: Any) -> str:
    """The text of a message's content, its parts joined."""
    return content or "" if content is None or isinstance(content, str) else "".join(part["text"] for part in content)


def functions(request: ChatRequest) -> dict[str, dict[str, Any]]:
    """The schema of the arguments of each tool, by name."""
    return {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in request.get("tools") or ()}


def forced_function(request: ChatRequest) -> str:
    """The function that `tool_choice` names, if it does."""
    choice = request.get("tool_choice")
    return str(choice["function"]["name"]) if isinstance(choice, dict) else ""


def _check_tools(request: ChatRequest) -> None:
    names = functions(request)
    if len(names) < len(request.get("tools") or ()):
        raise RequestRefused("Tool names must be unique.", param="tools")
    if request.get("tool_choice") is not None and not names:
        raise RequestRefused("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    if (forced := forced_function(request)) and forced not in names:
        raise RequestRefused(f"Tool choice '{forced}' is not among the tools.", param="tool_choice")
    if request.get("stream_options") is not None and not request.get("stream"):
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise RequestRefused(message, param="stream_options")


def _check_order(messages: Any) -> None:
    """Refuse a history in which calls and results are not paired, or in which a message says nothing."""
    if not isinstance(messages, list) or not messages:
        raise RequestRefused("'messages' must be a list with at least one message.", param="messages")
    open_ids: list[str] = []
    for position, message in enumerate(messages):
        place, role = f"messages[{position}]", message["role"]
        if role not in _ROLES:
            raise RequestRefused(f"Invalid value for '{place}.role': {role!r}.", param=f"{place}.role")
        text = content_text(message.get("content"))
        if role == "tool":
            if (answered := message["tool_call_id"]) not in open_ids:
                raise RequestRefused(
                    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'; "
                    f"{place} answers '{answered}'.",
                    param=f"{place}.tool_call_id",
                )
            open_ids.remove(answered)
            continue
        _refuse_open_calls(open_ids)
        if role == "assistant":
            open_ids = _called_ids(message.get("tool_calls") or (), place)
            if not open_ids and not text.strip():
                raise RequestRefused(f"An assistant message needs content or tool_calls; {place} has neither.")
        elif message.get("content") is None:
            raise RequestRefused(f"Invalid value for '{place}.content': null.", param=f"{place}.content")
    _refuse_open_calls(open_ids)


def _refuse_open_calls(open_ids: Sequence[str]) -> None:
    if open_ids:
        raise RequestRefused(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. These had no response: {', '.join(open_ids)}.",
            param="messages",
        )


def _called_ids(calls: Sequence[dict[str, Any]], place: str) -> list[str]:
    """The ids of a message's calls, which must be distinct, with arguments that are JSON objects."""
    identifiers = [str(call["id"]) for call in calls]
    if len(set(identifiers)) < len(identifiers):
        raise RequestRefused(f"The ids of the tool calls in {place} are not unique.", param=f"{place}.tool_calls")
    for call in calls:
        if not isinstance(_parsed(call["function"]["arguments"]), dict):
            raise RequestRefused(
                f"The arguments of a tool call must be a JSON object, as text; those of '{call['id']}' are not.",
                param=f"{place}.tool_calls",
            )
    return identifiers


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
