"""Run the tool calls of a response, and stage its edits as one proposal.

This is layer (c) of the gate: while the gate is closed, no call runs, whatever the server sent. The results of edits
are recorded in one transaction with their proposal: after a crash, no result names a proposal that does not exist.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field

from app.agent.gate import TurnStagingGate
from app.agent.limits import TurnBudget
from app.agent.ports import SessionPorts, TurnSettings
from app.agent.updates import CommandOutputStreamed, PhaseChanged, ProposalsChanged, SessionPhase, Update
from app.concurrency import Interrupter, WaitInterrupted
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    Event,
    ProposalStaged,
    Question,
    ToolCall,
    ToolResult,
    ToolStarted,
    UserMessage,
)
from app.conversation.log import EventLog
from app.conversation.payload.tool_calls import (
    ABORTED_BEFORE,
    ABORTED_DURING,
    AFTER_QUESTION,
    REFUSED,
    TIME_IS_UP,
    TRUNCATED,
    malformed_call_reason,
)
from app.llm.values.endpoint import host_and_port
from app.llm.values.requests_and_updates import ReceivedToolCall
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import TooManyUnreadLinesToStage
from app.text.quantities import format_count
from app.tools.base.contract import (
    PermissionAnswer,
    PermissionRequest,
    Tool,
    ToolCallNotPermitted,
    ToolContext,
    ToolError,
    ToolOutput,
)

if TYPE_CHECKING:
    from app.proposals.stack.draft import Draft
    from app.proposals.values.models import Proposal


_BUFFER_SECONDS = 0.1
"""Seconds for which events may be buffered, to write the events of many quick calls in few transactions."""


class WorkStopwatch:
    """Measures working time and time spent waiting for the user, from its creation."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_at = clock()
        self._waited_seconds = 0.0
        self._waiting_since: float | None = None

    @property
    def waiting_seconds(self) -> float:
        """Return the seconds spent waiting for the user."""
        return self._waited_seconds + (
            self._clock() - self._waiting_since if self._waiting_since is not None else 0.0
        )

    @property
    def working_seconds(self) -> float:
        """Return the seconds since creation, without the time spent waiting for the user."""
        return max(0.0, self._clock() - self._started_at - self.waiting_seconds)

    def exclude_waiting(
        self, ask: Callable[[PermissionRequest], Awaitable[PermissionAnswer]]
    ) -> Callable[[PermissionRequest], Awaitable[PermissionAnswer]]:
        """Wrap `ask`: the time until the user answers does not count as working time."""

        async def ask_and_measure(permission_request: PermissionRequest) -> PermissionAnswer:
            self._waiting_since = self._clock()
            try:
                return await ask(permission_request)
            finally:
                self._waited_seconds, self._waiting_since = self.waiting_seconds, None

        return ask_and_measure


class ToolCallBatchEventWriter:
    """Writes the events of a batch of tool calls to the log, in order."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._buffer: list[Event] = []
        self._written_at = 0.0
        self._write_lock = asyncio.Lock()
        self._delayed_write: asyncio.Task[None] | None = None

    async def write_now(self, *events: Event) -> None:
        """Write the buffered events and these in one transaction. Any error of the store is raised."""
        async with self._write_lock:
            batch, self._buffer = [*self._buffer, *events], []
            await self._log.append(*batch)
            self._written_at = time.monotonic()

    async def write_soon(self, *events: Event) -> None:
        """Write these events within `_BUFFER_SECONDS` seconds; only for events whose loss in a crash does no harm."""
        self._buffer += events
        delay = self._written_at + _BUFFER_SECONDS - time.monotonic()
        if delay <= 0:
            await self.write_now()
        elif self._delayed_write is None:
            self._delayed_write = asyncio.create_task(self._write_after(delay), name="record calls")

    async def close(self) -> None:
        """Write the buffered events."""
        if self._delayed_write is not None:
            self._delayed_write.cancel()
        await self.write_now()

    async def _write_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._delayed_write = None
        async with self._write_lock:
            batch, self._buffer = self._buffer, []
            try:
                await self._log.append(*batch)
            except Exception:
                # Keep the events: the next `write_now` writes them or raises the error.
                self._buffer = [*batch, *self._buffer]


PLANNING = "Not run: plan mode is on, so nothing may be changed. Say what you would do; the user ends plan mode."

_MAX_NAME_CHARACTERS = 64
"""Longest tool name shown in a result: the model may call a tool by a name of any length."""


class _BatchState(Struct):
    """State of a batch of calls while it runs."""

    draft: "Draft"
    gate: TurnStagingGate
    recorder: ToolCallBatchEventWriter
    budget: TurnBudget
    edit_results: list[ToolResult] = field(default_factory=list)
    """Results of edits; recorded together with their proposal."""
    edited: bool = False
    """Whether an edit tool staged a change, not only commands."""
    asked: bool = False


class _StartRecorder:
    """Records once that a call starts; a command starts when the user has allowed it."""

    def __init__(self, call: ToolCall, record: Callable[[Event], Awaitable[None]]) -> None:
        self._call = call
        self._record_result = record
        self.recorded = False

    async def record(self) -> None:
        """Record the start unless it is recorded. From here on the call may have an effect."""
        if not self.recorded:
            self.recorded = True
            await self._record_result(ToolStarted(call=self._call.uid))

    def once_allowed(
        self, ask: Callable[[PermissionRequest], Awaitable[PermissionAnswer]]
    ) -> Callable[[PermissionRequest], Awaitable[PermissionAnswer]]:
        """Wrap `ask`: if the user allows the call, record its start before returning the answer."""

        async def ask_and_record(permission_request: PermissionRequest) -> PermissionAnswer:
            answer = await ask(permission_request)
            if answer.allowed:
                await self.record()
            return answer

        return ask_and_record


class ToolCallExecutor:
    """Runs the tool calls of one session.

    Args:
        session_id: Recorded as the author of staged edits.
        confirm: Asks the user for permission; its first argument is the call's uid.
        answers: Returns the denied proposals whose feedback the response may answer, the likeliest first.
    """

    def __init__(
        self,
        ports: SessionPorts,
        log: EventLog,
        session_id: str,
        publish: Callable[[Update], None],
        confirm: Callable[[str, PermissionRequest], Awaitable[PermissionAnswer]],
        settings: Callable[[], TurnSettings],
        answers: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.tools = ports.tools
        self._ports = ports
        self._service = ports.service
        self._log = log
        self._session_id = session_id
        self._publish = publish
        self._confirm = confirm
        self._settings = settings
        self._answerable_denials = answers

    async def refuse_calls(self, calls: Sequence[ToolCall]) -> None:
        """Record that these calls were refused because the gate is closed."""
        await self._log.append(
            *(_make_result_event(call, CallOutcome.REFUSED, REFUSED, "refused: gate closed") for call in calls)
        )

    def truncated_call_results(self, calls: Sequence[ToolCall]) -> list[Event]:
        """Return the results to record for the calls of a truncated response.

        No call runs. The first complete question among them is put to the user.
        """
        recorded: list[Event] = []
        asked = False
        for call in calls:
            arguments = None if asked else self._find_question(call)
            asked = asked or arguments is not None
            cut = _make_result_event(call, CallOutcome.INVALID, TRUNCATED, "cut off")
            recorded.append(cut if arguments is None else _make_question(call, arguments))
        return recorded

    def has_question(self, calls: Sequence[ReceivedToolCall]) -> bool:
        """Return whether one of these calls is a complete question to the user."""
        return any(self._find_question(call) is not None for call in calls)

    def _find_question(self, call: ReceivedToolCall) -> object | None:
        tool = self.tools.get_tool(call.name)
        if tool is None or tool.kind != "ask" or call.arguments is None or malformed_call_reason(call):
            return None
        with suppress(ToolError):
            return self.tools.parse_arguments(call.name, call.arguments)
        return None

    async def run_calls(
        self, message: AssistantMessage, interrupter: Interrupter, gate: TurnStagingGate, budget: TurnBudget
    ) -> None:
        """Run the calls of a response in order.

        If a call fails, its result says why, and the next one runs. A question to the user or an interrupt ends
        the batch. The edits staged until then become one proposal.
        """
        if gate.is_closed:
            await self.refuse_calls(message.calls)
            return
        answers = self._answerable_denials()
        batch = _BatchState(
            await asyncio.to_thread(self._service.new_draft, self._session_id),
            gate,
            ToolCallBatchEventWriter(self._log),
            budget,
        )
        try:
            for call in message.calls:
                await self._run_call(call, batch, interrupter)
            await self._run_checks(batch, interrupter)
        finally:
            await self._stage_edits(message, batch, answers)
            await batch.recorder.close()

    async def _run_call(self, call: ToolCall, batch: _BatchState, interrupter: Interrupter) -> None:
        if batch.asked:
            await self._record_result(batch, call, CallOutcome.REFUSED, AFTER_QUESTION, "not run: question first")
            return
        if interrupter.is_stopped:
            await self._record_result(batch, call, CallOutcome.ABORTED, ABORTED_BEFORE, "not run: interrupted")
            return
        if call.arguments is None or malformed_call_reason(call):
            await self._record_result(batch, call, CallOutcome.INVALID, malformed_call_reason(call), "malformed call")
            return
        tool = await self._find_tool(call, batch, interrupter)
        if tool is None:
            return
        try:
            arguments = self.tools.parse_arguments(call.name, call.arguments)
        except ToolError as error:
            await self._record_result(batch, call, CallOutcome.INVALID, str(error), "malformed call")
            return
        if tool.kind == "ask":
            await batch.recorder.write_now(_make_question(call, arguments))
            batch.asked = True
        elif batch.budget.find_reached_limit(before_request=False) is not None:
            await self._record_result(batch, call, CallOutcome.REFUSED, REFUSED, "refused: limit reached")
        elif tool.kind == "edit" and self._settings().plan:
            await self._record_result(batch, call, CallOutcome.REFUSED, PLANNING, "refused: plan mode")
        elif tool.kind == "edit" and (exceeded := await self._find_unread_error()):
            await batch.recorder.write_soon(
                _unread_result(_make_result_event(call, CallOutcome.REFUSED, "", ""), exceeded)
            )
        else:
            await self._run_tool(call, tool, arguments, batch, interrupter)

    async def _find_unread_error(self) -> TooManyUnreadLinesToStage | None:
        """Return the error if the reading budget has no room for another edit, else None."""
        try:
            await asyncio.to_thread(self._ports.check_unread_limit)
        except TooManyUnreadLinesToStage as exceeded:
            return exceeded
        return None

    async def _find_tool(self, call: ToolCall, batch: _BatchState, interrupter: Interrupter) -> Tool | None:
        """Return the tool of a call; if it is unknown or unavailable, record a result and return None."""
        if (tool := self.tools.get_tool(call.name)) is not None:
            return tool
        try:
            tool = await interrupter.wait_for(self.tools.find_late_tool(call.name, self._publish_waiting))
        except WaitInterrupted:
            await self._record_result(batch, call, CallOutcome.ABORTED, ABORTED_BEFORE, "not run: interrupted")
            return None
        except ToolError as error:
            await self._record_result(batch, call, CallOutcome.ERROR, str(error), _first_line(str(error)))
            return None
        if tool is None:
            names = ", ".join(schema["function"]["name"] for schema in self.tools.schemas)
            text = f"There is no tool {call.name[:_MAX_NAME_CHARACTERS]!r}. There are: {names}."
            await self._record_result(batch, call, CallOutcome.INVALID, text, "unknown tool")
        return tool

    async def _run_tool(
        self, call: ToolCall, tool: Tool, arguments: object, batch: _BatchState, interrupter: Interrupter
    ) -> None:
        # Record the start of a command at once, as it may have effects; losing that of a read or an edit is harmless.
        record = batch.recorder.write_now if tool.kind == "command" else batch.recorder.write_soon
        start = _StartRecorder(call, record)
        if tool.kind != "command":
            await start.record()
        self._publish(PhaseChanged(SessionPhase.RUNNING, tool.name))
        watch = WorkStopwatch()
        context = ToolContext(
            workspace=self._ports.workspace,
            draft=batch.draft,
            output=lambda text: self._publish(CommandOutputStreamed(call.uid, text)),
            confirm=start.once_allowed(watch.exclude_waiting(partial(self._confirm, call.uid))),
            planning=self._settings().plan,
            hold_ignored=self._settings().hold_ignored,
            keep=self._ports.save_images,
            waits=lambda detail: self._publish_waiting(detail, tool.name),
            staging_steps_left=max(0, batch.gate.steps_left - 1),
        )
        try:
            work = tool.run(arguments, context)
            # An edit is quick and works on a thread that cannot be stopped half-way: let it finish.
            until = partial(batch.budget.wait_for_time_limit, lambda: watch.waiting_seconds)
            output = await (work if tool.kind == "edit" else interrupter.wait_for(work, until))
        except WaitInterrupted:
            text, summary = (
                (ABORTED_DURING, "interrupted") if start.recorded else (ABORTED_BEFORE, "not run: interrupted")
            )
            if not interrupter.is_stopped:
                text, summary = (TIME_IS_UP if start.recorded else REFUSED), "stopped: time limit reached"
            result = _make_result_event(call, CallOutcome.ABORTED, text, summary)
        except ToolCallNotPermitted as rejected:
            result = _make_result_event(call, CallOutcome.REJECTED, str(rejected), rejected.summary)
        except ToolError as error:
            result = _make_result_event(call, CallOutcome.ERROR, str(error), _first_line(str(error)))
        except Exception as error:
            # A defect in a tool, or a failing disk, must not leave a call without a result.
            text = f"{tool.name} failed: {type(error).__name__}: {error}"
            result = _make_result_event(call, CallOutcome.ERROR, text, _first_line(text))
        else:
            result = self._make_result(call, tool, output, batch)
        result = result.model_copy(update={"duration": watch.working_seconds, "waited": watch.waiting_seconds})
        if result.outcome is CallOutcome.STAGED:
            batch.edit_results.append(result)
            batch.edited |= tool.kind == "edit"
        else:
            await record(result)

    def _publish_waiting(self, detail: str, tool: str = "") -> None:
        self._publish(
            PhaseChanged(SessionPhase.WAITING, detail) if detail else PhaseChanged(SessionPhase.RUNNING, tool)
        )

    def _make_result(self, call: ToolCall, tool: Tool, output: ToolOutput, batch: _BatchState) -> ToolResult:
        staged = tool.kind == "edit" or output.staged
        return ToolResult(
            call=call.uid,
            outcome=CallOutcome.STAGED if staged else CallOutcome.OK,
            text=output.text,
            summary=output.summary,
            proposal=batch.draft.ensure_proposal_id() if staged else "",
            reads=output.reads,
            failed=output.failed,
            todos=output.todos,
            images=output.images,
        )

    async def _run_checks(self, batch: _BatchState, interrupter: Interrupter) -> None:
        """Run the user's checks on the step's edits and append the findings to the result of the last edit.

        It runs before staging: no decision can come between the edit and its findings.
        """
        check = self._ports.run_checks
        if check is None or not batch.edit_results or not batch.draft.has_changes or interrupter.is_stopped:
            return
        publish_start = partial(self._publish, PhaseChanged(SessionPhase.RUNNING, "checks"))
        findings = ""
        # A check that fails to run must not lose the edit.
        with suppress(Exception):
            findings = await interrupter.wait_for(check(batch.draft, publish_start))
        if findings:
            last = batch.edit_results[-1]
            batch.edit_results[-1] = last.model_copy(update={"text": f"{last.text}\n\n{findings}"})

    async def _stage_edits(self, message: AssistantMessage, batch: _BatchState, answers: Sequence[str]) -> None:
        """Stage the draft as a proposal, and record it in one transaction with the results of its calls."""
        if not batch.edit_results:
            return
        summary = batch.draft.summaries[0] if batch.draft.summaries else _first_line(message.text)
        kind = OriginKind.MODEL if batch.edited else OriginKind.COMMAND
        batch.draft.origin = ProposalOrigin(kind=kind, model=message.model, host=host_and_port(message.endpoint))
        user_texts = (event.text for event in self._log.events if isinstance(event, UserMessage))
        batch.draft.request = "\n".join(user_texts)
        try:
            if batch.edited:
                await asyncio.to_thread(_store_read_history, batch.draft, tuple(self._log.events), message)
            proposal = await asyncio.to_thread(self._stage_draft, batch.draft, summary, answers)
        except TooManyUnreadLinesToStage as exceeded:
            # Another agent has staged edits meanwhile and filled the reading budget.
            await batch.recorder.write_now(*(_unread_result(result, exceeded) for result in batch.edit_results))
            return
        except Exception as error:
            text = f"Nothing was staged: {error}"
            update = {"outcome": CallOutcome.ERROR, "text": text, "summary": "nothing staged", "proposal": ""}
            await batch.recorder.write_now(*(result.model_copy(update=update) for result in batch.edit_results))
            return
        staged = ProposalStaged(
            proposal=proposal.id,
            origin=proposal.origin,
            summary=proposal.summary,
            files=tuple(change.stat for change in proposal.files),
            calls=tuple(result.call for result in batch.edit_results),
            supersedes=proposal.supersedes,
            versions=proposal.written_hashes,
        )
        await batch.recorder.write_now(*batch.edit_results, staged)
        self._publish(ProposalsChanged((proposal.id,)))

    def _stage_draft(self, draft: "Draft", summary: str, answers: Sequence[str]) -> "Proposal":
        """Stage the draft with the id of the tree on which its command ran; blocks: call it on a thread."""
        if draft.recipe is not None:
            with suppress(OSError):
                tree = self._ports.tree_id(self._service.overlay_of_older_proposals(draft.ensure_proposal_id()))
                draft.recipe = draft.recipe.model_copy(update={"tree": tree})
        return self._service.stage(draft, summary, answers)

    async def _record_result(
        self, batch: _BatchState, call: ToolCall, outcome: CallOutcome, text: str, summary: str
    ) -> None:
        await batch.recorder.write_soon(_make_result_event(call, outcome, text, summary))


def _store_read_history(draft: "Draft", events: Sequence[Event], message: AssistantMessage) -> None:
    """Store in the draft what the model had read before this response; blocks: call it on a thread."""
    from app.agent.read_history import find_reads_before_message

    draft.read_history = find_reads_before_message(events, message, draft.changed_paths.keys())


def _make_question(call: ToolCall, arguments: object) -> Question:
    return Question(
        call=call.uid,
        text=str(getattr(arguments, "question", "")),
        options=tuple(getattr(arguments, "options", None) or ()),
    )


def _make_result_event(call: ToolCall, outcome: CallOutcome, text: str, summary: str) -> ToolResult:
    return ToolResult(call=call.uid, outcome=outcome, text=text, summary=summary)


def _unread_result(result: ToolResult, exceeded: TooManyUnreadLinesToStage) -> ToolResult:
    """Return the result of a call that the reading budget has no room for; recording it closes the gate."""
    return result.model_copy(
        update={
            "outcome": CallOutcome.REFUSED,
            "text": f"Refused, and nothing was staged. {exceeded}",
            "summary": f"refused: {format_count(exceeded.lines, 'line')} to read",
            "proposal": "",
            "unread": exceeded.lines,
        }
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]
