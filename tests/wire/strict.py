"""Validators of requests, each as strict as one kind of server, with that server's words in the refusal.

A validator takes the request's body and returns the refusing reply, or None.
"""

import re
from collections.abc import Callable
from typing import Any

from tests.wire.replies import Reply, document, error

Body = dict[str, Any]


def calls_of(body: Body) -> list[Any]:
    return [call for message in body["messages"] for call in message.get("tool_calls") or ()]


def openai_adjacency(body: Body) -> Reply | None:
    """OpenAI: every call is answered right after its message, and no result stands elsewhere."""
    awaited: set[str] = set()
    for position, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in awaited:
                return error(
                    400,
                    f"Invalid parameter: messages[{position}]: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'.",
                    kind="invalid_request_error",
                )
            awaited.discard(message["tool_call_id"])
            continue
        if awaited:
            return _unanswered(awaited)
        identities = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(identities)) != len(identities):
            return error(400, "Duplicate value for 'tool_call_id'", kind="invalid_request_error")
        awaited = set(identities)
    return _unanswered(awaited) if awaited else openai_fields(body)


def _unanswered(awaited: set[str]) -> Reply:
    return error(
        400,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(sorted(awaited))}",
        kind="invalid_request_error",
    )


def openai_fields(body: Body) -> Reply | None:
    """OpenAI: `tool_choice` only beside `tools`, ids of at most 64 characters, tools not empty."""
    if "tool_choice" in body and not body.get("tools"):
        return error(
            400, "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        )
    return ids_of_at_most(64)(body)


def ids_of_at_most(longest: int, *, named: bool = True) -> Callable[[Body], Reply | None]:
    """A limit of another length than OpenAI's, which the refusal names or not."""

    def validate(body: Body) -> Reply | None:
        for call in calls_of(body):
            if len(call["id"]) > longest:
                words = f"maximum length {longest}, but got a string with length {len(call['id'])} instead."
                end = f" Expected a string with {words}" if named else ""
                where = "Invalid 'messages[2].tool_calls[0].id'"
                return error(400, f"{where}: string too long.{end}", code="string_above_max_length")
        return None

    return validate


def mistral_template(status: int) -> Callable[[Body], Reply | None]:
    """Mistral's chat templates, by which llama.cpp (500) and vLLM (400) render: ids of nine letters and digits."""

    def validate(body: Body) -> Reply | None:
        if all(re.fullmatch(r"[A-Za-z0-9]{9}", call["id"]) for call in calls_of(body)):
            return None
        words = "Tool call IDs should be alphanumeric strings with length 9!"
        words = f"Jinja Exception: {words}" if status >= 500 else words
        return error(status, words, code=status, kind="BadRequestError")

    return validate


def system_first(status: int = 400) -> Callable[[Body], Reply | None]:
    """Qwen's template: a system message anywhere but at the beginning is an error, of this status."""

    def validate(body: Body) -> Reply | None:
        if any(message["role"] == "system" for message in body["messages"][1:]):
            message = "System message must be at the beginning."
            if status >= 500:
                message = f"Unable to generate parser for this template: Jinja Exception: {message}"
            return error(status, message, code=status, kind="server_error" if status >= 500 else "BadRequestError")
        return None

    return validate


qwen = system_first(400)
llama_cpp = system_first(500)


def mistral(body: Body) -> Reply | None:
    """Mistral: strict order of roles, and call ids of nine letters and digits."""
    allowed: dict[str, set[str]] = {
        "": {"system", "user"},
        "system": {"system", "user", "assistant"},
        "user": {"assistant", "user", "system"},
        "assistant": {"user", "tool"},
        "tool": {"assistant", "tool"},
    }
    previous = ""
    for message in body["messages"]:
        role = message["role"]
        if role not in allowed[previous]:
            words = f"Unexpected role '{role}' after role '{previous}'"
            body_ = {"object": "error", "message": words, "type": "invalid_request_message_order", "code": "3230"}
            return document(body_, status=400)
        previous = role
        for call in message.get("tool_calls") or ():
            if not re.fullmatch(r"[A-Za-z0-9]{9}", call["id"]):
                words = f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
                return document({"object": "error", "message": words, "type": "invalid_function_call"}, status=400)
    return None


def alternating(body: Body) -> Reply | None:
    """Mistral's templates: the user's and the model's messages alternate, calls and results aside."""
    roles = [
        message["role"]
        for message in body["messages"]
        if message["role"] == "user" or (message["role"] == "assistant" and not message.get("tool_calls"))
    ]
    if any(role != ("user", "assistant")[position % 2] for position, role in enumerate(roles)):
        words = "conversation roles must alternate user/assistant/user/assistant/..."
        return error(400, f"After the optional system message, {words}", kind="BadRequestError")
    return None


def gemma2(body: Body) -> Reply | None:
    """Gemma 2's template: no system role at all, and strict alternation of user and assistant."""
    if any(message["role"] == "system" for message in body["messages"]):
        return error(400, "System role not supported", kind="BadRequestError")
    return None


def anthropic(body: Body) -> Reply | None:
    """Anthropic's compatibility layer: tools are required once the history has calls."""
    used = any(message.get("tool_calls") or message["role"] == "tool" for message in body["messages"])
    if used and not body.get("tools"):
        return error(400, "Requests which include `tool_use` or `tool_result` blocks must define tools.")
    return None


def no_tool_choice(body: Body) -> Reply | None:
    """Bedrock through LiteLLM: "none" is unknown, and tools are required once the history has calls."""
    if body.get("tool_choice") == "none":
        return error(
            400,
            "litellm.UnsupportedParamsError: Bedrock doesn't support tool_choice=none. To drop it from the call, set "
            "`litellm.drop_params = True`.",
            kind="None",
        )
    return anthropic(body)


bedrock = no_tool_choice


def deepseek(body: Body) -> Reply | None:
    """DeepSeek in thinking mode: the reasoning of messages with calls has to come back, even when empty."""
    for message in body["messages"]:
        if message.get("tool_calls") and "reasoning_content" not in message:
            return error(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")
    return None


def gemini(body: Body) -> Reply | None:
    """Gemini: the thought signature of a call has to come back with it."""
    for call in calls_of(body):
        if not ((call.get("extra_content") or {}).get("google") or {}).get("thought_signature"):
            words = "Function call is missing a thought_signature in functionCall parts."
            return document([{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}], status=400)
    return None


KNOWN_FIELDS = {"model", "messages", "stream", "tools", "tool_choice", "max_tokens"}
KNOWN_MESSAGE_FIELDS = {"role", "content", "tool_calls", "tool_call_id"}


def unknown_fields(body: Body) -> Reply | None:
    """A server that takes the oldest fields only."""
    for name in body:
        if name not in KNOWN_FIELDS:
            detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]
            return document({"detail": detail}, status=422)
    for position, message in enumerate(body["messages"]):
        for name in message:
            if name not in KNOWN_MESSAGE_FIELDS:
                return error(
                    400,
                    f"'messages.{position}' : for 'role:{message['role']}' the following must be satisfied"
                    f"[('messages.{position}' : property '{name}' is unsupported)]",
                )
    return None


def no_tools(body: Body) -> Reply | None:
    """Ollama with a model whose template has no tools."""
    if body.get("tools"):
        return error(400, f"registry.ollama.ai/library/{body['model']}:latest does not support tools")
    return None


def completion_tokens(body: Body) -> Reply | None:
    """OpenAI's reasoning models: `max_tokens` has another name."""
    if "max_tokens" in body:
        return error(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            code="unsupported_parameter",
        )
    return None
