"""What is read in the app counts for agents, other windows and the next run."""

import asyncio
from pathlib import Path

from tests.ui.running_app import running
from tests.unit.doors.mcp_host import Host
from tests.wire.server import WireServer

LONG = "".join(f"line {number}\n" for number in range(120))


async def test_a_waiting_agent_stages_once_enough_lines_were_seen(tmp_path: Path, server: WireServer) -> None:
    (tmp_path / "home/config").mkdir(parents=True)
    (tmp_path / "home/config/config.toml").write_text("[reading]\nunseen_lines = 20\n")
    async with running(tmp_path, server) as run:
        hosts = [Host(run.runtime.workspace.root) for _ in range(2)]
        for host, client in zip(hosts, ("gemini-cli-mcp-client", "qwen-code"), strict=True):
            host.greet(client)
        try:
            files = [{"path": "long.txt", "content": LONG}]
            assert not (await asyncio.to_thread(hosts[0].call, "propose_edit", files=files))[1]
            await run.see("P1")
            await run.review()
            files = [{"path": "short.txt", "content": "one\n"}]
            words, failed = await asyncio.to_thread(hosts[1].call, "propose_edit", files=files)
            assert failed and "lines to read; stop here, or wait." in words
            name = hosts[1].begin_call("propose_edit", {"progressToken": "t"}, files=files, wait_seconds=600)
            await asyncio.to_thread(hosts[1].until, lambda: len(hosts[1].sent) > 2 or None)
            assert [one.id for one in run.proposals] == ["P1"]
            await run.pilot.press("f3", *["pagedown"] * 6)
            await run.until(lambda: len(run.proposals) == 2, "the edit that waited")
            await run.until(lambda: run.runtime.seen_lines_store.unread_line_count() <= 1, "what was read")
            hosts[1].notify("notifications/cancelled", requestId=name)
        finally:
            for host in hosts:
                await asyncio.to_thread(host.server.shut_down)
    async with running(tmp_path, server) as run:
        await run.review()
        state = run.app.workbench.review.state
        proposal = state.get("P1")
        assert proposal is not None and not state.unseen_parts(proposal), "it was read in the run before"
