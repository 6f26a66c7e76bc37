"""Measure the conversation, and shorten it when the model's context window is nearly full."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from app.agent.ports import ModelPort
from app.agent.request_payload import RequestFactory
from app.concurrency import Interrupter
from app.conversation.events import (
    AssistantMessage,
    ContentPruned,
    Event,
    HistoryCompacted,
    RequestSent,
    Spoken,
    UserNotice,
)
from app.conversation.log import EventLog
from app.conversation.payload.compaction_plan import (
    CalibratedTokenEstimator,
    CompactionBudget,
    DropHistoryStep,
    PruneStep,
    SummariseStep,
    compaction_budget_if_needed,
    estimate_event_tokens,
    estimate_text_tokens,
    make_summary_payload,
    plan_next_compaction_step,
)
from app.conversation.payload.projection import CachedPayloadBuilder, PayloadInputs, project
from app.copies import replace
from app.images.image import join_quoted_names
from app.llm.failures.request_errors import FailureKind, RequestError
from app.llm.response.text_filters import has_call_markup
from app.llm.values.requests_and_updates import Payload, ResponseCompleted, TokenUsage

_OUTAGES = frozenset(
    {
        FailureKind.AUTH,
        FailureKind.QUOTA,
        FailureKind.RATE_LIMITED,
        FailureKind.MODEL_NOT_FOUND,
        FailureKind.UNREACHABLE,
        FailureKind.SERVER_ERROR,
    }
)
"""Failures that do not depend on the request: the turn ends, and the next one asks for the summary again."""


class ContextTokenEstimate:
    """Fold over the log that estimates the tokens of the next request, at constant cost per event."""

    def __init__(self, meter: CalibratedTokenEstimator) -> None:
        self._meter = meter
        self._tokens_at_last_count = 0
        self._tokens_since = 0

    @property
    def tokens(self) -> int:
        """Return the server's count of the last prompt, if known, plus an estimate of what was added since."""
        return self._tokens_at_last_count + int(self._tokens_since * self._meter.factor)

    def apply(self, event: Event) -> None:
        match event:
            case RequestSent():
                self._tokens_at_last_count, self._tokens_since = event.estimated_tokens, 0
            case AssistantMessage(state="discarded"):
                pass
            case AssistantMessage(usage=usage) if usage is not None and usage.prompt_tokens > 0:
                self._tokens_at_last_count, self._tokens_since = usage.prompt_tokens, estimate_event_tokens(event)
            case HistoryCompacted() | ContentPruned():
                self._tokens_at_last_count, self._tokens_since = event.tokens_after, 0
            case _:
                self._tokens_since += estimate_event_tokens(event)


class ContextCompactor:
    """Prunes, summarises or cuts a session's context when it is nearly full, and estimates its tokens."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._meter = log.attach(CalibratedTokenEstimator())
        self._token_count = log.attach(ContextTokenEstimate(self._meter))
        self.project = CachedPayloadBuilder().project
        """Return the payload of the next request; pass it the events of this session's log only."""

    @property
    def used_tokens(self) -> int:
        """Return the estimated tokens of the next payload."""
        return self._token_count.tokens

    def count_tokens(self, payload: Payload) -> int:
        """Return the estimated tokens of a payload; blocks: call it on a thread for a long payload."""
        return self._meter.count_tokens(payload)

    async def make_room(
        self,
        model: ModelPort,
        requests: RequestFactory,
        interrupter: Interrupter,
        *,
        until: Callable[[], Coroutine[Any, Any, None]] | None = None,
        forced: bool = False,
        by_hand: bool = False,
    ) -> bool:
        """Prune old tool output, then summarise old history, or cut it after two failures, until there is room.

        Each step is recorded as an event; no event is removed from the log.

        Args:
            until: returns a coroutine that ends the request for a summary when it ends.
            forced: shorten the conversation even if it seems to fit: the server or the user asks for it.
            by_hand: the user asks for it, so there is no need to leave out anything without a summary.

        Returns:
            Whether anything was left out of later requests.

        Raises:
            WaitInterrupted: the user stopped the turn, or `until` ended, while the model wrote the summary.
            RequestError: the request for the summary failed, and the next request would fail too; or `by_hand`, and
                it failed for another reason, or the summary was unusable.
        """
        inputs = await requests.payload_inputs(model)
        events, profile = self._log.events_with_audience(), model.profile
        used = await asyncio.to_thread(lambda: self.count_tokens(self.project(events, profile, inputs)))
        budget = compaction_budget_if_needed(
            used, model.profile.context_window, forced=forced, factor=self._meter.factor
        )
        summaries_left, changed = 2, False
        while budget is not None:
            step = await asyncio.to_thread(
                plan_next_compaction_step, tuple(self._log.events), budget, can_summarise=summaries_left > 0
            )
            match step:
                case None:
                    break
                case PruneStep():
                    pruned = ContentPruned(results=step.results, images=step.images)
                    budget = await self._record_step(pruned, budget, model, inputs)
                    await self._notify_omitted_images(pruned.images)
                case SummariseStep():
                    try:
                        request = self._request_summary(step, budget, model, requests, inputs)
                        summary, usage = await interrupter.wait_for(request, until)
                        if not summary:
                            await self._log.append(AssistantMessage(state="discarded", usage=usage))
                            text = "The summary was empty, cut off or long: try again."
                            raise RequestError(FailureKind.UNKNOWN, text)
                    except RequestError as error:
                        if by_hand or error.kind in _OUTAGES:
                            raise
                        summaries_left -= 1
                        continue
                    compacted = HistoryCompacted(upto=step.upto, summary=summary, method="summary", usage=usage)
                    budget = await self._record_step(compacted, budget, model, inputs)
                case DropHistoryStep():
                    cut = HistoryCompacted(upto=step.upto, summary="", method="truncation")
                    budget = await self._record_step(cut, budget, model, inputs)
            changed = True
        return changed

    async def _record_step(
        self,
        step: ContentPruned | HistoryCompacted,
        budget: CompactionBudget,
        model: ModelPort,
        inputs: PayloadInputs,
    ) -> CompactionBudget:
        """Record a compaction step and return the budget with the tokens measured after it."""
        events, profile = (*self._log.events_with_audience(), step), model.profile
        tokens_after = await asyncio.to_thread(lambda: self.count_tokens(project(events, profile, inputs)))
        measured = {"tokens_before": budget.used, "tokens_after": tokens_after}
        await self._log.append(step.model_copy(update=measured))
        return replace(budget, used=tokens_after)

    async def _notify_omitted_images(self, event_ids: Sequence[int]) -> None:
        """Show the user a notice that names the images of these events: the model no longer sees them."""
        events = (event for event in self._log.events if event.id in event_ids)
        images = [image for event in events if isinstance(event, Spoken) for image in event.images]
        if images:
            await self._log.append(
                UserNotice(
                    text=f"Left out to make room: {join_quoted_names(images)}. Attach it again if the model needs it."
                )
            )

    async def _request_summary(
        self,
        step: SummariseStep,
        budget: CompactionBudget,
        model: ModelPort,
        requests: RequestFactory,
        inputs: PayloadInputs,
    ) -> tuple[str, TokenUsage | None]:
        """Return the model's summary of the older events, and the usage of the request.

        The summary is empty if it is cut off, calls tools (also as text), or is longer than those events. Raises
        RequestError.
        """
        events = tuple(self._log.events)
        text, usage = "", None
        request = requests.prepare(
            lambda profile: make_summary_payload(events, step, budget, profile, inputs), inputs.model
        )
        async for update in model.stream(request.build_for_sending):
            if isinstance(update, ResponseCompleted):
                usage = update.usage
                is_short = estimate_text_tokens(update.text) * budget.factor < step.saved
                has_calls = bool(update.calls) or has_call_markup(update.text)
                text = update.text.strip() if is_short and not (update.truncated or has_calls) else ""
        return text, usage
