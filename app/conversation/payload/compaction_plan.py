"""Count the tokens of a payload, and plan how to shorten it: which old output goes first, where history is cut.

Tokens are estimated from the size, calibrated by the server's counts. A plan names what to leave out; the caller
records it (`ContentPruned`, `HistoryCompacted`) and asks again until nothing is left to do. The log keeps all events;
only payloads become shorter. The order: images that the model has answered to, texts of old tool results, a summary
by the model, a cut without a summary.
"""

import json
from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from operator import is_
from typing import Any

from msgspec import Struct

from app.conversation.events import (
    AssistantMessage,
    CallDeniedWithFeedback,
    ContentPruned,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    ProposalDecided,
    Question,
    RequestSent,
    ToolCall,
    ToolResult,
    TurnEnded,
    UserAnswer,
    UserMessage,
    event_images,
)
from app.conversation.payload.history import read_omissions
from app.conversation.payload.projection import PayloadInputs, project
from app.conversation.payload.tool_calls import dump_arguments_as_json
from app.conversation.proposal_reports import format_call_denial, format_decision_facts, format_feedback
from app.copies import replace
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload
from app.llm.wires.wire import IMAGE_PARTS

_CLAUDE_SIDE, _CLAUDE_PATCH, _CLAUDE_MAX_PATCHES = 2_576, 28, 4_784
"""Largest Claude models: the image is scaled to a longest side and counted in patches, up to a maximum of tokens."""
_GPT_PATCH, _GPT_MAX_PATCHES, _GPT_FACTOR = 32, 1_536, 1.62
"""Later GPT models: patch size, most patches, and tokens per patch in the smaller models."""
_TILE_SIDE, _TILES_MAX_SIDE, _TILES_SHORT_SIDE, _BASE_TOKENS, _TOKENS_PER_TILE = 512, 2_048, 768, 85, 170
"""GPT-4o: the image is scaled to fit a square, then to a short side, and counted in tiles."""


def estimate_image_tokens(width: int, height: int) -> int:
    """Return the tokens of an image of this size in pixels: the largest count among common models."""
    scale = min(1.0, _CLAUDE_SIDE / max(width, height))
    claude_patches = ceil(width * scale / _CLAUDE_PATCH) * ceil(height * scale / _CLAUDE_PATCH)
    gpt_patches = ceil(width / _GPT_PATCH) * ceil(height / _GPT_PATCH)
    scale = min(1.0, _TILES_MAX_SIDE / max(width, height))
    scale = min(scale, _TILES_SHORT_SIDE / min(width, height))
    gpt_tiles = ceil(width * scale / _TILE_SIDE) * ceil(height * scale / _TILE_SIDE)
    return max(
        min(_CLAUDE_MAX_PATCHES, claude_patches),
        ceil(min(_GPT_MAX_PATCHES, gpt_patches) * _GPT_FACTOR),
        _BASE_TOKENS + _TOKENS_PER_TILE * gpt_tiles,
    )


BYTES_PER_TOKEN = 3.6
"""Average for text and code in UTF-8 over common vocabularies; the meter calibrates it per model."""
MESSAGE_TOKENS = 4
"""Tokens that the chat template adds to a message."""
_MIN_FACTOR = 0.5
"""Least calibration factor: a server that silently cuts the start of a long prompt reports too few tokens."""
_MAX_FACTOR = 4.0


def estimate_text_tokens(text: str) -> int:
    """Return the tokens of a text, uncalibrated."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return int(size / BYTES_PER_TOKEN) + 1


def _tokens_without_messages(payload: Payload) -> int:
    """Return the tokens of a payload without its messages, uncalibrated."""
    system = estimate_tokens_without_images({"content": payload.system}) if payload.system else 0
    images = sum(estimate_image_tokens(image.width, image.height) for image in payload.images)
    return system + images + (estimate_text_tokens(json.dumps(payload.tools, default=str)) if payload.tools else 0)


def estimate_tokens_without_images(message: dict[str, Any]) -> int:
    """Return the tokens of one wire message without its images, uncalibrated."""
    tokens = MESSAGE_TOKENS
    for key, value in message.items():
        if key == "role":
            continue
        value = _without_images(value)
        tokens += estimate_text_tokens(value if isinstance(value, str) else json.dumps(value, default=str))
    return tokens


def _without_images(value: Any) -> Any:
    """Return a value of a message without images, including those in tool results."""
    if isinstance(value, list):
        parts = [part for part in value if not (isinstance(part, dict) and part.get("type") in IMAGE_PARTS)]
        return [_without_images(part) for part in parts]
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        return {**value, "content": _without_images(value["content"])}
    return value


class CalibratedTokenEstimator:
    """Estimates a payload's tokens, calibrated by the server's counts in the log; a fold over the events.

    `RequestSent.estimated_tokens` must be the result of `count_tokens` for that payload.
    """

    def __init__(self) -> None:
        self.factor = 1.0
        """Server's count divided by uncalibrated estimate, from the last response with a count."""
        self._estimated = 0.0
        """Uncalibrated estimate of the last request sent."""
        self._counted_messages_and_sums: tuple[list[dict[str, Any]], list[int]] = [], [0]
        """Messages of the previous payload except the first (the system prompt, which is a new object each time), and
        the running sums of their tokens. Replaced as a whole, so that any thread may count."""

    def count_tokens(self, payload: Payload) -> int:
        """Return the best estimate of a payload's tokens; messages that are the same objects are not recounted.

        The first count of a long payload takes a tenth of a second: call it on a thread.
        """
        first, messages = payload.messages[:1], payload.messages[1:]
        earlier_messages, sums = self._counted_messages_and_sums
        same = list(map(is_, messages, earlier_messages))
        start = same.index(False) if False in same else len(same)
        sums = [
            *sums[:start],
            *accumulate(map(estimate_tokens_without_images, messages[start:]), initial=sums[start]),
        ]
        self._counted_messages_and_sums = messages, sums
        return int(
            (sum(map(estimate_tokens_without_images, first)) + sums[-1] + _tokens_without_messages(payload))
            * self.factor
        )

    def apply(self, event: Event) -> None:
        match event:
            case RequestSent():
                self._estimated = event.estimated_tokens / self.factor
            case AssistantMessage(state="discarded"):
                pass
            case AssistantMessage() if event.usage is not None and event.usage.prompt_tokens > 0:
                if self._estimated > 0:
                    ratio = event.usage.prompt_tokens / self._estimated
                    self.factor = min(max(ratio, _MIN_FACTOR), _MAX_FACTOR)


_FULL_SHARE = 0.95
"""Share of the context window above which the next request is expected to overflow."""
_ANSWER_TOKENS = 4_096
"""Tokens reserved for the response, if the window is large enough."""
_TARGET_SHARE = 0.5
"""Share of the window that compaction aims for."""
_FORCED_TARGET_SHARE = 0.6
"""Share of the used tokens that compaction aims for if the server or the user requests it."""
_TAIL_SHARE = 0.4
"""Share of the target that is reserved for the newest events, which stay unchanged."""
_LAST_STEP_SHARE = 0.8
"""Share of the target up to which the very last step stays uncut."""
_TRUNCATION_TAIL_SHARE = 0.15
"""`_TAIL_SHARE` for a cut without a summary."""
_NEAR_TARGET_FACTOR = 1.25
"""If the window is unknown, a payload up to this many times the target is sent without a cut."""
_MIN_SAVED_SHARE = 0.1
"""A step must free at least this share of the used tokens."""
_MIN_PRUNABLE_TOKENS = 120
"""Smaller results are not pruned."""
_PLACEHOLDER_TOKENS = 20


class CompactionBudget(Struct, frozen=True):
    """How far a compaction must shrink the payload: its estimated tokens, the target and the context window."""

    used: int
    """Estimated tokens of the next payload."""
    target: int
    """Tokens to reduce the payload to."""
    window: int | None
    """The context window; None if unknown."""
    factor: float = 1.0
    """Calibration of the estimate (`CalibratedTokenEstimator.factor`)."""


class PruneStep(Struct, frozen=True):
    """Leave out the texts of these tool results, or these images."""

    results: tuple[int, ...]
    """Ids of `ToolResult` events."""
    saved: int
    """Saved tokens (estimate)."""
    images: tuple[int, ...] = ()
    """Ids of events with images."""


class SummariseStep(Struct, frozen=True):
    """Let the model summarise everything up to an event; the summary replaces it in payloads."""

    upto: int
    """Id of the last summarised event."""
    saved: int


class DropHistoryStep(Struct, frozen=True):
    """Leave out everything up to an event, without a summary."""

    upto: int
    saved: int


def is_nearly_full(used: int, window: int | None) -> bool:
    """Return whether a request of `used` tokens would probably overflow a window of `window` tokens."""
    if window is None:
        return False
    answer = min(_ANSWER_TOKENS, 0.15 * window)
    return used >= min(_FULL_SHARE * window, window - answer)


def compaction_budget_if_needed(
    used_tokens: int, window_tokens: int | None, *, forced: bool = False, factor: float = 1.0
) -> CompactionBudget | None:
    """Return the budget for shortening a payload of `used_tokens` tokens; None if it fits.

    Args:
        forced: shorten it even if it seems to fit: the server reported a full context, or the user requests it.
    """
    if not forced and not is_nearly_full(used_tokens, window_tokens):
        return None
    target = int(_FORCED_TARGET_SHARE * used_tokens)
    if window_tokens is not None:
        target = min(target, int(_TARGET_SHARE * window_tokens)) if forced else int(_TARGET_SHARE * window_tokens)
    return CompactionBudget(used_tokens, target, window_tokens, factor)


def plan_next_compaction_step(
    events: Sequence[Event], budget: CompactionBudget, *, can_summarise: bool = True
) -> PruneStep | SummariseStep | DropHistoryStep | None:
    """Return the next step towards the budget; None if the budget is met or no step is worthwhile.

    Args:
        budget: its `used` must be measured again after each step.
        can_summarise: False if the model could not write a summary; the same part is then cut without one.
    """
    if budget.used <= budget.target:
        return None
    costs = _EventCosts(events, budget)
    last_response = _last_response_position(events)
    step = (
        _plan_images(events[costs.start : last_response], costs, budget)
        or _plan_pruning(events, costs, budget)
        or _plan_cut(events, costs, budget, _TAIL_SHARE, summarise=can_summarise)
    )
    if step is not None or not _is_over_window(budget):
        return step
    # Leave out what the model has not seen yet only if the request would be refused.
    step_on_unseen = _plan_images(events[max(last_response, costs.start) :], costs, budget)
    return step_on_unseen or _plan_cut(events, costs, budget, _TRUNCATION_TAIL_SHARE, summarise=False)


def _plan_cut(
    events: Sequence[Event], costs: "_EventCosts", budget: CompactionBudget, share: float, *, summarise: bool
) -> SummariseStep | DropHistoryStep | None:
    """Return a step that keeps the newest events up to this share of the target; None if it is not worthwhile."""
    position = _cut_position(events, costs, int(share * budget.target), budget)
    saved = costs.between(costs.start, position)
    if position <= costs.start or saved < _MIN_SAVED_SHARE * budget.used:
        return None
    upto = events[position - 1].id
    return SummariseStep(upto, saved) if summarise else DropHistoryStep(upto, saved)


def _is_over_window(budget: CompactionBudget) -> bool:
    """Return whether the server will probably refuse the payload, not only whether it exceeds the target."""
    if budget.window is None:
        return budget.used > _NEAR_TARGET_FACTOR * budget.target
    return is_nearly_full(budget.used, budget.window)


class _EventCosts:
    """Running sums of the tokens of each event in a payload."""

    def __init__(self, events: Sequence[Event], budget: CompactionBudget) -> None:
        omissions = read_omissions(events)
        self.pruned = omissions.pruned
        self.images_pruned = omissions.pruned_images
        self.start = omissions.cut + 1
        """Position of the first event that payloads contain."""
        self._factor = budget.factor
        self._sums = [0.0]
        for position, event in enumerate(events):
            cost = self.tokens(event) if position >= self.start else 0
            self._sums.append(self._sums[-1] + cost)

    def between(self, start: int, end: int) -> int:
        """Return the tokens of the events from position `start` up to, but not including, `end`."""
        return int(self._sums[end] - self._sums[start])

    def tokens(self, event: Event) -> float:
        """Return the tokens of one event in payloads."""
        if isinstance(event, ToolResult) and event.id in self.pruned:
            return _PLACEHOLDER_TOKENS
        tokens = estimate_event_tokens(event)
        if event.id in self.images_pruned:
            tokens -= estimate_tokens_of_event_images(event)
        return tokens * self._factor

    def images(self, event: Event) -> float:
        """Return the tokens of an event's images in payloads."""
        return 0 if event.id in self.images_pruned else estimate_tokens_of_event_images(event) * self._factor


def estimate_event_tokens(event: Event) -> int:
    """Return the tokens that an event adds to a payload, uncalibrated."""
    text = ""
    match event:
        case UserMessage() | ToolResult() | UserAnswer():
            text = event.text
        case AssistantMessage() if event.state != "discarded":
            calls = (f"{call.name}{call.wire_id}{dump_arguments_as_json(call.arguments)}" for call in event.calls)
            text = event.text + "".join(calls)
        case Intervention() if event.scope != "request":
            text = event.text
        case ProposalDecided():
            text = format_decision_facts(event) + format_feedback(event)
        case CallDeniedWithFeedback():
            text = format_call_denial(event) + event.feedback
    images = estimate_tokens_of_event_images(event)
    return estimate_text_tokens(text) + MESSAGE_TOKENS + images if text or images else 0


def estimate_tokens_of_event_images(event: Event) -> int:
    """Return the tokens of the images of an event, uncalibrated."""
    return sum(estimate_image_tokens(image.width, image.height) for image in event_images(event))


def _plan_images(events: Sequence[Event], costs: _EventCosts, budget: CompactionBudget) -> PruneStep | None:
    """Return a step that leaves out as many of the oldest images as necessary; None if there are none."""
    chosen: list[int] = []
    saved = 0.0
    for event in events:
        if saved >= budget.used - budget.target:
            break
        if event.id and (tokens := costs.images(event)):
            chosen.append(event.id)
            saved += tokens - _PLACEHOLDER_TOKENS
    return PruneStep((), int(saved), tuple(chosen)) if chosen else None


def _last_response_position(events: Sequence[Event]) -> int:
    """Return the position of the last response: the model has seen everything before it."""
    for position in range(len(events) - 1, -1, -1):
        if isinstance(event := events[position], AssistantMessage) and event.state != "discarded":
            return position
    return 0


def _plan_pruning(events: Sequence[Event], costs: _EventCosts, budget: CompactionBudget) -> PruneStep | None:
    protected = _tail_start(events, costs, int(_TAIL_SHARE * budget.target))
    excess = budget.used - budget.target
    chosen: list[int] = []
    saved = 0.0
    for event in events[costs.start : protected]:
        if saved >= excess:
            break
        if not isinstance(event, ToolResult) or not event.id or event.id in costs.pruned:
            continue
        tokens = costs.tokens(event)
        if tokens >= _MIN_PRUNABLE_TOKENS:
            chosen.append(event.id)
            saved += tokens - _PLACEHOLDER_TOKENS
    if not chosen or saved < min(_MIN_SAVED_SHARE * budget.used, excess):
        return None
    return PruneStep(tuple(chosen), int(saved))


def _tail_start(events: Sequence[Event], costs: _EventCosts, tokens: int) -> int:
    """Return where the newest events start: at least the last response with its results, at most about `tokens`."""
    for position in range(len(events) - 1, costs.start - 1, -1):
        if _can_start_tail(events[position]) and costs.between(position, len(events)) > tokens:
            return position if _is_last_response(events, position) else _next_possible_start(events, position + 1)
    return costs.start


def _cut_position(events: Sequence[Event], costs: _EventCosts, tail_tokens: int, budget: CompactionBudget) -> int:
    """Return where to cut: the earliest position after which at most `tail_tokens` follow.

    The last step is kept unless it is too large. A cut never separates a response from its results, and never passes
    a response whose calls still run or whose question waits for the user.
    """
    end = len(events)
    limit = _first_unfinished_position(events)
    position = costs.start
    while position < end:
        if _can_start_tail(events[position]):
            tail = costs.between(position, end)
            last = _is_last_response(events, position)
            if tail <= tail_tokens or (last and tail <= _LAST_STEP_SHARE * budget.target):
                break
        position += 1
    while 0 < position <= end and events[position - 1].id == 0:
        position -= 1
    return min(position, limit)


def _can_start_tail(event: Event) -> bool:
    match event:
        case UserMessage() | ProposalDecided():
            return True
        case AssistantMessage():
            return event.state != "discarded"
    return False


def _next_possible_start(events: Sequence[Event], position: int) -> int:
    while position < len(events) and not _can_start_tail(events[position]):
        position += 1
    return position


def _is_last_response(events: Sequence[Event], position: int) -> bool:
    return isinstance(events[position], AssistantMessage) and _next_possible_start(events, position + 1) == len(
        events
    )


def _first_unfinished_position(events: Sequence[Event]) -> int:
    """Return the position of the first response with running calls or an open question; the end if there is none."""
    responses: dict[str, int] = {}
    running: set[str] = set()
    asking: set[str] = set()
    for position, event in enumerate(events):
        match event:
            case AssistantMessage() if event.state in ("complete", "truncated"):
                responses.update((call.uid, position) for call in event.calls)
                running = {call.uid for call in event.calls}
            case ToolResult() | UserAnswer():
                running.discard(event.call)
                asking.discard(event.call)
            case Question() if event.call in responses:
                asking.add(event.call)
            case UserMessage():
                asking.clear()
            case TurnEnded():
                running.clear()
    return min((responses[call] for call in running | asking), default=len(events))


INSTRUCTION = (
    "Summarise this conversation for yourself; the summary will replace these messages, and you go on with only "
    "it, the user's own messages and what comes after. Call no tools and address nobody. Write, under short "
    "headings: the user's goals and every requirement or preference still in force; decisions made and why; what "
    "was read, found and changed, with exact paths, names and commands; which images the user attached and what "
    "you saw in them; which proposals were approved, denied (with the reasons) or are pending; what is unfinished "
    "and the next step. Take over what is still true from an earlier summary. Leave out pleasantries, and do not "
    "invent."
)
_MAX_RESULT_CHARACTERS = 1_200
_MAX_ARGUMENT_CHARACTERS = 600
_SUMMARY_REQUEST_SHARE = 0.7
"""Share of the window that the summary request may use."""


def make_summary_payload(
    events: Sequence[Event],
    step: SummariseStep,
    budget: CompactionBudget,
    profile: EndpointProfile,
    inputs: PayloadInputs,
) -> Payload:
    """Return the payload that asks the model to summarise the events that a step of a compaction covers.

    Args:
        inputs: the same as for other requests, with the same tools, which may not be called.
    """
    covered = [_clip_event(event) for event in events if 0 < event.id <= step.upto]
    # The model's answers describe the images.
    pruned_images = ContentPruned(
        images=tuple(event.id for event in covered if estimate_tokens_of_event_images(event))
    )
    covered = _drop_oldest(covered, int(_SUMMARY_REQUEST_SHARE * (budget.window or budget.used) / budget.factor))
    instruction = Intervention(kind=InterventionKind.FACT, text=INSTRUCTION, scope="request")
    return project([*covered, pruned_images, instruction], profile, replace(inputs, closing=True))


def _drop_oldest(events: list[Event], tokens: int) -> list[Event]:
    """Return the events without the oldest ones that do not fit; summarised parts keep their summary."""
    tokens_left = tokens
    for position in range(len(events) - 1, -1, -1):
        tokens_left -= estimate_event_tokens(events[position]) - estimate_tokens_of_event_images(events[position])
        if tokens_left < 0:
            cut = max(position, read_omissions(events).cut)
            return [*events, HistoryCompacted(upto=events[cut].id, summary="", method="truncation")]
    return events


def _clip_event(event: Event) -> Event:
    match event:
        case ToolResult():
            return event.model_copy(update={"text": clip_middle(event.text, _MAX_RESULT_CHARACTERS)})
        case AssistantMessage() if event.calls:
            return event.model_copy(update={"calls": tuple(_clip_call(call) for call in event.calls)})
    return event


def _clip_call(call: ToolCall) -> ToolCall:
    if call.arguments is None:
        return call
    return call.model_copy(update={"arguments": {key: _clip_value(item) for key, item in call.arguments.items()}})


def _clip_value(value: Any) -> Any:
    match value:
        case str():
            return clip_middle(value, _MAX_ARGUMENT_CHARACTERS)
        case list():
            return [_clip_value(item) for item in value]
        case dict():
            return {key: _clip_value(item) for key, item in value.items()}
    return value


def clip_middle(text: str, characters: int) -> str:
    """Return the text, shortened in the middle to about `characters` with a line that says how much is left out."""
    if len(text) <= characters:
        return text
    head, tail = max(0, characters * 2 // 3), max(0, characters // 3)
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out} characters left out …]\n{text[len(text) - tail :]}"
