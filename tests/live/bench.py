"""A session with a real model; the requests are recorded where they leave the program, without the key."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
import pytest

from app.agent.session import Session
from app.agent.updates import CallStreamed, EventRecorded, ReasoningStreamed, TextStreamed, Update
from app.conversation.events import Event, ProposalStaged, Question, TurnEnded
from app.llm.client import ModelClient
from app.llm.values.endpoint import EndpointProfile
from app.proposals.values.models import Proposal
from app.runtime.model_connection import connect_model, create_or_resume_session
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.storage.app_dirs import find_app_dirs
from tests.live import prompts
from tests.live.vendors import MAX_RESPONSE_TOKENS, Target
from tests.oracles.reading import VIOLATIONS
from tests.wire.bench import FILE
from tests.wire.server import Request

_MAX_TURN_SECONDS = 120.0
"""Maximum duration of one turn in seconds."""
_SECRET_HEADERS = ("authorization", "x-api-key", "cookie")


@dataclass
class Exchange:
    """A request and the status of its response; None without a response."""

    url: str
    request: Request
    status: int | None = None


@dataclass
class Recorder:
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def turns(self) -> list[Exchange]:
        """The requests of turns, without those for model lists or chat templates."""
        ends = ("/chat/completions", "/messages", "/responses")
        return [
            exchange
            for exchange in self.exchanges
            if exchange.request.method == "POST" and exchange.request.path.endswith(ends)
        ]

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record what the HTTP library of the program sends."""
        send = httpx2.AsyncHTTPTransport.handle_async_request

        async def record(transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
            content = await request.aread()
            headers = {name: value for name, value in request.headers.items() if name not in _SECRET_HEADERS}
            body = json.loads(content) if content else None
            recorded = Request(len(self.exchanges), request.method, request.url.path, headers, body, time.monotonic())
            exchange = Exchange(str(request.url.copy_with(query=None, userinfo=b"")), recorded)
            self.exchanges.append(exchange)
            response = await send(transport, request)
            exchange.status = response.status_code
            return response

        with patch.object(httpx2.AsyncHTTPTransport, "handle_async_request", record):
            yield


def configure(target: Target) -> None:
    """Write the target's configuration, without its key, to `SIGNOFF_HOME`."""
    file = find_app_dirs().config_file
    file.parent.mkdir(parents=True, exist_ok=True)
    settings = {"base_url": target.base_url, "model": target.model, "wire": target.wire}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    lines += ["", "[request]", f"{target.limit_field} = {MAX_RESPONSE_TOKENS}"]
    if target.price:
        lines += ["", f"[price.{json.dumps(target.model)}]"]
        lines += [f"{name} = {value}" for name, value in target.price.model_dump(exclude_none=True).items()]
    file.write_text("\n".join(lines) + "\n")


class LiveSession:
    """A workspace with one file, and a session in it with the target's model."""

    def __init__(
        self, target: Target, runtime: OpenWorkspace, model: ModelClient, session: Session, recorder: Recorder
    ):
        self.target = target
        self.runtime = runtime
        self.session = session
        self.recorder = recorder
        self._model = model
        self.request_counts: dict[type[Event], int] = {}
        """Number of requests sent when an event of each type was last recorded."""
        self.streaming = asyncio.Event()
        """Set when a part of the response has arrived."""
        session.subscribe(self._take)

    @property
    def file(self) -> str:
        return (self.runtime.workspace.root / "greet.py").read_text()

    @property
    def events(self) -> list[Event]:
        return list(self.session.log.events)

    @property
    def stopped(self) -> str:
        return next(event.stopped for event in reversed(self.events) if isinstance(event, TurnEnded))

    @property
    def pending(self) -> list[Proposal]:
        return list(self.runtime.service.pending())

    @property
    def profile(self) -> EndpointProfile:
        """The features that the endpoint is known to support."""
        return self._model.profile

    async def send_message(self, text: str) -> None:
        async with asyncio.timeout(_MAX_TURN_SECONDS):
            await self.session.send(text)
            await self.session.wait_until_idle()

    async def ask_for(self, prompt: str, done: Callable[[], object]) -> None:
        """Send a request, twice if needed; skip the test if the model does something else."""
        for words in (prompt, prompts.AGAIN + prompt):
            await self.send_message(words)
            if self.stopped == "failed":
                pytest.fail(f"The request failed: {self.failure}")
            if done():
                return
        self.skip_uncooperative_model()

    def skip_uncooperative_model(self) -> None:
        """End the test without a result, because the model did not follow the prompt."""
        words = "the model did not follow the prompt, twice"
        if self.target.scripted:
            pytest.fail(words)
        pytest.skip(words)

    @property
    def failure(self) -> str:
        return next(event.message for event in reversed(self.events) if isinstance(event, TurnEnded))

    def check(self) -> None:
        """Assert that every request had a valid history, the last was accepted, and the file is unchanged."""
        for exchange in self.recorder.turns:
            assert VIOLATIONS[exchange.request.wire](exchange.request.body) == []
        assert self.recorder.turns[-1].status == 200
        assert self.stopped != "failed", self.failure
        assert self.file == FILE
        if self.target.scripted:
            assert {exchange.status for exchange in self.recorder.turns} == {200}

    def _take(self, update: Update) -> None:
        match update:
            case EventRecorded(event=(ProposalStaged() | Question()) as event):
                self.request_counts[type(event)] = len(self.recorder.turns)
            case TextStreamed() | ReasoningStreamed() | CallStreamed():
                self.streaming.set()


@contextlib.asynccontextmanager
async def live_session(target: Target, folder: Path, recorder: Recorder) -> AsyncIterator[LiveSession]:
    """Open a workspace in `folder` with the configuration of `configure`; the key is in the environment."""
    root = folder / "workspace"
    root.mkdir()
    (root / "greet.py").write_text(FILE)
    runtime = open_workspace(root, {}, os.environ)
    model = connect_model(runtime)
    session = create_or_resume_session(runtime, model, attended=True)
    try:
        yield LiveSession(target, runtime, model, session, recorder)
    finally:
        await session.close()
        await model.aclose()
        runtime.close()


def tokens_of(events: list[Event]) -> dict[str, Any]:
    """Return the token counts and costs of a session; None if the server did not report them."""
    usages = [usage for event in events if (usage := getattr(event, "usage", None)) is not None]
    costs = [usage.cost for usage in usages if usage.cost is not None]
    return {
        "input_tokens": sum(usage.prompt_tokens for usage in usages) if usages else None,
        "cached_tokens": sum(usage.cached_tokens for usage in usages) if usages else None,
        "output_tokens": sum(usage.completion_tokens for usage in usages) if usages else None,
        "dollars": round(sum(costs), 6) if costs else None,
    }
