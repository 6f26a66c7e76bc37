"""A list of messages made elsewhere as a valid one: read as events and projected."""

from collections.abc import Sequence
from typing import Any

from app.conversation.imports.message_import import content_text, import_messages
from app.conversation.payload.projection import PayloadInputs, project
from app.llm.values.endpoint import EndpointProfile


def repair(messages: Sequence[Any], profile: EndpointProfile | None = None) -> list[dict[str, Any]]:
    """The same conversation as a valid history. Repairing twice changes nothing more.

    Args:
        messages: dicts in the form of the chat completions API.
        profile: what the receiving endpoint accepts; by default any OpenAI-compatible one.
    """
    facts = PayloadInputs(system_prompt=_first_prompt(messages), tools=[])
    return project(import_messages(messages), profile or EndpointProfile(), facts).messages


def _first_prompt(messages: Sequence[Any]) -> str:
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if role in ("user", "human", "assistant", "model", "ai"):
            break
        if role in ("system", "developer") and (text := content_text(message.get("content"))).strip():
            return text
    return ""
