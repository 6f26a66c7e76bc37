"""The search over all sessions: found while one types, opened where it is."""

from functools import partial
from pathlib import Path

from textual.widgets import Input

from app.conversation.events import AssistantMessage, Event, TurnEnded, TurnStarted, UserMessage
from app.runtime.open_workspace import OpenWorkspace
from tests.ui.running_app import Running, running
from tests.wire.server import WireServer
from widgets.chat.entries.message_entries import ModelAnswerEntry, UserEntry
from widgets.common.search_list import SearchList

HOSTILE = "x[/]y [@click=app.bell]z[/] \x1b]0;owned\x07 \u202egnp"


def filled(runtime: OpenWorkspace, said: str, turns: int = 1) -> str:
    """A session in which something was said first, and many turns followed."""
    record = runtime.sessions.create()
    events: list[Event] = []
    for number in range(turns):
        text = said if number == 0 else f"message {number}"
        events += [TurnStarted(cause="message"), UserMessage(text=text), AssistantMessage(text=f"answer {number}")]
        events.append(TurnEnded(stopped="answer"))
    runtime.sessions.append_events(record.id, events)
    return record.id


def is_open(run: Running, session_id: str) -> bool:
    """Whether this session is open; none is while it is being switched."""
    return run.app.current_session is not None and run.app.current_session.id == session_id


async def find(run: Running, words: str) -> None:
    await run.command("search", "SessionSearchScreen")
    await run.write(words)


async def test_a_search_result_opens_at_its_message(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        filled(run.runtime, "the sea is made of salt")
        for turns, thing, words in ((1, "moon", "cheese"), (400, "sun", "gold")):
            session = filled(run.runtime, f"the {thing}\nis made of {words}", turns)
            await find(run, f"made {words[:4]}")
            await run.see("1 place", f"is made of {words}")
            await run.screen("Workbench", "enter")
            await run.until(partial(is_open, run, session))
            transcript = run.app.workbench.chat.transcript
            await run.until(lambda: run.app.workbench.chat.transcript.cursor_entry, "the place")
            assert isinstance(transcript.cursor_entry, UserEntry)
            assert transcript.cursor_entry.copy_text.startswith(f"the {thing}") and run.app.focused is transcript
            await run.see(f"is made of {words}")
            assert "the sea" not in run.text
            await run.pilot.press("f2")


async def test_a_search_result_in_the_open_session_scrolls_there(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        server.say("It is made of cheese.")
        await run.say("what is the moon?")
        session = run.app.require_session()
        await find(run, "cheese")
        await run.see("1 place")
        await run.pilot.press("enter")
        transcript = run.app.workbench.chat.transcript
        await run.until(lambda: isinstance(transcript.cursor_entry, ModelAnswerEntry), "the place")
        assert run.app.require_session() is session
        # The open session is renamed by command.
        await run.command("rename Lunar matters")
        await run.see("Renamed.")
        assert run.runtime.sessions.get(run.app.require_session().id).title == "Lunar matters"
        await run.command("rename")
        await run.see("/rename TITLE")


async def test_a_search_reports_no_match_and_shows_no_markup(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        filled(run.runtime, "the moon")
        await run.command("search moon", "SessionSearchScreen")
        await run.see("1 place")
        run.app.screen.query_one(Input).value = "sun"
        await run.see("No match.", "0 places")
        await run.pilot.press("enter")
        assert type(run.app.screen).__name__ == "SessionSearchScreen"
        run.app.screen.query_one(Input).value = ""
        await run.see("Every message, proposal, file and side question")
        # Hits are shown without markup.
        await run.screen("Workbench", "escape")
        filled(run.runtime, HOSTILE)
        await find(run, "click")
        for size in ((120, 40), (60, 20)):
            await run.pilot.resize_terminal(*size)
            await run.see("x[/]y [@click=app.bell]z[/]")
            assert "\x1b" not in run.text and "\u202e" not in run.text


async def test_a_failed_search_shows_no_results(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        for number in range(3):
            filled(run.runtime, f"the moon {number}")
        await find(run, "moon")
        await run.see("3 places")
        with run.runtime.database.transaction() as connection:
            connection.execute("DROP TABLE search")
            connection.execute("CREATE TABLE search (other TEXT)")
        await run.write(" 1")
        await run.until(lambda: "could not be used" in " ".join(run.text.replace("│", " ").split()), "the reason")
        await run.pilot.press("down", "enter")
        assert type(run.app.screen).__name__ == "SessionSearchScreen"
        assert run.app.screen.query_one(SearchList).highlighted is None
        assert "No match." not in run.text


async def test_a_session_is_pinned_and_renamed_in_the_list(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        moon = filled(run.runtime, "all about the moon")
        filled(run.runtime, "all about the sea")
        await run.command("sessions", "SessionPickerScreen")
        await run.see("all about the moon")
        await run.write("moon")
        await run.pilot.press("ctrl+t")
        await run.see("pinned")
        assert run.runtime.sessions.get(moon).pinned
        await run.screen("SessionTitleScreen", "ctrl+r")
        await run.pilot.press("end", *"!", "enter")
        await run.screen("SessionPickerScreen")
        await run.see("all about the moon!")
        assert run.runtime.sessions.get(moon).title == "all about the moon!"
