"""Three real servers in a session with a scripted model; skipped unless they are installed.

`npm install --prefix FOLDER @modelcontextprotocol/server-filesystem @modelcontextprotocol/server-everything`, `uv
venv FOLDER/git && uv pip install --python FOLDER/git/bin/python mcp-server-git`, then SIGNOFF_SERVERS=FOLDER.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.conversation.events import CallOutcome
from tests.servers.stage import ServerSession, open_server_session
from tests.wire.bench import FILE, edit
from tests.wire.endpoints import IGNORES_TOOL_CHOICE
from tests.wire.replies import Call, Turn
from tests.wire.server import WireServer

FOLDER = Path(os.environ.get("SIGNOFF_SERVERS", "/nonexistent"))
PROGRAMS = {
    "files": FOLDER / "node_modules/.bin/mcp-server-filesystem",
    "git": FOLDER / "git/bin/mcp-server-git",
    "everything": FOLDER / "node_modules/.bin/mcp-server-everything",
}
pytestmark = [
    pytest.mark.skipif(not all(path.exists() for path in PROGRAMS.values()), reason="SIGNOFF_SERVERS names none"),
    pytest.mark.timeout(300),
]


@pytest.fixture
def port() -> Iterator[int]:
    """The port of the `everything` server over Streamable HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = int(free.getsockname()[1])
    words = [str(PROGRAMS["everything"]), "streamableHttp"]
    environment = {**os.environ, "PORT": str(number)}
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "listening" in line.lower():
                break
        yield number
        process.terminate()


def repository(folder: Path) -> Path:
    root = folder / "workspace"
    root.mkdir()
    (root / "greet.py").write_text(FILE)
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "First words"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


def servers(root: Path, port: int) -> dict[str, Any]:
    return {
        "files": {"command": str(PROGRAMS["files"]), "args": [str(root)]},
        "git": {"command": str(PROGRAMS["git"]), "args": ["--repository", str(root)]},
        "all": {"url": f"http://127.0.0.1:{port}/mcp"},
    }


async def assert_calls_refused_after_edit(
    on: ServerSession, wire: WireServer, *calls: tuple[str, dict[str, Any]]
) -> None:
    """ServerSession an edit, and assert that all later calls of the model are refused."""
    asked = len(on.permission_requests)
    wire.turn(calls=[edit(new=f"'Hi {asked} '")])
    wire.turn(calls=[Call(*call) for call in calls])
    before = len(on.results)
    await on.run_turn(last="")
    staged, *refused = on.results[before:]
    assert staged.outcome is CallOutcome.STAGED
    assert [each.outcome for each in refused] == [CallOutcome.REFUSED] * len(calls)
    assert len(on.permission_requests) == asked
    assert (on.root / "greet.py").read_text() == FILE


async def test_three_real_servers_work_in_one_session(wire: WireServer, tmp_path: Path, port: int) -> None:
    root = repository(tmp_path)
    calls = [
        ("files__write_file", {"path": str(root / "made.txt"), "content": "made by a server\n"}),
        ("git__git_log", {"repo_path": str(root)}),
        ("all__echo", {"message": "far away"}),
    ]
    given = {**servers(root, port)}
    async with open_server_session(
        wire, tmp_path, given, behaviour=IGNORES_TOOL_CHOICE, context_window=200_000
    ) as on:
        await on.wait_until_ready("files", "git", "all")
        await assert_calls_refused_after_edit(on, wire, *calls)
        # The server reads the staged content.
        answer = await on.run_turn(("files__read_text_file", {"path": str(root / "greet.py")}))
        assert "'Hi 0 '" in answer
        assert "First words" in await on.run_turn(calls[1])
        status = await on.run_turn(("git__git_status", {"repo_path": str(root)}))
        assert "greet.py" in status
        assert "far away" in await on.run_turn(calls[2])
        image = await on.run_turn(("all__get-tiny-image", {}))
        assert '[image "all__get-tiny-image 1": 20×20' in image
        # A file written by the server is staged, closes the gate, and is on disk after approval.
        wire.script([Turn(calls=(Call(*calls[0]),)), Turn(calls=(Call(*calls[2]),))])
        before = len(on.results)
        await on.run_turn(last="")
        staged, refused = on.results[before:]
        assert '"status": "staged"' in staged.text
        assert refused.outcome is CallOutcome.REFUSED
        assert not (root / "made.txt").exists()
        proposal = next(
            each for each in on.host.runtime.proposals.recent_proposals() if each.files[0].path == "made.txt"
        )
        await on.host.decisions.approve(proposal.id)
        assert (root / "made.txt").read_text() == "made by a server\n"
        # A server cannot commit.
        answer = await on.run_turn(("git__git_commit", {"repo_path": str(root), "message": "Not mine"}))
        log = subprocess.run(["git", "log", "--oneline"], cwd=root, check=True, capture_output=True, text=True)
        assert "Not mine" not in log.stdout


async def test_tool_search_is_used_in_a_small_context(wire: WireServer, tmp_path: Path, port: int) -> None:
    root = repository(tmp_path)
    async with open_server_session(wire, tmp_path, servers(root, port), context_window=8_000) as on:
        await on.wait_until_ready("files", "git", "all")
        found = await on.run_turn(("find_tool", {"words": "commit history log"}))
        assert "git__git_log" in found
        assert {"find_tool", "call_tool"} <= set(on.offered_tools)
        assert not [name for name in on.offered_tools if "__" in name]
        arguments = {"repo_path": str(root)}
        assert "First words" in await on.run_turn(("call_tool", {"name": "git__git_log", "arguments": arguments}))
        assert on.permission_requests[-1].form is not None and on.permission_requests[-1].form.tool == "git_log"
