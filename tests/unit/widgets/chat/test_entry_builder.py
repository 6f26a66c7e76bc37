"""The fold: a session watched live and the same session read from its log show the same entries."""

from collections.abc import Iterable
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from app.agent.updates import (
    CallStreamed,
    CommandOutputStreamed,
    EventRecorded,
    ReasoningStreamed,
    StreamDiscarded,
    TextStreamed,
    Update,
)
from app.conversation.events import (
    AssistantMessage,
    CallDeniedWithFeedback,
    CallOutcome,
    DecisionKind,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    ProposalChanged,
    ProposalDecided,
    ProposalStaged,
    Question,
    RequestFailed,
    RequestSent,
    ToolCall,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserAnswer,
    UserMessage,
    UserNotice,
)
from app.conversation.token_totals import TokenTotals
from app.copies import replace
from app.llm.values.requests_and_updates import TokenUsage
from app.proposals.risk.change_summary import default_command_summary
from app.proposals.values.decision_facts import FileDiffStat
from app.proposals.values.origin import OriginKind, ProposalOrigin
from widgets.chat.entries.entry_base import EntryAddedOrReplaced, EntryChange, EntryRemoved, TranscriptEntry
from widgets.chat.entries.message_entries import (
    ModelAnswerEntry,
    NoticeToUserEntry,
    QuestionEntry,
    TurnEndEntry,
    UserEntry,
)
from widgets.chat.entries.tool_entries import DecisionEntry, ProposalEntry, ToolEntry
from widgets.chat.entry_builder import EntryBuilder, entry_key_of_event

STAT = FileDiffStat(path="a.py", op="edit", added=3, removed=1)


def shown(changes: Iterable[EntryChange]) -> list[TranscriptEntry]:
    entries: dict[str, TranscriptEntry] = {}
    for change in changes:
        if isinstance(change, EntryAddedOrReplaced):
            entries[change.entry.key] = change.entry
        else:
            entries.pop(change.key, None)
    return list(entries.values())


def live(updates: Iterable[Update]) -> list[TranscriptEntry]:
    fold = EntryBuilder()
    return shown(change for update in updates for change in fold.changes_of_update(update))


def reopened(events: Iterable[Event]) -> list[TranscriptEntry]:
    return shown(EntryBuilder().changes_of_log(events))


def call(uid: str, name: str = "read_file", **arguments: Any) -> ToolCall:
    return ToolCall(uid=uid, name=name, arguments=arguments)


TEXT = st.text(alphabet="ab \n", min_size=1, max_size=12)
STATES: st.SearchStrategy[Literal["complete", "interrupted", "truncated"]] = st.sampled_from(
    ["complete", "interrupted", "truncated"]
)


@st.composite
def responses(draw: st.DrawFn) -> list[Update]:
    """One response of the model: what streams, then what is recorded; perhaps after failed attempts."""
    updates: list[Update] = []
    records: list[Update] = []
    number = draw(st.integers(0, 10_000))
    for _ in range(draw(st.integers(0, 2))):
        text = draw(st.sampled_from(["", "half an answer"]))
        updates += [ReasoningStreamed("hm")] * draw(st.integers(0, 1))
        if text:
            updates.append(TextStreamed(text))
        updates += [CallStreamed(0, "read_file", 3)] * draw(st.integers(0, 1))
        updates.append(StreamDiscarded("the stream broke"))
        records.append(EventRecorded(AssistantMessage(text=text, state="discarded")))
    records += [EventRecorded(UserNotice(text="the endpoint refused something"))] * draw(st.integers(0, 1))
    reasoning, text = draw(st.sampled_from(["", "thinking"])), draw(st.one_of(st.just(""), TEXT.filter(str.strip)))
    calls = tuple(call(f"c{number}.{index}", path=f"f{index}.py") for index in range(draw(st.integers(0, 2))))
    updates += [ReasoningStreamed(part) for part in reasoning]
    updates += [TextStreamed(part) for part in text]
    updates += [CallStreamed(index, "read_file", 40 * size) for index, _ in enumerate(calls) for size in (1, 2)]
    # Failed attempts are recorded together with the one that succeeded, so they come late.
    updates += records
    if draw(st.booleans()):
        state = draw(STATES)
        updates.append(EventRecorded(AssistantMessage(text=text, reasoning=reasoning, calls=calls, state=state)))
    else:
        # WaitInterrupted before there was anything to record.
        return [*updates, EventRecorded(TurnEnded(stopped="aborted"))]
    for made in calls:
        updates.append(EventRecorded(ToolStarted(call=made.uid)))
        updates += [CommandOutputStreamed(made.uid, "line\n")] * draw(st.integers(0, 2))
        outcome = draw(st.sampled_from(list(CallOutcome)))
        updates.append(EventRecorded(ToolResult(call=made.uid, outcome=outcome, text="out", summary="1 line")))
    return updates


OTHERS = st.sampled_from(
    [
        [EventRecorded(UserMessage(text="hello"))],
        [EventRecorded(TurnStarted(cause="message"))],
        [EventRecorded(UserNotice(text="note"))],
        [EventRecorded(RequestSent())],
        [EventRecorded(Intervention(kind=InterventionKind.STAGED, text="stop"))],
        [EventRecorded(HistoryCompacted(upto=1, summary="so far", method="summary"))],
        [EventRecorded(TurnEnded(stopped="answer"))],
        [EventRecorded(ProposalStaged(proposal="P1", summary="s", files=(STAT,), calls=()))],
        [EventRecorded(ProposalDecided(proposal="P1", decision=DecisionKind.DENIED, feedback="no"))],
        [EventRecorded(ProposalChanged(proposal="P1", state="stale", reason="the file changed"))],
    ]
)


@given(st.lists(st.one_of(responses(), OTHERS), max_size=8))
def test_a_live_session_and_its_log_show_the_same(parts: list[list[Update]]) -> None:
    updates = [update for part in parts for update in part]
    events = [
        update.event.model_copy(update={"id": number}) if isinstance(update, EventRecorded) else None
        for number, update in enumerate(updates, 1)
    ]
    numbered = [
        update if event is None else EventRecorded(event) for update, event in zip(updates, events, strict=True)
    ]
    assert live(numbered) == reopened(event for event in events if event is not None)


def test_program_and_user_are_never_mistaken_for_each_other() -> None:
    entries = reopened(
        [
            UserMessage(id=1, text="from the user"),
            Intervention(id=2, kind=InterventionKind.PENDING, text="One.\n\nTwo."),
            UserNotice(id=3, text="for the user"),
            CallDeniedWithFeedback(id=4, call="c1.0", asked="command", subject="make", feedback="not now"),
        ]
    )
    kinds = ["UserEntry", "ProgramMessageToModelEntry", "NoticeToUserEntry", "UserEntry"]
    assert [type(entry).__name__ for entry in entries] == kinds
    assert [line.text for line in entries[1].rows(60, opened=False)] == ["signoff → model  One. Two."]
    assert [line.text for line in entries[1].rows(60, opened=True)] == ["signoff → model  ", "One.", "", "Two."]


def test_a_streamed_entry_is_kept_when_recorded() -> None:
    fold = EntryBuilder()
    for event in (TurnStarted(id=1, cause="message"), UserMessage(id=2, text="hello"), RequestSent(id=3)):
        fold.changes_of_event(event)
    fold.changes_of_update(TextStreamed("x"))
    assert fold.changes_of_event(AssistantMessage(id=4, text="x")) == [
        EntryAddedOrReplaced(ModelAnswerEntry("answer1.0", "x"))
    ]
    fold.changes_of_update(TextStreamed("y"))
    fold.changes_of_event(UserNotice(id=5, text="said meanwhile"))
    moved = fold.changes_of_event(AssistantMessage(id=6, text="y"))
    assert moved == [EntryRemoved("answer1.1"), EntryAddedOrReplaced(ModelAnswerEntry("answer1.1", "y"))]


def test_a_call_becomes_one_line_from_writing_to_result() -> None:
    message = AssistantMessage(id=1, calls=(call("c1.0", path="app.py", start_line=3, end_line=9),))
    assert live([CallStreamed(0, "read_file", 40)]) == [
        ToolEntry("writing0.0", "read_file", status="writing", characters=40)
    ]
    updates: list[Update] = [CallStreamed(0, "read_file", 40), EventRecorded(message)]
    (entry,) = live(updates)
    assert isinstance(entry, ToolEntry)
    assert (entry.target, entry.status) == ("app.py:3-9", "waiting")
    result = ToolResult(id=3, call="c1.0", outcome=CallOutcome.OK, text="body", summary="7 lines", duration=0.2)
    (entry,) = live([*updates, EventRecorded(ToolStarted(id=2, call="c1.0")), EventRecorded(result)])
    assert isinstance(entry, ToolEntry)
    assert (entry.status, entry.summary, entry.output, entry.duration) == ("ok", "7 lines", "body", 0.2)


def test_a_failed_command_is_an_error_and_waits_do_not_count() -> None:
    result = ToolResult(
        id=3, call="c1.0", outcome=CallOutcome.OK, text="", summary="exit 1", failed=True, waited=60.0
    )
    events: list[Event] = [
        TurnStarted(id=1, time=100.0, cause="message"),
        AssistantMessage(id=2, calls=(call("c1.0", "run_command", command="make"),)),
        result,
        TurnEnded(id=4, time=163.0, stopped="answer"),
    ]
    entries = shown(EntryBuilder().changes_of_log(events))
    tool = next(entry for entry in entries if isinstance(entry, ToolEntry))
    assert (tool.status, tool.summary) == ("error", "exit 1")
    assert next(entry for entry in entries if isinstance(entry, TurnEndEntry)).duration == 3.0


def test_a_question_replaces_its_call_and_takes_the_answer() -> None:
    events: list[Event] = [
        AssistantMessage(id=1, calls=(call("c1.0", "ask_user", question="Which?"),)),
        Question(id=2, call="c1.0", text="Which?", options=("a", "b")),
    ]
    fold = EntryBuilder()
    entries = shown(fold.changes_of_log(events))
    assert entries == [QuestionEntry("e2", "c1.0", "Which?", ("a", "b"))]
    assert [line.text for line in entries[0].rows(40, opened=False)] == ["Which?"], "the bar below has its options"
    assert not list(
        fold.changes_of_event(ToolResult(id=9, call="c1.0", outcome=CallOutcome.OK, text="b", summary="b"))
    )
    assert fold.open_question == entries[0]
    answered = list(fold.changes_of_event(UserAnswer(id=3, call="c1.0", text="b")))
    assert fold.open_question is None
    assert [line.text for line in shown(answered)[0].rows(40, opened=False)] == ["Which?", "1. a", "2. b"]
    assert answered == [
        EntryAddedOrReplaced(QuestionEntry("e2", "c1.0", "Which?", ("a", "b"), "b")),
        EntryAddedOrReplaced(UserEntry("e3", "b", answers=True)),
    ]


def test_events_of_unknown_calls_show_nothing_and_a_question_not_asked_is_a_failed_call() -> None:
    result = ToolResult(id=2, call="gone", outcome=CallOutcome.OK, text="b", summary="b")
    assert live([CommandOutputStreamed("gone", "line\n"), EventRecorded(result)]) == []
    assert live([EventRecorded(UserAnswer(id=3, call="gone", text="b"))]) == [UserEntry("e3", "b", answers=True)]
    asking = AssistantMessage(id=1, calls=(call("c1.0", "ask_user"),))
    entries = reopened([asking, ToolResult(id=2, call="c1.0", outcome=CallOutcome.INVALID, text="no question")])
    assert [entry.status for entry in entries if isinstance(entry, ToolEntry)] == ["invalid"]


def test_a_decision_is_recorded_and_turns_the_card_and_a_revision_replaces_it() -> None:
    staged = ProposalStaged(id=1, proposal="P1", summary="s", files=(STAT,), calls=())
    for decision, state in (
        (DecisionKind.APPROVED, "applied"),
        (DecisionKind.DENIED, "denied"),
        (DecisionKind.PARTLY_APPROVED, "partly_approved"),
        (DecisionKind.UNDONE, "undone"),
        (DecisionKind.REDONE, "applied"),
        (DecisionKind.REOPENED, "pending"),
    ):
        card, decided = reopened([staged, ProposalDecided(id=2, proposal="P1", decision=decision, feedback="why")])
        assert isinstance(card, ProposalEntry)
        assert isinstance(decided, DecisionEntry)
        assert (card.state, decided.event.feedback) == (state, "why")
    cards = reopened([staged, staged.model_copy(update={"id": 2, "proposal": "P2", "supersedes": "P1"})])
    assert [card.state for card in cards if isinstance(card, ProposalEntry)] == ["superseded", "pending"]


def test_the_end_of_a_turn_shows_a_summary() -> None:
    events: list[Event] = [
        TurnStarted(id=1, time=100, cause="message"),
        AssistantMessage(id=2, text="a", calls=(call("c1.0"), call("c1.1")), usage=TokenUsage(completion_tokens=30)),
        AssistantMessage(
            id=3, text="b", usage=TokenUsage(prompt_tokens=1_200, cached_tokens=900, completion_tokens=12, cost=0.5)
        ),
        TurnEnded(id=4, time=107.5, stopped="answer"),
    ]
    end = reopened(events)[-1]
    assert end == TurnEndEntry("e4", "answer", "", 7.5, 2, TokenTotals(1_200, 900, 42, 0.5))
    assert isinstance(end, TurnEndEntry)
    facts = "2 tool calls · 1.2k in (900 cached), 42 out · $0.500"
    assert [line.text for line in end.rows(80, opened=False)] == [f"7.5 s · {facts}"]
    cut_short = replace(end, stopped="aborted", duration=0.0)
    assert [line.text for line in cut_short.rows(100, opened=False)] == [f"interrupted · /continue goes on · {facts}"]
    interrupted = AssistantMessage(id=3, text="b", state="interrupted")
    end_of_interrupted = reopened([*events[:2], interrupted, TurnEnded(id=4, time=107.5, stopped="aborted")])[-1]
    (line,) = end_of_interrupted.rows(80, opened=False)
    assert line.text == "/continue goes on · 7.5 s · 2 tool calls · 30 tokens", "the answer shows the interruption"
    failed = replace(end, stopped="failed", message="No.\nIndeed.")
    assert [line.text for line in failed.rows(80, opened=False)] == ["No.", "Indeed.", "/continue sends it again"]
    stops: list[Any] = ["answer", "staged", "aborted", "failed"]
    assert [len(reopened([TurnEnded(id=1, stopped=stopped)])) for stopped in stops] == [0, 0, 1, 1]


def test_a_failure_is_shown_once_where_it_happened() -> None:
    entries = reopened([RequestFailed(id=1, kind="auth", message="The key was refused.")])
    assert entries == [NoticeToUserEntry("e1", "The key was refused.", "error")]
    failed = RequestFailed(id=1, kind="auth", message="The key was refused.")
    ended = TurnEnded(id=2, stopped="failed", message="The key was refused.")
    assert reopened([failed, ended]) == [TurnEndEntry("e2", "failed", "The key was refused.", 0.0, 0, TokenTotals())]
    ends: list[tuple[Literal["failed", "staged"], str]] = [
        ("failed", "It did not help. The key was refused."),
        ("staged", "The key was refused."),
    ]
    for stopped, message in ends:
        ended = TurnEnded(id=2, stopped=stopped, message=message)
        assert reopened([failed, ended]) == [TurnEndEntry("e2", stopped, message, 0.0, 0, TokenTotals())]


def test_the_edits_of_a_step_are_shown_only_on_its_card() -> None:
    names = {"1": "edit_file", "2": "edit_file", "3": "run_command"}
    calls = [ToolCall(uid=uid, name=name, arguments={}) for uid, name in names.items()]
    log: list[Event] = [
        AssistantMessage(id=1, text="", calls=tuple(calls)),
        ToolResult(id=2, call="1", outcome=CallOutcome.STAGED, text="staged", proposal="P1"),
        ToolResult(id=3, call="2", outcome=CallOutcome.ERROR, text="matched nothing"),
        ToolResult(id=4, call="3", outcome=CallOutcome.STAGED, text="it printed this", proposal="P1"),
        ProposalStaged(id=5, proposal="P1", summary="s", files=(STAT,), calls=("1", "3")),
    ]
    entries = shown(EntryBuilder().changes_of_log(log))
    assert [entry.key for entry in entries if isinstance(entry, ToolEntry)] == ["tool2", "tool3"]
    assert entry_key_of_event(log, 2) == entry_key_of_event(log, 5), "who looks for the edit is led to the card"


def test_the_card_of_a_command_shows_it_on_one_line_with_its_white_space() -> None:
    summary = default_command_summary("sed -i 's/    /  /' a.py\necho done")
    origin = ProposalOrigin(kind=OriginKind.COMMAND)
    event = ProposalStaged(id=1, proposal="P1", summary=summary, files=(STAT, STAT), calls=(), origin=origin)
    (card,) = shown(EntryBuilder().changes_of_event(event))
    whole, cut = "P1  Command: sed -i 's/    /  /' a.py ⏎ echo done · 2 files", "P1  Command: sed -i 's/  … · 2 files"
    for width, words in ((80, whole), (36, cut)):
        head, *rest = (line.text for line in card.rows(width, opened=False))
        assert head == words and len(head) <= width
        assert rest[0].startswith("waits for you"), "the files stand in the review"
