"""Anthropic's messages, https://platform.claude.com/docs/en/api/messages.

User and assistant messages alternate, and tool results are part of user messages; the system prompt is separate. A
system message in mid-conversation (Claude Opus 4.8 and later) must follow a user message and come before an assistant
message or at the end. System texts wait for the next such place; if it needs a user message, a marked note is added.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from app.copies import replace
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload
from app.llm.wires.wire import (
    NO_BEGINNING,
    AttachedImage,
    CallWithResult,
    Item,
    ModelTurn,
    OpaqueBlockDeltaBuilder,
    ResponseToChatDecoder,
    SystemItem,
    UserItem,
    Wire,
    WireMessages,
    list_or_empty,
    make_call_delta,
    make_chat_chunk,
    make_tool_fields,
    make_usage,
    mapping_or_empty,
    mark_program_text,
    parse_token_count,
)

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}
"""Stop reasons, mapped to the names of chat completions; others keep their names."""


class AnthropicToChatDecoder:
    """Decodes the events of one response of Anthropic's API to chat completion chunks."""

    def __init__(self) -> None:
        self._opaque = OpaqueBlockDeltaBuilder("anthropic")
        self._usage: dict[str, int] = {}
        self._cost: Any = None
        """The cost as reported by some providers of this protocol."""
        self._blocks: dict[Any, _OpenBlock] = {}
        """The blocks that are being received, by index."""
        self._call_count = 0

    def read_event(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the chunk of one event."""
        match event.get("type"):
            case "message_start":
                message = mapping_or_empty(event.get("message"))
                self._read_usage(message)
                return make_chat_chunk(model=message.get("model"))
            case "content_block_start":
                return self._begin_block(str(event.get("index")), mapping_or_empty(event.get("content_block")))
            case "content_block_delta":
                return self._make_delta_chunk(str(event.get("index")), mapping_or_empty(event.get("delta")))
            case "content_block_stop":
                return self._end_block(str(event.get("index")))
            case "message_delta":
                self._read_usage(event)
                return self._make_last_chunk(mapping_or_empty(event.get("delta")).get("stop_reason"))
            case "message":
                return self.read_document(event)
            case "error":
                return {"error": event.get("error") or dict(event)}
        # A ping, the end, or an unknown event; or not an event of this protocol, for example another error format.
        return {} if "type" in event else event

    def read_document(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the chunk of a message that was not streamed."""
        if document.get("type") != "message":
            return self.read_event(document)
        pieces = [self._begin_block("", mapping_or_empty(block)) for block in list_or_empty(document.get("content"))]
        self._read_usage(document)
        ended = self._make_last_chunk(document.get("stop_reason"))
        return {**_join_chunks(*pieces, ended), "model": document.get("model")}

    def _begin_block(self, index: str, content: Mapping[str, Any]) -> dict[str, Any]:
        # Some servers send no event for the end of a block.
        return _join_chunks(self._end_block(index), self._open_block(index, content))

    def _open_block(self, index: str, content: Mapping[str, Any]) -> dict[str, Any]:
        block = self._blocks[index] = _OpenBlock(dict(content), self._opaque.position)
        match content.get("type"):
            case "text":
                gap = "\n\n" if block.position > 1 else ""
                return self._make_text_chunk(f"{gap}{content.get('text') or ''}")
            case "thinking":
                block.thinking.append(str(content.get("thinking") or ""))
                return make_chat_chunk({"reasoning_content": block.thinking[0]})
            case "tool_use":
                block.call_number = self._call_count
                self._call_count += 1
                self._opaque.note_call()
                call_id, name = str(content.get("id") or ""), str(content.get("name") or "")
                return make_chat_chunk(make_call_delta(block.call_number, call_id=call_id, name=name))
        return {}

    def _make_delta_chunk(self, index: str, delta: Mapping[str, Any]) -> dict[str, Any]:
        # A delta of a block that was not started belongs to the latest one.
        block = self._blocks.get(index) or next(reversed(self._blocks.values()), _OpenBlock({}))
        match delta.get("type"):
            case "text_delta":
                return self._make_text_chunk(delta.get("text"))
            case "thinking_delta":
                thought = str(delta.get("thinking") or "")
                block.thinking.append(thought)
                return make_chat_chunk({"reasoning_content": thought})
            case "signature_delta":
                block.content["signature"] = str(block.content.get("signature") or "") + str(
                    delta.get("signature") or ""
                )
            case "input_json_delta" if block.call_number is not None:
                piece = str(delta.get("partial_json") or "")
                block.has_arguments = block.has_arguments or bool(piece)
                return make_chat_chunk(make_call_delta(block.call_number, arguments=piece))
        return {}

    def _end_block(self, index: str) -> dict[str, Any]:
        block = self._blocks.pop(index, _OpenBlock({}))
        content = block.content
        match content.get("type"):
            case "tool_use" if not block.has_arguments and content.get("input"):
                # Some servers send all arguments at the start of the block.
                return make_chat_chunk(make_call_delta(block.call_number or 0, arguments=content["input"]))
            case "thinking" if content.get("signature"):
                kept = {"thinking": "".join(block.thinking), "signature": content["signature"]}
                return make_chat_chunk(self._opaque.make_delta({"type": "thinking", **kept}, block.position))
            case "redacted_thinking" if content.get("data"):
                kept = {"type": "redacted_thinking", "data": content["data"]}
                return make_chat_chunk(self._opaque.make_delta(kept, block.position))
        return {}

    def _make_text_chunk(self, text: Any) -> dict[str, Any]:
        if not isinstance(text, str) or not text:
            return {}
        self._opaque.note_text()
        return make_chat_chunk({"content": text})

    def _make_last_chunk(self, reason: Any) -> dict[str, Any]:
        known = _FINISH_REASONS.get(reason, reason) if isinstance(reason, str) else ""
        written = self._usage.get("cache_creation_input_tokens", 0)
        read = self._usage.get("cache_read_input_tokens", 0)
        prompt = self._usage.get("input_tokens", 0) + written + read
        output = self._usage.get("output_tokens", 0)
        usage = make_usage(prompt, output, read, cache_written=written, cost=self._cost)
        ended_blocks = [self._end_block(index) for index in list(self._blocks)]
        return _join_chunks(*ended_blocks, make_chat_chunk(finish_reason=known, usage=usage))

    def _read_usage(self, holder: Mapping[str, Any]) -> None:
        """Read the token counts so far; later ones are totals, and may leave out unchanged ones."""
        usage = mapping_or_empty(holder.get("usage"))
        self._cost = usage.get("cost", self._cost)
        for name, value in usage.items():
            if name.endswith("_tokens") and (number := parse_token_count(value)):
                self._usage[name] = number


def _join_chunks(*chunks: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last chunk with the deltas of all chunks."""
    delta: dict[str, Any] = {}
    for chunk in chunks:
        for name, value in mapping_or_empty(chunk.get("choices", [{}])[0].get("delta")).items():
            delta[name] = delta[name] + value if name in delta else value
    if not delta:
        return dict(chunks[-1])
    choice = chunks[-1].get("choices", [{"index": 0}])[0]
    return {**chunks[-1], "choices": [{**choice, "delta": delta}]}


class _OpenBlock(Struct):
    """A block that is being received."""

    content: dict[str, Any]
    """Its content as sent at the start."""
    position: int = 0
    """As in `OPAQUE_BLOCKS`; a block without an end event ends only after later ones."""
    thinking: list[str] = []
    """The pieces of its thinking so far."""
    call_number: int | None = None
    has_arguments: bool = False
    """Whether a piece of its arguments was received."""


_HAS_EFFORT = re.compile(r"claude-(?!\d|instant|(?:opus|sonnet|haiku)-4(?:[-.](?:[0-5]|\d{8})\b|$|[@:]))")
"""Claude 4.6 and later, whose thinking depends on the effort; earlier models accept only a budget."""
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 10_240, "high": 16_384, "xhigh": 24_576, "max": 30_720}
"""Thinking budgets in tokens, by effort."""
_MIN_BUDGET_TOKENS = 1_024
"""Minimum number of tokens of a thinking budget; a smaller one is an error."""
_MAX_BUDGET_SHARE = 0.75
"""Largest share of the response limit for thinking, so that the answer fits too."""


def _turn_began_without_thinking(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the current turn has calls and started without thinking: it cannot start thinking now."""
    began_without = False
    for message in reversed(messages):
        if message["role"] == "assistant":
            began_without = "thinking" not in str(message["content"][0]["type"])
        elif message["role"] == "user" and all(block["type"] != "tool_result" for block in message["content"]):
            break
    return began_without


VERSION = "2023-06-01"
"""Version of the protocol, sent in the header `anthropic-version`."""
NOTHING_SAID = "The user wrote nothing here."
WORDS_BEFORE = "The user's own words on it are in the user's message before this."
"""Replaces `WORDS_FOLLOW`, because here the user message must come before the system message."""
_IN_ORDER = "The user's message has the words in the order of these notes."
_OUTPUT_LIMITS = ((r"claude-3-5-", 8_192), (r"claude-3-(?!7)|claude-2|claude-instant", 4_096))
"""Maximum number of tokens of a response by model; `_DEFAULT_OUTPUT_LIMIT` for all others."""
_DEFAULT_OUTPUT_LIMIT = 32_000
_CACHE_BREAKPOINT = {"type": "ephemeral"}


class AnthropicWire(Wire):
    """Anthropic's messages API; other providers offer it at base URLs that end in `/anthropic`."""

    name = "anthropic"
    title = "Anthropic messages"

    def adapt_profile(self, profile: EndpointProfile) -> EndpointProfile:
        """Return the profile for this wire: results are part of user messages, and ids have a limited alphabet."""
        return profile.model_copy(
            update={
                "bridge_tool_user": False,
                "merge_users": True,
                "single_call_turns": False,
                "tool_id": profile.tool_id if profile.tool_id == "alnum9" else "word64",
            }
        )

    def make_writer(self, profile: EndpointProfile) -> "_AnthropicWriter":
        return _AnthropicWriter(profile)

    def make_body(self, model: str, profile: EndpointProfile, payload: Payload) -> dict[str, Any]:
        """Return the body of the request; the tools stay the same, so that the cached prefix stays valid."""
        fields: dict[str, Any] = {
            "model": model,
            "max_tokens": payload.max_tokens or profile.output_limit or _find_output_limit(model),
            "stream": True,
        }
        if payload.system:
            fields["system"] = payload.system
        fields["messages"] = payload.messages
        fields |= make_tool_fields(profile, payload, [_make_tool(tool) for tool in payload.tools], {"type": "none"})
        if fields.pop("parallel_tool_calls", None) is False:
            fields["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        return fields

    def make_effort_fields(self, effort: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if effort == "none":
            return {"thinking": {"type": "disabled"}}
        if _HAS_EFFORT.search(body["model"]):
            level = "low" if effort == "minimal" else effort
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}
        budget = min(_BUDGETS[effort], int(body["max_tokens"] * _MAX_BUDGET_SHARE))
        if budget < _MIN_BUDGET_TOKENS or _turn_began_without_thinking(body["messages"]):
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}

    def request_path(self, base_url: str, resource: Literal["answer", "models"] = "answer") -> str:
        """Return the path below the base URL, which may end with the version or not."""
        path = "/models" if resource == "models" else "/messages"
        return path if urlsplit(base_url).path.rstrip("/").endswith("/v1") else f"/v1{path}"

    def make_headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}

    def make_decoder(self) -> ResponseToChatDecoder:
        return AnthropicToChatDecoder()


class _AnthropicWriter:
    def __init__(self, profile: EndpointProfile) -> None:
        self._profile = profile
        self._system_blocks: list[dict[str, Any]] = []
        self._messages: list[dict[str, Any]] = []
        self._waiting: list[SystemItem] = []
        """System texts that wait for a place."""
        self._followed_count = 0
        """Number of waiting texts that a user message has followed; that message will come before them."""
        self._cacheable: dict[int, int] = {}
        """The last two messages with a cacheable block (sent unchanged in the next request), each with the position
        of its last such block."""

    def add(self, item: Item) -> None:
        match item:
            case SystemItem():
                self._add_system_text(item)
            case UserItem():
                self._add_user_text(item)
            case ModelTurn():
                self._add_model_turn(item)

    def fork(self) -> "_AnthropicWriter":
        copied = _AnthropicWriter(self._profile)
        copied._system_blocks, copied._messages = [*self._system_blocks], [*self._messages]
        copied._waiting, copied._followed_count = [*self._waiting], self._followed_count
        copied._cacheable = {**self._cacheable}
        if copied._messages:
            copied._messages[-1] = _copy_message(copied._messages[-1])
        return copied

    def _add_system_text(self, item: SystemItem) -> None:
        """Add a system message: to the system prompt if it is before the first message, else at the next possible
        place."""
        if self._messages:
            self._waiting.append(item)
            return
        self._system_blocks += _make_system_blocks(item)

    def _add_user_text(self, item: UserItem) -> None:
        for image in item.attachments:
            self._add_user_block(_make_image(image), cacheable=item.spoken)
        if item.text or not item.attachments:
            self._add_user_block({"type": "text", "text": item.text}, cacheable=item.spoken)
        self._followed_count = len(self._waiting)

    def _add_user_block(self, block: dict[str, Any], *, cacheable: bool) -> None:
        if self._role != "user":
            self._messages.append({"role": "user", "content": []})
        self._messages[-1]["content"].append(block)
        if cacheable:
            self._cacheable[len(self._messages) - 1] = len(self._messages[-1]["content"]) - 1
            if len(self._cacheable) > 2:
                del self._cacheable[next(iter(self._cacheable))]

    def _add_model_turn(self, turn: ModelTurn) -> None:
        """Add a response of the model and the results of its calls."""
        self._add_waiting_system_texts()
        if self._role not in ("user", "system"):
            self._add_note(NOTHING_SAID if self._messages else NO_BEGINNING)
        self._messages.append({"role": "assistant", "content": _make_content(turn, self._profile)})
        for call in turn.calls:
            content: Any = call.result
            if call.attachments:
                content = [{"type": "text", "text": call.result}, *map(_make_image, call.attachments)]
            result = {"type": "tool_result", "tool_use_id": call.id, "content": content}
            self._add_user_block(result, cacheable=True)

    def finish(self, first: SystemItem | None = None) -> WireMessages:
        """Return all messages, with cache breakpoints."""
        head = [*(_make_system_blocks(first) if first else ()), *self._system_blocks]
        self._add_waiting_system_texts()
        if self._role not in ("user", "system"):
            self._add_note(NOTHING_SAID)
        if self._profile.cache_breakpoints:
            # One of them is the last breakpoint of the previous request, however many blocks were added since.
            head[:1] = [{**block, "cache_control": _CACHE_BREAKPOINT} for block in head[:1]]
            for number, place in self._cacheable.items():
                message = self._messages[number] = _copy_message(self._messages[number])
                message["content"][place] = {**message["content"][place], "cache_control": _CACHE_BREAKPOINT}
        return WireMessages(self._messages, head)

    @property
    def _role(self) -> str:
        return str(self._messages[-1]["role"]) if self._messages else ""

    def _add_waiting_system_texts(self) -> None:
        """Add the waiting system texts after a user message."""
        if not self._waiting:
            return
        if self._role != "user":
            self._add_note(NOTHING_SAID)
        texts = [
            f"{one.text}\n{WORDS_BEFORE}" if one.introduces and number < self._followed_count else one.full_text()
            for number, one in enumerate(self._waiting)
        ]
        if sum(one.introduces for one in self._waiting[: self._followed_count]) > 1:
            texts.append(_IN_ORDER)
        self._messages.append({"role": "system", "content": "\n\n".join(texts)})
        self._waiting.clear()
        self._followed_count = 0

    def _add_note(self, note: str) -> None:
        self._add_user_block({"type": "text", "text": mark_program_text(note)}, cacheable=False)


def _copy_message(message: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a message whose list of blocks can be changed."""
    content = message["content"]
    return {**message, "content": [*content]} if isinstance(content, list) else message


def _make_system_blocks(item: SystemItem) -> list[dict[str, Any]]:
    text, folded = replace(item, folded=()).full_text(), "\n\n".join(item.folded)
    return [{"type": "text", "text": text} for text in (text, folded) if text.strip()]


def _make_image(image: AttachedImage) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _make_content(turn: ModelTurn, profile: EndpointProfile) -> list[dict[str, Any]]:
    """Return text and calls, with signed thinking before them where it was; the last block is never thinking."""
    thinking = turn.echo.blocks_for("anthropic") if profile.opaque_echo else {}
    content = list(thinking.get(0, ()))
    if turn.text.strip():
        content.append({"type": "text", "text": turn.text})
    for number, call in enumerate(turn.calls, start=1):
        content += [*thinking.get(number, ()), _make_call(call)]
    return content


def _make_call(call: CallWithResult) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}


def _make_tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    described = {"description": function["description"]} if function.get("description") else {}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {"name": function["name"], **described, "input_schema": schema}


def _find_output_limit(model: str) -> int:
    return next((limit for pattern, limit in _OUTPUT_LIMITS if re.search(pattern, model)), _DEFAULT_OUTPUT_LIMIT)
