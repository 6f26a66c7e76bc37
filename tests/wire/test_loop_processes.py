"""Two processes on one workspace: what one stages or decides shows in the other, and reaches the model."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from app.agent.updates import ProposalsChanged, Recorded, Update
from app.conversation.events import ProposalDecided, TurnEnded
from app.host import Host
from app.runtime import open_runtime
from tests.wire.bench import FILE, edit, of_role
from tests.wire.endpoints import OBEYS
from tests.wire.server import WireServer

PATCH = """--- a/greet.py
+++ b/greet.py
@@ -1,2 +1,2 @@
 def greet(name):
-    return 'Hello ' + name
+    return 'Hi ' + name
"""


class Hosted:
    """An app without its screen, and the other process beside it."""

    def __init__(self, host: Host, root: Path, home: Path) -> None:
        self.host = host
        self.root = root
        self._home = home
        self.updates: list[Update] = []
        self._changed = asyncio.Event()

    def take(self, update: Update) -> None:
        self.updates.append(update)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition over the updates holds."""
        async with asyncio.timeout(15):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def other(self, *words: str, stdin: str = "") -> str:
        """Run the command in another process."""
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-P", "-m", "signoff", *words],
            input=stdin,
            cwd=self.root,
            env={**os.environ, "SIGNOFF_HOME": str(self._home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def turns(self) -> int:
        """Turns that have ended."""
        return sum(isinstance(update, Recorded) and isinstance(update.event, TurnEnded) for update in self.updates)


@pytest.fixture
async def hosted(server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hosted]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "greet.py").write_text(FILE)
    server.behave(OBEYS)
    runtime = open_runtime(root, {"base_url": server.base_url, "model": "m"}, {})
    holder: list[Hosted] = []
    host = Host(runtime, runtime.settings, lambda update: holder[0].take(update))
    holder.append(Hosted(host, root, tmp_path / "home"))
    await host.start()
    await host.connect(runtime.settings)
    await host.open()
    yield holder[0]
    await host.close()
    runtime.close()


async def test_a_denial_from_outside_reaches_the_model_at_once(server: WireServer, hosted: Hosted) -> None:
    session = hosted.host.session
    assert session is not None
    server.turn(calls=[edit()])
    server.say("Have a look.")
    await session.send("Be less formal")
    await hosted.until(lambda: hosted.turns() == 1)
    server.say("I see.")
    await hosted.other("deny", "P1", "-m", "Not like\nthat.")
    await hosted.until(lambda: hosted.turns() == 2)
    assert of_role(server.last, "user")[-1] == "Not like\nthat."
    decided = [event for event in session.log.events if isinstance(event, ProposalDecided)]
    assert len(decided) == 1


async def test_an_approval_from_outside_is_taken_in_once(server: WireServer, hosted: Hosted) -> None:
    session = hosted.host.session
    assert session is not None
    server.turn(calls=[edit()])
    server.say("Have a look.")
    await session.send("Be less formal")
    await hosted.until(lambda: hosted.turns() == 1)
    hosted.updates.clear()
    await hosted.other("approve", "P1")
    await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
    await hosted.until(lambda: not session.gate.closed)
    assert (hosted.root / "greet.py").read_text() == FILE.replace("Hello", "Hi")
    assert len(server.requests) == 2, "an approval doesn't start a turn"


async def test_what_another_process_stages_shows(hosted: Hosted) -> None:
    hosted.updates.clear()
    await hosted.other("stage", "-", stdin=PATCH)
    await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
    assert [proposal.id for proposal in hosted.host.runtime.desk.waiting()] == ["P1"]


async def test_a_change_on_disk_re_bases_what_waits(hosted: Hosted) -> None:
    await hosted.other("stage", "-", stdin=PATCH)
    await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
    (hosted.root / "greet.py").write_text("# a comment\n\n\n" + FILE)
    desk = hosted.host.runtime.desk
    await hosted.until(lambda: any(change.rebased for change in desk.get("P1").files))
    (hosted.root / "greet.py").write_text("something else\n")
    await hosted.until(lambda: desk.get("P1").state == "stale")


async def test_of_two_sessions_opened_at_once_only_the_last_goes_on(server: WireServer, hosted: Hosted) -> None:
    opened = await asyncio.gather(hosted.host.open(), hosted.host.open())
    (left,) = [session for session in opened if session is not hosted.host.session]
    server.say("Hello.")
    await left.send("into the void")
    await left.settled()
    assert server.requests == []
