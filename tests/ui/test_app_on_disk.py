"""What is on disk already in the app: staged by command, kept by `y`, reverted on disk by `n`."""

from pathlib import Path

from app.proposals.values.models import ProposalState
from tests.ui.running_app import running
from tests.unit.proposals.repositories import git
from tests.wire.bench import FILE
from tests.wire.server import WireServer


def repository(root: Path) -> None:
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "First")


async def test_n_reverts_changes_on_disk_and_u_restores_them(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(160, 45)) as run:
        root = run.runtime.workspace.root
        repository(root)
        changed = FILE.replace("'Hello '", "'Good day '")
        (root / "greet.py").write_text(changed)
        (root / "new.py").write_text("new = 1\n")
        await run.command("worktree")
        await run.see("P1 waits for you", "1 proposal waiting")
        await run.review()
        await run.see("on disk already", "y  keep", "n  revert")
        assert run.file == changed
        await run.pilot.press("e")
        await run.told("greet.py is on disk as P1 has it; edit the file itself, P1 follows.")
        await run.review("n")
        await run.see("That removes new.py, which git does not have", "Revert?")
        await run.ready_to_decide("y")
        await run.until(lambda: run.file == FILE, "the file")
        assert not (root / "new.py").exists()
        run.app.clear_notifications()
        await run.see("P1 reverted on disk", "puts it back", "Reverted on disk")
        await run.review("u")
        await run.until(lambda: run.file == changed, "the undo")
        await run.see("On disk and waiting again")
        (root / "new.py").write_text("new = 1\nmore = 2\n")
        await run.until(lambda: run.proposals[0].added == 3, "the line that was added since")
        await run.review("U")
        await run.see("That removes new.py, which git does not have", "Revert?")
        assert (root / "new.py").exists(), "it asks as n does"
        await run.ready_to_decide("y")
        await run.see("P1 reverted on disk: greet.py, new.py.", "u puts it back.")
        await run.review("u")
        await run.until(lambda: run.file == changed, "the undo")
        # A denial with words asks as well.
        await run.review()
        await run.write_feedback("not like this", "ctrl+s")
        await run.see("That removes new.py, which git does not have")
        assert (root / "new.py").exists()
        server.say("I see.")
        await run.ready_to_decide("y")
        await run.until(lambda: not (root / "new.py").exists(), "the file")
        await run.see("not like this", "I see.")
        await run.settled()
        await run.review("u")
        await run.until(lambda: run.file == changed, "the undo")
        await run.review("y")
        await run.see("P1 kept", "has it wait again", "Kept P1")
        assert run.file == changed
        assert [one.state for one in run.proposals] == [ProposalState.APPLIED]
        await run.command("worktree")
        await run.see("Nothing to stage")


async def test_x_reverts_one_hunk_on_disk_and_other_edits_are_kept(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(160, 45)) as run:
        root = run.runtime.workspace.root
        before = "".join(f"line {number}\n" for number in range(40))
        (root / "greet.py").write_text(before)
        repository(root)
        (root / "greet.py").write_text(before.replace("line 3\n", "three\n").replace("line 30\n", "thirty\n"))
        await run.command("worktree")
        await run.see("P1 waits for you")
        await run.review("x")
        await run.until(lambda: "three" not in run.file and "thirty" in run.file, "the hunk")
        (root / "greet.py").write_text(run.file.replace("line 20\n", "twenty\n"))
        await run.until(lambda: run.proposals[0].files[0].rebased, "the edit")
        await run.see("The file changed after this was staged")
        await run.review("n")
        await run.until(lambda: run.file == before.replace("line 20\n", "twenty\n"), "the rest")


async def test_the_from_command_stages_a_branch(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(160, 45)) as run:
        root = run.runtime.workspace.root
        repository(root)
        git(root, "checkout", "--quiet", "-b", "feature")
        (root / "new.py").write_text("new = 1\n")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "Add it")
        git(root, "checkout", "--quiet", "-")
        await run.command("from nowhere")
        await run.see("no commit, branch or range nowhere")
        run.app.clear_notifications()
        await run.command("from feature")
        await run.see("P1 waits for you: Add it")
        await run.review()
        await run.see("From feature", "read 1 of 1 line")
        await run.pilot.press("y")
        await run.until(lambda: (root / "new.py").exists(), "the file")
