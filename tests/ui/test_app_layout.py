"""Where things stand in the whole app: what must stay in view, and what gives way."""

from pathlib import Path

import pytest

from tests.ui.running_app import Running, running
from tests.wire.bench import edit
from tests.wire.server import WireServer
from widgets.diff.position import PositionBar


async def with_proposal(run: Running) -> None:
    """Have the model stage a proposal, and look at its diff."""
    await run.say("Change the greeting")
    await run.pilot.press("f3")
    await run.until(lambda: run.app.workbench.review.diffs, "the diff")


@pytest.mark.parametrize(
    ("size", "full"), [((120, 40), False), ((120, 40), True), ((80, 24), False), ((60, 20), False)]
)
async def test_a_notice_never_covers_the_head_of_the_diff(
    tmp_path: Path, server: WireServer, size: tuple[int, int], full: bool
) -> None:
    async with running(tmp_path, server, size=size) as run:
        server.turn(calls=[edit()])
        server.say("Staged.")
        await with_proposal(run)
        if full:
            await run.pilot.press("f")
        await run.pilot.pause(0.1)
        heads = run.text.split("\n")[:4]
        run.app.tell("Something happened that takes a good many words to say, " * 3)
        await run.see("Something happened")
        shown = run.text.split("\n")
        keys = next(line for line in shown if "approve" in line)
        assert "y" in keys and "n" in keys
        head = next(line for line in heads if "hunk 1 of 1" in line)
        assert head[head.index("P1") :] in "\n".join(shown[:4])
        name = next(line for line in heads if "~ greet.py" in line)
        assert name[name.index("~ greet.py") :] in "\n".join(shown[:4])


async def test_the_focused_pane_is_plain_to_see(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        server.turn(calls=[edit()])
        server.say("Staged.")
        await with_proposal(run)
        review = run.app.workbench.review
        marks = {
            "f3": lambda: review.query_one(PositionBar).styles.background,
            "f4": lambda: review.pane.query_one("#headline").styles.border_left,
            "f2": lambda: run.app.workbench.composer.query_one("#composer-prompt").styles.color,
        }
        looks = {}
        for key in marks:
            await run.pilot.press(key)
            await run.pilot.pause(0.1)
            looks[key] = {name: look() for name, look in marks.items()}
        for key, others in (("f3", ("f4", "f2")), ("f4", ("f3", "f2")), ("f2", ("f3", "f4"))):
            assert all(looks[key][key] != looks[other][key] for other in others)
