"""What the model had read before it edits: the telling part at the head of the file, all of it by a key."""

from pathlib import Path

from tests.ui.running_app import running, stage
from tests.wire.server import WireServer


async def test_an_unread_file_is_marked_and_a_key_shows_what_was_read(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        await stage(run, server)
        for size in ((60, 24), (160, 45)):
            await run.pilot.resize_terminal(*size)
            await run.review()
            await run.see("Edits the file without having read it.")
            await run.screen("ReadsBeforeProposalScreen", "B")
            await run.see("You asked: change it", "greet.py: not read")
            await run.screen("Workbench", "escape")
        await run.review("y")
        await run.see("P1 written")
        server.call("read_file", {"path": "greet.py"})
        await stage(run, server, ("'Hi '", "'Hey '"))
        await run.review()
        await run.screen("ReadsBeforeProposalScreen", "B")
        await run.see("greet.py: 2 lines at version ")
        await run.screen("Workbench", "escape")
        await run.review()
        assert "without having read" not in run.text
