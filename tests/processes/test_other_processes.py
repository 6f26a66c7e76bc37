"""Two processes on one workspace: what one stages or decides shows in the other, and reaches the model."""

import asyncio

from app.agent.updates import ProposalsChanged
from app.conversation.events import ProposalDecided
from tests.wire.bench import FILE, edit, of_role
from tests.wire.hosting import Hosted
from tests.wire.server import WireServer

PATCH = """--- a/greet.py
+++ b/greet.py
@@ -1,2 +1,2 @@
 def greet(name):
-    return 'Hello ' + name
+    return 'Hi ' + name
"""


async def test_a_denial_from_outside_reaches_the_model_at_once(server: WireServer, hosted: Hosted) -> None:
    session = hosted.open_session.session
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
    session = hosted.open_session.session
    assert session is not None
    server.turn(calls=[edit()])
    server.say("Have a look.")
    await session.send("Be less formal")
    await hosted.until(lambda: hosted.turns() == 1)
    hosted.updates.clear()
    await hosted.other("approve", "P1")
    await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
    await hosted.until(lambda: not session.gate.is_closed)
    assert (hosted.root / "greet.py").read_text() == FILE.replace("Hello", "Hi")
    assert len(server.requests) == 2, "an approval doesn't start a turn"


async def test_what_another_process_stages_shows(hosted: Hosted) -> None:
    hosted.updates.clear()
    await hosted.other("stage", "-", stdin=PATCH)
    await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
    assert [proposal.id for proposal in hosted.open_session.runtime.service.pending()] == ["P1"]


async def test_a_change_on_disk_re_bases_what_waits(hosted: Hosted) -> None:
    await hosted.other("stage", "-", stdin=PATCH)
    await hosted.until(lambda: any(isinstance(update, ProposalsChanged) for update in hosted.updates))
    (hosted.root / "greet.py").write_text("# a comment\n\n\n" + FILE)
    service = hosted.open_session.runtime.service
    await hosted.until(lambda: any(change.rebased for change in service.get("P1").files))
    (hosted.root / "greet.py").write_text("something else\n")
    await hosted.until(lambda: service.get("P1").state == "stale")


async def test_of_two_sessions_opened_at_once_only_the_last_goes_on(server: WireServer, hosted: Hosted) -> None:
    opened = await asyncio.gather(hosted.open_session.open(), hosted.open_session.open())
    (left,) = [session for session in opened if session is not hosted.open_session.session]
    server.say("Hello.")
    await left.send("into the void")
    await left.wait_until_idle()
    assert server.requests == []
