"""A stale proposal in the whole app: resolved by hand, or sent back with the reason that is known."""

from pathlib import Path

import pytest

from app.proposals.values.models import ProposalState
from app.ui.terminal.external_editor import ExternalEditor
from tests.ui.running_app import Running, running, stage, staged
from tests.wire.bench import FILE, edit, of_role
from tests.wire.replies import Turn
from tests.wire.server import WireServer
from widgets.diff.code_editor import ConflictEditor

PROPOSED = FILE.replace("'Hello '", "'Hi '")
MINE = FILE.replace("'Hello '", "'Moin '")
"""What somebody made of the line that the proposal changes."""
LONG = "".join(f"{'def greet' if at in (2, 30) else 'line'} {at}\n" for at in range(40))


async def put(run: Running, text: str, name: str = "greet.py") -> None:
    """Change a file as the user's editor does, and let signoff see it."""
    (run.runtime.workspace.root / name).write_text(text)
    await run.app.require_session().rebase_after_disk_change({name})


def state_of(run: Running) -> ProposalState:
    """Where P1 stands."""
    return run.proposals[0].state


async def make_stale(run: Running, server: WireServer) -> None:
    await stage(run, server)
    await put(run, MINE)
    await run.see("Stale")
    await run.review()


async def open_conflict(run: Running) -> ConflictEditor:
    await run.screen("ConflictScreen", "e")
    return run.app.screen.query_one(ConflictEditor)


async def test_a_stale_proposal_is_resolved_by_sides_or_by_hand_and_then_written(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, server) as run:
        await make_stale(run, server)
        await run.see("e  resolve")
        area = await open_conflict(run)
        await run.see("<<<<<<< on disk now", "||||||| before", "======= proposed in P1", ">>>>>>> proposed in P1")
        for key, line in (("d", "'Moin '"), ("b", "'Moin ' + name\n    return 'Hi '"), ("p", "'Hi '")):
            await run.pilot.press(key)
            assert area.source == FILE.replace("'Hello '", line)
            await run.pilot.press("u")
            assert "<<<<<<<" in area.source and len(area.blocks) == 1
        # So is what the user's own editor made of the text.
        conflict = area.source

        async def save_in_editor(editor: ExternalEditor, text: str, *, name: str) -> str:
            return MINE

        monkeypatch.setattr(ExternalEditor, "edit", save_in_editor)
        await run.pilot.press("ctrl+g")
        await run.until(lambda: area.source == MINE, "the text of the editor")
        await run.pilot.press("u")
        assert area.source == conflict
        await run.screen("Workbench", "escape")
        # Leaving with a choice asks first.
        await open_conflict(run)
        await run.pilot.press("p")
        await run.told("no conflict left, not saved yet")
        await run.screen("ConfirmScreen", "escape")
        await run.screen("Workbench", "y")
        assert state_of(run) is ProposalState.STALE
        # Letters write only while the user edits by hand.
        area = await open_conflict(run)
        shown = area.source
        await run.pilot.press("x", "y", "enter")
        assert area.source == shown
        await run.pilot.press("p", "e")
        await run.told("editing by hand")
        await run.pilot.press("ctrl+home", "p", "d", "b", "escape")
        assert area.source.startswith("pdbdef greet")
        await run.screen("ConflictScreen")
        await run.screen("Workbench", "ctrl+s")
        await run.see("The conflicts of P1 are resolved; nothing is written before y.", "changed by you")
        assert run.file == MINE, "nothing is written before the approval"
        await run.review("y")
        await run.until(lambda: run.file == f"pdb{PROPOSED}", "the text by hand on disk")
        server.always(Turn("I see."))
        await run.say("go on")
        assert any("by hand" in said for said in of_role(server.last, "system")), "the model is told"


async def test_unresolved_conflicts_are_not_saved(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        (run.runtime.workspace.root / "greet.py").write_text(LONG)
        await stage(run, server, ("def greet 2", "def hail 2"), ("def greet 30", "def hail 30"))
        await put(run, LONG.replace("greet", "welcome"))
        await run.see("Stale")
        await run.review()
        area = await open_conflict(run)
        await run.told("conflict 1 of 2 open")
        first = area.cursor_location
        await run.pilot.press("right_square_bracket")
        await run.told("conflict 2 of 2 open")
        await run.pilot.press("left_square_bracket")
        assert area.cursor_location == first
        await run.pilot.press("right_square_bracket", "p", "ctrl+s")
        await run.see("Not saved: 1 conflict still open.")
        assert state_of(run) is ProposalState.STALE
        await run.pilot.press("u")
        assert "still open" not in run.text, "two are"
        await run.pilot.press("left_square_bracket", "right_square_bracket", "p")
        await run.pilot.press("e", "ctrl+home")
        row = area.blocks[0].proposed
        area.move_cursor((row, 0))
        await run.pilot.press("ctrl+shift+k", "escape", "ctrl+s")
        await run.see("is still a conflict marker")
        assert state_of(run) is ProposalState.STALE
        area.source = LONG.replace("greet 2", "hail 2").replace("greet 30", "hail 30")
        await run.screen("Workbench", "ctrl+s")
        assert state_of(run) is ProposalState.PENDING


async def test_the_users_resolution_is_kept_when_the_file_changes_again(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, vim=True) as run:
        await make_stale(run, server)
        area = await open_conflict(run)
        await run.pilot.press("b")
        await put(run, MINE.replace("name", "who"))
        await run.pilot.press("ctrl+s")
        await run.see("has changed again since you began", "<<<<<<< on disk now", "when you began", "your text")
        await run.pilot.press("p")
        assert area.source == FILE.replace("'Hello '", "'Moin ' + name\n    return 'Hi '")
        # Vim keys work by hand.
        await run.pilot.press("e")
        await run.told("NORMAL")
        await run.pilot.press("g", "g", "d", "d", "escape")
        assert area.source.startswith("    return 'Moin '")
        await run.told("no conflict left")
        await run.screen("Workbench", "ctrl+s")
        assert state_of(run) is ProposalState.PENDING


async def test_an_edit_keeps_concurrent_changes_or_resolves_conflicts(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        # An edit that turns stale is resolved with what was written.
        await stage(run, server)
        await run.review("e")
        await run.screen("EditProposedFileScreen")
        await run.pilot.press("ctrl+home")
        await run.write("# mine")
        await run.pilot.press("enter")
        await put(run, MINE)
        await run.screen("ConflictScreen", "ctrl+s")
        await run.see("# mine", "your text", "'Moin '")
        await run.screen("Workbench", "p", "ctrl+s")
        await run.review("y")
        await run.until(lambda: run.file == f"# mine\n{PROPOSED}", "the user's text on disk")
        # An edit keeps what was written to disk meanwhile.
        await run.pilot.press("f2")
        (run.runtime.workspace.root / "greet.py").write_text(LONG)
        await stage(run, server, ("def greet 2", "def hail 2"))
        await run.review("e")
        await run.screen("EditProposedFileScreen")
        await run.pilot.press("ctrl+end")
        await run.write("end")
        later = LONG.replace("line 20\n", "twenty\n")
        await put(run, later)
        await run.screen("Workbench", "ctrl+s")
        await run.see("is yours now")
        await run.review("y")
        await run.until(lambda: "end" in run.file, "the edit on disk")
        assert run.file == later.replace("greet 2", "hail 2") + "end"


async def test_the_message_about_an_edit_goes_once_the_proposal_is_decided_elsewhere(
    tmp_path: Path, server: WireServer
) -> None:
    async with staged(tmp_path, server) as run:
        await run.review()
        await run.screen("EditProposedFileScreen", "e")
        await run.write("x")
        await run.screen("Workbench", "ctrl+s")
        await run.see("greet.py in P1 is yours now; nothing is written before y.")
        await run.app.require_session().deny("P1")
        await run.see("Nothing waits for you.")
        assert "is yours now" not in run.text


async def test_several_files_are_resolved_one_after_the_other_and_a_deleted_one_as_a_whole(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server) as run:
        gone = run.runtime.workspace.root / "b.txt"
        gone.write_text("b\n")
        server.turn(calls=[edit(), ("edit_file", {"path": "b.txt", "edits": [{"old": "b", "new": "B"}]})])
        server.say("Have a look.")
        await run.say("change it")
        gone.unlink()
        await put(run, MINE)
        await run.see("Stale", "b.txt is gone")
        await run.review()
        await open_conflict(run)
        await run.see("1 more file")
        titles = []
        for _ in range(2):
            titles.append(str(run.app.screen.query_one("#dialog").border_title).strip())
            if "b.txt" in titles[-1]:
                await run.see("on disk now: no file")
                await run.pilot.press("ctrl+s")
                await run.see("Not saved: take one side first.")
                await run.pilot.press("e")
                await run.told("take one side; once saved, it can be edited")
            await run.pilot.press("p", "ctrl+s")
            await run.until(lambda: titles[-1] not in run.text, "the next one")
        assert sorted(titles) == ["Resolve P1 · b.txt", "Resolve P1 · greet.py"]
        await run.screen("Workbench")
        assert state_of(run) is ProposalState.PENDING
        assert not gone.exists()
        await run.review("y")
        await run.until(gone.exists, "the file")


async def test_r_sends_the_stale_reason_as_system_with_or_without_feedback(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server) as run:
        await make_stale(run, server)
        before = len(server.requests)
        server.call(*edit("'Moin '", "'Hi '"))
        server.say("Anew.")
        await run.pilot.press("r")
        await run.see("The reason why it is stale is sent")
        await run.pilot.press("ctrl+s")
        await run.until(lambda: len(run.proposals) == 2, "the new proposal")
        assert state_of(run) is ProposalState.DENIED
        asked = server.requests[before]
        told = "\n".join(of_role(asked, "system"))
        assert "P1 was stale and could not be approved: greet.py changed at line 2" in told
        assert "2\t    return 'Moin ' + name" in told
        assert of_role(asked, "user") == ["change it"], "no word is put into the user's mouth"
        assert run.proposals[0].feedback == ""
        # Words of the user go with the reason.
        await run.settled()
        await put(run, MINE.replace("Moin", "Servus"))
        await run.until(lambda: run.proposals[1].state is ProposalState.STALE, "a stale P2")
        await run.review()
        before = len(server.requests)
        server.say("I see.")
        await run.pilot.press("r")
        await run.write("Keep mine")
        await run.pilot.press("ctrl+s")
        await run.until(lambda: len(server.requests) > before, "the request")
        asked = server.requests[before]
        assert "P2 was stale and could not be approved" in "\n".join(of_role(asked, "system"))
        assert of_role(asked, "user") == ["change it", "Keep mine"]
        await run.settled()
