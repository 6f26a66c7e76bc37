"""A session that says more than the screen can show: keys come before it."""

import asyncio
from pathlib import Path

from tests.ui.running_app import running
from tests.wire.replies import DONE, chunk, stream
from tests.wire.server import WireServer


async def test_a_key_does_not_stand_behind_what_streams_in(tmp_path: Path, server: WireServer) -> None:
    deltas = [chunk(f"word {number} ") for number in range(3000)]
    server.script([stream(*deltas, chunk(finish="stop"), DONE)])
    queues: list[int] = []

    async def watch() -> None:
        while True:
            queues.append(run.app.message_queue_size)
            await asyncio.sleep(0)

    async with running(tmp_path, server) as run:
        watching = asyncio.create_task(watch())
        await run.say("pour")
        await run.see("word 2999")
        watching.cancel()
    # A key would stand at the end of this queue.
    assert max(queues) < 20
