"""The commands in the whole app: one registry behind slash, palette and keys."""

import asyncio
import json
from errno import ENOSPC
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from textual.widgets import Input, OptionList

from app.conversation.events import AssistantMessage
from app.keys.actions import ACTIONS
from app.storage.sqlite_proposal_store import RECENT
from app.ui.context.slash_commands import BadArgument
from tests.ui.running_app import running, stage, staged
from tests.wire.bench import of_role
from tests.wire.replies import STALL, Turn, chunk, error, stream
from tests.wire.server import WireServer
from widgets.chat.transcript import Transcript
from widgets.common.text_view import TextView


async def test_commands_name_why_they_cannot_run_and_gate_sets_the_policy(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        # Every command of the registry can be run.
        assert run.app.controllers.commands.names == {action.command for action in ACTIONS if action.command}
        offered = {command.title for command in run.app.get_system_commands(run.app.screen)}
        assert {action.title for action in ACTIONS if action.command} - offered == {"Keys"}, "keys is help"
        # An invalid command is one line.
        session, settings = run.app.require_session().id, run.app.settings
        for line, said in INVALID.items():
            run.app.clear_notifications()
            await run.until(lambda said=said: said not in run.text)  # type: ignore[misc]
            await run.command(line)
            await run.see(said)
        assert (run.app.require_session().id, run.app.settings) == (session, settings)
        assert server.requests == [] and not run.app.require_session().log.events
        # A command that has nothing to act on says what is missing.
        for command, argument, said in (
            ("resume", "", "There is no earlier session here."),
            ("fork", "", "There is nothing in this session to fork yet."),
            ("from", "one two three", "Write /from "),
            ("export", "~nobody-here/such.md", "~nobody-here/such.md is in no user's home folder"),
            ("export", "", "There is nothing in this session to export yet."),
        ):
            with pytest.raises(BadArgument, match=said):
                await run.app.controllers.commands.run(command, argument)
        await run.command("effort")
        await run.see("Reasoning effort: ")
        assert len(run.runtime.sessions.all()) <= 1 and server.requests == []
        # Gate changes the policy of the session.
        await run.command("gate chain 2")
        await run.see("chain 0/2")
        assert run.app.require_session().gate.policy.max_staging_steps == 2
        await run.command("gate every-edit")
        await run.until(lambda: run.app.require_session().gate.policy.max_staging_steps == 1)
        # A defect is told in one line and logged without values.

        async def fail() -> None:
            secret = "sk-very-secret"
            raise RuntimeError(f"boom {len(secret)}")

        run.app.run_background(fail)
        await run.see("went wrong: RuntimeError")
        log = run.runtime.dirs.log
        assert log.stat().st_mode & 0o777 == 0o600
        assert "boom 14" in log.read_text() and "sk-very-secret" not in log.read_text().replace(
            '"sk-very-secret"', ""
        )


INVALID = {
    "gate often": "every-edit",
    "gate chain 99": "1 to 50",
    "effort huge": "xhigh or max",
    "new now": "takes nothing",
    "theme none-such": "no theme",
    "resume zzzz": "no session",
    "layout sideways": "unified",
    "wrap perhaps": "on or off",
    "wire": "No request",
    "compact": "nothing to compact",
}


async def test_requests_name_the_model_and_effort_until_it_is_refused(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        await run.command("effort high")
        await run.see("test-model high", "reasoning effort high")
        server.say("Hello.")
        await run.say("hello")
        assert server.last.body["reasoning_effort"] == "high"
        await run.command("wire")
        await run.see('"reasoning_effort": "high"')
        await run.pilot.press("escape")
        server.script([error(400, "Unrecognized request argument supplied: reasoning_effort"), Turn("Once more.")])
        await run.say("again")
        assert "reasoning_effort" not in server.last.body
        await run.see('does not accept reasoning_effort = "high"')
        assert "test-model high" not in run.text
        await run.command("effort low")
        await run.see("test-model low")
        await run.command("effort high")
        await run.see("has refused high")
        await run.command("effort off")
        await run.see("the server chooses")
        assert run.app.settings.reasoning_effort == "off"
        # A request after model names the other model.
        await run.command("model another-model")
        await run.see("another-model")
        server.say("Hello.")
        await run.say("hello")
        assert server.last.body["model"] == "another-model"


async def test_sessions_are_started_resumed_and_forked_and_withheld_guidance_is_reported_once(
    tmp_path: Path, server: WireServer
) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/.env").write_text("KEY=hunter2")
    (tmp_path / "workspace/AGENTS.md").symlink_to(".env")
    async with running(tmp_path, server) as run:
        await run.see("Kept from the model: AGENTS.md looks like a secret")
        server.say("First answer.")
        await run.say("first question")
        first = run.app.require_session().id
        await run.command("new")
        await run.until(lambda: run.app.require_session().id != first, "a new session")
        assert "first question" not in run.text
        assert run.text.count("Kept from the model") <= 1
        await run.command("resume")
        await run.until(
            lambda: run.app.current_session and run.app.require_session().id == first, "the first session"
        )
        run.app.clear_notifications()
        await run.see("first question", "First answer.")
        assert run.app.workbench.composer.is_empty, "the command that left it is no draft of it"
        await run.command("fork")
        await run.until(lambda: run.app.current_session and run.app.require_session().id != first, "the copy")
        run.app.clear_notifications()
        await run.see("first question")
        server.say("Second answer.")
        await run.say("second question")
        asked = of_role(server.last, "user")
        assert any("first question" in text for text in asked) and any("second question" in text for text in asked)
        assert "hunter2" not in str(server.last.body)


async def test_continue_retries_and_export_never_overwrites_a_file(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, server) as run:
        await run.command("continue")
        await run.see("nothing to continue")
        server.script([error(400, "no such thing")])
        await run.say("hello")
        await run.see("no such thing", "/continue sends it again")
        server.say("Now it works.")
        await run.command("continue")
        await run.see("Now it works.")
        assert of_role(server.requests[0], "user") == of_role(server.last, "user")
        # Export writes a record and never over a file.
        server.say("An answer.")
        await run.say("a question")
        await run.command("export notes.md")
        target = run.runtime.workspace.root / "notes.md"
        await run.until(target.exists, "the file")
        await run.see("Written to")
        assert "a question" in target.read_text() and "An answer." in target.read_text()
        # A fork keeps the events of proposals that were removed with the original session.
        await stage(run, server)
        with run.runtime.database.transaction() as connection:
            connection.execute("DELETE FROM proposals")
        await run.command("export later.md")
        await run.until((target.parent / "later.md").exists, "the file")
        target.write_text("mine")
        await run.command("export notes.md")
        await run.see("exists", "already")
        assert target.read_text() == "mine"
        with pytest.raises(BadArgument, match=r"such\.md cannot be written: No such file or directory\."):
            await run.app.controllers.commands.run("export", "none/such.md")
        # A full disk leaves no part of it behind.
        open_file = Path.open

        def open_full(path: Path, *arguments: Any, **options: Any) -> Any:
            file = open_file(path, *arguments, **options)
            file.flush = Mock(side_effect=OSError(ENOSPC, "No space left on device"))
            return file

        monkeypatch.setattr(Path, "open", open_full)
        with pytest.raises(BadArgument, match=r"full\.md cannot be written: No space left on device\."):
            await run.app.controllers.commands.run("export", "full.md")
        monkeypatch.undo()
        assert not (target.parent / "full.md").exists()
        for number in (1, 2):
            await run.command("export")
            await run.until(lambda number=number: len([*target.parent.glob("signoff-*.md")]) == number)  # type: ignore[misc]


@pytest.mark.parametrize("wire", ["chat", "anthropic", "responses"])
async def test_the_wire_view_shows_the_last_request_exactly(tmp_path: Path, server: WireServer, wire: str) -> None:
    async with staged(tmp_path, server, wire=wire) as run:
        await run.command("wire")
        await run.screen("LastRequestScreen")
        await run.see('No tool calls: tool_choice "none"')
        await run.until(lambda: run.app.screen.query_one(TextView).marked_lines("program"))
        await run.pilot.press("s", "s")
        await run.see("P1")
        await run.pilot.press("c")
        await run.pilot.press("d")
        await run.see("Decisions of the last turn")
        await run.see("closed gate → closing request: staged")
        assert server.last.closing and server.last.wire == wire
        assert json.loads(run.app.clipboard) == server.last.body


async def test_escape_interrupts_and_returns_queued_messages(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        server.script([stream(chunk(text="Well"), STALL)])
        await run.submit("hello")
        await run.see("Well")
        await run.submit("and another thing")
        await run.see("queued")
        for command in ("continue", "compact"):
            with pytest.raises(BadArgument, match="The model is at work"):
                await run.app.controllers.commands.run(command)
        # Another model or effort does not break the running turn.
        await run.command("effort low")
        await run.see("test-model low")
        await run.pilot.press("f4", "escape")
        await run.settled()
        assert run.app.workbench.composer.draft == "and another thing"
        assert await server.last.left()
        answers = [event for event in run.app.require_session().log.events if isinstance(event, AssistantMessage)]
        assert [answer.state for answer in answers] == ["interrupted"]


async def test_the_setup_screen_comes_first_and_a_failed_demo_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> None:
        raise OSError("no port is free")

    async with running(tmp_path) as run:
        await run.screen("ModelSetupScreen")
        await run.see("Welcome to signoff", "OPENAI_API_KEY", "demo model")
        await run.screen("Workbench", "escape")
        await run.see("No model yet: send anything to choose one")
        await run.write("hello")
        await run.screen("ModelSetupScreen", "enter")
        await run.pilot.press("escape")
        await run.until(lambda: run.app.workbench.composer.draft == "hello", "the message back in the composer")
        # A demo that cannot listen is one line.
        await run.screen("ModelSetupScreen", "enter")
        await run.see("on this machine")
        monkeypatch.setattr(asyncio, "start_server", refused)
        await run.pilot.press("f3", "end", "enter")
        await run.see("The demo server cannot listen", "no port is free")
        assert run.app.current_session is None
        assert run.app.workbench.is_in_composer and not run.reviewed, "the keys of the panes are not the screen's"


async def test_model_name_can_be_typed_without_a_model_list(tmp_path: Path) -> None:
    async with running(tmp_path, base_url="http://127.0.0.1:9/v1", api_key="key") as run:
        await run.screen("ModelPickerScreen")
        await run.see("Nothing answers at", "type a name")
        await run.write("my-model")
        await run.pilot.press("enter")
        await run.until(lambda: run.app.settings.model == "my-model", "the model")


async def test_each_endpoint_remembers_its_model(tmp_path: Path, server: WireServer) -> None:
    server.models = ["first", "second"]
    server.always(Turn("Hello."))

    async def model_after_start(**settings: Any) -> str:
        async with running(tmp_path, base_url=server.base_url, api_key="key", **settings) as run:
            await run.until(lambda: run.app.current_session is not None, "the session")
            await run.say("hello")
            model = str(server.last.body["model"])
            if model == "second" and not settings:
                await run.submit("/model first")
                await run.see("From the next turn on: first.")
            return model

    async with running(tmp_path, base_url=server.base_url, api_key="key") as run:
        await run.screen("ModelPickerScreen")
        await run.until(lambda: run.app.screen.query_one(OptionList).option_count > 0, "the list of models")
        await run.pilot.press("down", "enter")
        await run.until(lambda: run.app.current_session is not None, "the session")
    assert await model_after_start() == "second", "as picked"
    assert await model_after_start() == "first", "as commanded"
    assert await model_after_start(model="second") == "second", "a model that is named counts more"
    async with running(tmp_path, base_url=f"{server.base_url}/elsewhere", api_key="key") as run:
        await run.screen("ModelPickerScreen")


async def test_an_unlisted_model_name_can_be_typed(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, base_url=server.base_url, api_key="key") as run:
        await run.screen("ModelPickerScreen")
        run.app.screen.query_one(Input).value = "fix the tests"
        await run.see("lists no such model")
        await run.pilot.press("enter")
        await run.see("has no spaces")
        run.app.screen.query_one(Input).value = "very-new-model"
        await run.pilot.press("enter")
        await run.until(lambda: run.app.current_session is not None, "the session")
        assert run.app.settings.model == "very-new-model"
    async with running(tmp_path, base_url=server.base_url, api_key="key") as run:
        await run.screen("ModelPickerScreen")
        assert run.app.current_session is None, "what the endpoint does not list may be a slip"
        await run.pilot.press("escape")
        await run.see("No model yet: send anything to choose one")


async def test_an_old_proposal_can_be_opened(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        await run.app.require_session().deny("P1")
        (first,) = run.proposals
        for _ in range(RECENT + 5):
            later = first.model_copy(update={"id": run.runtime.proposals.reserve_proposal_id()})
            run.runtime.proposals.save_proposal(later)
        await run.app.show_proposals()
        assert run.app.workbench.review.state.get("P1") is None
        run.app.workbench.chat.post_message(Transcript.ProposalOpened("P1"))
        await run.until(lambda: run.app.workbench.review.state.current == "P1", "P1 in the review")
