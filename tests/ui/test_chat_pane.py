"""The pane as a whole: streaming, questions, the status line, and quiet when nothing moves."""

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from textual.geometry import Offset
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.selection import Selection
from textual.timer import Timer

from app.agent.updates import (
    CallStreamed,
    CommandOutputStreamed,
    EventRecorded,
    PhaseChanged,
    QueuedMessagesChanged,
    ReasoningStreamed,
    SessionFailed,
    SessionPhase,
    StreamDiscarded,
    TextStreamed,
)
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    Event,
    Question,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserAnswer,
    UserMessage,
    UserNotice,
)
from tests.ui.chat_app import SIZE, ChatApp, call, chatting, conversation
from tests.ui.review_app import Clock
from tests.waiting import until
from widgets.chat import chat_pane, transcript_layout
from widgets.chat.chat_bars import TurnStatusLine
from widgets.chat.chat_pane import ChatPane
from widgets.chat.composer import PLACEHOLDER, Composer
from widgets.chat.composer_lists import QueuedMessages
from widgets.chat.entries.entry_base import EntryAddedOrReplaced
from widgets.chat.entry_builder import EntryBuilder

QUESTION: list[Event] = [
    AssistantMessage(id=1, calls=(call("c1.0", "ask_user", question="Which?"),)),
    Question(id=2, call="c1.0", text="Which **one**?", options=("the first", "the second", "neither")),
]


async def filled(app: ChatApp, pilot: Pilot[None]) -> None:
    await app.workers.wait_for_complete()
    await until(lambda: not app.pane.has_more_to_show, "the end of the text")
    await pilot.pause()


async def shows(app: ChatApp, text: str) -> None:
    await until(lambda: any(text in row for row in app.shown()), text)


async def test_streamed_text_appears_and_ends_as_the_recorded_message() -> None:
    async with chatting() as (app, pilot):
        text = "# Title\n\n- one\n- two\n\nThe **end**."
        app.pane.apply_update(PhaseChanged(SessionPhase.STREAMING))
        for character in text:
            app.pane.apply_update(TextStreamed(character))
        await shows(app, "The end.")
        streamed = app.shown()
        app.pane.apply_update(EventRecorded(AssistantMessage(id=1, text=text)))
        await pilot.pause()
        assert app.shown() == streamed
        app.pane.apply_update(PhaseChanged(SessionPhase.IDLE))
        assert not app.pane.status_line.is_ticking and not app.pane.composer.editor.cursor_blink, "nothing moves"
        other = ChatApp([AssistantMessage(id=1, text=text)])
        async with other.run_test(size=SIZE) as again:
            await again.pause()
            assert other.shown()[:8] == streamed[:8]


async def test_streamed_calls_reasoning_and_discarded_attempts_are_shown() -> None:
    async with chatting() as (app, pilot):
        app.pane.apply_update(ReasoningStreamed("First thought.\nSecond thought."))
        await shows(app, "Thinking  Second thought.")
        app.pane.apply_update(TextStreamed("Half an answ"))
        await shows(app, "Thought  First thought.")
        app.pane.apply_update(StreamDiscarded("the stream broke"))
        await shows(app, "Discarded")
        app.pane.apply_update(CallStreamed(0, "edit_file", 1234))
        await shows(app, "… Edit · 1,234 characters")
        # The queue comes with updates.
        app.pane.apply_update(QueuedMessagesChanged(("next",)))
        await pilot.pause()
        assert "next" in str(app.query_one(QueuedMessages).render())
        # Failures outside of the log are told.
        app.pane.show_session([])
        app.pane.apply_update(SessionFailed("The disk is full."))
        app.pane.apply_update(SessionFailed("It still is."))
        await pilot.pause()
        assert [row for row in app.shown() if row] == ["! The disk is full.", "! It still is."]


async def ask_anew(app: ChatApp, pilot: Pilot[None]) -> None:
    """Ask the question with nothing chosen or written."""
    app.pane.show_session([])
    app.pane.show_session(QUESTION)
    app.said.clear()
    app.pane.composer.draft = ""
    await pilot.pause()


async def test_a_question_is_answered_by_number_arrow_text_or_mouse() -> None:
    async with chatting(QUESTION) as (app, pilot):
        app.pane.composer.set_history(["sent before"])
        for keys, answer in (
            ("2", "the second"),
            (("down", "enter"), "the second"),
            (("up", "enter"), "neither"),
            ((*"my own", "enter"), "my own"),
            ((*"v2", "enter"), "v2"),
        ):
            await ask_anew(app, pilot)
            await pilot.press(*keys)
            assert app.said == [ChatPane.QuestionAnswered("c1.0", answer)]
        await ask_anew(app, pilot)
        await pilot.mouse_down(app.pane.question_bar, offset=(8, 0))
        await pilot.mouse_up(app.pane.question_bar, offset=(8, 2))
        assert app.said == [], "sliding from one option to another answers nothing"
        await pilot.press("down")
        app.pane.apply_update(EventRecorded(UserNotice(id=3, text="for the user")))
        await pilot.press("enter")
        assert app.said == [ChatPane.QuestionAnswered("c1.0", "the second")], "whatever is recorded meanwhile"
        await ask_anew(app, pilot)
        await pilot.click(app.pane.question_bar, offset=(8, 2))
        assert app.said == [ChatPane.QuestionAnswered("c1.0", "neither")]
        # An answered question leaves the composer to messages.
        await ask_anew(app, pilot)
        assert "1–3" in str(app.pane.composer.editor.placeholder)
        app.pane.composer.set_queued_messages(["next"])
        assert "↑" not in app.query_one(QueuedMessages).render().plain, "it selects an option"
        app.pane.apply_update(EventRecorded(UserAnswer(id=3, call="c1.0", text="the first")))
        await pilot.pause()
        assert not app.pane.question_bar.display and str(app.pane.composer.editor.placeholder) == PLACEHOLDER
        assert "↑ takes back" in app.query_one(QueuedMessages).render().plain
        await pilot.press("2", "enter")
        assert app.said == [Composer.Submitted("2")]
        assert any("1. the first" in row for row in app.shown())
        # Opening another session forgets the question.
        await ask_anew(app, pilot)
        app.pane.show_session([UserMessage(id=1, text="other")])
        await pilot.pause()
        assert not app.pane.question_bar.display
        assert [row for row in app.shown() if row] == ["▌ other"]


async def test_the_interrupt_hint_is_complete_and_can_be_clicked() -> None:
    app = ChatApp(conversation(1))
    heard: list[str] = []
    app.bind("escape", "heard")
    app.action_heard = lambda: heard.append("escape")  # type: ignore[attr-defined]
    async with app.run_test(size=(40, 20)) as pilot:
        await pilot.pause()
        line = app.query_one(TurnStatusLine)
        app.pane.apply_update(PhaseChanged(SessionPhase.RUNNING, "a_tool_of_a_server.with_a_long_name"))
        await pilot.pause()
        said = line.render().plain
        assert said.endswith("… Esc interrupts") and len(said) == line.content_size.width
        await pilot.click(line, offset=(2, 0))
        await pilot.click(line, offset=(line.content_size.width - 3, 0), button=3)
        assert heard == []
        await pilot.click(line, offset=(line.content_size.width - 3, 0))
        assert heard == ["escape"]


LONG = "A way that takes " + "very " * 60 + "many words"


async def test_long_and_many_options_are_shown_and_leave_room_for_the_composer() -> None:
    question = [QUESTION[0], Question(id=2, call="c1.0", text="Which?", options=("short", LONG, "last"))]
    async with chatting(question) as (app, pilot):
        bar = app.pane.question_bar
        rows = bar.render().plain.split("\n")
        assert " ".join("".join(f" {row[5:]}" for row in rows[1:-1]).split()) == " ".join(LONG.split())
        assert [row[:4].strip() for row in rows if row[:4].strip()] == ["› 1", "2", "3"]
        await pilot.click(bar, offset=(30, 3))
        options = tuple(f"option {number}" for number in range(1, 31))
        app.pane.show_session([QUESTION[0], Question(id=2, call="c2.0", text="Which?", options=options)])
        await pilot.pause()
        assert bar.size.height == SIZE[1] // 3
        assert app.pane.composer.editor.region.bottom <= SIZE[1]
        await pilot.press(*["down"] * 19)
        assert "› 20 option 20" in bar.render().plain
        await pilot.click(bar, offset=(8, bar.size.height - 2))
        answers = [ChatPane.QuestionAnswered("c1.0", LONG), ChatPane.QuestionAnswered("c2.0", "option 19")]
        assert app.said == answers


def long_log(turns: int) -> list[Event]:
    log: list[Event] = []
    for turn in range(turns):
        log += [
            TurnStarted(cause="message"),
            UserMessage(text=f"message {turn}"),
            AssistantMessage(text=f"answer {turn}"),
            TurnEnded(stopped="answer"),
        ]
    return [event.model_copy(update={"id": at, "time": float(at)}) for at, event in enumerate(log, 1)]


async def test_the_end_of_a_long_session_is_shown_first() -> None:
    log = long_log(400)
    async with chatting() as (app, pilot):
        app.pane.show_session(log)
        assert 0 < len(app.pane.transcript.entries) < 300, "only the end"
        assert any("answer 399" in row for row in app.shown())
        # What is said meanwhile comes after the log, and once.
        app.pane.apply_update(EventRecorded(UserMessage(id=10_000, text="one more")))
        assert "▌ one more" in app.shown() and len(app.pane.transcript.entries) < 300, "the rest has not come yet"
        app.pane.apply_update(TextStreamed("an answer"))
        await filled(app, pilot)
        assert app.shown().count("▌ one more") == 1
        assert app.pane.transcript.entries[:-2] == [
            change.entry for change in EntryBuilder().changes_of_log(log) if isinstance(change, EntryAddedOrReplaced)
        ]
        app.pane.transcript.focus()
        await pilot.press("home")
        assert any("message 0" in row for row in app.shown())


def long_turn(steps: int) -> list[Event]:
    """One turn with so many calls."""
    calls = [call(f"c{step}.0", path=f"file{step}.py") for step in range(steps)]
    log: list[Event] = [TurnStarted(id=1, cause="message")]
    for step, one in enumerate(calls):
        result = ToolResult(
            id=2 * step + 3, call=one.uid, outcome=CallOutcome.OK, text="text", summary=f"{step} lines"
        )
        log += [AssistantMessage(id=2 * step + 2, text=f"Now {step}.", calls=(one,)), result]
    return log


@pytest.mark.parametrize("log", [long_log(400), long_turn(400)], ids=["many turns", "one long turn"])
async def test_visible_entries_stay_in_place_while_a_session_loads(log: list[Event]) -> None:
    async with chatting() as (app, pilot):
        app.pane.show_session(log[-200:])
        transcript = app.pane.transcript
        transcript.focus()
        await pilot.press("pageup")
        looked_at, lit = app.shown(), transcript.cursor_entry
        transcript.screen.selections = {transcript: Selection(Offset(0, transcript.scroll_offset.y), None)}
        copied = transcript.get_selection(transcript.screen.selections[transcript])
        app.pane.show_session(log)
        app.pane.apply_update(EventRecorded(UserMessage(id=10_000, text="one more")))
        await filled(app, pilot)
        assert len(transcript.entries) > 400
        assert app.shown() == looked_at
        assert lit is not None
        assert transcript.cursor_entry is not None
        assert transcript.cursor_entry.copy_text == lit.copy_text
        assert transcript.text_selection is not None
        more = transcript.get_selection(transcript.text_selection)
        assert copied is not None
        assert more is not None
        assert more[0].split() == [*copied[0].split(), "one", "more"]
        assert not transcript.is_following
        await pilot.press("end")
        assert "▌ one more" in app.shown()


async def test_visible_entries_stay_in_place_when_an_entry_above_changes() -> None:
    log = long_turn(14)
    async with chatting(log) as (app, pilot):
        transcript = app.pane.transcript
        app.pane.apply_update(EventRecorded(ToolStarted(id=1000, call="c0.0")))
        transcript.focus()
        await pilot.press("pageup")
        looked_at = app.shown()
        app.pane.apply_update(CommandOutputStreamed("c0.0", "one\ntwo\nthree\n"))
        await filled(app, pilot)
        assert app.shown() == looked_at
        app.pane.apply_update(CommandOutputStreamed("c0.0", "four\n"))
        app.pane.apply_update(EventRecorded(UserMessage(id=1001, text="one more")))
        await filled(app, pilot)
        assert app.shown() == looked_at
        await pilot.press("home")
        assert "  four" in app.shown()


async def test_opened_entry_stays_open_while_a_session_loads() -> None:
    log = [*long_log(400), *long_turn(1)]
    log = [event.model_copy(update={"id": at}) for at, event in enumerate(log, 1)]
    async with chatting() as (app, pilot):
        app.pane.show_session(log)
        transcript = app.pane.transcript
        transcript.move_cursor(len(transcript.entries) - 1)
        transcript.action_open()
        opened = app.shown()
        assert any("path" in row for row in opened)
        await filled(app, pilot)
        assert app.shown() == opened


async def test_a_session_opened_while_others_load_is_the_one_that_stays() -> None:
    async with chatting() as (app, pilot):
        for length in (400, 401, 402):
            app.pane.show_session(long_log(length))
        app.pane.apply_update(EventRecorded(UserMessage(id=10_000, text="one more")))
        app.pane.show_session([UserMessage(id=1, text="other")])
        await until(lambda: not app.pane.has_more_to_show, "the end of the text")
        await pilot.pause()
        assert [row for row in app.shown() if row] == ["▌ other"]
    # What was never awaited is told of as an error.
    gc.collect()


class AtOnce(ThreadPoolExecutor):
    """Threads that are done before anything else goes on."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done = Future[Any]()
        done.set_result(call(*args, **kwargs))
        return done


async def test_an_event_that_is_not_loaded_yet_is_scrolled_to_later_in_its_session_only() -> None:
    log = long_log(1_000)
    async with chatting() as (app, pilot):
        asyncio.get_running_loop().set_default_executor(AtOnce())
        app.pane.show_session(log)
        await app.pane.scroll_to_event(log, log[1].id)
        assert app.pane.has_more_to_show and app.pane.transcript.cursor_entry is None, "the rest has not come yet"
        app.pane.show_session([event.model_copy(update={"id": event.id + 100_000}) for event in long_log(400)][:-4])
        app.pane.show_session(long_log(400))
        await shows(app, "answer 399")
        await until(lambda: not app.pane.has_more_to_show, "the end of the text")
        assert app.pane.transcript.cursor_entry is None, "the session was closed"
        app.pane.show_session(log)
        await app.pane.scroll_to_event(log, log[1].id)
        await filled(app, pilot)
        assert app.pane.transcript.cursor_entry is not None
        assert app.pane.transcript.cursor_entry.copy_text == "message 0"
        assert any("message 0" in row for row in app.shown())


async def test_status_line_names_each_phase_and_the_interrupt_key() -> None:
    clock = Clock()
    app = ChatApp()
    app.pane.status_line = TurnStatusLine(clock, lambda: datetime(2026, 1, 2, 12, 0))
    async with app.run_test(size=SIZE) as pilot:
        for phase, detail, retry_at, words in (
            (SessionPhase.REQUESTING, "", 0.0, "Waiting for the model"),
            (SessionPhase.STREAMING, "", 0.0, "Writing · 25 tokens/s"),
            (SessionPhase.RUNNING, "read_file", 0.0, "Running tools"),
            (SessionPhase.RUNNING, "git.status", 0.0, "Running git.status"),
            (SessionPhase.RETRYING, "rate limited", 1014.0, "Retrying in 10 s · rate limited"),
            (SessionPhase.RETRYING, "", 0.0, "Retrying · "),
            (SessionPhase.RETRYING, "", 1309.0, "Retrying at 12:05, in 5:05"),
            (SessionPhase.RETRYING, "", 1014.0, "/continue tries now"),
            (SessionPhase.COMPACTING, "", 0.0, "Making room"),
        ):
            clock.now = 1000.0
            app.pane.apply_update(PhaseChanged(phase, detail, retry_at))
            app.pane.status_line.add_characters(400)
            clock.now += 4.0
            await pilot.pause()
            shown = app.pane.status_line.render().plain
            assert words in shown
            assert "4.0 s" in shown
            assert shown.endswith("Esc interrupts")
            assert app.pane.status_line.is_ticking
            app.pane.apply_update(PhaseChanged(SessionPhase.IDLE))
            assert app.pane.status_line.render().plain.strip() == ""
            assert not app.pane.status_line.is_ticking
        # In a narrow pane, the reason for a retry has a line of its own.
        await pilot.resize_terminal(48, 20)
        app.pane.apply_update(PhaseChanged(SessionPhase.RETRYING, "the server is overloaded (529)", clock.now + 4))
        await until(lambda: app.pane.status_line.size.height == 2, "two lines")
        first, second = app.pane.status_line.render().plain.split("\n")
        assert "in 4 s · the server is overl" in first and second.endswith("/continue tries now   Esc interrupts")
        app.pane.apply_update(PhaseChanged(SessionPhase.REQUESTING))
        await until(lambda: app.pane.status_line.size.height == 1, "one line")
        # Waits for the user do not count as time.
        app.pane.apply_update(PhaseChanged(SessionPhase.RUNNING, "run_command"))
        clock.now += 2.0
        app.pane.status_line.show_waiting_permissions(1)
        shown = app.pane.status_line.render().plain
        assert "Needs your permission" in shown and "Running" not in shown
        clock.now += 600.0
        app.pane.status_line.show_waiting_permissions(0)
        clock.now += 1.0
        shown = app.pane.status_line.render().plain
        assert "Running a command" in shown and "3.0 s" in shown


ENDS: list[tuple[TurnEnded, tuple[str, ...]]] = [
    (TurnEnded(id=9, stopped="aborted"), ("WaitInterrupted", "/continue goes on")),
    (TurnEnded(id=9, stopped="failed", message="Key refused."), ("Key refused.", "/continue sends it again")),
    (TurnEnded(id=9, stopped="answer"), ()),
    (TurnEnded(id=9, stopped="answer", message="It broke off."), ("It broke off.", "/continue goes on")),
]


async def test_the_status_line_names_the_end_of_a_turn_that_is_out_of_sight() -> None:
    async with chatting() as (app, pilot):
        for end, words in ENDS:
            app.pane.show_session(conversation(20))
            await pilot.pause()
            app.pane.transcript.focus()
            await pilot.press("home")
            app.pane.apply_update(PhaseChanged(SessionPhase.STREAMING))
            app.pane.apply_update(EventRecorded(end))
            app.pane.apply_update(PhaseChanged(SessionPhase.IDLE))
            await pilot.pause()
            said = app.pane.status_line.render().plain
            assert all(part in said for part in words)
            assert ("/continue" in said) == bool(words)
            await pilot.press("end")
            assert app.pane.status_line.render().plain.strip() == "", "the transcript says it"
            app.pane.apply_update(PhaseChanged(SessionPhase.REQUESTING))
            assert "Waiting" in app.pane.status_line.render().plain


async def test_typing_works_while_much_text_streams() -> None:
    async with chatting(conversation(60)) as (app, pilot):
        app.pane.apply_update(PhaseChanged(SessionPhase.STREAMING))
        text = "".join(f"## Part {number}\n\nSome *words* and `code`.\n\n" for number in range(200))
        for start in range(0, len(text), 40):
            app.pane.apply_update(TextStreamed(text[start : start + 40]))
            if start % 1000 == 0:
                await pilot.press("x")
        app.pane.apply_update(EventRecorded(AssistantMessage(id=99999, text=text)))
        await shows(app, "Part 199")
        assert app.pane.composer.draft == "x" * (len(text) // 1000 + 1)


async def test_visible_calls_of_a_thousand_are_laid_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tuple(call(f"c{number}", path=f"file{number}.py") for number in range(1000))
    message = AssistantMessage(id=1, text="All of them.", calls=calls)
    whole = ChatApp([message])
    async with whole.run_test(size=SIZE) as pilot:
        await pilot.pause()
        expected = whole.shown()
    monkeypatch.setattr(transcript_layout, "_LAYOUT_SLICE_SECONDS", 0.0)
    async with chatting() as (app, pilot):
        for number in range(1000):
            app.pane.apply_update(CallStreamed(number, "read_file", 10))
        app.pane.apply_update(EventRecorded(message))
        assert app.pane.transcript.laid_out_entry_count < 100
        await filled(app, pilot)
        assert app.shown() == expected


async def test_streamed_text_is_painted_before_its_layout_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_layout, "_LAYOUT_SLICE_SECONDS", 0.0)
    async with chatting() as (app, _pilot):
        transcript = app.pane.transcript
        paragraphs = [f"Paragraph {number}.\n\n" for number in range(100)]
        app.pane.apply_update(TextStreamed("".join(paragraphs)))
        app.pane.show_streamed_text()
        before = transcript.virtual_size.height
        app.pane.apply_update(TextStreamed("".join(paragraphs)))
        app.pane.show_streamed_text()
        assert transcript.virtual_size.height > before
        await shows(app, "Paragraph 99.")


async def test_paging_from_the_composer_moves_the_transcript() -> None:
    async with chatting(conversation(60)) as (app, pilot):
        await pilot.press("a", "pageup")
        assert not app.pane.transcript.is_following
        assert app.pane.composer.editor.has_focus
        await pilot.press("pagedown")
        assert app.pane.transcript.is_following
        app.pane.composer.draft = "line\n" * 50
        await pilot.press("pageup")
        assert app.pane.transcript.is_following


async def test_the_chat_works_in_narrow_and_tiny_terminals() -> None:
    async with chatting([*conversation(20), *QUESTION]) as (app, pilot):
        for size in ((40, 10), (12, 6), (7, 20), (4, 3), (160, 45)):
            await pilot.resize_terminal(*size)
            transcript = app.pane.transcript
            strips = [transcript.render_line(y) for y in range(transcript.size.height)]
            assert {sum(segment.cell_length for segment in strip) for strip in strips} <= {transcript.size.width}
        assert any("Which one?" in row for row in app.shown())


async def test_streaming_does_not_stop_when_textual_loses_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    # Textual never fires a timer of one shot if the process is held up for longer than its delay just as it begins.
    def lost(pump: MessagePump, delay: float, *_: Any, **__: Any) -> Timer:
        return Timer(pump, delay, repeat=0, pause=True)

    monkeypatch.setattr(MessagePump, "set_timer", lost)
    async with chatting() as (app, _pilot):
        app.pane.apply_update(TextStreamed("It goes on."))
        await shows(app, "It goes on.")


async def test_streamed_text_after_a_pause_is_shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_pane, "_MIN_REFRESH_SECONDS", 3600.0)
    async with chatting() as (app, pilot):
        app.pane.apply_update(TextStreamed("one"))
        await shows(app, "one")
        app.pane.apply_update(TextStreamed(" two"))
        await pilot.pause()
        assert app.pane.has_more_to_show
        assert not any("two" in row for row in app.shown())
