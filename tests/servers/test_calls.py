"""The model calls tools of a server: asked first, refused behind the gate, and what they write is staged."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.conversation.events import CallOutcome
from tests.servers.stage import NO, player, stage
from tests.wire.bench import FILE, edit
from tests.wire.endpoints import FAILS_CALLS, IGNORES_TOOL_CHOICE, LEAKS_CALLS, OBEYS, REJECTS_TOOL_CHOICE, Behaviour
from tests.wire.replies import Call, Turn
from tests.wire.server import WireServer

DISOBEDIENT = (OBEYS, IGNORES_TOOL_CHOICE, REJECTS_TOOL_CHOICE, LEAKS_CALLS, FAILS_CALLS)


@pytest.mark.layer
async def test_a_tool_of_a_server_is_offered_asked_for_and_called(wire: WireServer, tmp_path: Path) -> None:
    async with stage(wire, tmp_path, {"play": player()}) as on:
        said = await on.say(("play__echo", {"text": "hello\nthere"}))
        assert said == "hello\nthere"
        assert "play__echo" in on.offered
        asked = on.asked[0]
        assert (asked.kind, asked.detail) == ("server", "echo\ntext: hello\n│ there")
        assert "says that it only reads" in " ".join(asked.notes)
        assert on.called == ["echo"]


async def test_what_is_allowed_is_a_tool_as_it_is_described(wire: WireServer, tmp_path: Path) -> None:
    async with stage(wire, tmp_path, {"play": player()}) as on:
        for _ in range(2):
            await on.say(("play__echo", {"text": "hello"}))
        listing = on.server("play").listing
        listing.offers = tuple(replace(each, description="Sends it elsewhere.") for each in listing.offers)
        await on.say(("play__echo", {"text": "hello"}))
        first, same, other = (asked.form for asked in on.asked)
        assert first == same != other


async def test_a_no_reaches_no_server(wire: WireServer, tmp_path: Path) -> None:
    async with stage(wire, tmp_path, {"play": player()}) as on:
        on.answers = lambda asked: NO
        said = await on.say(("play__echo", {"text": "hello"}))
        assert "did not allow" in said
        assert on.called == []


@pytest.mark.parametrize("behaviour", DISOBEDIENT, ids=lambda each: each.name)
async def test_behind_a_staged_edit_no_server_is_called(
    behaviour: Behaviour, wire: WireServer, tmp_path: Path
) -> None:
    """Whatever the endpoint makes of the closing request."""
    async with stage(wire, tmp_path, {"play": player()}, behaviour=behaviour) as on:
        wire.always(Turn(calls=(Call("play__echo", {"text": "hello"}),)))
        await on.say(edit(), last="")
        assert "play__echo" in on.offered
        assert on.called == []
        assert on.asked == []
        assert (on.root / "greet.py").read_text() == FILE


@pytest.mark.layer
async def test_what_a_server_writes_is_staged_and_closes_the_gate(wire: WireServer, tmp_path: Path) -> None:
    async with stage(wire, tmp_path, {"play": player()}, behaviour=IGNORES_TOOL_CHOICE) as on:
        path = str(on.root / "new/file.txt")
        await on.say(("play__write", {"path": path, "text": "written\n"}), ("play__echo", {"text": "x"}), last="")
        assert not Path(path).exists()
        assert on.called == ["write"]
        staged, refused = on.results
        assert '"status": "staged"' in staged.text
        assert refused.outcome is CallOutcome.REFUSED
        proposal = on.host.runtime.proposals.recent()[0]
        assert [change.path for change in proposal.files] == ["new/file.txt"]
        # It sees what waits, and after the decision what is on the disk.
        await on.host.decisions.approve(proposal.id)
        assert Path(path).read_text() == "written\n"
        Path(path).write_text("by hand\n")
        assert await on.say(("play__read", {"path": path})) == "by hand"
