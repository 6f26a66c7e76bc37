"""The other programs of the flood: the server that pours, the text shown at once, and the stream merely read.

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
LONG_TOKEN = 7
"""Characters of a token of plain prose."""
TOOLS = ("edits", "reads", "search", "command")
"""What pours by calls."""
FIRST_TOKEN = 0.5
"""Seconds that a model is waited for."""
END = "The end of"
"""What the last line begins with; it goes on with the last word of the message that was answered."""

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
    """Markdown of so many tokens, every section different."""
    text, number = "", 0
    while len(text) < tokens * CHARACTERS_PER_TOKEN:
        text += SECTION.format(number=number)
        number += 1
    return f"{text[: tokens * CHARACTERS_PER_TOKEN]}\n```\n\n"


def pieces(text: str) -> Iterator[str]:
    """The text token by token."""
    for start in range(0, len(text), CHARACTERS_PER_TOKEN):
        yield text[start : start + CHARACTERS_PER_TOKEN]


def poured(what: str, tokens: int) -> list[bytes | Action]:
    """The most of a response: so many tokens, one in each event; `answer`, `reasoning` or `call` is what they are
    tokens of. A call goes on from its `beginning`."""
    text = markdown(tokens)
    match what:
        case "reasoning":
            chunks = [chunk(reasoning=piece) for piece in pieces(text)]
        case "call":
            arguments = f"{json.dumps(text)}}}"
            chunks = [chunk(calls=[call_delta(0, arguments=piece)]) for piece in pieces(arguments)]
        case _:
            chunks = [chunk(piece) for piece in pieces(text)]
    return [event(one) for one in chunks]


def beginning(what: str, asked: str) -> list[bytes | Action]:
    """What comes before what is poured: the response begins at once, the rest is there as fast as it is read."""
    begun: list[bytes | Action] = [event(chunk("", role="assistant")), BREAK]
    if what == "call":
        # To a file of its own: to write the same again would be refused.
        arguments = f'{{"path": "{asked}.md", "content": '
        begun.append(event(chunk(calls=[call_delta(0, call_id="c1", name="write_file", arguments=arguments)])))
    return begun


def called(what: str, count: int, asked: str) -> list[bytes | Action]:
    """The beginning of a response with calls: so many `edits`, or `reads` of `read.txt`; a `search` for each line of
    `found.txt`, or a `command` that prints so many bytes."""
    every: list[dict[str, Any]]
    match what:
        case "edits":
            name = "write_file"
            every = [{"path": f"made/file{number}.txt", "content": f"{asked}\n"} for number in range(count)]
        case "reads":
            name = "read_file"
            every = [{"path": "read.txt", "start_line": at + 1, "end_line": at + 100} for at in range(count)]
        case "search":
            name = "search_text"
            every = [{"pattern": "line"}]
        case _:
            name = "run_command"
            every = [{"command": f"yes 'one of very many lines that say nothing' | head -c {count}"}]
    calls = [
        call_delta(number, call_id=f"c{number}", name=name, arguments=json.dumps(arguments))
        for number, arguments in enumerate(every)
    ]
    return [event(chunk("", role="assistant")), BREAK, *(event(chunk(calls=[call])) for call in calls)]


def serve(what: str, count: int) -> None:
    """Pour into every request that is no closing one; prints where, and ends with its standard input."""
    flood = [] if what in TOOLS else poured(what, count)

    def answer(request: Request) -> Reply:
        asked = next(str(one["content"]) for one in reversed(request.messages) if one["role"] == "user")
        word = asked.split()[-1]
        end = event(chunk(f"{END} {word}."))
        if not flood and request.messages[-1]["role"] == "user":
            return stream(*called(what, count, asked), chunk(finish="tool_calls"), DONE)
        if what == "call" and not request.closing:
            return stream(*beginning(what, word), *flood, chunk(finish="tool_calls"), DONE)
        return stream(*(() if request.closing else (*beginning(what, word), *flood)), end, chunk(finish="stop"), DONE)

    with WireServer() as server:
        server.model(answer)
        print(server.base_url, flush=True)
        sys.stdin.read()


async def receive(base_url: str) -> None:
    """Read a whole response, parse each of its events and do nothing else; prints the seconds of CPU it took."""
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
    """The chat alone, with garbage collected as in signoff."""

    def on_ready(self) -> None:
        """All is loaded."""
        garbage_collection.resume_collection()


class RenderOnce(Chat):
    """It shows the whole text when asked to."""

    BINDINGS: ClassVar[list[BindingType]] = [("f9", "show")]

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self._text = markdown(tokens)
        self._shown = 0

    def action_show(self) -> None:
        """Show all of it at once."""
        self._shown += 1
        self.pane.show_session([AssistantMessage(id=1, text=f"{self._text}{END} {self._shown}.\n")])


class Stream(Chat):
    """A model writes into it when asked to, so many tokens a second."""

    BINDINGS: ClassVar[list[BindingType]] = [("f9", "write")]

    def __init__(self, rate: int, seconds: float) -> None:
        super().__init__()
        self._rate = rate
        self._seconds = seconds

    def action_write(self) -> None:
        """Write."""
        self.run_worker(self._write())

    async def _write(self) -> None:
        tokens = int(self._rate * self._seconds)
        text = markdown(tokens * LONG_TOKEN // CHARACTERS_PER_TOKEN + 1)
        self.pane.apply_update(PhaseChanged(SessionPhase.REQUESTING))
        await asyncio.sleep(FIRST_TOKEN)
        self.pane.apply_update(PhaseChanged(SessionPhase.STREAMING))
        begun, sent = time.monotonic(), 0
        # All of it, on a busy machine too: what it writes does not depend on the time.
        while sent < tokens:
            due = min(int((time.monotonic() - begun) * self._rate) + 1, tokens)
            for number in range(sent, due):
                self.pane.apply_update(TextStreamed(text[number * LONG_TOKEN : (number + 1) * LONG_TOKEN]))
            sent = due
            await asyncio.sleep(max(1 / 200, 1 / self._rate))
        self.pane.apply_update(
            EventRecorded(AssistantMessage(id=1, text=f"{text[: sent * LONG_TOKEN]}\n```\n\n{END} 1.\n"))
        )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", what, count]:
            serve(what, int(count))
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
