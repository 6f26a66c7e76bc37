"""Who says what in a request, whatever wire it is on."""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.oracles import anthropic, responses
from tests.oracles.request_types import faults, request_type
from tests.unit.conversation import validity


def _chat(body: Mapping[str, Any], *, mid_system: bool = True) -> list[str]:
    """Ids and order, and every field but those that other servers want back beside the standard ones."""
    rules = validity.Rules(system="anywhere" if mid_system else "first")
    unknown = [fault for fault in openai_faults(body) if not any(name in fault for name in _BEYOND)]
    return validity.violations(body["messages"], rules) + unknown


_BEYOND = ("'reasoning_content'", "'reasoning_details'", "'extra_content'", "'name'")
VIOLATIONS: Mapping[str, Callable[..., list[str]]] = {
    "chat": _chat,
    "anthropic": anthropic.violations,
    "responses": responses.violations,
}
"""What is wrong with a request, by wire."""


def openai_faults(body: Mapping[str, Any]) -> list[str]:
    """What of a chat completion's request is not as OpenAI's own types have it."""
    return faults(
        dict(body), request_type("openai.types.chat.completion_create_params", "CompletionCreateParamsStreaming")
    )


def conversation(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The list of messages or items."""
    return list(body["messages"] if "messages" in body else body["input"])


def said(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each text with the role of who says it, in order; a result's role is `tool`, a developer's `system`."""
    system = body.get("system") or body.get("instructions") or []
    texts = [("system", one if isinstance(one, str) else one["text"]) for one in _listed(system)]
    for message in conversation(body):
        if message.get("type") == "function_call_output":
            texts.append(("tool", message["output"]))
        for part in _listed(message.get("content") or []):
            if isinstance(part, str):
                texts.append((message["role"], part))
            elif part["type"] == "tool_result":
                texts.append(("tool", part["content"]))
            elif part["type"] in ("text", "input_text"):
                texts.append((message["role"], part["text"]))
    return [("system" if role == "developer" else role, text) for role, text in texts]


def misplaced(body: Mapping[str, Any]) -> list[str]:
    """The notes that say of the user's words that they follow, or stand before, where they don't; by the roles."""
    texts = [(role, text) for role, text in said(body) if role != "tool" and not _BETWEEN.fullmatch(text)]
    found = []
    for before, (role, text), after in zip([("", ""), *texts], texts, [*texts[1:], ("", "")], strict=False):
        follow, precede = "words on it follow" in text, "message before this" in text
        if role == "system" and ((follow and after[0] != "user") or (precede and before[0] != "user")):
            found.append(text)
    return found


_BETWEEN = re.compile(r"\([^()]*\)")
"""What stands for the model's turn between two of the user's."""


def images(body: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """The images in the user's messages, each with its media type, in order."""
    found = []
    for message in conversation(body):
        for part in _listed(message.get("content") or []) if message.get("role") == "user" else ():
            match part:
                case {"type": "image", "source": {"media_type": kind, "data": data}}:
                    found.append((kind, base64.b64decode(data)))
                case {"type": "image_url", "image_url": {"url": url}} | {"type": "input_image", "image_url": url}:
                    head, _, data = url.partition(";base64,")
                    found.append((head.removeprefix("data:"), base64.b64decode(data)))
    return found


def images_of_results(body: Mapping[str, Any]) -> list[bytes]:
    """The images in the results of calls, in order."""
    found = []
    for message in conversation(body):
        for part in _listed(message.get("content") or []):
            if isinstance(part, dict) and part.get("type") == "tool_result":
                found += [
                    base64.b64decode(one["source"]["data"]) for one in _listed(part["content"]) if _is_image(one)
                ]
        for one in _listed(message.get("output") or []):
            if _is_image(one):
                found.append(base64.b64decode(one["image_url"].partition(";base64,")[2]))
    return found


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("image", "input_image")


def closes(body: Mapping[str, Any]) -> bool:
    """Whether no tool may be called."""
    return body.get("tool_choice") in ("none", {"type": "none"})


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
