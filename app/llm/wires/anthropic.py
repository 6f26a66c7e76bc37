"""Anthropic's messages, https://platform.claude.com/docs/en/api/messages.

User and model take turns, and results are the user's; the system prompt stands apart. A system message in
mid-conversation (Claude Opus 4.8 and later) comes after a message of the user and before one of the model, or last:
so what the program says waits for the next such place. Where the user has said nothing, a marked note stands in.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlsplit

from app.llm.capabilities.profile import Profile
from app.llm.types import Payload
from app.llm.wires.anthropic_effort import effort_fields
from app.llm.wires.anthropic_stream import AnthropicDecoder
from app.llm.wires.items import Attachment, CallWithResult, Item, ModelTurn, SystemText, UserText
from app.llm.wires.marking import NO_BEGINNING, tagged
from app.llm.wires.wire import Decoder, Written, tool_fields, write

VERSION = "2023-06-01"
"""Of the protocol; `anthropic-version` says it in every request."""
NOTHING_SAID = "The user wrote nothing here."
WORDS_BEFORE = "The user's own words on it are in the user's message before this."
"""In the place of `WORDS_FOLLOW`: no message of the user may come after one of the system."""
_IN_ORDER = "The user's message has the words in the order of these notes."
_LIMITS = ((r"claude-3-5-", 8_192), (r"claude-3-(?!7)|claude-2|claude-instant", 4_096))
"""Most tokens of a response, by model; others take `_LIMIT`."""
_LIMIT = 32_000
_BREAKPOINT = {"type": "ephemeral"}


class AnthropicWire:
    """What Anthropic's own API speaks, and what others offer at a base URL that ends in `/anthropic`."""

    name: Literal["anthropic"] = "anthropic"
    title = "Anthropic messages"

    def fitted(self, profile: Profile) -> Profile:
        """Results and what the user says next are one message here, and ids have an alphabet."""
        return profile.model_copy(
            update={
                "bridge_tool_user": False,
                "merge_users": True,
                "single_call_turns": False,
                "tool_id": profile.tool_id if profile.tool_id == "alnum9" else "word64",
            }
        )

    def written(self, items: Sequence[Item], profile: Profile) -> Written:
        """Messages that alternate, begin and end with the user's, and hold each result right after its call."""
        return write(self.writer(profile), items)

    def writer(self, profile: Profile) -> "_Writer":
        """An item may become a part of the message before it."""
        return _Writer(profile)

    def body(self, model: str, profile: Profile, payload: Payload) -> dict[str, Any]:
        """The body of the request; tools as ever, so that what is cached stays so."""
        fields: dict[str, Any] = {
            "model": model,
            "max_tokens": payload.max_tokens or profile.output_limit or _limit(model),
            "stream": True,
        }
        if payload.system:
            fields["system"] = payload.system
        fields["messages"] = payload.messages
        fields |= tool_fields(profile, payload, [_tool(tool) for tool in payload.tools], {"type": "none"})
        if fields.pop("parallel_tool_calls", None) is False:
            fields["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        return fields

    def effort(self, effort: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Thinking, by effort or by budget."""
        return effort_fields(effort, body)

    def path(self, base_url: str, resource: Literal["answer", "models"] = "answer") -> str:
        """Below the base URL, which may name the version or leave it out."""
        path = "/models" if resource == "models" else "/messages"
        return path if urlsplit(base_url).path.rstrip("/").endswith("/v1") else f"/v1{path}"

    def headers(self, key: str) -> dict[str, str]:
        """The version, and the key in a header of its own."""
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}

    def decoder(self) -> Decoder:
        """For one response."""
        return AnthropicDecoder()


class _Writer:
    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._head: list[dict[str, Any]] = []
        self._messages: list[dict[str, Any]] = []
        self._held: list[SystemText] = []
        """What the program says, until a place for it comes."""
        self._followed = 0
        """So many of those are followed by words of the user, which will stand before them."""
        self._cacheable: dict[int, int] = {}
        """Of the last messages in which there is one, where the last block in the user's name stands that will be the
        same in the next request."""

    def add(self, item: Item) -> None:
        """Write the next item."""
        match item:
            case SystemText():
                self.system(item)
            case UserText():
                self.words(item)
            case ModelTurn():
                self.model(item)

    def copy(self) -> "_Writer":
        """Another one that goes on from here by itself."""
        copied = _Writer(self._profile)
        copied._head, copied._messages = [*self._head], [*self._messages]
        copied._held, copied._followed, copied._cacheable = [*self._held], self._followed, {**self._cacheable}
        if copied._messages:
            copied._messages[-1] = _own(copied._messages[-1])
        return copied

    def system(self, item: SystemText) -> None:
        """The program speaks: apart, as long as nobody has spoken, else as soon as it may."""
        if self._messages:
            self._held.append(item)
            return
        self._head += _heading(item)

    def words(self, item: UserText) -> None:
        """What the user says, or a marked note."""
        for image in item.attachments:
            self.user(_image(image), cacheable=item.spoken)
        if item.text or not item.attachments:
            self.user({"type": "text", "text": item.text}, cacheable=item.spoken)
        self._followed = len(self._held)

    def user(self, block: dict[str, Any], *, cacheable: bool) -> None:
        """One more block in the user's name."""
        if self._role != "user":
            self._messages.append({"role": "user", "content": []})
        self._messages[-1]["content"].append(block)
        if cacheable:
            self._cacheable[len(self._messages) - 1] = len(self._messages[-1]["content"]) - 1
            if len(self._cacheable) > 2:
                del self._cacheable[next(iter(self._cacheable))]

    def model(self, turn: ModelTurn) -> None:
        """A turn of the model, and the results of its calls."""
        self._end_of_user()
        if self._role not in ("user", "system"):
            self._stand_in(NOTHING_SAID if self._messages else NO_BEGINNING)
        self._messages.append({"role": "assistant", "content": _content(turn, self._profile)})
        for call in turn.calls:
            content: Any = call.result
            if call.attachments:
                content = [{"type": "text", "text": call.result}, *map(_image, call.attachments)]
            result = {"type": "tool_result", "tool_use_id": call.id, "content": content}
            self.user(result, cacheable=True)

    def end(self, first: SystemText | None = None) -> Written:
        """Everything, with the places marked up to which it can be cached."""
        head = [*(_heading(first) if first else ()), *self._head]
        self._end_of_user()
        if self._role not in ("user", "system"):
            self._stand_in(NOTHING_SAID)
        if self._profile.cache_breakpoints:
            # The last one of the request before this is among them, however many blocks have come since.
            head[:1] = [{**block, "cache_control": _BREAKPOINT} for block in head[:1]]
            for number, place in self._cacheable.items():
                message = self._messages[number] = _own(self._messages[number])
                message["content"][place] = {**message["content"][place], "cache_control": _BREAKPOINT}
        return Written(self._messages, head)

    @property
    def _role(self) -> str:
        return str(self._messages[-1]["role"]) if self._messages else ""

    def _end_of_user(self) -> None:
        """What waited has its place here."""
        if not self._held:
            return
        if self._role != "user":
            self._stand_in(NOTHING_SAID)
        told = [
            f"{one.text}\n{WORDS_BEFORE}" if one.introduces and number < self._followed else one.whole()
            for number, one in enumerate(self._held)
        ]
        if sum(one.introduces for one in self._held[: self._followed]) > 1:
            told.append(_IN_ORDER)
        self._messages.append({"role": "system", "content": "\n\n".join(told)})
        self._held.clear()
        self._followed = 0

    def _stand_in(self, note: str) -> None:
        self.user({"type": "text", "text": tagged(note)}, cacheable=False)


def _own(message: dict[str, Any]) -> dict[str, Any]:
    """A copy of a message whose blocks can be changed; a text has none."""
    content = message["content"]
    return {**message, "content": [*content]} if isinstance(content, list) else message


def _heading(item: SystemText) -> list[dict[str, Any]]:
    text, folded = replace(item, folded=()).whole(), "\n\n".join(item.folded)
    return [{"type": "text", "text": text} for text in (text, folded) if text.strip()]


def _image(image: Attachment) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _content(turn: ModelTurn, profile: Profile) -> list[dict[str, Any]]:
    """Text and calls, with signed thinking where it stood before them; the last block is never thinking."""
    thinking = turn.echo.blocks("anthropic") if profile.opaque_echo else {}
    content = list(thinking.get(0, ()))
    if turn.text.strip():
        content.append({"type": "text", "text": turn.text})
    for number, call in enumerate(turn.calls, start=1):
        content += [*thinking.get(number, ()), _call(call)]
    return content


def _call(call: CallWithResult) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    described = {"description": function["description"]} if function.get("description") else {}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {"name": function["name"], **described, "input_schema": schema}


def _limit(model: str) -> int:
    return next((limit for pattern, limit in _LIMITS if re.search(pattern, model)), _LIMIT)
