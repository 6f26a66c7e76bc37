"""The executor by itself: the last layer of the gate, and what an interruption or a broken call leaves."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest

from app.agent.gate import GateClosingPolicy, TurnStagingGate
from app.agent.limits import SessionCostAndTimeMeter, SessionLimits, TurnBudget
from app.agent.tool_call_executor import ToolCallBatchEventWriter, ToolCallExecutor
from app.agent.updates import CommandOutputStreamed, PermissionRequested
from app.concurrency import Interrupter
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    Event,
    ProposalStaged,
    ToolCall,
    ToolResult,
    ToolStarted,
)
from app.conversation.log import EventLog
from app.conversation.payload.tool_calls import ABORTED_BEFORE
from app.copies import replace
from app.proposals.stack.draft import Draft
from app.tools.base.contract import (
    PermissionAnswer,
    PermissionRequest,
    Tool,
    ToolArguments,
    ToolContext,
    ToolError,
    ToolOutput,
)
from app.tools.tool_registry import ToolSet, make_standard_tools
from tests.waiting import until
from tests.wire.bench import FILE, Bench, edit
from tests.wire.server import WireServer

UNLIMITED = TurnBudget(SessionCostAndTimeMeter(), SessionLimits(), "", None, lambda: 0)


async def allow(call: str, asked: PermissionRequest) -> PermissionAnswer:
    return PermissionAnswer(allowed=True)


def executor(
    on: Bench,
    *more: Tool,
    log: EventLog | None = None,
    confirm: Callable[[str, PermissionRequest], Awaitable[PermissionAnswer]] = allow,
    publish: Callable[[object], None] = lambda update: None,
    checked: Callable[[Draft, Callable[[], None]], Coroutine[Any, Any, str]] | None = None,
) -> ToolCallExecutor:
    return ToolCallExecutor(
        replace(
            on.session.ports,
            tools=ToolSet([*make_standard_tools(lambda: on.runtime.sandbox), *more]),
            run_checks=checked,
        ),
        log or on.session.log,
        on.session.id,
        publish,
        confirm,
        lambda: on.session.settings,
    )


def closed_gate() -> TurnStagingGate:
    gate = TurnStagingGate(GateClosingPolicy())
    gate.apply(ProposalStaged(proposal="P1", summary="", files=(), calls=()))
    return gate


def response(*calls: tuple[str, dict[str, Any]], invalid: str = "") -> AssistantMessage:
    return AssistantMessage(
        calls=tuple(
            ToolCall(uid=f"c1.{number}", name=name, arguments=arguments, invalid=invalid)
            for number, (name, arguments) in enumerate(calls)
        )
    )


async def run(
    on: Bench, message: AssistantMessage, *tools: Tool, gate: TurnStagingGate | None = None, **options: Any
) -> None:
    await executor(on, *tools, **options).run_calls(
        message, Interrupter(), gate or TurnStagingGate(GateClosingPolicy()), UNLIMITED
    )


def outcomes(on: Bench) -> list[CallOutcome]:
    return [event.outcome for event in on.events if isinstance(event, ToolResult)]


async def test_with_a_closed_gate_the_executor_runs_no_call(on: Bench) -> None:
    message = response(edit(), ("read_file", {"path": "greet.py"}), ("ask_user", {"question": "?"}))
    await run(on, message, gate=closed_gate())
    assert outcomes(on) == [CallOutcome.REFUSED] * 3
    assert not any(isinstance(event, ToolStarted) for event in on.events)
    assert on.runtime.service.all() == [] and on.file == FILE


async def test_an_invalid_call_does_not_run(on: Bench) -> None:
    await run(on, response(edit(), invalid="cut off"))
    assert outcomes(on) == [CallOutcome.INVALID]
    assert "cut off" in next(event.text for event in on.events if isinstance(event, ToolResult))
    assert on.runtime.service.all() == []


async def test_an_edit_staged_before_an_interruption_is_kept(server: WireServer, on: Bench) -> None:
    server.turn(
        calls=[edit(), ("run_command", {"command": "sleep 60"}), ("write_file", {"path": "b", "content": ""})]
    )
    on.at(PermissionRequested, lambda _: on.session.interrupt())
    await on.say("Do three things")
    assert sorted(outcomes(on)) == [CallOutcome.ABORTED, CallOutcome.ABORTED, CallOutcome.STAGED]
    (proposal,) = on.runtime.service.pending()
    assert [change.path for change in proposal.files] == ["greet.py"]
    assert on.stopped == "aborted"
    await on.say("Go on", last="I see.")


async def test_an_edit_that_was_started_is_staged_despite_an_interruption(server: WireServer, on: Bench) -> None:
    server.turn(calls=[edit()])
    on.at(ToolStarted, lambda _: on.session.interrupt())
    await on.say("Do it")
    assert (outcomes(on), on.stopped) == ([CallOutcome.STAGED], "aborted")
    assert len(on.runtime.service.pending()) == 1


class Defective(Tool):
    name = "defective"
    kind = "read"
    Arguments = ToolArguments
    description = "Fails."

    async def run(self, arguments: ToolArguments, context: ToolContext) -> ToolOutput:
        """Fail as only a mistake does."""
        raise KeyError("no such\nthing")


async def test_an_exception_in_a_tool_ends_no_turn(on: Bench) -> None:
    message = response(("defective", {}), edit())
    await run(on, message, Defective())
    assert outcomes(on) == [CallOutcome.ERROR, CallOutcome.STAGED] and on.runtime.service.pending()
    failed = next(event for event in on.events if isinstance(event, ToolResult))
    assert "defective failed: KeyError" in failed.text and "\n" not in failed.summary


async def test_a_tool_error_is_a_result(on: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    (on.root / "greet.py").chmod(0o000)
    (on.root / "folder").mkdir()
    message = response(
        ("read_file", {"path": "folder"}),
        ("read_file", {"path": "gone.py"}),
        ("no_such_tool", {}),
        edit(),
        ("read_file", {"file": "greet.py"}),
    )
    await run(on, message)
    (on.root / "greet.py").chmod(0o644)
    found = {event.call: event for event in on.events if isinstance(event, ToolResult)}
    assert len(found) == 5
    assert found["c1.2"].outcome is CallOutcome.INVALID and "read_file" in found["c1.2"].text
    assert found["c1.4"].outcome is CallOutcome.INVALID and "path is missing" in found["c1.4"].text
    assert all(found[f"c1.{number}"].outcome is CallOutcome.ERROR for number in (0, 1))
    assert found["c1.1"].text.startswith("gone.py does not exist.")


class HalfWay(Tool):
    """An edit that fails with a part of its work done."""

    name = "half_way"
    kind = "edit"
    Arguments = ToolArguments
    description = "Fails."

    async def run(self, arguments: ToolArguments, context: ToolContext) -> ToolOutput:
        """Change one file, and not another."""
        context.draft.write("greet.py", "")
        raise ToolError("The second file is not there.")


async def test_an_edit_that_fails_halfway_stages_nothing(on: Bench) -> None:
    await run(on, response(("half_way", {})), HalfWay())
    assert outcomes(on) == [CallOutcome.ERROR] and on.runtime.service.all() == []


async def test_an_edit_is_staged_although_its_check_cannot_run(on: Bench) -> None:
    async def broken(draft: Draft, before_start: Callable[[], None]) -> str:
        raise OSError("no process can be started")

    await run(on, response(edit()), checked=broken)
    assert outcomes(on) == [CallOutcome.STAGED] and on.runtime.service.pending()


@pytest.mark.parametrize(
    "calls",
    [[("read_file", {"path": "greet.py"})], [edit(), edit("'Hi '", "'Hello '")]],
    ids=["reads", "cancels out"],
)
async def test_no_check_runs_on_a_step_without_edits(on: Bench, calls: list[tuple[str, dict[str, Any]]]) -> None:
    checked: list[Draft] = []

    async def check(draft: Draft, before_start: Callable[[], None]) -> str:
        checked.append(draft)
        return ""

    await run(on, response(*calls), checked=check)
    assert checked == []


async def test_an_invalid_cut_question_is_not_asked(on: Bench) -> None:
    (result,) = executor(on).truncated_call_results(response(("ask_user", {"text": "Which?"})).calls)
    assert isinstance(result, ToolResult) and result.outcome is CallOutcome.INVALID


class CountingSink:
    """Keeps events in memory, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.writes = self.last = 0

    async def append(self, events: Sequence[Event], after: int) -> Sequence[Event]:
        self.writes += bool(events)
        first, self.last = self.last + 1, self.last + len(events)
        return [event.model_copy(update={"id": number}) for number, event in enumerate(events, first)]

    async def read_after(self, after: int) -> Sequence[Event]:
        return ()


class FailingSink(CountingSink):
    """Takes one write, and others only once it is mended."""

    failed = 0
    mended = False

    async def append(self, events: Sequence[Event], after: int) -> Sequence[Event]:
        if self.writes and not self.mended:
            self.failed += 1
            raise OSError("the disk is full")
        return await super().append(events, after)


async def test_an_event_that_could_not_be_stored_is_stored_with_the_next() -> None:
    sink = FailingSink()
    log = EventLog(sink)
    recorder = ToolCallBatchEventWriter(log)
    for call in ("c1.0", "c1.1"):
        await recorder.write_soon(ToolStarted(call=call))
    await until(lambda: sink.failed, "the write that fails")
    sink.mended = True
    await recorder.write_soon(ToolStarted(call="c1.2"))
    await recorder.close()
    assert [event.call for event in log.events if isinstance(event, ToolStarted)] == ["c1.0", "c1.1", "c1.2"]


@pytest.mark.parametrize("kind", ["reads", "edits"])
async def test_quick_calls_are_written_together_and_in_order(on: Bench, kind: str) -> None:
    names = [f"f{number}.py" for number in range(100)]
    for name in names:
        (on.root / name).write_text(FILE)
    calls = [("read_file", {"path": name}) if kind == "reads" else edit(path=name) for name in names]
    message, sink = response(*calls), CountingSink()
    log = EventLog(sink)
    await run(on, message, log=log)
    results = [event.call for event in log.events if isinstance(event, ToolResult)]
    assert results == [call.uid for call in message.calls]
    assert [event.call for event in log.events if isinstance(event, ToolStarted)] == results
    assert sink.writes < len(names) / 2


async def test_a_command_is_on_disk_before_it_runs(on: Bench) -> None:
    reads = [("read_file", {"path": "greet.py"})] * 3
    stored: list[str] = []

    def look(update: object) -> None:
        if isinstance(update, CommandOutputStreamed) and not stored:
            events = on.runtime.sessions.events(on.session.id)
            stored.extend(event.call for event in events if isinstance(event, ToolStarted | ToolResult))

    running = executor(on, publish=look)
    await running.run_calls(
        response(*reads, ("run_command", {"command": "echo a"})),
        Interrupter(),
        TurnStagingGate(GateClosingPolicy()),
        UNLIMITED,
    )
    assert stored == ["c1.0", "c1.0", "c1.1", "c1.1", "c1.2", "c1.2", "c1.3"]


async def test_a_command_interrupted_before_permission_has_not_started(server: WireServer, on: Bench) -> None:
    server.turn(calls=[("run_command", {"command": "touch made"})])
    server.say("I see.")
    stored: list[Event] = []

    def stop(update: object) -> None:
        if isinstance(update, PermissionRequested):
            stored.extend(on.runtime.sessions.events(on.session.id))
            on.session.interrupt()

    on.session.subscribe(stop)
    await on.say("Make it")
    await on.say("Go on")
    (told,) = [message["content"] for message in server.last.messages if message["role"] == "tool"]
    assert told == ABORTED_BEFORE
    assert stored and not any(isinstance(event, ToolStarted) for event in stored), "what a crash would leave"
