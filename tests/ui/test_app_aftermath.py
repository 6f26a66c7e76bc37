"""What follows a decision in the whole app: who goes on, where the focus is, what becomes of the user's words."""

import asyncio
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from app.agent.updates import PhaseChanged, SessionPhase
from app.conversation.events import DecisionKind, ProposalDecided, TurnStarted, UserMessage, UserNotice
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.ui import chat_controller
from app.ui.context.slash_commands import BadArgument
from tests.ui.running_app import Running, running, stage, staged
from tests.ui.test_app_decisions import APPROVED
from tests.wire.bench import FILE, edit, of_role
from tests.wire.replies import Call, Turn
from tests.wire.server import Request, WireServer
from widgets.common.workbench_bars import KeyBar, StatusBar


def in_composer(run: Running) -> bool:
    return run.app.focused is run.app.workbench.composer.editor


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

        async def resume_late() -> bool:
            await may_resume.wait()
            return await resume()

        monkeypatch.setattr(session, "resume", resume_late)
        server.call(*edit("'Hi '", "'Hey '"))
        server.say("And this.")
        await run.review("o")
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
        await run.ready_to_decide("o")
        await run.until(lambda: "'Hey '" in run.file, "the second one")
        await run.see("All done.")
        await run.until(lambda: in_composer(run), "the way back")
        said = of_role(server.last, "system")
        assert any("approved proposal P2" in text for text in said)
        assert any("go on" in text for text in said)
        assert "The model goes on" not in run.text


async def test_o_sends_no_request_before_anything_is_said(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        patch = "--- a/greet.py\n+++ b/greet.py\n@@ -1,2 +1,2 @@\n def greet(name):\n"
        run.runtime.service.stage_patch(patch + "-    return 'Hello ' + name\n+    return 'Hi ' + name\n")
        await run.app.show_proposals()
        await run.see("P1")
        await run.review("o")
        await run.see("There is nothing to continue yet")
        assert "'Hi '" in run.file and server.requests == []


async def test_with_the_setting_the_last_approval_continues_the_model(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, continue_after_approval=True, gate="chain", chain_steps=2) as run:
        server.call(*edit())
        server.call(*edit("def greet", "def hail"))
        server.say("Both.")
        await run.say("change it")
        await run.see("P1", "P2")
        server.say("All done.")
        await run.review("y")
        await run.until(lambda: run.proposals[0].state is ProposalState.APPLIED, "the first one")
        await run.see("approve, go on")
        assert causes(run) == ["message"], "something waits still"
        await run.ready_to_decide("y")
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
        for keys in (("f2", "f3"), ("j",)):
            looked.clear()
            heard.clear()
            replies += [Turn(calls=(Call(*edit()),)), Turn("Have a look.")]
            replies += [Turn(calls=(Call("read_file", {"path": "greet.py"}),)), Turn("I see.")]
            await run.say("change it")
            await run.review()
            await run.write_feedback("Not so", "ctrl+s")
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
        await run.write_feedback("Say Ahoy", "escape")
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
        await run.write_feedback("Not so", "ctrl+s")
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
        await run.ready_to_decide("c")
        await run.write("saved")
        await run.pilot.press("ctrl+s", "k", "c")
        await run.write("aside")
        await run.pilot.press("escape")
        await run.until(run.can_decide, "the picture")
        await run.write_feedback("Say Ahoy")
    async with running(tmp_path, server, resume=True) as run:
        review = run.app.workbench.review
        await run.see("P1", "saved")
        assert in_composer(run)
        assert sorted(remark.text for remark in review.state.feedback_drafts.remarks["P1"]) == ["aside", "saved"]
        assert review.state.feedback_drafts.drafts["P1"] == "Say Ahoy"
        server.call(*edit(new="'Ahoy '"))
        server.say("Better?")
        await run.review()
        await run.write_feedback("!", "ctrl+s")
        await run.until(lambda: len(run.proposals) == 2, "the answer")
        await run.settled()
        (said,) = [text for text in of_role(server.last, "user") if "Ahoy" in text]
        assert said.startswith("Say Ahoy!") and "saved" in said and "aside" in said
        assert not any("Say Ahoy" in text for text in of_role(server.last, "system"))
        assert run.file == FILE
        await run.see("P2", "☐ greet.py:", "changed in v2: saved")
        # The new version is compared with the one before.
        await run.ready_to_decide("V")
        await run.see("P1 → P2", "'Hi '", "'Ahoy '")
        assert "'Hello '" not in run.text.split("P1 → P2")[1].split("Waiting")[0]
        await run.pilot.press("V")
        await run.ready_to_decide("f3", "space", "g", "j", "enter")
        await run.see("☑ greet.py:", "No hunk is chosen")
        run.runtime.sessions.set_setting("review:P9", "as no version writes it")
    async with running(tmp_path, server, resume=True) as run:
        await run.see("Your comments on P1, 1 of 2 open", "☑ greet.py:", "☐ greet.py:", "No hunk is chosen")
        assert run.app.workbench.composer.draft == ""
        kept = run.runtime.sessions.settings("review:")["review:P1"]
        assert '"draft":"","remarks":[]' in kept, "what was said is not begun any more"


def test_comments_of_denials_keep_their_order_over_a_restart() -> None:
    comments = tuple(
        LineComment(path="a.py", line=1, side="new", quote="", text=text) for text in ("name it", "more")
    )
    denials = [ProposalDecided(proposal="P1", decision=DecisionKind.DENIED, comments=(each,)) for each in comments]
    sent: dict[str, list[LineComment]] = {}
    chat_controller._restore_sent_comments(denials, SimpleNamespace(set_sent_comments=sent.__setitem__))  # type: ignore[arg-type]
    assert sent == {"P1": list(comments)}


async def test_a_denial_can_be_reopened_and_feedback_with_an_approval_reaches_the_model(
    tmp_path: Path, server: WireServer
) -> None:
    async with staged(tmp_path, server) as run:
        await run.review()
        before = len(server.requests)
        await run.pilot.press("n")
        await run.see("P1 denied; nothing was written. F4 u reopens it.", "F4 u  reopen")
        assert in_composer(run) and len(server.requests) == before and run.file == FILE
        await run.pilot.press("f4")
        await run.see("P1 denied; nothing was written. u reopens it.")
        for key, state in (("u", ProposalState.PENDING), ("U", ProposalState.DENIED), ("u", ProposalState.PENDING)):
            await run.review(key)
            await run.until(lambda state=state: run.proposals[0].state is state, state)  # type: ignore[misc]
            await run.painted()
        await run.see("P1 waits again. U denies it again.")
        # What was written goes with an approval, at once.
        await run.review()
        await run.write_feedback("Now test it", "f4")
        await run.ready_to_decide("y")
        await run.see("our unsent words go with it", "Now test it")
        assert run.file == FILE
        server.say("I see.")
        await run.ready_to_decide("y")
        await run.until(lambda: len(server.requests) == before + 1, "the request with the words")
        await run.settled()
        assert run.file == APPROVED
        assert sum("Now test it" in said for said in of_role(server.last, "user")) == 1
        assert not any("Now test it" in said for said in of_role(server.last, "system"))
        await run.until(lambda: "on their way" not in run.text, "the end of what held until then")
        # A question names its answers and no other keys.
        server.call(*edit("'Hi '", "'Hey '"))
        server.say("And this.")
        await run.say("go on")
        await run.review()
        footer = run.app.workbench.query_one(KeyBar)
        await run.see("y  approve")
        await run.write_feedback("No.", "escape")
        await run.ready_to_decide("n")
        await run.see("Deny?", "y  yes    n  no")
        await run.until(lambda: "Deny" not in str(footer.render()), "a footer without what keys do not do now")
        assert not any(name in str(footer.render()) for name in ("Approve", "Yes", "No "))


async def test_a_permission_is_not_shown_as_running_and_the_end_of_the_turn_restores_the_focus(
    tmp_path: Path, server: WireServer
) -> None:
    async with staged(tmp_path, server, size=(200, 40)) as run:
        status = run.app.workbench.query_one(StatusBar)
        server.call("run_command", {"command": "echo from-the-tool"})
        server.say("It ran.")
        await run.submit("run it")
        await run.see("needs your permission  F4", "Run a command · needs your permission", "P1")
        assert "running" not in run.text
        await run.pilot.press("f4")
        await run.until(lambda: "needs your permission  y or n" in status.render().plain, "the keys there")
        await run.pilot.press("f2")
        await run.until(lambda: "needs your permission  F4" in status.render().plain, "the way there")
        await run.review("y")
        await run.see("It ran.")
        await run.settled()
        assert "needs your permission" not in run.text
        assert run.file == FILE
        assert [one.state for one in run.proposals] == [ProposalState.PENDING]
        assert run.app.workbench.review.state.current == "P1"
        # Only the end of a turn leads back to the composer.
        await run.review()
        assert run.app.controllers.review is not None
        after_decision = run.app.controllers.review.actions.after_decision
        run.app.workbench.review.set_proposals([])
        after_decision.on_decision()
        after_decision.handle_update(PhaseChanged(SessionPhase.REQUESTING))
        assert not in_composer(run), "what the turn has proposed is shown before its end"
        after_decision.handle_update(PhaseChanged(SessionPhase.IDLE))
        await run.until(lambda: in_composer(run), "the way back")
        server.call("ask_user", {"question": "Which?", "options": ["a", "b"]})
        await run.submit("ask me")
        await run.until(lambda: "asks you  Enter" in status.render().plain, "the key that answers")
        await run.pilot.press("f4")
        await run.until(lambda: "asks you  F2" in status.render().plain, "the way back")


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
        await run.write_feedback("No.", "ctrl+s")
        await run.see("Your words go to the", "session of P1.")
        assert "on their way" not in run.text


async def test_the_outcome_of_a_denial_mentions_written_hunks(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(160, 40)) as run:
        text = FILE + 20 * "\n" + "end\n" + 20 * "\n" + "over\n"
        (run.runtime.workspace.root / "greet.py").write_text(text)
        await stage(run, server, ("'Hello '", "'Hi '"), ("end", "END"), ("over", "OVER"))
        await run.review("]", "space", "]", "space")
        await run.review("y")
        await run.see("partly approved, the rest waits", "greet.py  partly approved")
        await run.review("f3", "]", "x")
        await run.see("1 hunk of P1 denied; what was written stays.")
        await run.ready_to_decide("u")
        await run.see("Waiting again: 1 hunk of P1.")
        await run.review("n")
        await run.see(
            "The rest of P1 denied", "u undoes", "approved in part, the rest denied", "hunks that still waited"
        )
        assert "nothing was written" not in run.text and "reopens" not in run.text
        # Denying all says what stays.
        await stage(run, server, ("end", "END"), ("over", "OVER"))
        await run.app.require_session().approve("P2", ["1"])
        server.call("write_file", {"path": "b.py", "content": "b\n"})
        server.say("One more.")
        await run.say("go on")
        await run.review("N")
        await run.ready_to_decide("y")
        await run.see("2 proposals denied; what was written of P2 stays.")
        assert "nothing was written" not in run.text
        assert run.file == text.replace("Hello", "Hi").replace("end", "END")


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
