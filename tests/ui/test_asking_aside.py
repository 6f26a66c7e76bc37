"""Asking aside in the review: the field, the answer, the thread on its hunk, and that none of it decides."""

from pathlib import Path

from textual.widgets import TextArea

from app.agent.updates import EventRecorded
from app.conversation.events import MessageQueued, ProposalLocation, SideAnswer, SideQuestion
from app.proposals.values.models import ProposalState
from tests.ui.review_app import reviewing
from tests.ui.running_app import Running, running, stage, staged
from tests.ui.sample_diffs import file_diff, proposed
from tests.ui.test_review_decisions import small
from tests.wire.bench import FILE, of_role
from tests.wire.replies import STALL, Turn, chunk, error, stream
from tests.wire.server import Request, WireServer
from tests.wire.test_side_questions import asked_aside
from widgets.diff.diff_rows import CommentRow
from widgets.diff.file_list import FileList
from widgets.review import review_messages


def answers(run: Running) -> list[SideAnswer]:
    return [event for event in run.app.require_session().log.events if isinstance(event, SideAnswer)]


async def ask(run: Running, server: WireServer, text: str, *steps: object) -> None:
    """Open the field on the hunk at the cursor, and ask."""
    await run.review("q")
    await run.write(text)
    server.script(steps)  # type: ignore[arg-type]
    await run.pilot.press("enter")


async def ask_in_a_turn(run: Running, server: WireServer) -> None:
    """Ask while the model is at an answer; neither that nor this one's comes to its end."""
    await stage(run, server)

    def model(request: Request) -> object:
        return stream(chunk("Aside so far" if asked_aside(request) else "Turn so far"), STALL)

    server.model(model)  # type: ignore[arg-type]
    await run.app.require_session().send("Tell me a story")
    await run.see("Turn so far")
    await ask(run, server, "why?")


async def test_a_side_answer_streams_below_the_diff_and_shows_its_cost(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        asking = run.app.workbench.review.ask_panel
        await run.review("q")
        await run.see("Ask about hunk 1 of P1 in greet.py", "decides nothing")
        await run.write("what calls yYnN?")
        server.script([Turn("Nothing **calls** it.\n\n- really", prompt_tokens=1_500, completion_tokens=40)])
        await run.pilot.press("enter")
        await run.see("▌ what calls yYnN?", "● Nothing calls it.", "• really", "1.5k in, 40 out", "1.5k in, 50 out")
        assert asking.is_writing and asked_aside(server.last)
        assert of_role(server.last, "user")[-1] == "what calls yYnN?"
        assert run.file == FILE and [one.state for one in run.proposals] == [ProposalState.PENDING]
        assert (
            "model must wait" in run.text
            and "what calls" not in run.app.workbench.chat.transcript.entries[-1].copy_text
        )
        await run.pilot.press("escape")
        await run.see("You asked: what calls yYnN? (q shows the answer)")
        view = run.app.workbench.review.view
        assert run.app.focused is view and "Nothing calls it" not in run.text
        view.cursor.move_to_end()
        assert isinstance(view.cursor.row, CommentRow)
        await run.pilot.press("enter")
        await run.see("● Nothing calls it.")
        server.say("I see.")
        await run.app.require_session().send("Go on")
        await run.until(lambda: run.app.workbench.chat.transcript.entries[-2].copy_text == "I see.")
        assert not any("calls yYnN" in text for _, text in server.last.said)
    async with running(tmp_path, server) as later:
        await later.review()
        await later.see("You asked: what calls yYnN?")
        await ask(later, server, "and now?", Turn("Still."))
        await later.see("▌ what calls yYnN?", "● Nothing calls it.", "▌ and now?", "● Still.")
        assert [text for role, text in server.last.said if role == "assistant"] == [
            "Nothing **calls** it.\n\n- really"
        ]


async def test_escape_closes_then_stops_the_answer_then_interrupts(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        await ask_in_a_turn(run, server)
        session, review = run.app.require_session(), run.app.workbench.review
        await run.see("Aside so far", "Esc stops the answer", "Stop")
        assert "y  approve" not in run.text, "in the question it is a letter"
        await run.pilot.press("f3")
        await run.see("Esc closes it", "Esc Close", "y  approve")
        await run.pilot.press("escape")
        await run.until(lambda: not review.ask_panel.is_open)
        threads = review.ask_panel.threads
        assert session.is_busy and threads.awaited_question(threads.exchanges_about("P1")[0].question.place)
        assert "Esc Close" not in run.text and run.app.focused is review.view
        # Where it is written, the answer is stopped first.
        await run.pilot.press("q")
        await run.see("▌ why?", "Aside so far")
        await run.pilot.press("escape")
        await run.see("⊘ interrupted", "decides nothing")
        assert session.is_busy and review.ask_panel.is_open
        assert [answer.state for answer in answers(run)] == ["interrupted"]
        await run.pilot.press("escape")
        await run.until(lambda: not review.ask_panel.is_open)
        assert session.is_busy and not [e for e in session.log.events if isinstance(e, MessageQueued)]
        # The end of the turn leaves a question that is still out.
        await run.pilot.press("q")
        await run.write("why then?")
        await run.pilot.press("enter")
        await run.until(lambda: len(of_role(server.last, "user")) > 2 and asked_aside(server.last))
        await run.see("Esc stops the answer")
        await run.pilot.press("f3")
        await run.see("Esc closes it")
        await run.pilot.press("escape")
        await run.until(lambda: not review.ask_panel.is_open)
        assert session.is_busy
        await run.pilot.press("escape")
        await run.settled()
        assert not session.is_busy
        assert threads.exchanges_about("P1")[-1].answer is None, "the question is still out"


async def test_a_side_question_is_opened_at_its_hunk(tmp_path: Path, server: WireServer) -> None:
    """Also after a restart, in another session, and where nobody has been in the review yet."""
    lines = [f"line {number}\n" for number in range(200)]
    async with running(tmp_path, server) as run:
        (run.runtime.workspace.root / "long.txt").write_text("".join(lines))
        edits = [{"old": f"line {number}\n", "new": f"row {number}\n"} for number in (9, 99, 189)]
        server.turn(calls=[("edit_file", {"path": "long.txt", "edits": edits})])
        server.say("Have a look.")
        await run.say("change it")
        await run.review("f3", "]", "]")
        await ask(run, server, "why rows?", Turn("They are shorter."))
        await run.see("● They are shorter.")
    async with running(tmp_path, server, size=(60, 20)) as run:
        await run.command("search shorter", "SessionSearchScreen")
        await run.see("1 place", "the model, aside")
        before = len(server.requests)
        await run.screen("Workbench", "enter")
        await run.see("Ask about hunk 3 of P1 in long.txt", "● They are shorter.")
        await run.until(lambda: (hunk := run.app.workbench.review.view.cursor.hunk) and hunk.number == 3, "the hunk")
        await run.see("row 189")
        assert run.app.workbench.review.ask_panel.is_writing
        assert len(server.requests) == before, "to look at it asks nobody"


async def test_after_an_error_another_side_question_can_be_asked(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        for number, (step, said) in enumerate(
            (
                (Turn(""), "Ask again"),
                (error(429, "Slow down", headers={"retry-after": "30"}), "limits the rate of requests"),
                (error(500, "Oops"), "Ask again to try once more."),
            )
        ):
            await ask(run, server, "why?", step)
            await run.told(said)
            assert "Try again" not in run.text and "continue" not in run.text
            assert "! " in run.text
            await run.write("why?")
            server.say(f"Because {number}.")
            await run.pilot.press("enter")
            await run.see(f"● Because {number}.")


async def test_without_a_model_a_side_question_says_what_to_do_and_keeps_its_text(tmp_path: Path) -> None:
    async with running(tmp_path, size=(120, 40)) as run:
        await run.screen("ModelSetupScreen")
        await run.screen("Workbench", "escape")
        patch = "--- a/greet.py\n+++ b/greet.py\n@@ -1,2 +1,2 @@\n def greet(name):\n"
        run.runtime.service.stage_patch(patch + "-    return 'Hello ' + name\n+    return 'Hi ' + name\n")
        await run.app.show_proposals()
        await run.see("P1")
        await run.review("q")
        await run.write("what for?")
        await run.pilot.press("enter")
        await run.see("to choose a model", "what for?")
        assert run.app.workbench.review.ask_panel.is_writing
        assert run.app.controllers.review is not None
        after_decision = run.app.controllers.review.actions.after_decision
        assert after_decision.delivery_sentence(run.proposals) == (
            " There is no model to read your words; they are stored in the log."
        )
        assert (
            await after_decision.continue_if_wanted(run.proposals[0], is_requested=True)
            == " There is no model yet to go on."
        )


async def test_picked_lines_are_sent_with_a_question_and_an_answer_becomes_feedback(
    tmp_path: Path, server: WireServer
) -> None:
    async with staged(tmp_path, server) as run:
        await run.review("f3", "right_square_bracket", "j", "asterisk", "q")
        await run.see("1 picked line")
        await run.write("why?")
        server.say("Because.")
        await run.pilot.press("enter")
        await run.see("● Because.")
        note = next(text for role, text in server.last.said if role == "system" and "Side question." in text)
        assert "the user picked these lines:\n```\n+    return 'Hi ' + name\n```" in note
        # One more key makes it feedback to be edited and sent.
        await ask(run, server, "why Hi?", Turn("It is shorter.\nAnd kinder."))
        await run.see("● It is shorter.")
        await run.pilot.press("ctrl+f")
        await run.see("Request changes to P1")
        field = run.app.workbench.review.feedback_field
        assert field.is_open and not run.app.workbench.review.ask_panel.is_open
        draft = field.query_one(TextArea).text
        assert draft == (
            "About hunk 1 of P1 in greet.py I asked you aside: “why Hi?”\nYou answered:\n\n"
            "> It is shorter.\n> And kinder.\n\n"
        )
        assert [one.state for one in run.proposals] == [ProposalState.PENDING]
        await run.write("Keep Hello.")
        server.say("Fine.")
        await run.pilot.press("ctrl+s")
        await run.until(lambda: not server.last.closing and "Keep Hello." in str(server.last.body))
        await run.settled()
        assert of_role(server.last, "user")[-1] == draft + "Keep Hello."


async def test_typing_after_the_field_closed_decides_nothing() -> None:
    async with reviewing(small()) as (app, pilot):
        await pilot.press("q", "enter", *"why yes", "escape", *"yYnNxo")
        assert app.posted == [] and app.focused is app.review.view
        assert "closed just now" in app.text()
        await pilot.press("q")
        assert "why yes" in app.text()
        await pilot.press("escape")
        await app.press_later("y")
        assert app.posted == [review_messages.Approve("P1", 1, None)]


async def test_the_diff_that_the_user_asks_about_stays_when_another_window_decides() -> None:
    async with reviewing(small("P1"), small("P2", "b.py")) as (app, pilot):
        await pilot.press("q", "w")
        await app.change(app.proposals["P1"].model_copy(update={"state": ProposalState.APPLIED}))
        assert app.review.ask_panel.is_writing and app.review.state.current == "P1"


async def test_an_answer_cannot_become_feedback_for_a_decided_proposal() -> None:
    item = small()
    async with reviewing(item) as (app, pilot):
        place = ProposalLocation("P1", "a.py", item[1][0].change.hunks[0].id)
        question = SideQuestion(uid="q", **place._asdict(), number=1, text="why?")
        app.review.ask_panel.load_threads([question, SideAnswer(question="q", proposal="P1", text="So.")])
        await pilot.press("q", "n", "o", "w", "question_mark")
        app.put(item[0].model_copy(update={"state": ProposalState.APPLIED}))
        await pilot.press("ctrl+f")
        assert "P1 is decided, or not listed here: the feedback would reach nobody." in app.text()
        assert app.review.ask_panel.is_writing and app.review.state.feedback_drafts.drafts == {}
        app.review.ask_panel.handle_update(
            EventRecorded(SideQuestion(uid="r", **place._asdict(), number=1, text="and?"))
        )
        await pilot.press("enter")
        assert app.posted == [], "the answer before is awaited"


async def test_the_cursor_of_the_diff_stays_in_view_above_the_panel_at_any_focus(
    tmp_path: Path, server: WireServer
) -> None:
    """The question and the keys that decide take their room from a diff that may have little."""
    async with running(tmp_path, server, size=(80, 45)) as run:
        texts = {f"f{number}.py": f"x = {number}\n" for number in range(5)}
        for name, text in texts.items():
            (run.runtime.workspace.root / name).write_text(text * 40)
        calls = [
            ("edit_file", {"path": name, "edits": [{"old": text * 40, "new": text * 39 + "y = 1\n"}]})
            for name, text in texts.items()
        ]
        server.turn("Editing.", calls=calls)
        server.say("Have a look.")
        await run.say("change it")
        await run.review()
        view, files = run.app.workbench.review.view, run.app.workbench.review.query_one(FileList)

        def to_the_last_row() -> int:
            bottom = view.scroll_offset.y + view.size.height - 1
            view.cursor.move_without_scrolling(view.layout_rows.part_at(bottom).number)
            return view.cursor.number

        row = to_the_last_row()
        await ask(run, server, "why?", Turn("Because.\n\n" + "And so on.\n\n" * 30))
        await run.see("10 in, 5 out")
        await run.painted()
        top = view.layout_rows.first_line_of_row(row) - view.scroll_offset.y
        assert view.cursor.number == row and 0 <= top < view.size.height, "also as the answer grows"
        await run.pilot.press("f3")
        await run.pilot.resize_terminal(80, 24)
        await run.painted()
        assert files.size.height <= view.size.height
        await run.pilot.press("q")
        for key in ("f3", "q", "f3"):
            to_the_last_row()
            await run.pilot.press(key)
            await run.painted()
            top = view.layout_rows.first_line_of_row(view.cursor.number) - view.scroll_offset.y
            assert 0 <= top < view.size.height, key
            assert files.size.height <= view.size.height


async def test_questions_on_files_and_removed_hunks_are_marked_and_can_be_opened() -> None:
    diffs = [file_diff("a.py", "a\nb\n", "a\nc\n")]
    hunk = diffs[0].change.hunks[0].id
    async with reviewing(proposed(*diffs)) as (app, pilot):
        asked = [
            SideQuestion(uid="1", proposal="P1", path="a.py", text="all of it?"),
            SideQuestion(uid="2", proposal="P1", path="a.py", hunk="gone", number=3, text="why " * 100),
            SideQuestion(uid="3", proposal="P1", path="a.py", hunk=hunk, number=1, text="and this?"),
            SideQuestion(uid="4", proposal="P1", path="b.py", text="elsewhere?"),
        ]
        app.review.ask_panel.load_threads(asked)
        await pilot.pause()
        text = app.text()
        assert "You asked about the file: all of it? (Enter shows the answer)" in text
        assert "You asked about a hunk as it was: why why" in text and text.count("why") < 60
        assert "You asked: and this? (q shows the answer)" in text and "elsewhere?" not in text
        rows = app.review.view.layout_rows
        marks = [number for number in range(rows.row_count) if isinstance(rows.row_at(number), CommentRow)]
        for number, topic in zip(marks, ("P1 in a.py", "hunk 3 of P1 in a.py", "hunk 1 of P1 in a.py"), strict=True):
            app.review.view.cursor.move_to(number)
            await pilot.press("enter")
            assert f"Ask about {topic}" in app.text()
            await pilot.press("escape")
