"""A program server that misbehaves causes one error line, and leaves no process behind."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.conversation.events import CallOutcome
from app.copies import replace
from app.mcp_client import mcp_connection, server_program
from app.mcp_client import tool_listing as listing
from app.mcp_client.configured_servers import WriteAccess
from app.mcp_client.mcp_connection import ConnectionLost
from app.mcp_client.mcp_server import McpServerState
from app.mcp_client.tool_listing import MAX_LOG_LINE_CHARACTERS, MAX_LOG_LINES
from app.sandbox.confinement import CommandWriteMode
from app.tools.base.contract import PermissionAnswer, PermissionRequest
from tests.forking import Forking
from tests.servers.stage import YES, ServerSession, open_server_session, player
from tests.unit.tools.processes import new_mark
from tests.waiting import until
from tests.wire.server import WireServer

ROOT = Path(__file__).resolve().parents[2]
ECHO = ("play__echo", {"text": "x"})
SPAWN = "import subprocess; subprocess.Popen(['sleep', '{}'], start_new_session=True); found['said'] = 'spawned'"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_program, "MAX_SERVER_MESSAGE_BYTES", 2**20)
    monkeypatch.setattr(mcp_connection, "MAX_UNREQUESTED_BYTES", 2**17)


@pytest.fixture
async def on(wire: WireServer, tmp_path: Path) -> AsyncIterator[ServerSession]:
    """A session with the scripted server, which is ready."""
    async with open_server_session(wire, tmp_path, {"play": player()}) as opened:
        await opened.wait_until_ready("play")
        yield opened


async def run(on: ServerSession, code: str) -> str:
    return await on.run_turn(("play__run", {"code": code}))


HABITS = {
    "dies": ("os._exit(3)", "exit code 3"),
    "is killed": ("import signal; os.kill(os.getpid(), signal.SIGKILL)", "signal SIGKILL"),
    "hangs": ("time.sleep(3600)", "its time limit"),
    "stops listening": ("sys.stdin.close(); os.close(0); time.sleep(3600)", "its time limit"),
    "closes its output": ("os.close(1); time.sleep(3600)", "can't be used"),
    "writes a line without end": ("while True: sys.stdout.write('x' * 65536)", "a line of more than"),
    "floods with notifications": ("while True: send({'method': 'notifications/x'})", "not requested"),
    "floods with questions": ("while True: send({'id': 'r', 'method': 'sampling/createMessage'})", "not requested"),
    "floods with answers": ("while True: send({'id': 12345678, 'result': {}})", "not requested"),
    "floods with next to nothing": (
        "for _ in range(20_000): sys.stdout.write('x\\n')\nfound['said'] = 'well'",
        "not requested",
    ),
    "floods with empty lines": ("while True: sys.stdout.write('\\n' * 1000)", "not requested"),
    "floods with no JSON": ("while True: sys.stdout.write('nope\\n')", "not requested"),
    "says a thousand things at once": ("sys.stdout.write(json.dumps([[]] * 2000) + '\\n')", "messages at once"),
    "answers with a list": ("sys.stdout.write('[1]\\n'); sys.stdout.flush(); os._exit(0)", "exit code 0"),
}


@pytest.mark.parametrize("slow", [True, False])
async def test_misbehaviour_is_an_error_line_and_a_restart(slow: bool, wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"play": player(timeout=1.5 if slow else 60)}) as on:
        await on.wait_until_ready("play")
        for habit, (code, error) in HABITS.items():
            if slow == (error in ("its time limit", "can't be used")):
                assert error in await run(on, code), habit
                assert on.results[-1].outcome is CallOutcome.ERROR
                assert await run(on, "found['said'] = 'well'") == "well", habit


async def test_server_that_never_reads_is_named(
    wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_connection, "MAX_UNREQUESTED_BYTES", 2**26)
    monkeypatch.setattr(server_program, "MAX_UNREAD_BYTES", 2**16)
    async with open_server_session(wire, tmp_path, {"play": player()}) as on:
        answer = await run(on, "while True: send({'id': 'r', 'method': 'ping'})")
        assert "it does not read its input" in answer


async def test_a_read_error_ends_calls(wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = json.loads

    def broken(text: str, **more: Any) -> Any:
        if "poisoned" in str(text):
            raise ZeroDivisionError
        return loads(text, **more)

    async with open_server_session(wire, tmp_path, {"play": player(timeout=20)}) as on:
        await on.wait_until_ready("play")
        monkeypatch.setattr(json, "loads", broken)
        assert "ZeroDivisionError" in await run(on, "found['said'] = 'poi' + 'soned'")


async def interrupt_call(on: ServerSession, tool: str, **arguments: Any) -> None:
    """Let the model call a tool that sleeps, and interrupt the turn meanwhile."""
    on.wire.turn(calls=[(f"play__{tool}", arguments)])
    await on.session.send("Sleep.")
    await until(lambda: "sleeps" in on.server("play").log.lines)
    on.session.interrupt()
    await on.session.wait_until_idle()


@pytest.mark.layer
async def test_server_without_ping_is_usable_after_an_interrupt(wire: WireServer, tmp_path: Path) -> None:
    go = tmp_path / "shared/go"
    async with open_server_session(wire, tmp_path, {"play": player("knows no ping")}) as on:
        await on.wait_until_ready("play")
        code = f"print('sleeps', file=sys.stderr, flush=True)\nwhile not Path({str(go)!r}).exists(): time.sleep(0.01)"
        await interrupt_call(on, "run", code=code)
        go.touch()
        assert await run(on, "found['said'] = 'well'") == "well"
        methods = [each.get("method") for each in on.received_messages]
        assert (methods.count("ping"), methods.count("initialize")) == (1, 1)


@pytest.mark.layer
@pytest.mark.skipif(sys.platform != "linux", reason="there is no layer elsewhere")
async def test_processes_pause_while_a_layer_is_read_and_a_lost_one_is_named(
    on: ServerSession, tmp_path: Path
) -> None:
    await run(on, SPAWN.format(mark := new_mark()))
    await until(lambda: process_state(mark) == "S")
    server = on.server("play")
    async with server.read_changes() as layer:
        assert layer is not None
        assert process_state(mark) == "T"
    await until(lambda: process_state(mark) == "S")
    with pytest.raises(asyncio.CancelledError):
        async with server.read_changes():
            raise asyncio.CancelledError
    await until(lambda: process_state(mark) == "S")
    assert await run(on, "found['said'] = 'well'") == "well"
    lose_layer(on)
    assert "its layer could not be set up: No such file or directory" in await run(on, "found['said'] = 'well'")
    assert await run(on, "found['said'] = 'well'") == "well", "it is replaced"
    go = tmp_path / "shared/go"
    calls = on.called_tools.count("run")
    saying = asyncio.ensure_future(run(on, f"while not Path({str(go)!r}).exists(): time.sleep(0.01)"))
    await until(lambda: on.called_tools.count("run") > calls)
    lose_layer(on)
    go.touch()
    assert "What it has written can't be read: No such file or directory" in await saying


def lose_layer(on: ServerSession) -> None:
    """Remove the overlay of the server, like a cleanup of a temporary folder."""
    (upper,) = on.host.runtime.dirs.runs.rglob("upper")
    upper.rename(upper.with_name(f"lost {new_mark()}"))


async def test_failed_start_shows_its_reason(wire: WireServer, tmp_path: Path) -> None:
    nobody = "~no-such-user-here/x"
    servers: dict[str, tuple[dict[str, Any], str]] = {
        "dies": (player("die"), "exit code 1"),
        "missing": ({"command": "no-such-program-here"}, "no program 'no-such-program-here'"),
        "unset": (player(env={"A": "${NOT_SET}"}), "${NOT_SET} is not set"),
        "cwd": (player(cwd=nobody), f"there is no folder '{nobody}'"),
        "home": ({"command": nobody}, f"there is no program '{nobody}'"),
        "nul": ({"command": "a\0b"}, "there is no program"),
        "argument": (player("a\0b"), "could not be started: embedded null byte"),
    }
    async with open_server_session(wire, tmp_path, {name: table for name, (table, _) in servers.items()}) as on:
        await on.until(lambda: all(on.server(name).state is McpServerState.FAILED for name in servers))
        for name, (_, problem) in servers.items():
            assert problem in on.server(name).problem
        assert "I would rather not." in on.server("dies").log.lines
        await on.run_turn()
        assert not [name for name in on.offered_tools if "__" in name]


async def test_a_program_in_the_workspace_gets_no_keys_of_the_users_servers(wire: WireServer, tmp_path: Path) -> None:
    programs = tmp_path / "workspace/.venv/bin"
    (tmp_path / "programs").mkdir()
    programs.mkdir(parents=True)
    for path, first in (
        (programs / "runner", "/bin/sh"),
        (programs / "node", "/bin/sh"),
        (tmp_path / "programs/tool", "/usr/bin/env node"),
    ):
        path.write_text(f"#!{first}\necho got $SERVICE_TOKEN\n")
        path.chmod(0o755)
    environment = {"PATH": f"{programs}:{tmp_path}/programs:/usr/bin:/bin"}
    servers = {name: {"command": name, "env": {"SERVICE_TOKEN": "t0ken"}} for name in ("runner", "tool")}
    async with open_server_session(wire, tmp_path, servers, environment=environment) as on:
        await on.until(lambda: all(on.server(name).state is McpServerState.FAILED for name in servers))
        for name in servers:
            assert "t0ken" not in " ".join(on.server(name).log.lines)


async def test_exception_in_a_start_is_named(
    wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("with a s3cret")

    monkeypatch.setattr("shutil.which", broken)
    async with open_server_session(wire, tmp_path, {"play": player()}) as on:
        await on.until(lambda: on.server("play").state is McpServerState.FAILED)
        assert on.server("play").problem == "it can't be used (ZeroDivisionError)"


async def test_a_server_that_ends_when_ready_is_restarted_once(wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"play": player("ends when it is ready")}) as on:
        await on.until(lambda: bool(on.server("play").tools))
        answer = await on.run_turn(("play__echo", {"text": "x"}))
        assert "can't be used" in answer
        assert len([each for each in on.received_messages if each["method"] == "initialize"]) <= 4


async def test_switching_off_a_starting_server_does_not_stop_the_turn(wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"play": player("starts once")}) as on:
        await on.wait_until_ready("play")
        server, servers = on.server("play"), on.host.mcp.servers
        assert servers is not None
        await run(on, "os._exit(3)")
        wire.turn(calls=[("play__echo", {"text": "x"})])
        wire.say("Done after all.")
        await on.session.send("Again.")
        await on.until(lambda: server.state is McpServerState.STARTING)
        await servers.set_enabled(server, enabled=False)
        await on.session.wait_until_idle()
        assert "it was switched off or replaced" in on.results[-1].text
        assert any("Done after all." in str(event) for event in on.session.log.events[-3:])


async def test_last_of_two_switches_is_applied_and_only_a_running_unchanged_tool_is_called(on: ServerSession) -> None:
    server, servers = on.server("play"), on.host.mcp.servers
    assert servers is not None
    unchanged, stopping = server.listing.tools, []

    def change(asked: PermissionRequest) -> PermissionAnswer:
        server.listing.tools = tuple(replace(each, description="Sends it elsewhere.") for each in unchanged)
        return YES

    def switch_off(asked: PermissionRequest) -> PermissionAnswer:
        stopping.append(asyncio.ensure_future(server.stop()))
        return YES

    on.answers = change
    assert "Not called: the server play has changed its tool" in await on.run_turn(ECHO)
    server.listing.tools = unchanged
    on.answers = switch_off
    assert "it was switched off or replaced" in await on.run_turn(ECHO)
    await stopping[0]
    assert (server.state, on.called_tools) == (McpServerState.OFF, [])
    with pytest.raises(ConnectionLost, match="it is not running"):
        await server.call_tool(unchanged[0], {"text": "x"})
    await asyncio.gather(servers.set_enabled(server, enabled=False), servers.set_enabled(server, enabled=True))
    assert servers.is_enabled(server)
    await on.wait_until_ready("play")
    await asyncio.gather(servers.restart(server), servers.set_enabled(server, enabled=False))
    assert server.state is McpServerState.OFF
    await servers.restart(server)
    assert server.state is McpServerState.OFF


async def test_tools_that_change_during_listing_are_listed_again(wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"play": player("changes while it is asked")}) as on:
        await on.until(lambda: [each.tool for each in on.server("play").tools] == ["echo"])


async def test_a_server_that_ignores_the_cursor_is_listed_once(wire: WireServer, tmp_path: Path) -> None:
    listed = {"tools": [{"name": "echo", "inputSchema": {}}], "nextCursor": ""}
    async with open_server_session(wire, tmp_path, {"play": player(env={"TOOLS": json.dumps(listed)})}) as on:
        await on.wait_until_ready("play")
        assert ([each.tool for each in on.server("play").tools], on.server("play").listing.problems) == (["echo"], ())
        assert [each.get("method") for each in on.received_messages].count("tools/list") == 2


@pytest.mark.layer
async def test_writes_of_calls_are_staged_and_others_are_named_and_dropped(on: ServerSession, tmp_path: Path) -> None:
    answer = await run(on, "Path('half.txt').write_text('x'); 1 / 0")
    assert "ZeroDivisionError" in answer and '"status": "staged"' in answer and on.results[-1].failed
    assert [each.path for each in on.host.runtime.proposals.recent_proposals()[0].files] == ["half.txt"]
    go = tmp_path / "shared/go"
    await run(
        on,
        f"""
import threading
def late():
    while not Path({str(go)!r}).exists():
        time.sleep(0.01)
    Path("late.txt").write_text("x")
    print("late", file=sys.stderr, flush=True)
threading.Thread(target=late).start()
Path("now.txt").write_text("x")
""",
    )
    go.touch()
    await until(lambda: "late" in "".join(on.server("play").log.lines))
    staged = [change.path for each in on.host.runtime.proposals.recent_proposals() for change in each.files]
    assert sorted(staged) == ["half.txt", "now.txt"]
    answer = await on.run_turn(ECHO)
    assert answer == "x\n[thrown away, as play wrote it outside of a finished call: late.txt]"
    assert await on.run_turn(ECHO) == "x"
    assert not (on.root / "late.txt").exists()


async def test_escape_stops_a_call_and_the_next_one_works(on: ServerSession) -> None:
    await interrupt_call(on, "sleep")
    assert on.results[-1].outcome is CallOutcome.ABORTED
    assert await run(on, "found['said'] = 'well'") == "well"
    flood = "sys.stderr.write('\\x1b[31mred\\x07' + 'x' * 3_000_000 + '\\n' + 'y\\n' * 500_000)"
    assert await run(on, f"{flood}; found['said'] = 'well'") == "well"
    lines = on.server("play").log.lines
    assert len(lines) <= MAX_LOG_LINES + 1, "a flood of its log is bounded"
    assert all(len(line) <= MAX_LOG_LINE_CHARACTERS and "\x1b" not in line for line in lines)


async def test_terminal_escapes_of_a_server_are_removed(wire: WireServer, tmp_path: Path) -> None:
    evil = "\x1b]0;title\x07\x1b[31mred\u202e\u200b"
    tools = [{"name": "give", "description": evil, "inputSchema": {"properties": {"a": {"description": evil}}}}]
    environment = {"TOOLS": json.dumps({"tools": tools})}
    async with open_server_session(wire, tmp_path, {"play": player(env=environment)}) as on:
        answer = await on.run_turn(("play__give", {"content": [{"type": "text", "text": f"{evil}\nhello"}]}))
        assert answer == "red\nhello"
        offered = json.dumps(wire.last.body["tools"])
        assert not [each for each in ("\\u001b", "\\u202e", "\\u200b", "[31m") if each in offered]


async def test_server_requests_are_refused_and_hidden_characters_are_reported(on: ServerSession) -> None:
    await on.run_turn(("play__echo", {"text": "safe\u202eevil"}))
    assert "bidirectional control" in on.permission_requests[0].notes[0]
    assert on.permission_requests[0].detail == "echo\ntext: safe\u202eevil"
    answer = await on.run_turn(("play__give", {"resultType": "input_required", "content": []}))
    assert "it asks for input of the user, which signoff does not offer" in answer
    assert on.results[-1].failed
    # Lines that are not messages are added to its log.
    assert await run(on, "print('Welcome!'); print('{\"broken\": '); found['said'] = 'well'") == "well"
    assert {"Welcome!", '{"broken":'} <= {line.strip() for line in on.server("play").log.lines}
    for method in ("sampling/createMessage", "elicitation/create", "anything"):
        ask = f"send({{'id': 'r1', 'method': {method!r}, 'params': {{}}}}); found['said'] = sys.stdin.readline()"
        reply = json.loads(await run(on, ask))
        assert reply["id"] == "r1"
        assert reply["error"]["code"] == -32601
    roots = "send({'id': 2, 'method': 'roots/list'}); found['said'] = sys.stdin.readline()"
    assert json.loads(await run(on, roots))["result"]["roots"][0]["uri"] == on.root.as_uri()


@pytest.mark.layer
async def test_stateless_server_without_initialize_can_be_called(wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"play": player("stateless")}) as on:
        assert await on.run_turn(("play__echo", {"text": "hello"})) == "hello"
        meta = on.received_messages[-1]["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"


async def test_tool_list_is_constant_within_a_turn_and_a_change_is_read_once(
    on: ServerSession, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MIN_PAUSE_SECONDS", 0.0)
    fewer = "TOOLS[:] = [each for each in TOOLS if each['name'] != 'echo']"
    change = f"{fewer}; send({{'method': 'notifications/tools/list_changed'}})"
    # The list is read while the second call runs.
    await on.run_turn(("play__run", {"code": change}), ("play__run", {"code": "time.sleep(0.2)"}), ECHO)
    first, *others = [request.body["tools"] for request in wire.requests]
    assert all(each == first for each in others)
    assert "has no tool echo any more" in on.results[-1].text
    await on.until(lambda: len(on.server("play").tools) == 5)
    for _ in range(3):
        await run(on, "pass")
    assert "play__echo" not in on.offered_tools
    if await on.server("play").write_access() is WriteAccess.LAYER:
        assert [message.get("method") for message in on.received_messages].count("tools/list") == 2


async def test_server_receives_no_secrets_of_signoff_and_leaves_no_process(wire: WireServer, tmp_path: Path) -> None:
    mark = new_mark()
    secrets = {"OPENAI_API_KEY": "sk-secret", "MY_TOKEN": "t0p", "LC_PLAIN": "seen"}
    given = player(env={"GIVEN": "${MY_TOKEN}"})
    async with open_server_session(wire, tmp_path, {"play": given}, environment=secrets) as on:
        variables = json.loads(await run(on, "found['said'] = json.dumps(dict(os.environ))"))
        assert not {"OPENAI_API_KEY", "MY_TOKEN"} & variables.keys()
        assert (variables["GIVEN"], variables["LC_PLAIN"]) == ("t0p", "seen")
        assert await run(on, SPAWN.format(mark)) == "spawned"
        await until(lambda: process_state(mark))
    assert process_state(mark) in ("", "Z")
    assert not zombies()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("modes", [(), (CommandWriteMode.IN_PLACE,)], ids=["layer", "read-only"])
async def test_server_ends_with_signoff(
    processes: Forking, modes: tuple[CommandWriteMode, ...], tmp_path: Path
) -> None:
    mark, (ours, theirs) = new_mark(), socket.socketpair()
    words = ("tests.servers.killed", str(tmp_path), mark, *modes)
    process = processes.start_module(*words, folder=ROOT, environment=os.environ, talk=theirs)
    with ours, ours.makefile("rb") as output:
        assert output.readline() == b"ready\n"
        await until(lambda: process_state(mark))
        process.kill()
        assert process.wait() == -signal.SIGKILL
    await until(lambda: process_state(mark) in ("", "Z"))


async def test_server_without_overlay_cannot_write_as_the_question_shows(wire: WireServer, tmp_path: Path) -> None:
    async with open_server_session(wire, tmp_path, {"play": player()}, modes=(CommandWriteMode.IN_PLACE,)) as on:
        path = on.root / "new.txt"
        answer = await on.run_turn(("play__write", {"path": str(path), "text": "x"}))
        if await on.server("play").write_access() is WriteAccess.READ_ONLY:
            assert "PermissionError" in answer
            assert not path.exists()
            assert on.permission_requests[0].notes[0] == "This server can read your files, and can't write to them."
        else:
            assert (
                on.permission_requests[0].notes[0] == "This server can write to your files directly, without review."
            )


async def test_unreviewed_server_is_named_asked_about_and_off_in_plan_mode(wire: WireServer, tmp_path: Path) -> None:
    forms = []
    for layer in (True, False):
        async with open_server_session(wire, tmp_path, {"play": player(layer=layer)}) as on:
            await on.run_turn(("play__echo", {"text": "x\u202e"}))
            forms.append(on.permission_requests[0].form)
            notes = on.permission_requests[0].notes
    assert forms[0] != forms[1], "a permission given with a layer is asked for again without one"
    assert notes[0] == "This server can write to your files directly, without review."
    assert "bidirectional control" in notes[1]
    async with open_server_session(wire, tmp_path, {"play": player(layer=False)}, plan=True) as on:
        assert "Plan mode" in await on.run_turn(ECHO)
        assert on.permission_requests == []


def process_state(argument: str) -> str:
    """Return the kernel's state letter of the `sleep` with this argument; empty if it does not exist."""
    command_line = f"sleep\0{argument}\0".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if (folder / "cmdline").read_bytes() == command_line:
                    return (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
    return ""


def zombies() -> list[str]:
    own = f"\nPPid:\t{os.getpid()}\n"
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "status").read_text()
            except OSError:
                continue
            if own in status and "State:\tZ" in status:
                found.append(status)
    return found
