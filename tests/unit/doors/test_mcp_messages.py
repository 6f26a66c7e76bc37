"""Whatever comes over the pipe, the server says what is wrong with it and goes on."""

import json
import os
import select
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.doors.mcp import door_server
from app.doors.mcp.door_server import MessageWriter, read_lines_until_stopped
from tests.unit.doors.mcp_host import PATIENCE, Host

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
METHODS = st.sampled_from(
    ["initialize", "ping", "tools/list", "tools/call", "server/discover", "notifications/cancelled", "x"]
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | st.text(max_size=5) | JSON,
        "method": METHODS | JSON,
        "params": JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["propose_edit", "propose_patch", "proposal_status"]) | JSON,
                "arguments": JSON
                | st.fixed_dictionaries({"files": JSON})
                | st.fixed_dictionaries({"patch": st.text(max_size=30)}),
                "requestId": JSON,
                "_meta": JSON | st.fixed_dictionaries({"progressToken": JSON}),
                "clientInfo": JSON,
                "protocolVersion": JSON,
            },
        ),
    },
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "ws").mkdir()
    (folder / "ws" / "a.txt").write_text("one\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGNOFF_HOME", str(folder / "home"))
        host = Host(folder / "ws")
        host.call("proposal_status")
    return host


def alive(host: Host) -> None:
    assert host.ask("ping") == {}
    assert (host.root / "a.txt").read_text() == "one\n" and len(list(host.root.iterdir())) == 1


@settings(deadline=None)
@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_a_line_that_is_no_message_is_answered_in_one_line(host: Host, line: bytes) -> None:
    host.sent.clear()
    host.server.handle_line(line)
    for message in host.sent:
        for each in message if isinstance(message, list) else [message]:
            assert each["error"]["message"] and "Traceback" not in each["error"]["message"]
    alive(host)


@settings(deadline=None)
@given(MESSAGES)
def test_every_request_gets_one_answer_and_nothing_else_gets_any(host: Host, message: dict[str, Any]) -> None:
    host.sent.clear()
    host.line(json.dumps(message))
    name = message.get("id")
    is_request = "id" in message and not ("method" not in message and ("result" in message or "error" in message))
    if is_request:
        valid = isinstance(name, str | int) and not isinstance(name, bool)
        host.until(lambda: host.sent or None)
        answer = host.sent[0]
        assert answer["id"] == (name if valid else None)
        assert ("result" in answer) != ("error" in answer)
    before = len(host.sent)
    assert before <= 1
    alive(host)
    assert len(host.sent) == before + 1


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("nonsense", -32700, "not one JSON text"),
        (b'{"id": "\xff"}', -32700, "UTF-8"),
        ('{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700, "NaN"),
        ("[" * 100_000, -32700, "nested too deeply"),
        ('{"jsonrpc":"2.0","id":' + "9" * 5000 + ',"method":"ping"}', -32700, "not one JSON text"),
        pytest.param('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, "JSON object", id="a batch"),
        ("7", -32600, "JSON object"),
        ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, "whole number"),
        ('{"jsonrpc":"2.0","id":1}', -32600, "names its method"),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602, "an object"),
        ('{"jsonrpc":"2.0","id":1,"method":"resources/list"}', -32601, "tools/list"),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write"}}', -32602, "propose_edit"),
    ],
)
def test_invalid_message_gets_an_error_with_the_reason(host: Host, line: str | bytes, code: int, words: str) -> None:
    host.sent.clear()
    host.line(line)
    (answer,) = host.sent
    assert answer["error"]["code"] == code
    assert words in answer["error"]["message"] and len(answer["error"]["message"]) < 300


@pytest.fixture
def pipe() -> Any:
    read, write = os.pipe()
    ended, tell = os.pipe()
    yield read, write, ended, tell
    for descriptor in (read, ended):
        os.close(descriptor)


def test_lines_are_read_completely_however_they_were_written(pipe: Any) -> None:
    read, write, ended, _ = pipe
    texts = [b"", b"a" * 200_000, b"{}", "ä".encode() * 70_000, b"last, with no end"]

    def feed() -> None:
        with os.fdopen(write, "wb", buffering=0) as out:
            for piece in range(0, len(data := b"\n".join(texts)), 7_001):
                out.write(data[piece : piece + 7_001])

    thread = threading.Thread(target=feed)
    thread.start()
    assert list(read_lines_until_stopped(read, ended)) == texts
    thread.join()


def test_an_endless_line_takes_no_memory(pipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write, ended, _ = pipe
    monkeypatch.setattr(door_server, "MAX_MESSAGE_BYTES", 100_000)

    def feed() -> None:
        with os.fdopen(write, "wb", buffering=0) as out:
            for _ in range(40):
                out.write(b"x" * 50_000)
            assert refused.wait(PATIENCE), "it is refused before its end"
            out.write(b"\n{}\n")

    refused = threading.Event()
    thread = threading.Thread(target=feed)
    thread.start()
    lines = read_lines_until_stopped(read, ended)
    assert next(lines) is None
    refused.set()
    assert list(lines) == [b"{}"]
    thread.join()


def test_a_stop_signal_ends_the_reading_of_lines(pipe: Any) -> None:
    read, write, ended, tell = pipe
    os.write(write, b"{}\n")
    lines = read_lines_until_stopped(read, ended)
    assert next(lines) == b"{}"
    os.write(tell, b"x")
    assert list(lines) == []
    os.close(write)
    os.close(tell)


def test_a_pipe_that_is_full_and_does_not_wait_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    waits, taken = select.select, bytearray()

    def read_on(*waited_for: Any) -> Any:
        if not waits([], [write], [], 0)[1]:
            taken.extend(os.read(read, 1_000_000))
        return waits(*waited_for)

    monkeypatch.setattr(select, "select", read_on)
    message = {"text": "x" * 1_000_000}
    MessageWriter(write).send(message)
    os.close(write)
    while more := os.read(read, 1_000_000):
        taken.extend(more)
    os.close(read)
    assert json.loads(taken) == message


def test_a_host_that_stopped_reading_causes_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    outlet = MessageWriter(write)
    outlet.send({"a": "\udc80"})
    outlet.send({})
    os.close(write)


def test_a_pipe_emptied_by_another_reader_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    (reading, writing), (ended, tell) = os.pipe(), os.pipe()
    os.set_blocking(reading, False)
    waits = select.select

    def arrived_late(*waited_for: Any) -> Any:
        monkeypatch.setattr(select, "select", waits)
        os.write(writing, b"line\n")
        os.close(writing)
        return waits(*waited_for)

    def emptied(*waited_for: Any) -> Any:
        monkeypatch.setattr(select, "select", arrived_late)
        return [reading], [], []

    monkeypatch.setattr(select, "select", emptied)
    assert list(read_lines_until_stopped(reading, ended)) == [b"line"]
    for descriptor in (reading, ended, tell):
        os.close(descriptor)
