"""Which lines of files the model is told of: those that are neither as it read them nor its own."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.agent.interventions import FILES_NAMED
from app.conversation.events import Intervention, InterventionKind
from tests.wire.bench import Bench, bench, of_role
from tests.wire.server import WireServer

PATH = "lines.txt"
LINES = [f"line {number}" for number in range(1, 21)]
EDITS = [{"old": "line 6\n", "new": "their line 6\n"}, {"old": "line 12\n", "new": "their line 12\nand one more\n"}]

Steps = Callable[[Bench], Awaitable[object]]


def write(on: Bench, **changed: str) -> None:
    """Have the user change lines of what is on disk: `line_2="mine"`."""
    path = on.root / PATH
    text = path.read_text()
    for old, new in changed.items():
        assert f"{old.replace('_', ' ')}\n" in text
        text = text.replace(f"{old.replace('_', ' ')}\n", new)
    path.write_text(text)


async def staged(on: Bench, server: WireServer) -> None:
    """The model has read the file, and its edit of two places waits."""
    (on.root / PATH).write_text("".join(f"{line}\n" for line in LINES))
    await on.say("Change it", ("read_file", {"path": PATH}), ("edit_file", {"path": PATH, "edits": EDITS}))


async def told(on: Bench, server: WireServer) -> str:
    await on.say("Go on", last="Well.")
    found = [text for text in of_role(server.last, "system") if "Files have changed" in text]
    assert len(found) <= 1, "once"
    return found[0] if found else ""


async def approve(on: Bench) -> None:
    await on.session.rebase_after_disk_change([PATH])
    await on.session.approve("P1")


async def approve_a_part(on: Bench) -> None:
    await on.session.rebase_after_disk_change([PATH])
    await on.session.approve("P1", ["1"])


async def approve_one_and_deny_the_other(on: Bench) -> None:
    await approve_a_part(on)
    await on.session.deny("P1", ["2"])


async def deny(on: Bench) -> None:
    await on.session.deny("P1")


async def deny_the_second(on: Bench) -> None:
    await on.session.deny("P1", ["2"])


async def undo_and_redo(on: Bench) -> None:
    await approve(on)
    await on.session.undo("P1")
    await on.session.redo("P1")


async def deny_and_reopen(on: Bench) -> None:
    await on.session.deny("P1")
    await on.session.undo("P1")


async def wait(on: Bench) -> None:
    await on.session.rebase_after_disk_change([PATH])


DECISIONS: list[Steps] = [
    approve,
    approve_a_part,
    approve_one_and_deny_the_other,
    deny,
    deny_the_second,
    undo_and_redo,
    deny_and_reopen,
    wait,
]
WITHOUT_THE_SECOND = (approve_one_and_deny_the_other, deny, deny_the_second)
"""Then the line that the second edit adds is not there."""


@pytest.mark.parametrize("decide", [approve, deny, undo_and_redo])
async def test_the_models_own_edits_are_not_reported_as_changes(decide: Steps, server: WireServer, on: Bench) -> None:
    await staged(on, server)
    await decide(on)
    assert await told(on, server) == ""


@pytest.mark.parametrize("decide", DECISIONS)
async def test_lines_of_the_user_in_a_merge_are_reported_once(decide: Steps, server: WireServer, on: Bench) -> None:
    await staged(on, server)
    write(on, line_2="mine\nand mine\n", line_9="", line_18="mine too\n")
    await decide(on)
    news = await told(on, server)
    last = 18 if decide in WITHOUT_THE_SECOND else 19
    assert f"{PATH} (different now: lines 2-3, lines gone after line 9, line {last})" in news
    assert await told(on, server) == news, "it stays in the history, and is not said again"
    kinds = [event.kind for event in on.events if isinstance(event, Intervention)]
    assert kinds.count(InterventionKind.FILES_CHANGED) == 1


async def test_files_beyond_the_limit_are_counted_if_changed(server: WireServer, on: Bench) -> None:
    paths = [on.root / f"f{number}.py" for number in range(FILES_NAMED + 2)]
    for path in paths:
        path.write_text("a = 1\n")
    server.turn(calls=[("read_file", {"path": path.name}) for path in paths])
    await on.say("Read them", last="I have read them.")
    for path in paths[:-1]:
        path.write_text("a = 2\n")
    assert "and 1 more" in await told(on, server)


async def test_an_unreadable_file_does_not_stop_a_turn(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        (on.root / "linked.py").write_text("a = 1\n")
        server.turn(calls=[("read_file", {"path": name}) for name in ("greet.py", "linked.py")])
        await on.say("Read them", last="I have read them.")
        for path in (on.root / "greet.py", on.root / "linked.py"):
            path.unlink()
        (on.root / "greet.py").mkdir()
        (on.root / "linked.py").symlink_to(tmp_path)
        await told(on, server)
        assert on.stopped == "answer"


async def test_the_request_after_a_denial_names_the_changed_lines(server: WireServer, on: Bench) -> None:
    await staged(on, server)
    write(on, line_2="mine\n")
    server.say("I see.")
    await on.settled(on.session.deny("P1", feedback="Not like that."))
    assert any(f"{PATH} (different now: line 2)" in text for text in of_role(server.last, "system"))
    assert await told(on, server) != ""


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
async def test_denied_lines_of_an_unread_file_are_not_reported(server: WireServer, on: Bench, tool: str) -> None:
    (on.root / "there.txt").write_text("one\n")
    calls = {
        "write_file": {"path": "new.txt", "content": "one\n"},
        "edit_file": {"path": "there.txt", "edits": [{"old": "one", "new": "two"}]},
    }
    await on.say("Make it", (tool, calls[tool]))
    server.say("I see.")
    await on.settled(on.session.deny("P1", feedback="Not like that."))
    assert any("denied proposal P1" in text for text in of_role(server.last, "system"))
    assert not any("Files have changed" in text for text in of_role(server.last, "system"))
    assert await told(on, server) == ""


async def test_a_line_restored_by_hand_after_the_approval_is_reported(server: WireServer, on: Bench) -> None:
    await staged(on, server)
    await approve(on)
    write(on, their_line_6="line 6\n")
    assert f"{PATH} (different now: line 6)" in await told(on, server)


async def test_a_file_created_by_the_model_counts_as_read(server: WireServer, on: Bench) -> None:
    await on.say("Make it", ("write_file", {"path": "new.txt", "content": "one\ntwo\n"}))
    await on.session.approve("P1")
    assert await told(on, server) == ""
    (on.root / "new.txt").write_text("one\n2\n")
    assert "new.txt (different now: line 2)" in await told(on, server)


async def test_the_known_file_versions_are_restored_with_the_session(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        await staged(on, server)
        write(on, line_2="mine\n")
        await approve(on)
    async with bench(server, tmp_path) as on:
        assert f"{PATH} (different now: line 2)" in await told(on, server)
