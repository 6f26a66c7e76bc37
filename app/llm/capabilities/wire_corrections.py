"""What a refusal teaches about the wire: which one the model speaks, and what of it an endpoint takes."""

import re
from collections.abc import Iterator

from app.llm.capabilities.correction import Correction, Rule, changed
from app.llm.capabilities.profile import Profile
from app.llm.failures.errors import Failure, FailureKind
from app.llm.types import Payload

_RESPONSES_WANTED = re.compile(
    r"(?:only|use|try|supported|available)\b.{0,40}v1/responses|v1/responses.{0,30}instead", re.IGNORECASE
)
_SEALED = re.compile(r"encrypted[_ ]content|of type .?reasoning|reasoning item|'include'", re.IGNORECASE)
_SIGNED = re.compile(r"signature|redacted_thinking|thinking.{0,20}block|block.{0,40}thinking", re.IGNORECASE)
_OUTPUT_LIMIT = re.compile(
    r"max_tokens\W{0,4}\d+ > (\d{3,7})|"
    r"max_tokens.{0,80}(?:maximum|at most|less than or equal to|<=)\D{0,60}(\d{3,7})",
    re.IGNORECASE | re.DOTALL,
)


def _responses_only(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
    if profile.wire == "chat" and failure.status in (400, 404) and _RESPONSES_WANTED.search(failure.text):
        notice = "This model does not speak chat completions here; requests go out as Responses from now on."
        yield changed("wire:responses", profile, notice, wire="responses")


def _no_responses(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
    missing = failure.status in (404, 405, 501) and failure.kind is not FailureKind.MODEL_NOT_FOUND
    if profile.wire == "responses" and missing:
        notice = "There are no Responses here; requests go out as chat completions from now on."
        yield changed("wire:chat", profile, notice, wire="chat")


def _opaque(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
    said = {"responses": _SEALED, "anthropic": _SIGNED}.get(profile.wire)
    if said is not None and said.search(failure.text):
        notice = "The model does not take its reasoning back; it goes without from now on."
        yield changed("opaque_echo", profile, notice, opaque_echo=False)


def _breakpoints(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
    if profile.wire == "anthropic" and "cache_control" in failure.text:
        yield changed("cache", profile, "The server does not know cache_control.", cache_breakpoints=False)


def _output_limit(profile: Profile, failure: Failure, _: Payload) -> Iterator[Correction]:
    if profile.wire == "anthropic" and (named := _OUTPUT_LIMIT.search(failure.text)):
        limit = int(named[1] or named[2])
        yield changed(
            f"output_limit:{limit}", profile, f"A response has at most {limit:,} tokens here.", output_limit=limit
        )


WIRE_RULES: tuple[Rule, ...] = (_responses_only, _no_responses, _output_limit, _breakpoints, _opaque)
"""Most specific first."""
