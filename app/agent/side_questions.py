"""Side questions of the user about a hunk while the gate is closed, answered outside the conversation.

They do not change turns, gate or ladder. A question is sent independently of a running turn, with the tools of the
session but no permission to call them; only the user sees the recorded answer.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec import Struct, field

from app.agent.ports import ModelPort, SessionPorts
from app.agent.request_payload import RequestFactory
from app.agent.updates import SessionFailed, SideAnswerDiscarded, SideAnswerStreamed, Update
from app.concurrency import Interrupter, WaitInterrupted
from app.conversation.events import (
    AssistantMessage,
    ContentPruned,
    Event,
    HistoryCompacted,
    ProposalLocation,
    SideAnswer,
    SideExchange,
    SideQuestion,
    collect_side_exchanges,
)
from app.conversation.log import EventLog
from app.conversation.payload.compaction_plan import (
    CalibratedTokenEstimator,
    PruneStep,
    clip_middle,
    compaction_budget_if_needed,
    is_nearly_full,
    plan_next_compaction_step,
)
from app.conversation.payload.projection import PayloadInputs, SideQuestionInputs, project
from app.conversation.proposal_reports import format_file_stats
from app.copies import replace
from app.llm.failures.request_errors import FailureKind, RequestError, remove_retry_advice
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import (
    AttemptDiscarded,
    Payload,
    ProfileCorrected,
    ResponseCompleted,
    TextDelta,
    TokenUsage,
)
from app.proposals.values.models import FileDiff, Hunk, HunkState, Proposal, ProposalState, describe_state
from app.proposals.values.proposal_errors import ProposalError
from app.text.quantities import join_first
from app.text.safe_text import make_code_fence
from app.tools.base.contract import ToolError
from app.tools.base.targets import find_secret_reason
from app.workspace.paths import Workspace
from app.workspace.secrets import secret_reason


def format_hunk(diff: FileDiff, hunk: Hunk, max_characters: int) -> str:
    """Return the removed and added lines of a hunk with `-` and `+`, shortened in the middle."""
    removed = [f"-{line}" for line in diff.old[hunk.old_start : hunk.old_start + hunk.old_count]]
    added = [f"+{line}" for line in diff.new[hunk.new_start : hunk.new_start + hunk.new_count]]
    return clip_middle("\n".join([*removed, *added]), max_characters)


def format_lines_around_hunk(diff: FileDiff, hunk: Hunk | None, max_lines: int, max_characters: int) -> str:
    """Return the numbered lines around a hunk, with the proposal applied; of a deleted file, the old lines.

    Args:
        hunk: None for the beginning of the file.
        max_lines: Maximum number of lines on each side of the hunk.
        max_characters: Maximum number of characters in total; the lines nearest to the hunk come first.
    """
    text = diff.new or diff.old
    start, end = _hunk_range(diff, hunk)
    characters_left = max_characters
    first, last = start, start
    above, below = min(max_lines, start), min(max_lines + end - start, len(text) - start)
    for step in range(max(above, below)):
        if step < below and (characters_left := characters_left - _line_cost(text[start + step])) >= 0:
            last = start + step + 1
        if step < above and (characters_left := characters_left - _line_cost(text[start - step - 1])) >= 0:
            first = start - step - 1
    width = len(str(last))
    return "\n".join(f"{number + 1:>{width}}  {text[number]}" for number in range(first, last))


def _hunk_range(diff: FileDiff, hunk: Hunk | None) -> tuple[int, int]:
    """Return the first line of a hunk and the line after it (0-based) in the text that is shown."""
    if hunk is None:
        return 0, 0
    if not diff.new:
        return min(hunk.old_start, len(diff.old)), min(hunk.old_start + hunk.old_count, len(diff.old))
    count = 0 if hunk.state is HunkState.DENIED else hunk.new_count
    return min(hunk.new_start, len(diff.new)), min(hunk.new_start + count, len(diff.new))


def _line_cost(line: str) -> int:
    return len(line) + 8


class SideQuestionPayloadBuilder(Struct, frozen=True):
    """Builds the payload of a side question for any profile, with less context until it fits the window."""

    events: Sequence[Event]
    """The log without the response whose calls still run."""
    inputs: PayloadInputs
    """The same as for other requests of the session."""
    project: Callable[[Sequence[Event], EndpointProfile, PayloadInputs], Payload]
    """Builds payloads of the log; caches the part that the next request of the conversation shares."""
    meter: CalibratedTokenEstimator
    contexts: Sequence[str]
    """Descriptions of the subject for the model, the longest first."""
    question: str
    earlier: Sequence[tuple[str, str]]
    """Earlier questions and answers of the thread."""

    def payload(self, profile: EndpointProfile, *, tight: bool = False) -> Payload:
        """Return the payload; `tight` makes it as small as possible, for a server that reported a full context."""
        window = profile.context_window
        if not tight:
            for aside in self._inputs_by_size():
                payload = self.project(self.events, profile, replace(self.inputs, side_request=aside))
                if not is_nearly_full(self.meter.count_tokens(payload), window):
                    return payload
        events = self._events_without_oldest(profile)
        for aside in [] if tight else self._inputs_by_size():
            payload = self._project(events, profile, aside)
            if not is_nearly_full(self.meter.count_tokens(payload), window):
                return payload
        return self._project(events, profile, self._smallest_inputs)

    def _inputs_by_size(self) -> list[SideQuestionInputs]:
        """Return the inputs to try, from the most context to the least."""
        return [
            *(SideQuestionInputs(brief, self.question, self.earlier) for brief in self.contexts),
            self._smallest_inputs,
        ]

    @property
    def _smallest_inputs(self) -> SideQuestionInputs:
        return SideQuestionInputs(self.contexts[-1], self.question)

    def _project(self, events: Sequence[Event], profile: EndpointProfile, aside: SideQuestionInputs) -> Payload:
        return project(events, profile, replace(self.inputs, side_request=aside))

    def _events_without_oldest(self, profile: EndpointProfile) -> Sequence[Event]:
        """Return the log with its oldest part left out, like a compaction without a summary."""
        events = list(self.events)
        used = self.meter.count_tokens(
            self.project(events, profile, replace(self.inputs, side_request=self._smallest_inputs))
        )
        budget = compaction_budget_if_needed(used, profile.context_window, forced=True, factor=self.meter.factor)
        while (
            budget is not None
            and (step := plan_next_compaction_step(events, budget, can_summarise=False)) is not None
        ):
            if isinstance(step, PruneStep):
                events.append(ContentPruned(results=step.results, images=step.images))
            else:
                events.append(HistoryCompacted(upto=step.upto, summary="", method="truncation"))
            budget = replace(
                budget, used=self.meter.count_tokens(self._project(events, profile, self._smallest_inputs))
            )
        return events


_INSTRUCTION = (
    "Side question. Aside from the conversation above, the user asks you something about a change, in the message "
    "that is to be answered now. Answer it in words, in a few sentences of Markdown, from what stands above and "
    "below. Do not call tools: none can run. Nothing that is said here decides or changes anything; do not propose "
    "another edit. Where you do not know, say so, and name what one would have to look at. Afterwards the "
    "conversation goes on as if this had not been asked."
)
_MAX_FILES_NAMED = 20
_CONTEXT_SIZES = ((400, 16_000), (80, 8_000), (20, 3_000), (5, 1_000), (0, 600))
"""Surrounding lines on each side, and characters of them and of the hunk, from the longest context to the least."""


class SideQuestionSubject(Struct, frozen=True):
    """The proposal, file and hunk that a side question is about, as they are now."""

    proposal: Proposal
    diff: FileDiff
    hunk: Hunk | None
    """None for the whole file, or if the hunk does not exist any more."""

    @property
    def hunk_count(self) -> int:
        """Return the number of hunks in the proposal."""
        return sum(len(change.hunks) for change in self.proposal.files)


def make_question_contexts(
    subject: SideQuestionSubject, question: SideQuestion, earlier: Sequence[SideExchange]
) -> Iterator[str]:
    """Yield the context texts for a question, from the longest to one that fits nearly every context window."""
    for lines, characters in _CONTEXT_SIZES:
        parts = [_INSTRUCTION, _describe_change(subject), _describe_hunk(subject, question, characters)]
        picked = [*((one.question.picked, one.question.text) for one in earlier), (question.picked, question.text)]
        parts += [
            f"For “{clip_middle(' '.join(text.split()), 200)}” the user picked these lines:\n"
            + _fenced(rows, characters)
            for rows, text in picked
            if rows
        ]
        if lines and (surroundings := format_lines_around_hunk(subject.diff, subject.hunk, lines, characters)):
            state = "with the proposal in it" if subject.diff.new else "which the proposal deletes"
            surroundings = _fenced(surroundings, characters * 2)
            parts.append(f"{subject.diff.change.path}, {state}, with its line numbers:\n{surroundings}")
        yield "\n\n".join(parts)


def _describe_change(subject: SideQuestionSubject) -> str:
    proposal = subject.proposal
    files = join_first([format_file_stats([file.stat]) for file in proposal.files], _MAX_FILES_NAMED)
    return (
        f"It is about proposal {proposal.id} ({proposal.origin.description}): {proposal.summary or 'no summary'}. "
        f"{_describe_state(proposal)} Its files: {files}."
    )


def _describe_state(proposal: Proposal) -> str:
    match proposal.state:
        case _ if proposal.state.is_pending and proposal.on_disk:
            return "It is on disk already and awaits the user's decision."
        case ProposalState.PARTLY_APPROVED:
            return "A part of it is written to disk; the rest awaits the user's decision."
        case _ if proposal.state.is_pending:
            return "It is staged and awaits the user's decision; nothing of it is on disk."
        case ProposalState.APPLIED:
            return "The user has approved it, and it is on disk."
        case _:
            return f"It is {describe_state(proposal.state)}; it is not on disk."


def _describe_hunk(subject: SideQuestionSubject, question: SideQuestion, characters: int) -> str:
    change = subject.diff.change
    if subject.hunk is None and question.hunk:
        return f"The question is about a hunk in {change.path} that was cut or edited since: it is no more as it was."
    if subject.hunk is None:
        return f"The question is about {change.path} as a whole ({change.op})."
    number, line = subject.hunk.number, subject.hunk.new_start + 1
    lines = _fenced(format_hunk(subject.diff, subject.hunk, characters), 2 * characters)
    return (
        f"The question is about hunk {number} of {subject.hunk_count}, in {change.path} from line {line} on:\n{lines}"
    )


def _fenced(text: str, characters: int) -> str:
    fence = make_code_fence(text)
    return f"{fence}\n{clip_middle(text, characters)}\n{fence}"


_AGAIN = "Ask again to try once more."
_TEMPORARY_FAILURES = frozenset(
    {FailureKind.RATE_LIMITED, FailureKind.SERVER_ERROR, FailureKind.STREAM_BROKEN, FailureKind.UNKNOWN}
)
"""Failures that the same question may not meet again; other messages say what to do."""
_CALLED_TOOL_NOTE = "The model called a tool instead of answering; nothing was run. Ask again in other words."
_EMPTY_NOTE = f"The model answered with nothing. {_AGAIN}"
_IGNORED_CALL_NOTE = "It also called a tool, which was not run."


class _OpenQuestion(Struct):
    """A question that waits for its answer."""

    thread: ProposalLocation
    interrupter: Interrupter = field(default_factory=Interrupter)
    text: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    completed: ResponseCompleted | None = None
    started: float = 0.0


class SideQuestionService:
    """Asks the model side questions, publishes and records the answers; one open question per thread.

    Args:
        unfinished: Returns the response whose calls still run; None if there is none.
    """

    def __init__(
        self,
        log: EventLog,
        session_id: str,
        ports: Callable[[], SessionPorts],
        requests: RequestFactory,
        project: Callable[[Sequence[Event], EndpointProfile, PayloadInputs], Payload],
        unfinished: Callable[[], AssistantMessage | None],
        publish: Callable[[Update], None],
    ) -> None:
        self._log = log
        self._session_id = session_id
        self._ports = ports
        self._find_unfinished_response = unfinished
        self._publish = publish
        self._requests = requests
        self._project = project
        self._meter = log.attach(CalibratedTokenEstimator())
        self._open_questions: dict[str, _OpenQuestion] = {}
        """The open questions, by question id."""
        self._tasks: set[asyncio.Task[None]] = set()

    def is_answer_awaited(self, place: ProposalLocation) -> bool:
        """Return whether an answer is awaited in this thread."""
        return any(question.thread == place for question in self._open_questions.values())

    async def ask(self, place: ProposalLocation, text: str, picked: str = "") -> str:
        """Record a question and start sending it; return its id at once. The answer is published.

        Raises:
            ProposalError: the question cannot be asked; nothing was sent.
        """
        uid = uuid.uuid4().hex[:12]
        if self.is_answer_awaited(place):
            raise ProposalError("The answer before it is still being written; Escape stops it.")
        self._open_questions[uid] = _OpenQuestion(place)
        try:
            subject, thread = await asyncio.to_thread(self._load_subject, place)
            hunk = subject.hunk
            side_question = SideQuestion(
                uid=uid,
                **place._asdict(),
                number=hunk.number if hunk is not None else 0,
                picked=picked,
                text=text.strip(),
            )
            await self._log.append(side_question)
        except BaseException:
            del self._open_questions[uid]
            raise
        task = asyncio.create_task(self._answer(side_question, subject, thread), name="side question")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return uid

    def stop(self, question: str) -> bool:
        """Stop the answer to a question; return whether the question was open."""
        if open_question := self._open_questions.get(question):
            open_question.interrupter.stop()
        return open_question is not None

    async def wait_until_idle(self) -> None:
        """Wait until no question is open."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Stop all open questions and wait until their events are stored."""
        for question in self._open_questions.values():
            question.interrupter.stop()
        await self.wait_until_idle()

    # Subject

    def _load_subject(self, place: ProposalLocation) -> tuple[SideQuestionSubject, tuple[SideExchange, ...]]:
        """Return the current state of the subject and the earlier exchanges of its thread; call it on a thread.

        Raises:
            ProposalError: the file is not in the proposal any more, or looks like a secret.
        """
        ports = self._ports()
        proposal = ports.service.get(place.proposal)
        diff = next((one for one in ports.service.file_diffs(place.proposal) if one.change.path == place.path), None)
        if diff is None:
            raise ProposalError(f"{place.path} is not in {place.proposal} any more.")
        if proposal.sole_author_session(diff.change) != self._session_id:
            # A model may see any content that it wrote itself.
            _refuse_secret(ports.workspace, diff.change.old_path, diff.old)
            _refuse_secret(ports.workspace, diff.change.path, (*diff.old, *diff.new))
        hunk = next((one for one in diff.change.hunks if one.id == place.hunk), None)
        earlier = collect_side_exchanges([*ports.side_questions(place.proposal), *self._log.events])
        thread = tuple(one for one in earlier if one.question.place == place and one.answer_text)
        return SideQuestionSubject(proposal, diff, hunk), thread

    # Answer

    async def _answer(
        self, question: SideQuestion, subject: SideQuestionSubject, thread: tuple[SideExchange, ...]
    ) -> None:
        open_question = self._open_questions[question.uid]
        open_question.started = time.monotonic()
        try:
            inputs = await self._requests.payload_inputs(self._ports().model)
            contexts = await asyncio.to_thread(lambda: tuple(make_question_contexts(subject, question, thread)))
            unfinished = self._find_unfinished_response()
            request = SideQuestionPayloadBuilder(
                tuple(event for event in self._log.events_with_audience() if event is not unfinished),
                inputs,
                self._project,
                self._meter,
                contexts,
                question.text,
                tuple((exchange.question.text, exchange.answer_text) for exchange in thread),
            )
            answer = await self._request_answer(question, request, open_question)
            await self._log.append(answer)
        except Exception as error:
            self._publish(SideAnswerDiscarded(question.uid, over=True))
            self._publish(
                SessionFailed(f"The answer to your question about {question.subject} could not be kept: {error}")
            )
        finally:
            del self._open_questions[question.uid]

    async def _request_answer(
        self, question: SideQuestion, request: SideQuestionPayloadBuilder, open_question: _OpenQuestion
    ) -> SideAnswer:
        """Send the question and return the answer; on a full context, retry once with the smallest payload."""
        model = self._ports().model
        try:
            async with model.open_isolated_client() as isolated_model:
                try:
                    await open_question.interrupter.wait_for(
                        self._receive(question, request, open_question, isolated_model)
                    )
                except RequestError as error:
                    if error.kind is not FailureKind.CONTEXT_FULL:
                        raise
                    self._discard_text(question, open_question)
                    await open_question.interrupter.wait_for(
                        self._receive(question, request, open_question, isolated_model, tight=True)
                    )
        except WaitInterrupted:
            return self._make_side_answer(question, open_question, "interrupted")
        except RequestError as error:
            if error.kind is FailureKind.TOOL_USE_FAILED:
                open_question.notes.append(_CALLED_TOOL_NOTE)
            else:
                again = f" {_AGAIN}" if error.kind in _TEMPORARY_FAILURES else ""
                open_question.notes.append(remove_retry_advice(error.message) + again)
            usage = error.partial.usage if error.partial is not None else None
            return self._make_side_answer(question, open_question, "failed", usage)
        completed = open_question.completed
        assert completed is not None, "a stream ends with ResponseCompleted or raises"
        if completed.calls:
            open_question.notes.append(_IGNORED_CALL_NOTE if completed.text.strip() else _CALLED_TOOL_NOTE)
        elif not completed.text.strip():
            open_question.notes.append(_EMPTY_NOTE)
        state = "truncated" if completed.truncated and completed.text.strip() else "complete"
        return self._make_side_answer(
            question, open_question, state if completed.text.strip() else "failed", completed.usage, completed.text
        )

    async def _receive(
        self,
        question: SideQuestion,
        request: SideQuestionPayloadBuilder,
        open_question: _OpenQuestion,
        model: ModelPort,
        *,
        tight: bool = False,
    ) -> None:
        """Receive the response and publish its text. Write no event: this may be cancelled at any point."""
        prepared = self._requests.prepare(partial(request.payload, tight=tight), request.inputs.model)
        async for update in model.stream(prepared.build_for_sending, closing=True):
            match update:
                case TextDelta(text=text):
                    open_question.text.append(text)
                    self._publish(SideAnswerStreamed(question.uid, text))
                case AttemptDiscarded():
                    self._discard_text(question, open_question)
                case ProfileCorrected(notice=notice):
                    open_question.notes.append(notice)
                case ResponseCompleted():
                    open_question.completed = update

    def _discard_text(self, question: SideQuestion, open_question: _OpenQuestion) -> None:
        open_question.text.clear()
        self._publish(SideAnswerDiscarded(question.uid))

    def _make_side_answer(
        self,
        question: SideQuestion,
        open_question: _OpenQuestion,
        state: str,
        usage: TokenUsage | None = None,
        text: str | None = None,
    ) -> SideAnswer:
        return SideAnswer.model_validate(
            {
                "question": question.uid,
                "proposal": question.proposal,
                "text": "".join(open_question.text) if text is None else text,
                "state": state,
                "note": " ".join(open_question.notes),
                "usage": usage,
                "model": self._ports().model.endpoint.model,
                "duration": time.monotonic() - open_question.started,
            }
        )


def _refuse_secret(workspace: Workspace, path: str, lines: tuple[str, ...]) -> None:
    """Raise ProposalError for a file that looks like a secret: it is not sent without the user's consent."""
    content = "\n".join(lines).encode("utf-8", "surrogateescape")
    try:
        reason = find_secret_reason(workspace, path, content)
    except ToolError:
        reason = secret_reason(path, content)
    if reason:
        raise ProposalError(f"Nothing of {path} was sent: it looks like a secret ({reason}).")
