"""What the app says of the branch before a push."""

import shutil
from pathlib import Path

import pytest

from app.runtime.commit_records import write_and_sign_commit_notes
from tests.commands.test_verify import Project, git, keys
from tests.ui.running_app import running
from tests.wire.server import WireServer

__all__ = ["keys"]
pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


async def test_the_verify_screen_shows_and_stages_unreviewed_commits(
    tmp_path: Path, server: WireServer, keys: Path
) -> None:
    async with running(tmp_path, server) as app:
        project = Project(app.runtime.workspace.root, keys)
        await app.command("verify")
        await app.screen("CommitReviewCoverageScreen")
        await app.told("No keys are allowed to sign")
        await app.pilot.press("r")
        await app.told("no file to review")
        await app.pilot.press("escape")
        git(project.root, "branch", "upstream")
        git(project.root, "branch", "--set-upstream-to=upstream")
        project.write("a.txt", project.read().replace("line 3\n", "three\n"))
        project.commit("by hand [/]")
        await app.command("verify")
        await app.screen("CommitReviewCoverageScreen")
        await app.told("by hand [/]")
        await app.told("a.txt its change not reviewed")
        await app.told("1 of 1 commit not covered")
        await app.pilot.press("r")
        await app.until(lambda: app.proposals, "a proposal")
        await app.review("y")
        await app.until(lambda: app.proposals[0].state.value == "applied", "the decision")
        assert "three" in project.read()
        write_and_sign_commit_notes(app.runtime, "HEAD", git_ai_notes=False, include_denials=False)
        await app.command("verify")
        await app.told("1 commit covered by reviews")
        await app.told("a.txt ann@x.org (P1, 1/1 hunks)")
