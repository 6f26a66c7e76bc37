"""Find model servers on this machine at their usual ports, told apart by their answers."""

import asyncio
import contextlib
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

USUAL_PORTS = (11434, 1234, 8080, 8000)
"""Ollama, LM Studio, llama.cpp, vLLM; who really listens there is asked."""
PATIENCE = 0.5
"""Seconds for everything."""
_LOOPBACK = "127.0.0.1"
_LARGEST_ANSWER = 2**20
_OWNERS = {"vllm": "vllm", "llamacpp": "llama.cpp", "library": "ollama"}
"""`owned_by` in the list of models, where it gives the server away."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """An OpenAI-compatible server on this machine."""

    kind: str
    """A key of `app.llm.capabilities.profiles.SEEDS`."""
    base_url: str
    models: tuple[str, ...]


async def find_local_servers(ports: Iterable[int] = USUAL_PORTS, patience: float = PATIENCE) -> list[LocalServer]:
    """The servers that answer within `patience` seconds, in the order of `ports`. Nothing is sent off the machine."""
    tasks = [asyncio.ensure_future(_identify(port)) for port in ports]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, timeout=patience)
    finally:
        for task in tasks:
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [result for result in results if isinstance(result, LocalServer)]


async def _identify(port: int) -> LocalServer | None:
    listing = await _get(port, "/v1/models")
    entries = listing.get("data") if isinstance(listing, Mapping) else None
    if not isinstance(entries, list):
        return None
    cards = [card for card in entries if isinstance(card, Mapping) and isinstance(card.get("id"), str)]
    owners = {str(card.get("owned_by")) for card in cards}
    kind = next((_OWNERS[owner] for owner in sorted(owners) if owner in _OWNERS), None)
    return LocalServer(
        kind=kind or await _kind_by_greeting(port),
        base_url=f"http://{_LOOPBACK}:{port}/v1",
        models=tuple(str(card["id"]) for card in cards if "embed" not in str(card["id"]).lower()),
    )


async def _kind_by_greeting(port: int) -> str:
    """LM Studio greets, Ollama gives its version; each answers other paths in its own way, so the words count."""
    greeting, version = await asyncio.gather(_get(port, "/lmstudio-greeting"), _get(port, "/api/version"))
    if isinstance(greeting, Mapping) and greeting.get("lmstudio") is True:
        return "lmstudio"
    if isinstance(version, Mapping) and isinstance(version.get("version"), str):
        return "ollama"
    return "unknown"


async def _get(port: int, path: str) -> Any:
    """The JSON at a path of a local server, or None. HTTP/1.0, so that the body simply ends with the connection."""
    try:
        reader, writer = await asyncio.open_connection(_LOOPBACK, port)
        with contextlib.closing(writer):
            request = f"GET {path} HTTP/1.0\r\nHost: {_LOOPBACK}:{port}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = bytearray()
            while len(body) < _LARGEST_ANSWER and (piece := await reader.read(2**16)):
                body += piece
        if head.split(b"\r\n", 1)[0].split(b" ")[1:2] != [b"200"]:
            return None
        return json.loads(_unchunked(bytes(body)) if b"transfer-encoding: chunked" in head else bytes(body))
    except (OSError, ValueError, EOFError, RecursionError, asyncio.LimitOverrunError):
        return None


def _unchunked(body: bytes) -> bytes:
    """The content of a chunked body (RFC 9112, section 7.1), which some servers send to an HTTP/1.0 client too."""
    content = io.BytesIO()
    rest = io.BytesIO(body)
    while (size := rest.readline()) and (length := int(size.split(b";")[0], 16)):
        content.write(rest.read(length))
        rest.readline()
    return content.getvalue()
