"""The transcript on screen: following, scrolling, folding, selecting, and text that wants to do harm."""

from typing import Literal

import pytest
from textual import events
from textual.events import MouseScrollUp
from textual.pilot import Pilot

from app.agent.updates import CommandOutputStreamed, EventRecorded, PhaseChanged, SessionPhase, TextStreamed
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    DecisionKind,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    ProposalDecided,
    ProposalStaged,
    Question,
    RequestFailed,
    ToolResult,
    ToolStarted,
    TurnEnded,
    UserMessage,
    UserNotice,
)
from app.proposals.values.decision_facts import FileDiffStat, LineComment
from tests.ui.chat_app import ChatApp, call, chatting, conversation, staged
from widgets.chat.entries.message_entries import ModelAnswerEntry
from widgets.chat.transcript import Transcript


async def stream(app: ChatApp, pilot: Pilot[None], text: str) -> None:
    app.pane.apply_update(TextStreamed(text))
    app.pane.show_streamed_text()
    while not app.pane.transcript.continue_layout():
        pass
    await pilot.pause()


async def test_the_transcript_follows_its_end_until_the_user_scrolls_up() -> None:
    async with chatting(conversation(20)) as (app, pilot):
        assert app.pane.transcript.is_following
        await stream(app, pilot, "first line\n\n" * 20)
        assert "first line" in app.shown()[-2]

        transcript = app.pane.transcript
        transcript.scroll_relative(y=-15, animate=False)
        await pilot.pause()
        before = app.shown()
        assert not transcript.is_following
        await stream(app, pilot, "second line\n\n" * 20)
        app.pane.apply_update(EventRecorded(UserNotice(id=999, text="news")))
        await pilot.pause()
        assert app.shown() == before
        answer = transcript.entries[-2]
        assert isinstance(answer, ModelAnswerEntry) and answer.text.count("second line") == 20
        assert "↓ 1 new" in app.pane.status_line.render().plain

        transcript.focus()
        await pilot.press("end")
        assert transcript.is_following
        assert "news" in app.shown()[-2]
        assert "new" not in app.pane.status_line.render().plain
        transcript.post_message(MouseScrollUp(transcript, 5, 5, 0, 0, 0, False, False, False))
        await pilot.pause()
        assert not transcript.is_following


async def test_a_long_session_opens_at_its_end_and_lays_out_only_visible_entries() -> None:
    async with chatting(conversation(800)) as (app, pilot):
        transcript = app.pane.transcript
        assert len(transcript.entries) > 1200
        assert any("file399.py" in row for row in app.shown())
        assert transcript.laid_out_entry_count < 60
        transcript.focus()
        await pilot.press(*["pageup"] * 5)
        looked_at, shown = transcript.laid_out_entry_count, app.shown()
        app.pane.composer.draft = "three\nlines\nnow"
        await pilot.pause()
        assert app.shown() == shown[:-2]
        assert transcript.laid_out_entry_count == looked_at, (
            "where only the height is another, nothing is laid out anew"
        )


@pytest.mark.parametrize("step", [1, 26])
async def test_scrolling_up_through_estimated_heights_never_jumps(step: int) -> None:
    async with chatting(conversation(14 if step == 1 else 40)) as (app, pilot):
        transcript = app.pane.transcript
        height = transcript.size.height
        while transcript.scroll_offset.y > step:
            before = app.shown()
            transcript.scroll_relative(y=-step, animate=False)
            await pilot.pause()
            assert app.shown()[step:] == before[: height - step]
        transcript.focus()
        await pilot.press("home")
        assert app.shown()[1] == "▌ Question 0"


async def test_a_new_width_keeps_the_entry_at_the_top() -> None:
    async with chatting(conversation(60)) as (app, pilot):
        transcript = app.pane.transcript
        transcript.scroll_relative(y=-60, animate=False)
        await pilot.pause()
        top = next(row for row in app.shown() if row.startswith("▌ Question"))
        await pilot.resize_terminal(50, 24)
        assert any(row == top for row in app.shown())
        assert not transcript.is_following
        transcript.follow_end()
        await pilot.resize_terminal(100, 40)
        assert transcript.is_following
        assert any("file29.py" in row for row in app.shown())


async def test_keys_in_an_empty_chat_do_nothing() -> None:
    async with chatting() as (app, pilot):
        app.pane.transcript.focus()
        await pilot.press("g", "G", "up", "down", "home", "end", "enter", "pageup", "pagedown", "c")
        assert app.pane.transcript.cursor_entry is None and app.said == []
        app.pane.show_session(conversation(4))
        await pilot.press("up")
        assert app.pane.transcript.cursor_entry is not None, "once there is something"


async def test_a_card_opens_the_review_and_dragging_over_it_selects_text() -> None:
    async with chatting([staged(1)]) as (app, pilot):
        # Dragging over a card selects text and opens nothing.
        transcript = app.pane.transcript
        row = next(number for number, text in enumerate(app.shown()) if "P7" in text)
        await pilot.mouse_down(transcript, offset=(4, row))
        await pilot.hover(transcript, offset=(12, row))
        await pilot.mouse_up(transcript, offset=(12, row))
        # Where the button goes up on the widget that it went down on, Textual tells of a click, too.
        at = transcript.region.x + 12, transcript.region.y + row
        click = events.Click(transcript, 12, row, 0, 0, 1, False, False, False, *at)
        transcript.post_message(click)
        await pilot.pause()
        assert app.screen.get_selected_text() and app.said == []
        # A card leads to the review.
        assert [row[:2] for row in app.shown() if row] == ["╭ ", "│ ", "╰ "]
        await pilot.click(app.pane.transcript, offset=(8, 2))
        await pilot.pause()
        assert app.said == [Transcript.ProposalOpened("P7")]
        app.pane.transcript.focus()
        await pilot.press("enter")
        assert app.said[1:] == [Transcript.ProposalOpened("P7")]


async def test_clicks_into_the_chat_keep_the_focus_in_the_composer() -> None:
    async with chatting(conversation(4)) as (app, pilot):
        # Unfolding by mouse keeps the focus in the composer.
        await pilot.press("a")
        line = next(row for row, text in enumerate(app.shown()) if "Read file" in text)
        await pilot.click(app.pane.transcript, offset=(5, line))
        await pilot.press("b", "c")
        assert app.pane.composer.draft == "abc"
        assert any("result" in row for row in app.shown())
        # A click into the chat takes the keyboard from elsewhere.
        app.pane.composer.draft = ""
        app.set_focus(None)
        await pilot.click(app.pane.transcript, offset=(5, 5))
        await pilot.press("x")
        assert app.pane.composer.draft == "x"


async def test_a_tool_line_opens_to_its_aligned_details_by_key_and_by_mouse() -> None:
    calls = call("c1.0", "read_file", path="app/a.py", start_line=3), call("c1.1", "read_file", path="no/such.py")
    log: list[Event] = [
        AssistantMessage(id=1, calls=calls),
        ToolResult(id=2, call="c1.0", outcome=CallOutcome.OK, text="3 x", summary="1 line", duration=0.2),
        ToolResult(id=3, call="c1.1", outcome=CallOutcome.ERROR, text="?", summary="no/such.py does not exist"),
    ]
    async with chatting(log) as (app, pilot):
        closed = ["✓ Read app/a.py:3- · 1 line · 0.2 s", "✗ Read no/such.py · does not exist"]
        assert [row for row in app.shown() if row] == closed
        await pilot.click(app.pane.transcript, offset=(5, 1))
        assert app.shown()[1:8] == [
            closed[0],
            "  path        app/a.py",
            "  start_line  3",
            "  result",
            "   3 x",
            "",
            closed[1],
        ]
        app.pane.transcript.focus()
        await pilot.press("g", "enter")
        assert [row for row in app.shown() if row] == closed


async def test_interventions_can_be_hidden_and_shown_again() -> None:
    log: list[Event] = [
        UserMessage(id=1, text="go"),
        Intervention(id=2, kind=InterventionKind.STAGED, text="Stop here."),
        AssistantMessage(id=3, text="Done."),
    ]
    async with chatting(log) as (app, pilot):
        before = app.shown()
        assert "▸ signoff → model  Stop here." in before
        app.pane.transcript.focus()
        await pilot.press("i")
        assert [row for row in app.shown() if row] == ["▌ go", "● Done."]
        await pilot.press("i")
        assert app.shown() == before


async def test_a_huge_message_is_folded_with_its_count_and_can_be_opened() -> None:
    async with chatting() as (app, pilot):
        for text, said in (
            ("word " * 2_000, "the rest of this line"),
            ("word " * 2_000 + "\nmore" * 4_999, "the rest of this line and 4,999 more lines"),
            ("\n".join(f"row {number}" for number in range(3000)), "2,980 more lines"),
        ):
            app.pane.show_session([UserMessage(id=1, text=text)])
            await pilot.pause()
            assert [row for row in app.shown() if row][-1] == f"▌ … {said}"
        assert len([row for row in app.shown() if row]) == 21
        app.pane.transcript.focus()
        await pilot.press("enter", "end")
        assert "▌ row 2999" in app.shown()


async def test_running_commands_show_the_end_of_their_output() -> None:
    async with chatting() as (app, pilot):
        made = call("c1.0", "run_command", command="pytest")
        app.pane.apply_update(EventRecorded(AssistantMessage(id=1, calls=(made,))))
        app.pane.apply_update(EventRecorded(ToolStarted(id=2, call="c1.0")))
        app.pane.apply_update(CommandOutputStreamed("c1.0", "".join(f"test {number}\n" for number in range(50))))
        app.pane.show_streamed_text()
        await pilot.pause()
        rows = [row for row in app.shown() if row]
        assert rows[0].startswith("◐ Run pytest")
        assert rows[-1] == "  test 49"
        assert len(rows) == 6


async def test_a_copy_of_a_message_is_its_original_text() -> None:
    sentence = "A sentence that is long enough to be wrapped into several rows of the pane, twice over at the least."
    log: list[Event] = [AssistantMessage(id=1, text=f"{sentence}\n\n```\nindented = 1\n    more\n```\n")]
    async with chatting(log, size=(50, 20)) as (app, pilot):
        transcript = app.pane.transcript
        await pilot.mouse_down(transcript, offset=(2, 1))
        await pilot.hover(transcript, offset=(30, 7))
        await pilot.mouse_up(transcript, offset=(30, 7))
        assert app.screen.get_selected_text() == f"{sentence}\n\nindented = 1\n    more"


async def test_a_double_click_selects_the_word_a_triple_click_the_entry_and_a_click_opens_a_link() -> None:
    link = AssistantMessage(id=2, text="see [the docs](https://example.org/x)")
    log: list[Event] = [UserMessage(id=1, text="one app/fetch.py:12 three"), link]
    async with chatting(log, tooltips=True) as (app, pilot):
        await pilot.click(app.pane.transcript, offset=(10, 20))
        await pilot.double_click(app.pane.transcript, offset=(10, 20))
        assert app.pane.transcript.cursor_entry is None, "below the last entry"
        await pilot.double_click(app.pane.transcript, offset=(10, 1))
        assert app.screen.get_selected_text() == "app/fetch.py:12"
        await pilot.triple_click(app.pane.transcript, offset=(10, 1))
        assert app.screen.get_selected_text() == "one app/fetch.py:12 three"
        await pilot.hover(app.pane.transcript, offset=(9, 3))
        assert str(app.pane.transcript.tooltip) == "https://example.org/x"
        await pilot.click(app.pane.transcript, offset=(9, 3))
        assert app.said == [Transcript.LinkOpened("https://example.org/x")]


async def test_the_message_of_an_ended_turn_is_shown_completely() -> None:
    words = "It was ended before the model was done, and these words are too long for a line."
    stops: tuple[Literal["answer", "staged", "refused"], ...] = ("answer", "staged", "refused")
    async with chatting() as (app, pilot):
        for stopped in stops:
            app.pane.show_session([UserMessage(id=1, text="Go on"), TurnEnded(id=2, stopped=stopped, message=words)])
            await pilot.pause()
            assert words in " ".join(" ".join(app.shown()).split())
            assert any("/continue goes on" in row for row in app.shown()) == (stopped == "answer")


HOSTILE = "x[/]y [red]z[/red] \x1b]0;title\x07 \x1b[2J \x9b31m \u202eevil\u2066 a\u200bb"


async def test_hostile_text_is_made_visible_in_the_transcript() -> None:
    stat = FileDiffStat(path=HOSTILE, op="edit", added=1, removed=1)
    comment = LineComment(path=HOSTILE, line=1, side="new", quote=HOSTILE, text=HOSTILE)
    log: list[Event] = [
        UserMessage(id=1, text=HOSTILE),
        AssistantMessage(
            id=2,
            text=f"{HOSTILE}\n\n# {HOSTILE}\n\n- {HOSTILE}\n\n```py\n{HOSTILE}\n```\n\n"
            f"| {HOSTILE} |\n|---|\n| {HOSTILE} |\n",
            reasoning=HOSTILE,
            calls=(call("c1", HOSTILE, path=HOSTILE), call("c2", "read_file", path=HOSTILE)),
        ),
        ToolResult(id=3, call="c1", outcome=CallOutcome.ERROR, text=HOSTILE, summary=HOSTILE),
        Intervention(id=4, kind=InterventionKind.FACT, text=HOSTILE),
        ProposalStaged(id=5, proposal="P1", summary=HOSTILE, files=(stat,), calls=()),
        ProposalDecided(id=6, proposal="P1", decision=DecisionKind.DENIED, feedback=HOSTILE, comments=(comment,)),
        UserNotice(id=7, text=HOSTILE, level="error"),
        RequestFailed(id=8, kind="auth", message=HOSTILE),
        HistoryCompacted(id=9, upto=1, summary=HOSTILE, method="summary"),
        AssistantMessage(id=10, text=HOSTILE, state="discarded"),
        TurnEnded(id=11, stopped="failed", message=HOSTILE),
        Question(id=12, call="c9", text=HOSTILE, options=(HOSTILE, "b")),
    ]
    async with chatting(log, files=[HOSTILE], size=(70, 100)) as (app, pilot):
        app.pane.apply_update(PhaseChanged(SessionPhase.RUNNING, HOSTILE))
        app.pane.composer.set_queued_messages([HOSTILE])
        transcript = app.pane.transcript
        transcript.focus()
        for _ in range(len(transcript.entries)):
            if type(transcript.cursor_entry).__name__ != "ProposalEntry":
                await pilot.press("enter")
            await pilot.press("up")
        await pilot.pause()
        widgets = [transcript, app.pane.status_line, app.pane.question_bar, *app.pane.composer.query("*")]
        for widget in widgets:
            strips = widget.render_lines(widget.size.region) if widget.size else []
            for strip in strips:
                assert not set(strip.text) & set("\x1b\x07\x9b\u202e\u2066\u200b\r\n"), strip.text
        assert any("x[/]y [red]z[/red]" in row for row in app.shown())


async def test_a_theme_change_repaints_without_laying_out_again() -> None:
    async with chatting(conversation(10)) as (app, pilot):
        transcript = app.pane.transcript
        before = [transcript.render_line(y) for y in range(transcript.size.height)]
        app.theme = "textual-light"
        await pilot.pause()
        after = [transcript.render_line(y) for y in range(transcript.size.height)]
        assert [strip.text for strip in before] == [strip.text for strip in after]
        assert before != after


async def test_the_scroll_bar_follows_streamed_text() -> None:
    async with chatting(conversation(20)) as (app, pilot):
        transcript, bar = app.pane.transcript, app.pane.transcript.vertical_scrollbar
        await stream(app, pilot, "first\n\n" * 2_000)
        for number in range(3):
            await stream(app, pilot, f"line {number}\n\n")
            assert app.shown()[-2] == f"  line {number}"
            place = transcript.virtual_size.height, transcript.max_scroll_y
            assert (bar.window_virtual_size, bar.position) == place
