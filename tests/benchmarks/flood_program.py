"""Helper programs of the flood benchmarks: the server, a client that only reads, and apps that show the text.

Run as `python -m tests.benchmarks.flood_program KIND …`.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from typing import Any, ClassVar

from textual.binding import BindingType

from app.agent.updates import EventRecorded, PhaseChanged, SessionPhase, TextStreamed
from app.conversation.events import AssistantMessage
from app.ui.terminal import garbage_collection
from tests.ui.chat_app import ChatApp
from tests.wire.replies import BREAK, DONE, Action, Reply, call_delta, chunk, event, stream
from tests.wire.server import Request, WireServer

CHARACTERS_PER_TOKEN = 4
CHARACTERS_PER_WORD = 7
"""Number of characters of a token in plain prose."""
TOOLS = ("edits", "reads", "search", "command")
"""The floods that consist of tool calls."""
FIRST_TOKEN_SECONDS = 0.5
"""Seconds from a request to the first token."""
END = "The end of"
"""Beginning of the last line; it ends with the last word of the user's message."""

SECTION = """## Section {number}

A paragraph with **emphasis**, `code`, a [link](https://example.org/{number}) and enough words to be wrapped
twice over, since that is what answers are made of, after all.

- one item of a list
- another, with `code`
  - and one below it

| Name | Value | Remark |
|:--|--:|---|
| first | {number} | what it is good for |
| second | 2 | nothing much |

```python
def function_{number}(argument: int) -> str:
    \"\"\"Says what it does.\"\"\"
    return f"{{argument}} and {number}"  # a comment
```

"""


def markdown(tokens: int) -> str:
    """Return Markdown of this number of tokens; every section is different."""
    text, number = "", 0
    while len(text) < tokens * CHARACTERS_PER_TOKEN:
        text += SECTION.format(number=number)
        number += 1
    return f"{text[: tokens * CHARACTERS_PER_TOKEN]}\n```\n\n"


def pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), CHARACTERS_PER_TOKEN):
        yield text[start : start + CHARACTERS_PER_TOKEN]


def flood_events(kind: str, tokens: int) -> list[bytes | Action]:
    """Return the main part of a response, one token in each event.

    `kind` is `answer`, `reasoning` or `call`; a call continues the arguments of `first_events`.
    """
    text = markdown(tokens)
    match kind:
        case "reasoning":
            chunks = [chunk(reasoning=piece) for piece in pieces(text)]
        case "call":
            arguments = f"{json.dumps(text)}}}"
            chunks = [chunk(calls=[call_delta(0, arguments=piece)]) for piece in pieces(arguments)]
        case _:
            chunks = [chunk(piece) for piece in pieces(text)]
    return [event(data) for data in chunks]


def first_events(kind: str, asked: str) -> list[bytes | Action]:
    """Return the events before the flood: the client reads them first, then the rest as fast as it can."""
    events: list[bytes | Action] = [event(chunk("", role="assistant")), BREAK]
    if kind == "call":
        # A separate file for each message, because an edit without a change would be rejected.
        arguments = f'{{"path": "{asked}.md", "content": '
        events.append(event(chunk(calls=[call_delta(0, call_id="c1", name="write_file", arguments=arguments)])))
    return events


def call_events(kind: str, count: int, asked: str) -> list[bytes | Action]:
    """Return the events of tool calls.

    `kind` is `edits` or `reads` of `read.txt` (`count` calls), `search` in `found.txt`, or a `command` that prints
    `count` bytes.
    """
    all_arguments: list[dict[str, Any]]
    match kind:
        case "edits":
            name = "write_file"
            all_arguments = [{"path": f"made/file{number}.txt", "content": f"{asked}\n"} for number in range(count)]
        case "reads":
            name = "read_file"
            all_arguments = [{"path": "read.txt", "start_line": at + 1, "end_line": at + 100} for at in range(count)]
        case "search":
            name = "search_text"
            all_arguments = [{"pattern": "line"}]
        case _:
            name = "run_command"
            all_arguments = [{"command": f"yes 'one of very many lines that say nothing' | head -c {count}"}]
    calls = [
        call_delta(number, call_id=f"c{number}", name=name, arguments=json.dumps(arguments))
        for number, arguments in enumerate(all_arguments)
    ]
    return [event(chunk("", role="assistant")), BREAK, *(event(chunk(calls=[call])) for call in calls)]


def serve(kind: str, count: int) -> None:
    """Answer every request but closing ones with a flood; print the base URL, and end when stdin is closed."""
    flood = [] if kind in TOOLS else flood_events(kind, count)

    def answer(request: Request) -> Reply:
        asked = next(str(message["content"]) for message in reversed(request.messages) if message["role"] == "user")
        word = asked.split()[-1]
        end = event(chunk(f"{END} {word}."))
        if not flood and request.messages[-1]["role"] == "user":
            return stream(*call_events(kind, count, asked), chunk(finish="tool_calls"), DONE)
        if kind == "call" and not request.closing:
            return stream(*first_events(kind, word), *flood, chunk(finish="tool_calls"), DONE)
        return stream(
            *(() if request.closing else (*first_events(kind, word), *flood)), end, chunk(finish="stop"), DONE
        )

    with WireServer() as server:
        server.model(answer)
        print(server.base_url, flush=True)
        sys.stdin.read()


async def receive(base_url: str) -> None:
    """Read and parse a whole response, and nothing else; print the CPU seconds."""
    import httpx2

    body = {"model": "m", "messages": [{"role": "user", "content": "1"}], "stream": True}
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        started = time.process_time()
        async with client.stream("POST", f"{base_url}/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    json.loads(line[6:])
        print(time.process_time() - started, flush=True)


class Chat(ChatApp):
    """The chat alone, with the same garbage collection as signoff."""

    def on_ready(self) -> None:
        """Resume garbage collection, because everything is loaded."""
        garbage_collection.freeze_and_resume_idle_collection()


class RenderOnce(Chat):
    BINDINGS: ClassVar[list[BindingType]] = [("f9", "show")]

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self._text = markdown(tokens)
        self._shown = 0

    def action_show(self) -> None:
        self._shown += 1
        self.pane.show_session([AssistantMessage(id=1, text=f"{self._text}{END} {self._shown}.\n")])


class Stream(Chat):
    """Simulates a model that writes a number of tokens per second when a key is pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [("f9", "write")]

    def __init__(self, rate: int, seconds: float) -> None:
        super().__init__()
        self._rate = rate
        self._seconds = seconds

    def action_write(self) -> None:
        self.run_worker(self._write())

    async def _write(self) -> None:
        tokens = int(self._rate * self._seconds)
        text = markdown(tokens * CHARACTERS_PER_WORD // CHARACTERS_PER_TOKEN + 1)
        self.pane.apply_update(PhaseChanged(SessionPhase.REQUESTING))
        await asyncio.sleep(FIRST_TOKEN_SECONDS)
        self.pane.apply_update(PhaseChanged(SessionPhase.STREAMING))
        events, sent = time.monotonic(), 0
        # Write the whole text, also on a busy machine: the amount does not depend on the time.
        while sent < tokens:
            due = min(int((time.monotonic() - events) * self._rate) + 1, tokens)
            for number in range(sent, due):
                self.pane.apply_update(
                    TextStreamed(text[number * CHARACTERS_PER_WORD : (number + 1) * CHARACTERS_PER_WORD])
                )
            sent = due
            await asyncio.sleep(max(1 / 200, 1 / self._rate))
        self.pane.apply_update(
            EventRecorded(AssistantMessage(id=1, text=f"{text[: sent * CHARACTERS_PER_WORD]}\n```\n\n{END} 1.\n"))
        )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", kind, count]:
            serve(kind, int(count))
        case ["receive", base_url]:
            asyncio.run(receive(base_url))
        case ["render", tokens]:
            garbage_collection.pause_collection()
            RenderOnce(int(tokens)).run()
        case ["stream", rate, seconds]:
            garbage_collection.pause_collection()
            Stream(int(rate), float(seconds)).run()
        case ["busy"]:
            while True:
                pass
