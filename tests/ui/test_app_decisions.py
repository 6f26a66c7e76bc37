"""Decisions in the whole app: what keys write, deny and send, and what typing never does."""

from pathlib import Path

import pytest

from app.proposals.values.models import ProposalState
from tests.ui.running_app import running, stage, staged
from tests.ui.test_app_on_disk import repository
from tests.unit.proposals.repositories import git
from tests.wire.bench import FILE, edit, of_role
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
        await run.review("y")
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
        await run.screen("Workbench", "escape")
        commands = {command.title: command for command in run.app.get_system_commands(run.app.screen)}
        assert {"Sessions", "Review: Layout", "Review: Files", "Review: Search", "Review: Full screen"} <= set(
            commands
        )
        assert not {"Review: Approve", "Review: Deny", "Review: Undo", "Review: Approve all"} & set(commands)
        split = run.app.workbench.review.view.is_split
        commands["Review: Layout"].callback()
        await run.until(lambda: run.app.workbench.review.view.is_split is not split, "the other layout")
        assert run.app.focused is run.app.workbench.review.view
        await run.ready_to_decide("f2")
        commands["Review: Edit"].callback()
        await run.screen("EditProposedFileScreen")
        # An edit begins at the line that was looked at.
        await run.screen("Workbench", "escape")
        await run.pilot.press("f3")
        await run.until(run.can_decide, "the diff")
        line = run.app.workbench.review.view.cursor.hunk
        await run.screen("EditProposedFileScreen", "e")
        assert line is not None
        assert run.app.screen.query_one(CodeEditor).cursor_location == (line.new_start, 0)
        # Leaving a changed edit asks first.
        await run.screen("Workbench", "escape")
        await run.review("e")
        await run.screen("EditProposedFileScreen")
        await run.write("x")
        await run.screen("ConfirmScreen", "escape")
        await run.screen("EditProposedFileScreen", "n")
        await run.screen("ConfirmScreen", "escape")
        await run.screen("Workbench", "y")
        assert run.proposals[0].revision == 1
        # The footer says what Enter does.
        await run.pilot.press("f2")
        await run.see("Enter Send")
        draft, run.app.workbench.composer.draft = run.app.workbench.composer.draft, ""
        await run.see("Enter Review")
        run.app.workbench.composer.draft = draft
        await run.see("Enter Send")
        for key, title in (("c", "Enter Save"), ("r", "Enter Send")):
            await run.review(key)
            await run.see(title)
            await run.pilot.press("escape")
        # Y writes what was shown and u takes it back.
        await run.review("y")
        await run.until(lambda: run.file == APPROVED, "the file")
        await run.see("P1 written", "u undoes it")
        await run.until(lambda: run.app.focused is run.app.workbench.composer.editor, "the way back to the composer")
        await run.review("u")
        await run.until(lambda: run.file == FILE, "the undo")


async def test_on_a_narrow_screen_the_chat_shows_the_outcome_of_the_last_decision(
    tmp_path: Path, server: WireServer
) -> None:
    async with staged(tmp_path, server, size=(60, 20)) as run:
        await run.review("y")
        await run.see("P1 written: greet.py.", "F4 u undoes it.", "❯")
        assert run.app.workbench.is_in_composer
        await run.review("u")
        await run.see("P1 undone: greet.py.", "U applies it again.")
        await run.pilot.press("f2")
        await run.see("P1 undone: greet.py.", "F4 U applies it again.", "❯")


async def test_a_proposal_does_not_take_the_focus_and_a_single_decision_letter_leads_to_it(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However busy the machine is, the grace period is not over yet.
    monkeypatch.setattr(decision_keys, "GRACE_SECONDS", 3600.0)
    async with running(tmp_path, server) as run:
        composer = run.app.workbench.composer
        server.call(*edit())
        server.say("Have a look.")
        await run.write("change it")
        await run.pilot.press("enter")
        await run.write("yn")
        await run.settled()
        await run.see("P1")
        assert run.app.focused is composer.editor
        await run.write("yn")
        assert composer.draft == "ynyn"
        assert run.file == FILE
        # A single letter is not sent.
        composer.draft = ""
        before = len(server.requests)
        await run.pilot.press("y", "enter")
        await run.until(lambda: run.app.focused is run.app.workbench.review.approval_pane.queue, "the approvals")
        await run.see("was not sent")
        await run.pilot.press("y")
        assert len(server.requests) == before and composer.draft == ""
        assert [one.state for one in run.proposals] == [ProposalState.PENDING], "the keys rest for a moment"
        server.say("Yes what?")
        await run.say("y, why not")
        assert of_role(server.last, "user")[-1] == "y, why not"


async def test_an_edit_before_approval_is_what_gets_written_and_named_to_the_model(
    tmp_path: Path, server: WireServer
) -> None:
    breaks = "one\f\ntwo\u2028\nthree\x85\n"
    async with running(tmp_path, server, size=(160, 40)) as run:
        (run.runtime.workspace.root / "greet.py").write_text(FILE + breaks)
        await stage(run, server)
        await run.review("e")
        await run.screen("EditProposedFileScreen")
        await run.pilot.press("ctrl+home")
        await run.write("# mine")
        await run.pilot.press("enter")
        await run.screen("Workbench", "ctrl+s")
        assert run.file == FILE + breaks, "saving an edit writes nothing to the workspace"
        await run.see("# mine", "Edited P1 · greet.py", "it still waits")
        server.say("I see.")
        await run.say("go on")
        told = next(text for text in of_role(server.last, "system") if "by hand" in text)
        assert "in the new form: greet.py (edit, +2 -1)." in told
        assert "other hunks" not in told
        await run.review("y")
        await run.until(lambda: run.file == f"# mine\n{APPROVED}{breaks}", "the user's text on disk")


async def test_a_partly_denied_proposal_is_named_so_when_the_rest_is_approved(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server, size=(160, 40)) as run:
        path = run.runtime.workspace.root / "greet.py"
        path.write_text(f"{FILE}\n\n\ndef leave(name):\n    return 'Bye ' + name\n")
        await stage(run, server, ("def greet", "def hail"), ("'Bye '", "'Farewell '"))
        await run.review("x")
        await run.see("Denied P1 · 1 of 2 hunks discarded")
        await run.review("y")
        await run.see("approved in part, the rest denied", "the hunk that still waited")
        assert "hail" not in run.file and "Farewell" in run.file


async def test_the_commit_setting_takes_effect_at_once_and_outcomes_name_the_keys_in_force(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server, keys={"review.undo": "b", "review.approve": "p"}) as run:
        root = run.runtime.workspace.root
        repository(root)
        git(root, "config", "user.name", "me")
        git(root, "config", "user.email", "me@example.org")
        await stage(run, server)
        run.app.controllers.preferences.apply_for_this_run(commit=True)
        await run.review("p")
        await run.see("P1 written", "b undoes it")
        await run.until(lambda: git(root, "show", "HEAD:greet.py").decode() == APPROVED, "the commit")


async def test_a_comment_on_a_file_that_is_not_utf_8_is_sent_with_its_denial(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server) as run:
        (run.runtime.workspace.root / "greet.py").write_bytes(b"# caf\xe9\nreturn 'Hello '\n")
        await stage(run, server)
        server.say("I see.")
        await run.pilot.press("f3")
        await run.ready_to_decide("c", *"why", "ctrl+s")
        await run.see("1 comment")
        await run.ready_to_decide("r", "ctrl+s")
        await run.until(lambda: run.proposals[0].state is ProposalState.DENIED, "the denial")
        await run.until(lambda: "why" in str(server.last.body), "the comment")
