"""An OpenAI-compatible HTTP server on loopback that answers with the demo model.

It runs on the caller's event loop. Between requests it only remembers whether the other agents have proposed; a
connection serves one request. It supports only `GET /v1/models` and `POST /v1/chat/completions`.

The sample workspace is a small tide table in Python, with a bug in two files. Its files are stored in `sample_files/`
with the suffix `.txt`, so that tools don't treat them as this program's own.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec import Struct

from app.config.settings import CheckTable
from app.demo.demo_conversation import MODEL_ID, WORDING, DemoReply, content_text
from app.demo.demo_model import reply_to_request
from app.demo.editing_skills import ScriptedDemoAgents

_CHARACTERS_PER_TOKEN = 4
_TEXT_PIECE = re.compile(r"\s*\S{1,12}|\s+")
"""Text is streamed in pieces about as long as tokens."""
_ARGUMENT_PIECE = re.compile(r".{1,24}", re.DOTALL)
"""The part of a call's arguments in one chunk."""


class DemoChatCompletion:
    """The chat completion for one request, as one JSON object or as a stream of chunks."""

    def __init__(self, request: dict[str, Any], reply: DemoReply) -> None:
        self._text = reply.text
        self._wants_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        self._calls = [
            (f"call_{uuid4().hex[:24]}", call.name, json.dumps(call.arguments, ensure_ascii=False))
            for call in reply.calls
        ]
        self._send_head = {"id": f"chatcmpl-{uuid4().hex[:24]}", "created": int(time.time()), "model": MODEL_ID}
        # The model ignores images.
        read = [{**message, "content": content_text(message.get("content"))} for message in request["messages"]]
        asked = len(json.dumps([read, request.get("tools")])) // _CHARACTERS_PER_TOKEN
        said = len(json.dumps([reply.text, self._calls])) // _CHARACTERS_PER_TOKEN
        self._usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        self._finish_reason = "tool_calls" if reply.calls else "stop"

    def to_json(self) -> dict[str, Any]:
        """Return the response as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": self._text or None, "refusal": None}
        if self._calls:
            message["tool_calls"] = [_make_call(*call) for call in self._calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish_reason}
        return {**self._send_head, "object": "chat.completion", "choices": [choice], "usage": self._usage}

    def to_chunks(self) -> Iterator[dict[str, Any]]:
        """Yield the response as a stream of chunks, each about a token; usage is last, if it was requested."""
        yield self._make_chunk({"role": "assistant", "content": ""})
        for piece in _TEXT_PIECE.findall(self._text):
            yield self._make_chunk({"content": piece})
        for index, (identity, name, arguments) in enumerate(self._calls):
            yield self._make_chunk({"tool_calls": [{"index": index, **_make_call(identity, name, "")}]})
            for piece in _ARGUMENT_PIECE.findall(arguments):
                yield self._make_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield self._make_chunk({}, self._finish_reason)
        if self._wants_usage:
            yield {**self._send_head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage}

    def _make_chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._send_head, "object": "chat.completion.chunk", "choices": [choice]}


def _make_call(identity: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


_MAX_BODY_BYTES = 64 * 1024 * 1024
_CONTENT_LENGTH = re.compile(rb"^content-length: *(\d{1,9})\r?$", re.IGNORECASE | re.MULTILINE)
_MODEL_ENTRY = {"id": MODEL_ID, "object": "model", "created": int(time.time()), "owned_by": "signoff"}
_MODEL_LISTS: dict[str, dict[str, Any]] = {
    "GET /v1/models": {"object": "list", "data": [_MODEL_ENTRY]},
    f"GET /v1/models/{MODEL_ID}": _MODEL_ENTRY,
}


class DemoServerCannotListen(Exception):
    """The demo server cannot listen; the message says why."""


@asynccontextmanager
async def demo_server(
    tokens_per_second: float = 60.0, port: int = 0, sample: Path | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Serve the demo model on 127.0.0.1 for the `with` block; yield the settings for a client.

    Args:
        tokens_per_second: The speed of its answers.
        port: The port; 0 for any free one.
        sample: The workspace, if it was made by `create_sample_workspace`; then it has the other agents.

    Raises:
        DemoServerCannotListen: It can't listen on the port.
    """

    agents = ScriptedDemoAgents(sample) if sample is not None else None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Ignore clients that disconnect early or send incomplete requests.
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await _Connection(reader, writer, 1 / tokens_per_second, agents).serve()
        writer.close()

    try:
        server = await asyncio.start_server(serve, "127.0.0.1", port)
    except (OSError, OverflowError) as error:
        # asyncio's own message repeats the address in an error number and a tuple.
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        place = f" on port {port}" if port else ""
        raise DemoServerCannotListen(f"The demo server cannot listen{place}: {reason}.") from error
    try:
        bound = server.sockets[0].getsockname()[1]
        yield {"base_url": f"http://127.0.0.1:{bound}/v1", "model": MODEL_ID, "api_key": "demo"}
    finally:
        server.close()


class _Connection(Struct, frozen=True):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    pause: float
    """Seconds for a token."""
    agents: ScriptedDemoAgents | None

    async def serve(self) -> None:
        """Answer one request."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = _CONTENT_LENGTH.search(head)
        body = await self.reader.readexactly(min(int(length[1]) if length else 0, _MAX_BODY_BYTES))
        asked = " ".join(head.decode("latin-1").split(" ", 2)[:2])
        if asked in _MODEL_LISTS:
            self._send_json(HTTPStatus.OK, _MODEL_LISTS[asked])
        elif asked == "POST /v1/chat/completions":
            await self._answer_completion(body)
        else:
            self._send_error(HTTPStatus.NOT_FOUND, f"Unknown request: {asked}.", "unknown_url")
        await self.writer.drain()

    async def _answer_completion(self, body: bytes) -> None:
        try:
            request = json.loads(body)
            if (model := request.get("model")) != MODEL_ID:
                message = f"The model `{model}` does not exist; this server has `{MODEL_ID}`."
                self._send_error(HTTPStatus.NOT_FOUND, message, "model_not_found")
                return
            completion = DemoChatCompletion(request, await asyncio.to_thread(reply_to_request, request, self.agents))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            message = f"The request is not in the form of the Chat Completions API ({reason})."
            self._send_error(HTTPStatus.BAD_REQUEST, message)
            return
        if request.get("stream"):
            await self._stream(completion)
        else:
            self._send_json(HTTPStatus.OK, completion.to_json())

    async def _stream(self, completion: DemoChatCompletion) -> None:
        """Send the chunks at the speed of tokens, until the client disconnects."""
        self._send_head(HTTPStatus.OK, "Content-Type: text/event-stream; charset=utf-8", "Cache-Control: no-cache")
        # The client sends no more data here, so a completed read means that it has disconnected.
        gone = asyncio.ensure_future(self.reader.read(1))
        due = time.monotonic()
        for chunk in completion.to_chunks():
            self.writer.write(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode())
            await self.writer.drain()
            due += self.pause
            if (await asyncio.wait({gone}, timeout=max(0.0, due - time.monotonic())))[0]:
                return
        gone.cancel()
        self.writer.write(b"data: [DONE]\n\n")

    def _send_error(self, status: HTTPStatus, message: str, code: str | None = None) -> None:
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
        self._send_json(status, {"error": error})

    def _send_json(self, status: HTTPStatus, data: dict[str, Any]) -> None:
        body = json.dumps(data, ensure_ascii=False).encode()
        self._send_head(status, "Content-Type: application/json", f"Content-Length: {len(body)}")
        self.writer.write(body)

    def _send_head(self, status: HTTPStatus, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Connection: close", *headers, "", ""]
        self.writer.write("\r\n".join(lines).encode())


SAMPLE_CHECK = CheckTable(name="tests", run=f"{shlex.quote(sys.executable)} -m unittest", files=("*.py",))
"""The check that runs on proposals for the sample: its tests, some of which fail until the bug is fixed."""
_TEMPLATE_FOLDER = Path(__file__).parent / "sample_files"
_TEMPLATE_SUFFIX = ".txt"


def create_sample_workspace(parent: Path | None = None) -> Path:
    """Write the sample into a new folder `tideline` and return it.

    If git is installed and works, the folder is a repository with three commits.

    Args:
        parent: The parent folder; by default a new temporary folder, which the caller removes.

    Raises:
        FileExistsError: `parent` already contains `tideline`.
        OSError: It can't be written.
    """
    folder = (parent or Path(tempfile.mkdtemp(prefix="signoff-demo-"))) / "tideline"
    folder.mkdir()
    for template in sorted(_TEMPLATE_FOLDER.rglob(f"*{_TEMPLATE_SUFFIX}")):
        target = folder / template.relative_to(_TEMPLATE_FOLDER).as_posix().removesuffix(_TEMPLATE_SUFFIX)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(template.read_bytes())
    _record_history(folder)
    return folder


def _record_history(folder: Path) -> None:
    """Make `folder` a repository with the sample's commits, or leave it a plain folder."""
    git = shutil.which("git")
    if git is None:
        return
    try:
        _git(git, folder, "", "init", "--quiet", "--initial-branch=main", "--template=")
        for commit in WORDING["commits"]:
            _git(git, folder, commit["date"], "add", "--", *commit["paths"])
            _git(git, folder, commit["date"], "commit", "--quiet", "--no-verify", f"--message={commit['message']}")
    except (subprocess.SubprocessError, OSError):
        shutil.rmtree(folder / ".git", ignore_errors=True)


def _git(git: str, folder: Path, date: str, *arguments: str) -> None:
    """Run git in `folder`, without the user's configuration, repository variables and hooks."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        facts = {"NAME": "Maren Tregenza", "EMAIL": "maren@tideline.example", "DATE": date}
        environment |= {f"GIT_{role}_{fact}": value for fact, value in facts.items()}
    settings = ("commit.gpgsign=false", "core.autocrlf=false", f"core.hooksPath={os.devnull}")
    options = [part for setting in settings for part in ("-c", setting)]
    null = subprocess.DEVNULL
    command = [git, *options, *arguments]
    subprocess.run(command, cwd=folder, env=environment, stdin=null, capture_output=True, timeout=20, check=True)
