"""The model client: one request as an async stream of updates, with retries and learned corrections.

Importing this module does not import the OpenAI SDK; `ModelClient.preload_sdk` imports it on a thread.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any

from app.config.config_tables import PriceTable
from app.copies import replace
from app.llm.capabilities.model_list import NO_IMAGES, ListedModel, add_cost, profile_fields_from_list
from app.llm.capabilities.profiles import (
    CorrectionStore,
    ProfileLearner,
    RequestProfileCorrector,
    find_default_profile,
)
from app.llm.capabilities.template_check import (
    MessagePlacementResult,
    TrialBuilder,
    find_placement_kept_by_chat_template,
)
from app.llm.failures.failures import ErrorToFailureTranslator, parse_json_or_text
from app.llm.failures.request_errors import (
    NO_RETRY,
    STANDARD_RETRY,
    AttemptFailed,
    Failure,
    FailureKind,
    RequestError,
    RetryPolicy,
    remove_retry_advice,
)
from app.llm.response.bounded_stream import ResponseTooLarge, ServerSentEvent
from app.llm.response.response_assembly import Delta, DeltaCoalescer, ResponseAssembly
from app.llm.sdk import LoadedSdk
from app.llm.transport import EndOfStream, ProgressExtendedTimeout, Timeouts, Transport
from app.llm.values.endpoint import NEXT_PLACEMENT, EndpointProfile, tool_name
from app.llm.values.requests_and_updates import (
    AttemptDiscarded,
    CallProgress,
    Endpoint,
    MessagePlacementChecked,
    Payload,
    ProfileCorrected,
    ReasoningDelta,
    ResponseCompleted,
    RetryScheduled,
    StreamUpdate,
    TextDelta,
)
from app.llm.wires.wire import ResponseToChatDecoder, Wire, mapping_or_empty
from app.llm.wires.wire_registry import RequestInputs, wire_for


class ResponseEventReader:
    """Reads the events of one response into a `ResponseAssembly`."""

    def __init__(
        self, assembly: ResponseAssembly, decoder: ResponseToChatDecoder, translator: ErrorToFailureTranslator
    ) -> None:
        self._assembly = assembly
        self._decoder = decoder
        self._translator = translator

    @property
    def is_finished(self) -> bool:
        """Return whether the response is complete, whatever happens to the connection afterwards."""
        return self._assembly.finish_reason not in (None, "error")

    def read_events(self, events: Iterable[ServerSentEvent]) -> Iterator[Delta]:
        """Yield the updates from these events. Raises `AttemptFailed` if the response is an error or broken."""
        return self._feed_chunks(map(self._read_chunk, events))

    def read_unframed(self, text: str) -> Iterator[Delta]:
        """Yield the updates from a body that is not an event stream: a completion, an error, or other text."""
        return self._feed_chunks(self._read_document(text))

    def _feed_chunks(self, chunks: Iterable[Mapping[str, Any]]) -> Iterator[Delta]:
        deltas = DeltaCoalescer()
        failed: AttemptFailed | None = None
        try:
            for chunk in chunks:
                self._assembly.feed(chunk, deltas)
                if not self.is_finished and (error := _find_error(chunk)) is not None:
                    failed = AttemptFailed(self._translator.describe_stream_error(error))
                    break
        except AttemptFailed as failure:
            failed = failure
        except ResponseTooLarge as too_large:
            failed = AttemptFailed(self._translator.describe_oversized_response(too_large))
        yield from deltas.pop_all()
        if failed is not None:
            raise failed

    def _read_chunk(self, event: ServerSentEvent) -> Mapping[str, Any]:
        body = parse_json_or_text(event.data)
        if event.name == "error":
            raise AttemptFailed(self._translator.describe_stream_error(body))
        if not isinstance(body, dict):
            raise AttemptFailed(
                self._translator.describe_broken_response("contains something that is no JSON object", event.data)
            )
        chunk = self._decoder.read_event(body)
        if event.damaged and _has_call(chunk):
            # U+FFFD is acceptable in text for the user, but not in the arguments of a tool.
            raise AttemptFailed(self._translator.describe_broken_response("has a tool call that is damaged"))
        return chunk

    def _read_document(self, text: str) -> Iterator[Mapping[str, Any]]:
        if not text.strip():
            return
        body = parse_json_or_text(text)
        if isinstance(body, dict):
            yield self._decoder.read_document(body)
        elif isinstance(body, list) and (chunks := [chunk for chunk in body if isinstance(chunk, dict)]):
            yield from map(self._decoder.read_event, chunks)
        elif self._assembly.is_empty:
            is_cut = text.lstrip("[ \t\r\n").startswith("{")
            raise AttemptFailed(
                self._translator.describe_broken_response("broke off", "its JSON is not complete")
                if is_cut
                else self._translator.describe_non_stream(text)
            )


def _has_call(chunk: Mapping[str, Any]) -> bool:
    choices = chunk.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict)
        and any("tool_calls" in mapping_or_empty(choice.get(part)) for part in ("delta", "message"))
        for choice in choices
    )


def _find_error(chunk: Mapping[str, Any]) -> Any:
    """Return the object with the error of a chunk, in any of the known formats; None if there is no error."""
    if chunk.get("error"):
        return chunk
    # MiniMax: a status code of 0 in every chunk of a response that succeeds.
    if (base := mapping_or_empty(chunk.get("base_resp"))).get("status_code"):
        return base
    if "choices" in chunk:
        choices = chunk["choices"]
        first = choices[0] if isinstance(choices, list) and choices else None
        # OpenRouter puts the error inside the choice.
        return first if isinstance(first, dict) and first.get("error") else None
    if "error" in (chunk.get("object"), chunk.get("type")) or "detail" in chunk or chunk.get("success") is False:
        return chunk
    return chunk if isinstance(chunk.get("message"), str) and ("code" in chunk or "status" in chunk) else None


_LONG_PAYLOAD_CHARACTERS = 24_000
"""Characters of a request from which the context window matters: some models have only 8,192 tokens."""
_LISTING_SECONDS = 3.0
"""Seconds to wait for the list of models."""
NO_FINISH_TOLERATED = 2
"""Number of clean ends without a finish reason after which they count as normal for the server."""
_TEMPLATE_CHECK_SECONDS = 10.0
"""Seconds for the check of the chat template, which runs beside other requests."""
_TEMPLATE_WAIT_SECONDS = 2.0
"""Seconds that a closing request waits for that check."""
_LIMIT_FIELDS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})
"""Names of the output limit on the wires."""
_NO_TOOL_CHOICES: tuple[Any, ...] = ("none", {"type": "none"})
"""Values of `tool_choice` that forbid tool calls on the wires."""


class ModelClient:
    """Client of one endpoint and model; learns the endpoint's capabilities while it works.

    Args:
        cache: Stores what is learned about the endpoint.
        another: Returns a client for the same endpoint with another model and effort; empty values keep the defaults.
        trials: Builds the conversations for the check of the endpoint's chat template; None disables the check.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        profile: EndpointProfile,
        *,
        retry: RetryPolicy = STANDARD_RETRY,
        timeouts: Timeouts | None = None,
        cache: CorrectionStore | None = None,
        another: "Callable[[str, str], ModelClient] | None" = None,
        trials: TrialBuilder | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._make_other_client = another
        self._other_clients: dict[tuple[str, str], ModelClient] = {}
        """Clients for single turns, by model and effort."""
        self._learned_profile = ProfileLearner(
            endpoint, find_default_profile(endpoint.base_url, endpoint.model, profile.wire), profile, cache
        )
        self._retry = retry
        self._timeouts = timeouts or Timeouts.for_endpoint(endpoint)
        self._translator = ErrorToFailureTranslator(endpoint)
        self._transport = Transport(endpoint, self._timeouts, self._translator)
        self._ignores_closing_instruction = False
        """The model calls tools in closing requests, wherever the instruction is placed."""
        self._responses_without_reason = 0
        self._models_listed = False
        """The list of models was requested."""
        self._retry_requested = asyncio.Event()
        self._trials = trials
        self._template_check: asyncio.Task[MessagePlacementChecked] | None = None
        """The check of the chat template; started with the first response, at most once."""
        self._waited_for_template = self._template_reported = False

    @property
    def profile(self) -> EndpointProfile:
        """Return the known profile of the endpoint, including learned corrections."""
        return self._learned_profile.profile

    def preload_sdk(self) -> "Future[LoadedSdk]":
        """Start loading the SDK on a thread, because a request is expected soon; return at once."""
        return self._transport.preload_sdk()

    def find_settings_fault(self) -> str:
        """Return why no request can be sent with the address, key, headers or proxy; empty if one can."""
        fault = self._translator.find_settings_fault()
        return fault.message if fault else ""

    async def list_models(self) -> list[ListedModel]:
        """Return the models that the endpoint offers, and learn facts about the current one. Raises RequestError."""
        self._models_listed = True
        try:
            models = await self._transport.fetch_models(wire_for(self.profile))
        except AttemptFailed as failed:
            raise self._make_request_error(failed.failure, None) from failed
        facts = profile_fields_from_list(models, self.endpoint.model)
        for known in ("context_window", "images_supported"):
            if getattr(self.profile, known) is not None:
                facts.pop(known, None)
        self._learned_profile.learn(**facts)
        return models

    def with_model_and_effort(self, model: str, effort: str) -> "ModelClient":
        """Return the client for one turn with another model or effort; an empty effort is that model's default."""
        current = self.endpoint.model, self.endpoint.options.effort
        requested = model or current[0], effort
        if requested in (current, (current[0], "")) or self._make_other_client is None:
            return self
        if requested not in self._other_clients:
            self._other_clients[requested] = self._make_other_client(*requested)
        return self._other_clients[requested]

    def retry_now(self) -> None:
        """Retry a request at once that waits for its retry time."""
        self._retry_requested.set()
        for other in self._other_clients.values():
            other.retry_now()

    async def aclose(self) -> None:
        """Close the connections; a later request opens new ones."""
        for other in self._other_clients.values():
            await other.aclose()
        if self._template_check is not None:
            self._template_check.cancel()
            await asyncio.wait({self._template_check})
        await self._transport.aclose()

    @contextlib.asynccontextmanager
    async def open_isolated_client(self) -> AsyncGenerator["ModelClient"]:
        """Return a client for the same endpoint with the current profile; what it learns is discarded.

        It does not retry, and waits as long for a closing request as for any other. It is closed at the end.
        """
        patience = replace(
            self._timeouts, closing=max(self._timeouts.first, self._timeouts.idle), whole_closing=self._timeouts.whole
        )
        other = ModelClient(self.endpoint, self.profile, retry=NO_RETRY, timeouts=patience)
        other._models_listed = self._models_listed
        try:
            yield other
        finally:
            await other.aclose()

    async def stream(
        self, build: Callable[[EndpointProfile], Payload], *, closing: bool = False
    ) -> AsyncGenerator[StreamUpdate]:
        """Send the payload that `build` returns for the profile, and yield the response as it arrives.

        `build` is called on a thread. The last update is `ResponseCompleted`; its text is the concatenation of all
        `TextDelta`s since the last `AttemptDiscarded`. Cancelling the task, or closing the generator (use
        `contextlib.aclosing` if you may leave it early), closes the connection at once. A closing request is retried
        once, within seconds, and tool calls in its text are left out.

        Raises:
            RequestError: No usable response; `partial` is the received part of the last attempt.
        """
        started = time.monotonic()
        attempt = 0
        self._learned_profile.forget_expired()
        if closing and (checked := await self._take_template_result()) is not None:
            yield checked
        request_corrections = RequestProfileCorrector(self.profile)
        while True:
            payload = await asyncio.to_thread(build, request_corrections.profile)
            if await self._fetch_missing_facts(payload, request_corrections):
                yield ProfileCorrected(self.profile, NO_IMAGES)
                payload = await asyncio.to_thread(build, request_corrections.profile)
            request = RequestInputs(self.endpoint.model, request_corrections.profile, payload)
            wire, fields = request.wire, request.make_body()
            assembly = ResponseAssembly(map(tool_name, payload.tools), closing=closing)
            attempt += 1
            try:
                async with aclosing(self._send_attempt(wire, fields, assembly, closing=closing)) as updates:
                    async for update in updates:
                        # Now the server has loaded its model and answers quickly.
                        self._start_template_check()
                        if isinstance(update, ResponseCompleted):
                            for correction in self._learn_confirmed_corrections(request_corrections):
                                yield correction
                        yield update
                return
            except AttemptFailed as failed:
                failure, cause = failed.failure, failed
            self._learn_from_failure(failure, request_corrections)
            if request_corrections.try_correction(failure, payload):
                attempt -= 1
                if not assembly.is_empty:
                    yield AttemptDiscarded(assembly.text, failure.message, assembly.calls())
                continue
            delay = self._retry.delay(failure, attempt, time.monotonic() - started, closing=closing)
            if delay is None:
                raise self._make_request_error(failure, assembly) from cause
            if not assembly.is_empty:
                yield AttemptDiscarded(assembly.text, failure.message, assembly.calls())
            yield RetryScheduled(attempt, delay, remove_retry_advice(failure.message))
            await self._wait_for_retry(delay)

    async def _fetch_missing_facts(self, payload: Payload, request_corrections: RequestProfileCorrector) -> bool:
        """Learn the endpoint's limits before a long request or one with images; return True if images are refused."""
        if self._models_listed:
            return False
        long = self.profile.context_window is None and not payload.images and _is_long(payload)
        needs_image_support = bool(payload.images) and self.profile.images_supported is None
        if not (needs_image_support or long):
            return False
        with contextlib.suppress(RequestError, TimeoutError):
            async with asyncio.timeout(_LISTING_SECONDS):
                await self.list_models()
        request_corrections.add_confirmed_fields(
            context_window=self.profile.context_window, images_supported=self.profile.images_supported
        )
        return needs_image_support and not self.profile.accepts_images

    def _start_template_check(self) -> None:
        """Start the check of the server's chat template if it is needed and has not started."""
        if self._trials is not None and self._template_check is None and self.profile.wire == "chat":
            self._template_check = asyncio.create_task(self._run_template_check(self._trials))

    async def _run_template_check(self, trials: TrialBuilder) -> MessagePlacementChecked:
        """Run the check of the chat template, and learn its placement if that differs from the last check's.

        While the template is unchanged, corrections learned after the last check are kept.
        """
        root = self.endpoint.address.url_without_query.rstrip("/").removesuffix("/v1")
        wire = wire_for(self.profile)
        finding: MessagePlacementResult | None = None
        # On any error, keep the previous placement.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_TEMPLATE_CHECK_SECONDS):
                finding = await find_placement_kept_by_chat_template(
                    self.endpoint,
                    self.profile,
                    trials,
                    lambda path, body: self._transport.send_request_to_url(wire, root + path, body),
                )
        if finding is None:
            return MessagePlacementChecked("", None)
        if finding.placement is not None and finding.placement != self.profile.rendered:
            self._learned_profile.learn(**finding.changes, rendered=finding.placement)
        return MessagePlacementChecked(finding.server, finding.placement)

    async def _take_template_result(self) -> MessagePlacementChecked | None:
        """Return the finding of the check, after a short wait; None if it is not ready or was returned before."""
        self._start_template_check()
        if self._template_check is None or self._template_reported:
            return None
        await asyncio.wait({self._template_check}, timeout=0 if self._waited_for_template else _TEMPLATE_WAIT_SECONDS)
        self._waited_for_template = True
        if not self._template_check.done() or self._template_check.cancelled():
            return None
        self._template_reported = True
        return self._template_check.result()

    async def _wait_for_retry(self, seconds: float) -> None:
        self._retry_requested.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._retry_requested.wait()

    async def _send_attempt(
        self, wire: Wire, fields: dict[str, Any], assembly: ResponseAssembly, *, closing: bool
    ) -> AsyncGenerator[TextDelta | ReasoningDelta | CallProgress | ResponseCompleted]:
        """Send the request once and parse the response into `assembly`; raise `AttemptFailed`."""
        reader = ResponseEventReader(assembly, wire.make_decoder(), self._translator)
        done = False
        try:
            # The time for loading the SDK does not count as silence of the server.
            await self._transport.wait_until_ready()
            patience = ProgressExtendedTimeout(self._timeouts, closing=closing)
            async with aclosing(self._transport.exchange(wire, fields, patience)) as arrived:
                async for events in arrived:
                    if isinstance(events, EndOfStream):
                        done, deltas = events.done, reader.read_unframed(events.unframed)
                    else:
                        deltas = reader.read_events(events)
                    for delta in deltas:
                        yield delta
                        patience.extend_for_progress()
                    if reader.is_finished:
                        patience.shorten_after_finish()
        except Exception as problem:
            # Errors after the finish reason don't make the response incomplete.
            if not reader.is_finished:
                if isinstance(problem, AttemptFailed):
                    raise
                # Handle a defect in our parsing like any other failure.
                raise AttemptFailed(self._translator.describe_unexpected(problem)) from problem
        for late in assembly.flush():
            yield late
        completed = self._complete_response(assembly, fields, done=done)
        if closing and completed.calls and not completed.text.strip():
            self._learn_ignored_placement()
        yield completed

    def _complete_response(
        self, assembly: ResponseAssembly, fields: Mapping[str, Any], *, done: bool
    ) -> ResponseCompleted:
        """Return the completed response; raise `AttemptFailed` if the received data is not a response."""
        if assembly.is_empty:
            has_output_limit = not _LIMIT_FIELDS.isdisjoint(fields)
            reason = assembly.finish_reason
            if reason == "model_context_window_exceeded" or (reason == "length" and not has_output_limit):
                raise AttemptFailed(self._translator.describe_overflow())
            if assembly.finish_reason is None:
                raise AttemptFailed(self._translator.describe_broken_response("is empty"))
        ended = assembly.finish_reason is not None or self._is_end_without_reason_accepted(assembly, done=done)
        completed = assembly.complete(ended=ended)
        if completed.usage is not None:
            completed = replace(completed, usage=add_cost(completed.usage, self._known_price))
        if completed.calls and fields.get("tool_choice") in _NO_TOOL_CHOICES:
            self._learned_profile.learn(tool_choice_none="ignored")
        return completed

    @property
    def _known_price(self) -> PriceTable | None:
        listed = PriceTable.model_validate(self.profile.price) if self.profile.price is not None else None
        return self.endpoint.price or listed

    async def find_price(self) -> PriceTable | None:
        """Return the price of the model: the user's, else that of the endpoint's list; None if neither has it."""
        if self._known_price is None and not self._models_listed:
            with contextlib.suppress(RequestError, TimeoutError):
                async with asyncio.timeout(_LISTING_SECONDS):
                    await self.list_models()
        return self._known_price

    def _learn_ignored_placement(self) -> None:
        """Learn that the closing instruction had no effect: the model called a tool instead.

        Many chat templates drop a system message in mid-conversation. The next closing request uses the next
        placement. If the model ignores the instruction in every placement, it stays a system message instead of
        becoming a part of a user message.
        """
        if self._ignores_closing_instruction or self.profile.rendered == self.profile.mid_system:
            # The server's rendered prompt contains the instruction, so the model has read it.
            return
        placement = NEXT_PLACEMENT.get(self.profile.mid_system)
        if placement is None and self._learned_profile.is_learned("mid_system"):
            self._ignores_closing_instruction = True
            default = find_default_profile(self.endpoint.base_url, self.endpoint.model, self.profile.wire)
            placement = default.mid_system
        if placement is not None:
            self._learned_profile.learn(mid_system=placement)

    def _is_end_without_reason_accepted(self, assembly: ResponseAssembly, *, done: bool) -> bool:
        """Return whether a response without a finish reason is complete; learn if the server never sends one."""
        if any(call.invalid for call in assembly.calls()):
            return False
        if self.profile.finish_optional:
            # If learned, the server ends each response with [DONE]; if set by the user, it may not.
            return done or not self._learned_profile.is_learned("finish_optional")
        if not done:
            return False
        self._responses_without_reason += 1
        if self._responses_without_reason < NO_FINISH_TOLERATED:
            return False
        self._learned_profile.learn(finish_optional=True)
        return True

    def _learn_confirmed_corrections(self, request_corrections: RequestProfileCorrector) -> list[ProfileCorrected]:
        """Store the corrections that led to the response; return the notices for the user."""
        changes, corrections = request_corrections.confirmed_changes()
        self._learned_profile.learn(**changes)
        return corrections

    def _learn_from_failure(self, failure: Failure, request_corrections: RequestProfileCorrector) -> None:
        """Learn facts from a failure."""
        facts: dict[str, Any] = {}
        if failure.kind is FailureKind.TOOL_USE_FAILED and not failure.retryable:
            facts["tool_choice_none"] = "fails"
        if failure.context_window is not None:
            facts["context_window"] = failure.context_window
        request_corrections.add_confirmed_fields(**facts)
        self._learned_profile.learn(**facts)

    def _make_request_error(self, failure: Failure, assembly: ResponseAssembly | None) -> RequestError:
        partial = None
        if assembly is not None and not assembly.is_empty:
            partial = assembly.complete(ended=False)
        return RequestError(
            failure.kind,
            failure.message,
            time.time() + failure.retry_after if failure.retry_after is not None else None,
            status=failure.status,
            context_window=failure.context_window,
            partial=partial,
        )


def _is_long(payload: Payload) -> bool:
    """Return whether a request has at least `_LONG_PAYLOAD_CHARACTERS` characters; reads no further."""
    length = len(str(payload.system)) + len(str(payload.tools))
    for message in payload.messages:
        if length >= _LONG_PAYLOAD_CHARACTERS:
            break
        length += len(str(message))
    return length >= _LONG_PAYLOAD_CHARACTERS
