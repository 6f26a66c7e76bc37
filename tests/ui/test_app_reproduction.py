"""The command that made a proposal is run again from the review, and what was not seen is asked about as one."""

import json
from pathlib import Path

import pytest

from app.runtime.review_report import make_proposal_review_report, render_review_report_as_markdown
from app.storage.record_store import DecisionRecordReader
from tests.ui.running_app import Running, running
from tests.wire.server import WireServer

pytestmark = pytest.mark.layer
MANY = "for n in $(seq 1 9); do seq 1 400 > made$n.txt; done"
SAME = "same 9 files, byte for byte"


async def stage_command(run: Running, server: WireServer, command: str) -> None:
    """Have the model run a command that the user allows, and wait for its proposal."""
    server.call("run_command", {"command": command})
    server.say("It ran.")
    await run.submit("run it")
    await run.see("Needs your permission")
    await run.review("y")
    await run.until(lambda: run.proposals, "the proposal")
    await run.settled()


async def test_unseen_files_of_a_reproduced_command_are_confirmed_at_once(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(60, 30)) as run:
        await stage_command(run, server, MANY)
        await run.review("equals_sign")
        await run.see(SAME)
        await run.review("y")
        for size in ((60, 30), (160, 45)):
            await run.pilot.resize_terminal(*size)
            await run.see("gave twice,", "byte for byte. Approve?")
        root = run.runtime.workspace.root
        assert not (root / "made1.txt").exists()
        await run.review("y")
        await run.until(lambda: (root / "made9.txt").exists(), "the approval")
        (entry,) = DecisionRecordReader(run.runtime.database, run.runtime.name).entries()
        assert entry.recipe is not None and (entry.recipe.command, entry.recipe.reproduced) == (MANY, 1)
        seen = 9 - len(entry.circumstances.unseen_files)
        assert f"reproduced, {seen} of 9 files seen" in render_review_report_as_markdown(
            make_proposal_review_report(run.runtime, "P1")
        )
        assert not DecisionRecordReader(run.runtime.database, run.runtime.name).verify_chain().broken
        assert not any("byte for byte" in json.dumps(request.said) for request in server.requests)


async def test_a_reproduction_can_be_stopped_and_started_again_and_names_files_that_differ(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server, size=(160, 45)) as run:
        await stage_command(run, server, "test -e slow && sleep 60; seq 1 400 > made.txt")
        (run.runtime.workspace.root / "slow").touch()
        await run.review("equals_sign")
        await run.see("its command runs again")
        await run.review("equals_sign")
        await run.until(lambda: "its command runs again" not in run.text, "the end of it")
        (run.runtime.workspace.root / "slow").unlink()
        await run.review("equals_sign")
        await run.see("same 1 file, byte for byte")
        await run.review("n")
        await stage_command(run, server, "head -c 9 /dev/urandom | base64 > other.txt")
        await run.review("equals_sign")
        await run.see("not the same: 1 file differs (other.txt)")
        assert not run.proposals[1].is_reproduced


async def test_the_model_is_told_once_that_a_reproduction_replaced_its_edit(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server, size=(160, 45)) as run:
        notes = run.runtime.workspace.root / "notes.txt"
        notes.write_text("one\n")
        await stage_command(run, server, "tr a-z A-Z < notes.txt > new && mv new notes.txt")
        notes.write_text("one more\n")
        await run.review("equals_sign")
        await run.see("run again on the present files")
        for count in (1, 2):
            before = len(server.requests)
            server.say("Yes.")
            await run.pilot.press("f2")
            await run.submit("go on")
            await run.until(lambda before=before: len(server.requests) > before, f"request {count}")  # type: ignore[misc]
            await run.settled()
            told = [(role, text) for role, text in server.last.said if "has run the command of P1 again" in text]
            assert [role for role, _ in told] == ["system"]
            assert told[0][1].endswith("It differs from what you were told at: notes.txt.")
