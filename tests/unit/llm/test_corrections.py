"""A failure teaches what it says and nothing besides: words that come up by chance, or where they can't mean it."""

from dataclasses import replace
from typing import Any

import pytest

from app.llm.capabilities.corrections import find_correction
from app.llm.failures.request_errors import Failure, FailureKind
from app.llm.values.profile import Profile
from app.llm.values.types import Payload

REFUSED = Failure(FailureKind.INVALID_REQUEST, "no", status=400)
USER = {"role": "user", "content": "Fix it."}
CALL = {"id": "1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
CALLED: list[dict[str, Any]] = [USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}]
TOOL = {"type": "function", "function": {"name": "far__find", "parameters": {"type": "object"}}}
PLAIN = Payload([USER], [], max_tokens=100)


def taught(text: str, payload: Payload = PLAIN, profile: Profile | None = None, **failure: Any) -> str:
    """The name of the correction; empty where there is none."""
    found = find_correction(profile or Profile(), replace(REFUSED, text=text, **failure), payload)
    return found.name if found else ""


@pytest.mark.parametrize(
    ("text", "payload", "profile", "name"),
    [
        ("max_tokens is not supported", PLAIN, Profile(), "max_tokens:"),
        ("reasoning_content: extra inputs are not permitted", PLAIN, Profile(reasoning_echo="same_model"), "echo:"),
        ("messages: text content blocks must be non-empty", Payload(CALLED, []), Profile(), "content:null"),
        ("Invalid schema for function far__find", Payload([USER], [TOOL]), Profile(), "tools:far__find"),
    ],
)
def test_a_refusal_teaches_what_it_names(text: str, payload: Payload, profile: Profile, name: str) -> None:
    assert taught(text, payload, profile).startswith(name)
    # What is no refusal teaches nothing, whatever words are in it.
    for kind in (FailureKind.UNREACHABLE, FailureKind.STREAM_BROKEN):
        assert taught(text, payload, profile, kind=kind, status=None) == ""
    for kind in (FailureKind.RATE_LIMITED, FailureKind.AUTH):
        assert taught(text, payload, profile, kind=kind) == ""


@pytest.mark.parametrize(
    ("text", "payload", "profile", "status"),
    [
        # Too large a number is no word against the field.
        ("max_tokens: 100 exceeds what is left", PLAIN, Profile(), 400),
        ("the reasoning took too long", PLAIN, Profile(reasoning_echo="same_model"), 400),
        ("messages.0.content is empty", PLAIN, Profile(), 400),
        ("it has to be a list of content parts: array expected, image", PLAIN, Profile(), 400),
        # The tool is named, but not for its schema; and by a server that has failed for a reason of its own.
        ("too many calls of far__find", Payload([USER], [TOOL]), Profile(), 400),
        ("the schema cache of far__find broke down", Payload([USER], [TOOL]), Profile(), 500),
    ],
)
def test_a_word_that_comes_up_by_chance_teaches_nothing(
    text: str, payload: Payload, profile: Profile, status: int
) -> None:
    assert taught(text, payload, profile, status=status) == ""
