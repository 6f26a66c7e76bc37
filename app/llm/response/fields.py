"""From a payload to the fields of one Chat Completions request, as far as the endpoint takes them."""

from typing import Any

from app.llm.capabilities.profile import Profile
from app.llm.types import Payload


def request_fields(model: str, profile: Profile, payload: Payload) -> dict[str, Any]:
    """The body of the request.

    `tools` is left out only where there are none or the server takes none: an empty list is an error on some, and the
    prompt cache lives on the list staying the same. `tool_choice` is sent only as "none" and only beside tools: an
    explicit "auto" is an error on some servers, "none" without tools on others.
    """
    fields: dict[str, Any] = {"model": model, "messages": payload.messages, "stream": True}
    if profile.stream_usage:
        fields["stream_options"] = {"include_usage": True}
    if payload.max_tokens is not None:
        fields[profile.max_tokens_field] = payload.max_tokens
    if not payload.tools or not profile.tools_supported:
        return fields
    fields["tools"] = payload.tools
    if payload.tool_choice == "none":
        if profile.tool_choice_none != "rejected":
            fields["tool_choice"] = "none"
    elif profile.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = profile.parallel_tool_calls
    return fields
