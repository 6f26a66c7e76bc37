"""Read the texts, roles and images of a request, on any wire."""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.oracles import anthropic, responses
from tests.oracles.request_types import faults, request_type
from tests.unit.conversation import validity


def _chat(body: Mapping[str, Any], *, mid_system: bool = True) -> list[str]:
    """Check ids, order and fields, but accept fields that other servers require in addition."""
    rules = validity.Rules(system="anywhere" if mid_system else "first")
    unknown = [fault for fault in openai_faults(body) if not any(name in fault for name in _EXTENSION_FIELDS)]
    return validity.violations(body["messages"], rules) + unknown


_EXTENSION_FIELDS = ("'reasoning_content'", "'reasoning_details'", "'extra_content'", "'name'")
VIOLATIONS: Mapping[str, Callable[..., list[str]]] = {
    "chat": _chat,
    "anthropic": anthropic.violations,
    "responses": responses.violations,
}
"""Functions that return the errors of a request, by wire."""


def openai_faults(body: Mapping[str, Any]) -> list[str]:
    return faults(
        dict(body), request_type("openai.types.chat.completion_create_params", "CompletionCreateParamsStreaming")
    )


def conversation(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(body["messages"] if "messages" in body else body["input"])


def texts_by_role(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each text with its role, in order; the role of a result is `tool`, that of a developer is `system`."""
    system = body.get("system") or body.get("instructions") or []
    texts = [("system", part if isinstance(part, str) else part["text"]) for part in _as_list(system)]
    for message in conversation(body):
        if message.get("type") == "function_call_output":
            texts.append(("tool", message["output"]))
        for part in _as_list(message.get("content") or []):
            if isinstance(part, str):
                texts.append((message["role"], part))
            elif part["type"] == "tool_result":
                texts.append(("tool", part["content"]))
            elif part["type"] in ("text", "input_text"):
                texts.append((message["role"], part["text"]))
    return [("system" if role == "developer" else role, text) for role, text in texts]


def misplaced(body: Mapping[str, Any]) -> list[str]:
    """Return the system notes that refer to a message of the user before or after them that is not there."""
    texts = [
        (role, text) for role, text in texts_by_role(body) if role != "tool" and not _PLACEHOLDER.fullmatch(text)
    ]
    errors = []
    for before, (role, text), after in zip([("", ""), *texts], texts, [*texts[1:], ("", "")], strict=False):
        follow, precede = "words on it follow" in text, "message before this" in text
        if role == "system" and ((follow and after[0] != "user") or (precede and before[0] != "user")):
            errors.append(text)
    return errors


_PLACEHOLDER = re.compile(r"\([^()]*\)")
"""Text in place of the model's turn between two messages of the user."""


def images(body: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """Return the images in the user's messages with their media types, in order."""
    result = []
    for message in conversation(body):
        for part in _as_list(message.get("content") or []) if message.get("role") == "user" else ():
            match part:
                case {"type": "image", "source": {"media_type": kind, "data": data}}:
                    result.append((kind, base64.b64decode(data)))
                case {"type": "image_url", "image_url": {"url": url}} | {"type": "input_image", "image_url": url}:
                    head, _, data = url.partition(";base64,")
                    result.append((head.removeprefix("data:"), base64.b64decode(data)))
    return result


def images_of_results(body: Mapping[str, Any]) -> list[bytes]:
    """Return the images in the results of calls, in order."""
    result = []
    for message in conversation(body):
        for part in _as_list(message.get("content") or []):
            if isinstance(part, dict) and part.get("type") == "tool_result":
                result += [
                    base64.b64decode(item["source"]["data"]) for item in _as_list(part["content"]) if _is_image(item)
                ]
        for item in _as_list(message.get("output") or []):
            if _is_image(item):
                result.append(base64.b64decode(item["image_url"].partition(";base64,")[2]))
    return result


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("image", "input_image")


def forbids_calls(body: Mapping[str, Any]) -> bool:
    return body.get("tool_choice") in ("none", {"type": "none"})


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
