"""The cost of the model client, relative to its parts HTTP, JSON parsing, and the import of the SDK."""

import json
import subprocess
import sys
import time
from typing import Any

import httpx2

from app.llm.client import ModelClient, ResponseEventReader
from app.llm.failures.failures import ErrorToFailureTranslator
from app.llm.response.bounded_stream import ServerSentEventDecoder
from app.llm.response.response_assembly import ResponseAssembly
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint, Payload
from app.llm.wires.chat import ChatWire
from tests.benchmarks.outside import best
from tests.wire.driving import called
from tests.wire.replies import Turn, call_delta, chunk, event
from tests.wire.server import WireServer

EXCHANGES = 300
MAX_BARE_HTTP_RATIO = 6
MAX_JSON_RATIO = 1.6
"""Maximum cost of reading a response, relative to parsing its JSON with Python's library."""
MAX_SDK_IMPORT_RATIO = 0.7
LINEAR = 1.6
"""Ten times the deltas may take ten times this factor."""


def messages() -> list[dict[str, Any]]:
    history: list[dict[str, Any]] = [{"role": "system", "content": "s" * 2000}]
    for number in range(EXCHANGES):
        history += [{"role": "user", "content": "u" * 200}, *called(f"call_{number}")]
    return history


async def test_request_costs_little_more_than_its_http() -> None:
    with WireServer() as server:
        server.always(Turn("ok"))
        history = messages()
        client = ModelClient(Endpoint(server.base_url, "m"), EndpointProfile())
        bare = httpx2.AsyncClient(trust_env=False)
        ours, theirs = [], []
        for _ in range(8):
            start = time.perf_counter()
            async for _update in client.stream(lambda profile: Payload(history, [])):
                pass
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            body = {"model": "m", "messages": history, "stream": True}
            async with bare.stream("POST", f"{server.base_url}/chat/completions", json=body) as response:
                async for _piece in response.aiter_bytes():
                    pass
            theirs.append(time.perf_counter() - start)
        await client.aclose()
        await bare.aclose()
    ratio = min(ours) / min(theirs)
    print(f"\n{len(history)} messages: {min(ours) * 1e3:.1f} ms, HTTP alone {min(theirs) * 1e3:.1f} ms, x{ratio:.1f}")
    assert ratio < MAX_BARE_HTTP_RATIO


def read(body: bytes) -> None:
    """Decode, parse and assemble a whole response in chunks of eight kilobytes, like the client."""
    decoder, assembly = ServerSentEventDecoder(), ResponseAssembly(["edit_file"])
    reading = ResponseEventReader(
        assembly, ChatWire().make_decoder(), ErrorToFailureTranslator(Endpoint("http://127.0.0.1/v1", "m"))
    )
    for start in range(0, len(body), 8192):
        for _delta in reading.read_events(decoder.feed(body[start : start + 8192])):
            pass
    assembly.complete(ended=True)


def response(deltas: int) -> bytes:
    call_start = event(chunk(calls=[call_delta(0, call_id="1", name="edit_file", arguments="")]))
    return (
        event(chunk("word ")) * deltas + call_start + event(chunk(calls=[call_delta(0, arguments="words ")])) * deltas
    )


def test_reading_is_linear_and_close_to_json_parsing() -> None:
    small, large = response(500), response(5000)
    lines = [line.removeprefix(b"data: ") for line in large.split(b"\n\n") if line]
    parsing = best(lambda: [json.loads(line) for line in lines])
    short, long = best(lambda: read(small)), best(lambda: read(large))
    print(
        f"\n10,000 deltas: {long * 1e3:.0f} ms, their JSON alone {parsing * 1e3:.0f} ms, 1,000: {short * 1e3:.1f} ms"
    )
    assert long < short * 10 * LINEAR
    assert long < parsing * MAX_JSON_RATIO


def test_client_import_costs_less_than_sdk_import() -> None:
    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    nothing = best(lambda: run("import asyncio, ssl"), 5)
    ours, sdk = (
        best(lambda: run("import app.llm.client"), 5) - nothing,
        best(lambda: run("import openai"), 5) - nothing,
    )
    print(f"\nimport app.llm.client {ours * 1e3:.0f} ms, openai {sdk * 1e3:.0f} ms")
    assert ours < sdk * MAX_SDK_IMPORT_RATIO


def test_sdk_loading_blocks_the_event_loop_only_briefly() -> None:
    code = """
import asyncio, time
from app.llm.sdk import start_loading_sdk
async def main():
    worst, future, begun = 0.0, start_loading_sdk(needs_certificates=False), time.perf_counter()
    while not future.done():
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        worst = max(worst, time.perf_counter() - before)
    print(worst, time.perf_counter() - begun)
asyncio.run(main())
"""
    runs = [
        [float(number) for number in subprocess.run([sys.executable, "-c", code], capture_output=True).stdout.split()]
        for _ in range(3)
    ]
    worst, total = min(runs)
    print(f"\nlongest block {worst * 1e3:.0f} ms of {total * 1e3:.0f} ms")
    assert worst < total / 4
