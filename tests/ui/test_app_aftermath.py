"""What follows a decision in the whole app: who goes on, where the focus is, what becomes of the user's words."""

import asyncio
from pathlib import Path
from threading import Event

import pytest

from app.agent.updates import PhaseChanged, SessionPhase
from app.conversation.events import ProposalDecided, TurnStarted, UserMessage, UserNotice
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.ui.context.slash_commands import BadArgument
from tests.ui.running_app import Running, running, staged
from tests.ui.test_app_decisions import APPROVED
from tests.wire.bench import FILE, edit, of_role
from tests.wire.replies import Call, Turn
from tests.wire.server import Request, WireServer
from widgets.common.workbench_bars import KeyBar, StatusBar


def in_composer(run: Running) -> bool:
    return run.app.focused is run.app.workbench.composer.editor


def shows(run: Running) -> str | None:
    return run.app.workbench.review.state.current


async def write_feedback(run: Running, text: str) -> None:
    """Open the field for feedback and type into it."""
    await run.pilot.press("r")
    await run.until(lambda: run.app.workbench.review.feedback_field.is_open, "the field")
    await run.write(text)


async def go_on(run: Running, **facts: object) -> str:
    """What is said when the model is to go on after P1 was approved."""
    assert run.app.controllers.review is not None
    after_decision = run.app.controllers.review.actions.after_decision
    return await after_decision.continue_if_wanted(run.proposals[0].model_copy(update=facts), is_requested=True)


def causes(run: Running) -> list[str]:
    return [event.cause for event in run.app.require_session().log.events if isinstance(event, TurnStarted)]


async def test_o_approves_and_continues_the_model_when_nothing_waits(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path, server) as run:
        session, may_resume = run.app.require_session(), asyncio.Event()
        resume = session.resume

        async def resume_late() -> None:
            await may_resume.wait()
            await resume()

        monkeypatch.setattr(session, "resume", resume_late)
        server.call(*edit("'Hi '", "'Hey '"))
        server.say("And this.")
        await run.review()
        await run.pilot.press("o")
        await run.until(lambda: run.file == APPROVED, "the file")
        await run.until(lambda: run.app.workbench.review.state.waiting_count == 0, "the decision to be shown")
        await run.pilot.pause()
        assert not in_composer(run), "the model is about to go on"
        may_resume.set()
        await run.see("P2", "And this.")
        await run.settled()
        assert causes(run) == ["message", "continue"]
        assert not in_composer(run), "the next proposal is a key away"
        server.say("All done.")
        await run.until(run.can_decide, "the diff")
        await run.pilot.press("o")
        await run.until(lambda: "'Hey '" in run.file, "the second one")
        await run.see("All done.")
        await run.until(lambda: in_composer(run), "the way back")
        said = of_role(server.last, "system")
        assert any("approved proposal P2" in text for text in said)
        assert any("go on" in text for text in said)
        assert "The model goes on" not in run.text


async def test_with_the_setting_the_last_approval_continues_the_model(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, continue_after_approval=True, gate="chain", chain_steps=2) as run:
        server.call(*edit())
        server.call(*edit("def greet", "def hail"))
        server.say("Both.")
        await run.say("change it")
        await run.see("P1", "P2")
        server.say("All done.")
        await run.review()
        await run.pilot.press("y")
        await run.until(lambda: run.proposals[0].state is ProposalState.APPLIED, "the first one")
        await run.see("approve, go on")
        assert causes(run) == ["message"], "something waits still"
        await run.until(run.can_decide, "the diff")
        await run.pilot.press("y")
        await run.see("All done.")
        assert causes(run) == ["message", "continue"]
        await run.until(lambda: in_composer(run), "the way back")


async def test_the_end_of_a_turn_keeps_the_focus(tmp_path: Path, server: WireServer) -> None:
    looked, heard = Event(), Event()

    replies: list[Turn] = []

    def answer(_: Request) -> Turn:
        if len(replies) == 1:
            looked.set()
            heard.wait(30)
        return replies.pop(0)

    async with running(tmp_path, server) as run:
        server.model(answer)
        for keys in (("f2", "f3"), ("j",), ("f4",)):
            await run.pilot.press("f2")
            looked.clear()
            heard.clear()
            replies += [Turn(calls=(Call(*edit()),)), Turn("Have a look.")]
            replies += [Turn(calls=(Call("read_file", {"path": "greet.py"}),)), Turn("I see.")]
            await run.say("change it")
            await run.review()
            await write_feedback(run, "Not so")
            await run.pilot.press("ctrl+s")
            await run.until(looked.is_set, "the second step of the turn")
            await run.painted()
            assert "Your words are on" in run.text, "as long as the turn lasts"
            await run.pilot.press(*keys)
            heard.set()
            await run.settled()
            assert run.app.workbench.review.has_review_focus, keys
            assert "Your words are on" not in run.text


async def test_a_failed_approval_keeps_focus_and_comments(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        await run.review()
        await write_feedback(run, "Say Ahoy")
        await run.pilot.press("escape")
        review = run.app.workbench.review
        await run.until(run.can_decide, "the picture")
        # Another process has decided, and this one has not heard of it yet.
        other = run.runtime.service.get("P1").model_copy(update={"state": ProposalState.SUPERSEDED})
        run.runtime.proposals.save_proposal(other)
        await run.pilot.press("n")
        await run.see("unsent words go with it")
        await run.until(run.can_decide, "the picture")
        await run.pilot.press("y")
        await run.see("P1 is superseded already")
        assert review.state.feedback_drafts.drafts["P1"] == "Say Ahoy"
        await run.app.show_proposals()
        await run.painted()
        assert review.has_review_focus
        await run.app.show_proposals()
        await run.until(lambda: run.app.workbench.composer.draft == "Say Ahoy", "the words in the composer")
        assert not any(isinstance(event, ProposalDecided) for event in run.app.require_session().log.events)


async def test_comments_with_an_approval_reach_the_model_at_once(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        server.always(Turn("I see."))
        await run.review()
        await write_feedback(run, "Now test it")
        await run.pilot.press("f4")
        await run.until(run.can_decide, "the picture")
        await run.pilot.press("y")
        await run.see("our unsent words go with it", "Now test it")
        assert run.file == FILE
        await run.until(run.can_decide, "the picture")
        await run.pilot.press("y")
        await run.until(lambda: len(server.requests) == 3, "the request with the words")
        await run.settled()
        assert run.file == APPROVED
        assert sum("Now test it" in said for said in of_role(server.last, "user")) == 1
        assert not any("Now test it" in said for said in of_role(server.last, "system"))
        await run.until(lambda: "on their way" not in run.text, "the end of what held until then")


async def test_feedback_during_an_open_question_says_when_it_is_sent(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server, size=(200, 45)) as run:
        server.call("ask_user", {"question": "Which greeting?"})
        await run.say("go on")
        await run.see("Which greeting?")
        with pytest.raises(BadArgument, match="A question waits for your answer"):
            await run.app.controllers.commands.run("continue")
        before = len(server.requests)
        assert await go_on(run) == " The model goes on once you have answered its question."
        await run.review()
        await write_feedback(run, "Not so")
        await run.pilot.press("ctrl+s")
        await run.see("P1 denied", "Your words go to the model with your answer to its question.")
        assert len(server.requests) == before
        assert "on their way" not in run.text
        server.always(Turn("I see."))
        await run.pilot.press("f2")
        await run.app.require_session().answer("Ahoy")
        await run.settled()
        assert len(server.requests) == before + 1
        assert sum("Not so" in said for said in of_role(server.last, "user")) == 1
        await run.until(lambda: "with your answer" not in run.text, "the end of what held until then")


async def test_unsent_feedback_ticks_and_excluded_hunks_survive_a_restart(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        await run.pilot.press("f3")
        review = run.app.workbench.review
        await run.until(run.can_decide, "the picture")
        await run.pilot.press("c")
        await run.write("saved")
        await run.pilot.press("ctrl+s", "k", "c")
        await run.write("aside")
        await run.pilot.press("escape")
        await run.until(run.can_decide, "the picture")
        await write_feedback(run, "Say Ahoy")
    async with running(tmp_path, server, resume=True) as run:
        review = run.app.workbench.review
        await run.see("P1", "saved")
        assert in_composer(run)
        assert sorted(remark.text for remark in review.state.feedback_drafts.remarks["P1"]) == ["aside", "saved"]
        assert review.state.feedback_drafts.drafts["P1"] == "Say Ahoy"
        server.call(*edit(new="'Ahoy '"))
        server.say("Better?")
        await run.review()
        await write_feedback(run, "!")
        await run.pilot.press("ctrl+s")
        await run.settled()
        (said,) = [text for text in of_role(server.last, "user") if "Ahoy" in text]
        assert said.startswith("Say Ahoy!") and "saved" in said and "aside" in said
        await run.see("P2", "☐ greet.py:", "changed in v2: saved")
        await run.until(run.can_decide, "the picture")
        await run.pilot.press("f3", "space", "g", "j", "enter")
        await run.see("☑ greet.py:", "No hunk is chosen")
        run.runtime.sessions.set_setting("review:P9", "as no version writes it")
    async with running(tmp_path, server, resume=True) as run:
        await run.see("Your comments on P1, 1 of 2 open", "☑ greet.py:", "☐ greet.py:", "No hunk is chosen")
        assert run.app.workbench.composer.draft == ""
        kept = run.runtime.sessions.settings("review:")["review:P1"]
        assert '"draft":"","remarks":[]' in kept, "what was said is not begun any more"


async def test_comments_of_denials_keep_their_order_over_a_restart(tmp_path: Path, server: WireServer) -> None:
    server.always(Turn("I see."))
    first, second = (
        LineComment(path="greet.py", line=1, side="new", quote="", text=text) for text in ("name it", "say more")
    )
    async with staged(tmp_path, server) as run:
        session = run.app.require_session()
        await session.deny("P1", None, "", [first])
        await run.settled()
        await session.undo("P1")
        await session.deny("P1", None, "", [second])
        await run.settled()
    async with running(tmp_path, server, resume=True) as run:
        await run.pilot.press("f4")
        await run.until(lambda: run.reviewed, "the review")
        sent = run.app.workbench.review.state.feedback_drafts.sent
        await run.until(lambda: "P1" in sent, "the comments")
        assert sent["P1"] == (first, second)


async def test_a_denial_can_be_reopened_and_a_confirmation_names_its_keys(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        await run.review()
        before = len(server.requests)
        await run.pilot.press("n")
        await run.see("P1 denied; nothing was written. F4 u reopens it.", "F4 u  reopen")
        assert in_composer(run) and len(server.requests) == before and run.file == FILE
        await run.pilot.press("f4")
        await run.see("P1 denied; nothing was written. u reopens it.")
        for key, state in (("u", ProposalState.PENDING), ("U", ProposalState.DENIED), ("u", ProposalState.PENDING)):
            await run.review()
            await run.pilot.press(key)
            await run.until(lambda state=state: run.proposals[0].state is state, state)  # type: ignore[misc]
            await run.painted()
        await run.review()
        await run.pilot.press("y")
        await run.until(lambda: run.file == APPROVED, "the file")
        # A question names its answers and no other keys.
        server.call(*edit("'Hi '", "'Hey '"))
        server.say("And this.")
        await run.pilot.press("f2")
        await run.say("go on")
        await run.review()
        footer = run.app.workbench.query_one(KeyBar)
        await run.see("y  approve")
        await write_feedback(run, "No.")
        await run.pilot.press("escape")
        await run.until(run.can_decide, "the moment to decide")
        await run.pilot.press("n")
        await run.see("Deny?", "y  yes    n  no")
        await run.until(lambda: "Deny" not in str(footer.render()), "a footer without what keys do not do now")
        assert not any(name in str(footer.render()) for name in ("Approve", "Yes", "No "))


async def test_only_the_last_decision_focuses_the_composer(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, gate="chain", chain_steps=2) as run:
        for key, numbers in (("n", (0, 1)), ("y", (2, 3))):
            server.call(*edit())
            server.call(*edit("def greet", "def hail"))
            server.say("Both.")
            await run.say("change it")
            await run.review()
            for number in numbers:
                proposal, waits = f"P{number + 1}", number == numbers[0]
                await run.until(lambda shown=proposal: shows(run) == shown and run.can_decide())  # type: ignore[misc]
                await run.pilot.press(key)
                await run.until(lambda number=number: not run.proposals[number].state.is_pending)  # type: ignore[misc]
                await run.until(lambda waits=waits: run.app.workbench.review.has_review_focus is waits)  # type: ignore[misc]
            await run.until(lambda: in_composer(run), "the way back")


async def test_a_permission_is_answered_and_the_end_of_the_turn_restores_the_focus(
    tmp_path: Path, server: WireServer
) -> None:
    async with staged(tmp_path, server) as run:
        server.call("run_command", {"command": "echo from-the-tool"})
        server.say("It ran.")
        await run.write("run it")
        await run.pilot.press("enter")
        await run.see("Needs your permission", "P1")
        await run.review()
        await run.pilot.press("y")
        await run.see("It ran.")
        assert run.file == FILE
        assert [one.state for one in run.proposals] == [ProposalState.PENDING]
        assert run.app.workbench.review.state.current == "P1"
        # Only the end of a turn leads back to the composer.
        await run.settled()
        await run.review()
        assert run.app.controllers.review is not None
        after_decision = run.app.controllers.review.actions.after_decision
        run.app.workbench.review.set_proposals([])
        after_decision.on_decision()
        after_decision.handle_update(PhaseChanged(SessionPhase.REQUESTING))
        assert not in_composer(run), "what the turn has proposed is shown before its end"
        after_decision.handle_update(PhaseChanged(SessionPhase.IDLE))
        await run.until(lambda: in_composer(run), "the way back")


async def test_feedback_for_another_session_is_not_reported_as_sent(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        first = run.app.require_session().id
        await run.command("new")
        await run.until(lambda: run.app.require_session().id != first, "the new session")
        await run.review()
        before = len(server.requests)
        assert await go_on(run) == " It belongs to another session, whose model goes on there."
        theirs = ProposalOrigin(kind=OriginKind.AGENT, agent="codex")
        assert await go_on(run, origin=theirs) == " It belongs to Codex, which goes on by itself."
        assert len(server.requests) == before and not run.app.require_session().is_busy
        await write_feedback(run, "No.")
        await run.pilot.press("ctrl+s")
        await run.see("Your words go to the", "session of P1.")
        assert "on their way" not in run.text


async def test_a_command_that_waits_for_permission_is_not_shown_as_running(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server, size=(200, 40)) as run:
        status = run.app.workbench.query_one(StatusBar)
        server.call("run_command", {"command": "python3 -c 'print(6 * 7)'"})
        server.say("It ran.")
        server.call("ask_user", {"question": "Which?", "options": ["a", "b"]})
        run.app.workbench.composer.draft = "run it"
        await run.pilot.press("enter")
        await run.see("needs your permission  F4", "Run a command · needs your permission")
        assert "running" not in run.text
        await run.pilot.press("f4")
        await run.until(lambda: "needs your permission  y or n" in status.render().plain, "the keys there")
        await run.pilot.press("f2")
        await run.until(lambda: "needs your permission  F4" in status.render().plain, "the way there")
        await run.review()
        await run.pilot.press("y")
        await run.see("It ran.")
        await run.settled()
        assert "needs your permission" not in run.text
        await run.pilot.press("f2")
        run.app.workbench.composer.draft = "ask me"
        await run.pilot.press("enter")
        await run.until(lambda: "asks you  Enter" in status.render().plain, "the key that answers")
        await run.pilot.press("f4")
        await run.until(lambda: "asks you  F2" in status.render().plain, "the way back")


async def stage_partly_approved(run: Running, server: WireServer) -> None:
    """Have P1 wait with two hunks, of three, and the first written."""
    (run.runtime.workspace.root / "greet.py").write_text(FILE + 20 * "\n" + "end\n" + 20 * "\n" + "over\n")
    edits = [{"old": old, "new": new} for old, new in (("'Hello '", "'Hi '"), ("end", "END"), ("over", "OVER"))]
    server.call("edit_file", {"path": "greet.py", "edits": edits})
    server.say("All.")
    await run.say("change it")
    await run.app.require_session().approve("P1", ["1"])
    await run.until(lambda: "'Hi '" in run.file, "the first hunk")


async def test_the_outcome_of_a_denial_mentions_written_hunks(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        await stage_partly_approved(run, server)
        await run.review()
        await run.pilot.press("f3", "right_square_bracket", "x")
        await run.see("1 hunk of P1 denied; what was written stays.")
        assert "nothing was written" not in run.text
        await run.ready_to_decide()
        await run.pilot.press("u")
        await run.see("Waiting again: 1 hunk of P1.")
        # Denying the rest does not say that nothing was written.
        await run.review()
        await run.pilot.press("n")
        await run.see("The rest of P1 denied", "u undoes")
        assert "nothing was written" not in run.text and "reopens" not in run.text
        assert "END" not in run.file


async def test_deny_all_says_that_written_hunks_stay(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        await stage_partly_approved(run, server)
        server.call("write_file", {"path": "b.py", "content": "b\n"})
        server.say("One more.")
        await run.say("go on")
        await run.review()
        await run.pilot.press("N")
        await run.until(run.can_decide, "the question")
        await run.pilot.press("y")
        await run.see("2 proposals denied; what was written of P1 stays.")
        assert "nothing was written" not in run.text


async def test_an_interrupted_turn_is_reported_once_at_the_next_start(tmp_path: Path, server: WireServer) -> None:
    """As a kill -9 in the middle of an answer leaves it; a turn that ended is told of no more than before."""
    server.always(Turn("Well."))
    async with running(tmp_path, server) as run:
        await run.say("first")
        session = run.app.require_session().id
    async with running(tmp_path, server, resume=True) as run:
        await run.see("Well.")
        assert "in the middle of" not in run.text
        run.runtime.sessions.append_events(session, [TurnStarted(cause="message"), UserMessage(text="second")])
    for _ in range(2):
        async with running(tmp_path, server, resume=True) as run:
            await run.see("second", "signoff was ended in the middle of this turn", "/continue goes on")
            assert run.text.count("in the middle of") == 1
            assert [event for event in run.app.require_session().log.events if isinstance(event, UserNotice)][
                1:
            ] == []
