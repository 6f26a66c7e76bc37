"""The user's own diff program behind a key: offered where there is one, shown to read and to search."""

import shlex
import sys
from pathlib import Path

import pytest

from app.ui.screens.output_screens import ExternalDiffScreen
from tests.ui.running_app import Running, running
from tests.ui.test_app_decisions import stage
from tests.wire.server import WireServer
from widgets.common.text_view import TextView
from widgets.common.workbench_bars import KeyBar

TOOL = """\
import sys
print("\\x1b[31m" + open(sys.argv[2]).read().strip() + "\\x1b[0m\\x1b[2J")
print("\\n".join(f"line {n}" for n in range(90)))
print("\\x1b[32m" + open(sys.argv[5]).read().strip() + "\\x1b[0m")
"""


@pytest.fixture(autouse=True)
def nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No diff program is set."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_EXTERNAL_DIFF", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def footer(run: Running) -> str:
    return " ".join(hint.words for hint, _, _ in run.app.workbench.query_one(KeyBar).hints)


async def test_its_output_is_read_and_searched_and_decides_nothing(tmp_path: Path, server: WireServer) -> None:
    (tmp_path / "tool.py").write_text(TOOL)
    command = shlex.join([sys.executable, str(tmp_path / "tool.py")])
    async with running(tmp_path, server, external_diff=command) as run:
        await stage(run, server)
        await run.review()
        await run.until(lambda: "Diff program" in footer(run), "the key")
        await run.pilot.press("D")
        await run.screen("ExternalDiffScreen")
        await run.see("'Hello '", "line 3", "greet.py")
        screen = run.app.screen
        assert isinstance(screen, ExternalDiffScreen)
        view = screen.query_one(TextView)
        strip = view.render_line(1)
        assert any(segment.style and segment.style.color for segment in strip if "Hello" in segment.text)
        await run.pilot.press("slash", *"line 77", "enter")
        await run.until(lambda: view.scroll_offset.y > 40, "the match")
        await run.see("match 1 of 1", "line 77")
        await run.pilot.press("G")
        await run.see("return")
        await run.pilot.press("y", "escape")
        await run.screen("Workbench")
        assert run.proposals[0].state == "pending"


async def test_where_none_is_set_the_key_is_not_offered_and_says_what_to_set(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server) as run:
        await stage(run, server)
        await run.review()
        assert "Diff program" not in footer(run)
        await run.pilot.press("D")
        await run.see("No diff program is set", "diff.external")
        assert "Diff program" not in footer(run)


async def test_contents_that_are_not_kept_any_more_are_said_to_be_gone(tmp_path: Path, server: WireServer) -> None:
    (tmp_path / "tool.py").write_text(TOOL)
    command = shlex.join([sys.executable, str(tmp_path / "tool.py")])
    async with running(tmp_path, server, external_diff=command) as run:
        await stage(run, server)
        await run.review()
        with run.runtime.database.transaction() as connection:
            connection.execute("DELETE FROM blobs")
        await run.pilot.press("D")
        await run.screen("ExternalDiffScreen")
        await run.see("What greet.py was is not kept any more.")


async def test_another_proposal_that_comes_up_meanwhile_is_not_shown_under_this_ones_name(
    tmp_path: Path, server: WireServer
) -> None:
    (tmp_path / "tool.py").write_text(TOOL)
    command = shlex.join([sys.executable, str(tmp_path / "tool.py")])
    async with running(tmp_path, server, external_diff=command) as run:
        await stage(run, server)
        draft = run.runtime.service.draft("")
        draft.write("greet.py", "another = 1\n")
        run.runtime.service.stage(draft, "Another")
        await run.app.show_proposals()
        await run.review()
        assert run.app.parts.behind_review is not None
        for gone in (("P9", "greet.py"), ("P1", "gone.py")):
            await run.app.parts.behind_review.decisions.outside.show(*gone)
        # The second key is there before anything that the first one wants is done.
        run.app.workbench.review.view.action_external_diff()
        run.app.workbench.review.action_next_proposal()
        await run.screen("ExternalDiffScreen")
        await run.see("P1 ·", "'Hello '")
        assert "another = 1" not in run.text
