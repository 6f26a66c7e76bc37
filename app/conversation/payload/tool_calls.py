"""Tool calls in a payload: ids and names that servers accept, and a result for each call.

A derived id is a hash of the call's uid, so it is the same in every request. A call can lose its result by an
interruption, a crash, a closed gate or a question. Servers require a result for each call, and the model has to know
what happened. The reason is derived from the events around the call, so it is the same in every payload.
"""

import hashlib
import json
import re
import string
from copy import copy
from typing import Any

from msgspec import Struct

from app.conversation.events import ToolCall, ToolResult
from app.images.image import Image
from app.llm.values.requests_and_updates import ReceivedToolCall
from app.llm.wires.wire import AttachedImage, to_valid_json


def dump_arguments_as_json(arguments: dict[str, Any] | None) -> str:
    """Return tool-call arguments as JSON text, with invalid values replaced; `{}` if there are none."""
    if not arguments:
        return "{}"
    try:
        return replace_surrogates(json.dumps(arguments, ensure_ascii=False, allow_nan=False))
    except (ValueError, TypeError):
        return replace_surrogates(json.dumps(to_valid_json(arguments), ensure_ascii=False))
    except RecursionError:
        return "{}"


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced, which UTF-8 cannot encode."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


_ALPHABET = string.ascii_letters + string.digits
_MAX_ID_CHARACTERS = 64
"""Longest id for servers without a known limit: many answer longer ids with status 400."""
_SIGNED_ID_MARK = "__thought__"
"""Part of the ids in which LiteLLM transports Gemini's thought signature; such an id must not be changed."""
_NINE_CHARACTERS = re.compile(r"[A-Za-z0-9]{9}")
_WORD_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_INVALID_NAME_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")


class WireIds:
    """Assigns an id to each call, in the order of the log; ids are unique.

    Args:
        rule: `EndpointProfile.tool_id`.
    """

    def __init__(self, rule: str) -> None:
        self._is_alnum9 = rule == "alnum9"
        self._is_word64 = rule == "word64"
        self._max_characters = int(rule[3:]) if rule.startswith("max") else None
        self._taken: set[str] = set()

    def fork(self) -> "WireIds":
        """Return a copy that continues independently."""
        copied = copy(self)
        copied._taken = {*self._taken}
        return copied

    def assign_id(self, call: ToolCall) -> str:
        """Return the id for this call; each call is assigned once."""
        chosen = call.wire_id
        attempt = 0
        while not self._is_legal(chosen) or chosen in self._taken:
            chosen = self._derive_id(call.uid, attempt)
            attempt += 1
        self._taken.add(chosen)
        return chosen

    def _is_legal(self, wire_id: str) -> bool:
        if not wire_id.strip() or not wire_id.isprintable():
            return False
        if self._is_alnum9:
            # The format that Mistral's validators accept.
            return _NINE_CHARACTERS.fullmatch(wire_id) is not None
        if self._is_word64:
            return _WORD_ID.fullmatch(wire_id) is not None
        if self._max_characters is not None:
            return len(wire_id) <= self._max_characters
        return len(wire_id) <= _MAX_ID_CHARACTERS or _SIGNED_ID_MARK in wire_id

    def _derive_id(self, uid: str, attempt: int) -> str:
        digest = hashlib.sha256(f"{uid}\0{attempt}".encode("utf-8", "replace")).digest()
        if self._is_alnum9:
            return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:9])
        identity = f"call_{digest[:12].hex()}"
        # Keep the end: all ids start with the same characters.
        return identity if self._max_characters is None else identity[-self._max_characters :]


def to_valid_tool_name(name: str) -> str:
    """Return a tool name that strict servers accept; a model can call any name."""
    return _INVALID_NAME_CHARACTER.sub("_", name)[:64] or "unknown"


ABORTED_BEFORE = "Aborted by the user before it ran; nothing was done."
ABORTED_DURING = "Aborted by the user before it finished; it may have had part of its effect."
TIME_IS_UP = "Stopped before it finished: the time limit is reached. It may have had part of its effect."
ENDED_BEFORE = "Not run: the program ended before this call began; nothing was done."
ENDED_DURING = "The program ended while this call ran; whether it took effect is unknown."
TURN_OVER = "Not run: the turn ended before this call began; nothing was done."
TURN_OVER_DURING = "No result: the turn ended while this call ran; whether it took effect is unknown."
TRUNCATED = "Not run: the response was cut off, so the arguments may be incomplete. Send the call again, whole."
REFUSED = "Not run: no tool runs until the user has the word again. Hand control back to the user."
AFTER_QUESTION = "Not run: the question to the user comes first. Call again after the answer if it is still needed."
UNANSWERED = "The user has not answered yet."
ANSWERED_OTHERWISE = "The user did not answer this question as such; see the user's next message."
EMPTY_ANSWER = "The user gave an empty answer."
NO_OUTPUT = "(no output)"
PRUNED = "[This old output was removed to save room. Call the tool again if you need it.]"

_STARTED_REASONS = {None: ENDED_DURING, "aborted": ABORTED_DURING}
_NOT_STARTED_REASONS = {None: ENDED_BEFORE, "aborted": ABORTED_BEFORE}

_MAX_RAW_CHARACTERS = 2_000
"""Maximum number of characters of unparsable arguments that are repeated to the model."""


class CallRecord(Struct):
    """A tool call of a response with its known progress: started, asked the user, result or answer."""

    call: ToolCall
    wire_id: str
    started: bool = False
    asked: bool = False
    """Whether it asked the user a question."""
    result: ToolResult | None = None
    answer: str | None = None
    reason: str = ""
    """Text used if there is neither a result nor an answer."""
    images: tuple[Image, ...] = ()
    """Images of the result."""
    images_pruned: bool = False
    """Whether the images are left out to save room."""
    attachments: tuple[AttachedImage, ...] = ()
    """The images that are sent."""
    unshown: str = ""
    """Text for the model about images that are not sent."""

    @property
    def is_open(self) -> bool:
        """Return whether neither a result nor an answer was recorded."""
        return self.result is None and self.answer is None

    def result_text(self, pruned: frozenset[int]) -> str:
        """Return the content of the tool message."""
        if self.answer is not None:
            return self.answer if self.answer.strip() else EMPTY_ANSWER
        if self.result is None:
            text = self.reason or ENDED_BEFORE
        elif self.result.id and self.result.id in pruned:
            text = PRUNED
        else:
            text = "\n".join(part for part in (self.result.text, self.unshown) if part)
        if self.call.arguments is None and self.call.raw_arguments:
            # The history has `{}` as their value, because servers reject invalid JSON.
            raw = self.call.raw_arguments
            shown = (
                raw if len(raw) <= _MAX_RAW_CHARACTERS else f"{raw[:_MAX_RAW_CHARACTERS]}… ({len(raw)} characters)"
            )
            text = f"{text}\n\nThe arguments as they arrived:\n{shown}"
        return text if text.strip() else NO_OUTPUT


class MissingResultCircumstances(Struct, frozen=True):
    """The circumstances in which calls got no results."""

    truncated: bool
    """The response was truncated."""
    closing: bool
    """The response answered a closing request."""
    question: bool
    """One of its calls asked the user a question."""
    turn_ended: str | None
    """How the turn ended (`TurnEnded.stopped`); None if it has no end event."""


def missing_result_reason(record: CallRecord, circumstances: MissingResultCircumstances) -> str:
    """Return why this call has no result."""
    if record.asked:
        return UNANSWERED
    if record.started:
        return _STARTED_REASONS.get(circumstances.turn_ended, TURN_OVER_DURING)
    return _not_started_reason(record.call, circumstances)


def malformed_call_reason(call: ReceivedToolCall) -> str:
    """Return why a received call cannot run; empty if it can."""
    if not call.invalid and call.arguments is not None:
        return ""
    return f"Not run. {call.invalid or 'The arguments are not a JSON object.'} Send the call again, whole."


def _not_started_reason(call: ToolCall, circumstances: MissingResultCircumstances) -> str:
    if circumstances.truncated:
        return TRUNCATED
    if reason := malformed_call_reason(call):
        return reason
    if circumstances.closing:
        return REFUSED
    if circumstances.question:
        return AFTER_QUESTION
    return _NOT_STARTED_REASONS.get(circumstances.turn_ended, TURN_OVER)
