"""Decisions in the whole app: what keys write, deny and send, and what typing never does."""

import subprocess
from pathlib import Path

import pytest

from app.proposals.values.models import ProposalState
from tests.ui.running_app import running, stage, staged
from tests.wire.bench import FILE, edit, of_role
from tests.wire.replies import Turn
from tests.wire.server import WireServer
from widgets.diff.code_editor import CodeEditor
from widgets.review import decision_keys

APPROVED = FILE.replace("'Hello '", "'Hi '")


async def test_the_chat_tab_is_marked_new_and_decisions_work_at_any_width(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server, size=(80, 24)) as run:
        assert "F2 Chat  F3" in run.text
        await run.review()
        server.say("Which greeting do you want?")
        await run.app.require_session().send("Another one")
        await run.see("F2 Chat (new)")
        await run.pilot.press("f2")
        await run.see("Which greeting", "F2 Chat  F3")
        # Deciding works at any width.
        await run.pilot.press("f3")
        await run.see("'Hi '")
        await run.pilot.resize_terminal(200, 50)
        await run.pilot.resize_terminal(60, 20)
        await run.pilot.resize_terminal(80, 24)
        await run.review()
        await run.pilot.press("y")
        await run.until(lambda: run.file == APPROVED, "the file")


async def test_other_keys_decide_nothing_and_y_writes_what_was_shown(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        # Typing in the composer never decides.
        await run.until(
            lambda: run.app.workbench.review.readiness.grace_period.is_over, "the end of the grace period"
        )
        await run.write("yYnNuUx yes")
        await run.painted()
        assert run.file == FILE
        assert [one.state for one in run.proposals] == [ProposalState.PENDING]
        assert run.app.workbench.composer.draft == "yYnNuUx yes"
        # A dialog in front keeps the review from hearing keys.
        await run.review()
        run.app.action_command("help")
        await run.screen("HelpScreen")
        await run.pilot.press("f3", "y", "n")
        assert type(run.app.screen).__name__ == "HelpScreen"
        assert [one.state for one in run.proposals] == [ProposalState.PENDING]
        # The palette has reading but no deciding actions.
        await run.pilot.press("escape")
        await run.screen("Workbench")
        commands = {command.title: command for command in run.app.get_system_commands(run.app.screen)}
        assert {"Sessions", "Review: Layout", "Review: Files", "Review: Search", "Review: Full screen"} <= set(
            commands
        )
        assert not {"Review: Approve", "Review: Deny", "Review: Undo", "Review: Approve all"} & set(commands)
        split = run.app.workbench.review.view.is_split
        commands["Review: Layout"].callback()
        await run.until(lambda: run.app.workbench.review.view.is_split is not split, "the other layout")
        assert run.app.focused is run.app.workbench.review.view
        await run.until(run.can_decide, "the picture")
        await run.pilot.press("f2")
        commands["Review: Edit"].callback()
        await run.screen("EditProposalScreen")
        # An edit begins at the line that was looked at.
        await run.pilot.press("escape")
        await run.screen("Workbench")
        await run.pilot.press("f3")
        await run.until(run.can_decide, "the diff")
        line = run.app.workbench.review.view.cursor.hunk
        await run.pilot.press("e")
        await run.screen("EditProposalScreen")
        assert line is not None
        assert run.app.screen.query_one(CodeEditor).cursor_location == (line.new_start, 0)
        # Leaving a changed edit asks first.
        await run.pilot.press("escape")
        await run.screen("Workbench")
        await run.review()
        await run.pilot.press("e")
        await run.screen("EditProposalScreen")
        await run.write("x")
        await run.pilot.press("escape")
        await run.screen("ConfirmScreen")
        await run.pilot.press("n")
        await run.screen("EditProposalScreen")
        await run.pilot.press("escape")
        await run.screen("ConfirmScreen")
        await run.pilot.press("y")
        await run.screen("Workbench")
        assert run.proposals[0].revision == 1
        # The footer says of a field what sending does.
        for key, title in (("c", "Enter Save"), ("r", "Enter Send")):
            await run.review()
            await run.pilot.press(key)
            await run.see(title)
            await run.pilot.press("escape")
        # Y writes what was shown and u takes it back.
        await run.review()
        await run.pilot.press("y")
        await run.until(lambda: run.file == APPROVED, "the file")
        await run.see("P1 written", "u undoes it")
        await run.until(lambda: run.app.focused is run.app.workbench.composer.editor, "the way back to the composer")
        await run.review()
        await run.pilot.press("u")
        await run.until(lambda: run.file == FILE, "the undo")


async def test_a_single_decision_letter_is_not_sent_but_focuses_the_approvals(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However busy the machine is, the grace period is not over yet.
    monkeypatch.setattr(decision_keys, "GRACE_SECONDS", 3600.0)
    async with staged(tmp_path, server) as run:
        before = len(server.requests)
        await run.pilot.press("y", "enter")
        await run.until(lambda: run.app.focused is run.app.workbench.review.approval_pane.queue, "the approvals")
        await run.see("was not sent")
        await run.pilot.press("y")
        assert len(server.requests) == before and run.app.workbench.composer.draft == ""
        assert [one.state for one in run.proposals] == [ProposalState.PENDING], "the keys rest for a moment"
        server.say("Yes what?")
        await run.pilot.press("f2")
        await run.say("y, why not")
        assert of_role(server.last, "user")[-1] == "y, why not"


async def test_a_new_proposal_does_not_take_the_focus_while_the_user_types(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server) as run:
        server.call(*edit())
        server.say("Have a look.")
        await run.write("change it")
        await run.pilot.press("enter")
        await run.write("yn")
        await run.settled()
        await run.see("P1")
        assert run.app.focused is run.app.workbench.composer.editor
        await run.write("yn")
        assert run.app.workbench.composer.draft == "ynyn"
        assert run.file == FILE


async def test_an_edit_before_approval_is_what_gets_written(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        await run.review()
        await run.pilot.press("e")
        await run.screen("EditProposalScreen")
        await run.pilot.press("ctrl+home")
        await run.write("# mine")
        await run.pilot.press("enter")
        await run.pilot.press("ctrl+s")
        await run.screen("Workbench")
        assert run.file == FILE, "saving an edit writes nothing to the workspace"
        await run.see("# mine")
        await run.review()
        await run.pilot.press("y")
        await run.until(lambda: run.file == f"# mine\n{APPROVED}", "the user's text on disk")
        server.always(Turn("I see."))
        await run.pilot.press("f2")
        await run.say("go on")
        assert any("edit" in said.lower() for said in of_role(server.last, "system")[1:]), "the model is told"


@pytest.mark.parametrize(("first", "second"), [("x", "y"), ("only", "n")])
async def test_a_partly_approved_proposal_is_named_so_everywhere(
    tmp_path: Path, server: WireServer, first: str, second: str
) -> None:
    """Whichever came first, one hunk is on disk and the other is not, and no place says otherwise."""
    both = [{"old": "def greet", "new": "def hail"}, {"old": "'Bye '", "new": "'Farewell '"}]
    async with running(tmp_path, server, size=(160, 40)) as run:
        path = run.runtime.workspace.root / "greet.py"
        path.write_text(f"{FILE}\n\n\ndef leave(name):\n    return 'Bye ' + name\n")
        server.call("edit_file", {"path": "greet.py", "edits": both})
        server.say("Have a look.")
        await run.say("change it")
        await run.see("P1")
        await run.review()
        if first == "x":
            await run.pilot.press("x")
            await run.see("Denied P1 · 1 of 2 hunks discarded")
        else:
            await run.pilot.press("]", "space")
            await run.review()
            await run.pilot.press("y")
            await run.see("partly approved, the rest waits")
        await run.review()
        await run.pilot.press(second)
        await run.see("approved in part, the rest denied", "the hunk that still waited")
        assert ("hail" in run.file) is (first == "only")
        assert ("Farewell" in run.file) is (first == "x")


async def test_an_edit_before_approval_names_its_file_to_the_model(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server, size=(160, 40)) as run:
        await run.review()
        await run.pilot.press("e")
        await run.screen("EditProposalScreen")
        await run.write("# mine ")
        await run.pilot.press("ctrl+s")
        await run.see("Edited P1 · greet.py", "it still waits")
        server.say("I see.")
        await run.pilot.press("f2")
        await run.say("go on")
        told = next(text for text in of_role(server.last, "system") if "by hand" in text)
        assert (
            "in the new form: greet.py (edit, +2 -2)." in told or "in the new form: greet.py (edit, +1 -1)." in told
        )
        assert "other hunks" not in told


async def test_a_new_version_is_compared_with_the_one_before(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server) as run:
        await run.review()
        server.call(*edit(new="'Ahoy '"))
        server.say("Like this?")
        await run.pilot.press("r")
        await run.write("Say Ahoy")
        await run.pilot.press("ctrl+s")
        await run.until(lambda: len(run.proposals) == 2, "the answer")
        assert any("Say Ahoy" in said for said in of_role(server.requests[2], "user"))
        assert not any("Say Ahoy" in said for said in of_role(server.requests[2], "system"))
        assert run.file == FILE
        await run.settled()
        await run.pilot.press("f3")
        await run.until(lambda: run.app.workbench.review.preview.diffs)
        await run.pilot.press("V")
        await run.see("P1 → P2", "'Hi '", "'Ahoy '")
        assert "'Hello '" not in run.text.split("P1 → P2")[1].split("Waiting")[0]


async def test_the_commit_setting_takes_effect_at_once(tmp_path: Path, server: WireServer) -> None:
    def git(*words: str) -> str:
        here = tmp_path / "workspace"
        who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
        return subprocess.run(["git", *who, *words], cwd=here, check=True, capture_output=True, text=True).stdout

    async with running(tmp_path, server) as run:
        git("init", "-q")
        git("config", "user.name", "me")
        git("config", "user.email", "me@example.org")
        git("add", "greet.py")
        git("commit", "-q", "-m", "Begin")
        await stage(run, server)
        run.app.controllers.preferences.apply_for_this_run(commit=True)
        await run.review()
        await run.pilot.press("y")
        await run.until(lambda: git("show", "HEAD:greet.py") == APPROVED, "the commit")


async def test_a_comment_on_a_file_that_is_not_utf_8_is_sent_with_its_denial(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server) as run:
        (run.runtime.workspace.root / "greet.py").write_bytes(b"# caf\xe9\nreturn 'Hello '\n")
        await stage(run, server)
        server.say("I see.")
        await run.pilot.press("f3")
        await run.until(run.can_decide, "the diff")
        await run.pilot.press("c", *"why", "ctrl+s")
        await run.see("1 comment")
        await run.until(run.can_decide, "the moment to decide")
        await run.pilot.press("r", "ctrl+s")
        await run.until(lambda: run.proposals[0].state is ProposalState.DENIED, "the denial")
        await run.until(lambda: "why" in str(server.last.body), "the comment")


async def test_outcomes_name_the_keys_in_force(tmp_path: Path, server: WireServer) -> None:
    async with staged(tmp_path, server, keys={"review.undo": "b", "review.approve": "p"}) as run:
        await run.review()
        await run.pilot.press("p")
        await run.see("P1 written", "b undoes it")
