"""Run by the tests: an app without its screen in a process of its own, which does what standard input says."""

import asyncio
import json
import sys
from pathlib import Path

from app.agent.turns import SessionOpenElsewhere
from app.agent.updates import EventRecorded, GateChanged, ProposalsChanged, Update
from app.runtime.open_workspace import open_workspace
from app.runtime.session_host import SessionHost


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def take(update: Update) -> None:
    """What this window would show."""
    match update:
        case EventRecorded(event=event):
            tell(event=event.type)
        case ProposalsChanged(ids=ids):
            tell(changed=list(ids))
        case GateChanged(closed=closed):
            tell(gate=closed)


async def main(root: Path, base_url: str, session_id: str) -> None:
    """Open a session, a new one without an id, and obey."""
    runtime = open_workspace(root, {"base_url": base_url, "model": "m"}, {})
    host = SessionHost(runtime, runtime.settings, take)
    await host.start()
    await host.connect(runtime.settings)
    session = await host.open(runtime.sessions.get(session_id) if session_id else None)
    tell(session=session.id, follows=session.is_follower)
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, *words = json.loads(line)
        try:
            match what:
                case "approve":
                    await session.approve(*words)
                case "deny":
                    await session.deny(words[0], feedback=words[1])
                case "undo":
                    await session.undo(*words)
                case "send":
                    await session.send(*words)
                case "settle":
                    await session.wait_until_idle()
        except SessionOpenElsewhere as error:
            tell(refused=str(error))
        tell(done=what, follows=session.is_follower, queue=list(session.queue))
    await host.close()
    runtime.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
