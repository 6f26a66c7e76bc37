"""An app without a screen in a separate process, which executes commands from standard input."""

import asyncio
import json
import sys
from pathlib import Path

from app.agent.turns import SessionOpenElsewhere
from app.agent.updates import EventRecorded, GateOpenedOrClosed, ProposalsChanged, Update
from app.runtime.open_workspace import open_workspace
from app.runtime.session_host import SessionHost


def report(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def report_update(update: Update) -> None:
    match update:
        case EventRecorded(event=event):
            report(event=event.type)
        case ProposalsChanged(ids=ids):
            report(changed=list(ids))
        case GateOpenedOrClosed(closed=closed):
            report(gate=closed)


async def main(root: Path, base_url: str, session_id: str) -> None:
    """Open the session, or a new one without an id, and execute commands."""
    runtime = open_workspace(root, {"base_url": base_url, "model": "m"}, {})
    host = SessionHost(runtime, runtime.settings, report_update)
    await host.start()
    await host.connect(runtime.settings)
    session = await host.open(runtime.sessions.get(session_id) if session_id else None)
    report(session=session.id, follows=session.is_follower)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, *arguments = json.loads(line)
        try:
            match command:
                case "approve":
                    await session.approve(*arguments)
                case "deny":
                    await session.deny(arguments[0], feedback=arguments[1])
                case "undo":
                    await session.undo(*arguments)
                case "send":
                    await session.send(*arguments)
                case "settle":
                    await session.wait_until_idle()
        except SessionOpenElsewhere as error:
            report(refused=str(error))
        report(done=command, follows=session.is_follower, queue=list(session.queue))
    await host.close()
    runtime.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
