"""Helper programs of the long-session benchmark: the model that reads, edits and answers, and signoff with probes.

Run as `python -P -m tests.benchmarks.turns_program serve|app …`.
"""

import asyncio
import gc
import heapq
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.wire.replies import BREAK, DONE, Action, Reply, call_delta, chunk, event, stream
from tests.wire.server import Request, WireServer

FILE = "work.py"
LINES = 60
ANSWER_TOKENS = 400
CHARACTERS_PER_TOKEN = 4
TOKENS_AT_ONCE = 8
"""Number of tokens in one piece: the rest of the answer still arrives when the first piece is painted."""
END = "The end of"
"""Beginning of the last line of an answer; it ends with the number of the turn."""

MAX_PAUSE_COUNT = 10
TICK = 0.004
"""Seconds between two checks of how long the event loop was blocked."""

PARAGRAPH = """## Step {number}.{part}

The change touches `value_{number}`, **which** is read in a [few places](https://example.org/{number}/{part}); the
others are left as they are, since nothing there depends on it.

- `first_{part}` stays
- second, with *emphasis* and a few words more

"""


def content(number: int) -> str:
    """Return the file's text after this turn, if its edit is approved."""
    return "".join(
        f"value_{line} = {line}  # as of turn {number if line == number % LINES else 0}\n" for line in range(LINES)
    )


def answer_text(number: int) -> str:
    """Return an answer of 400 tokens in Markdown, different in every turn."""
    text, part = "", 0
    while len(text) < ANSWER_TOKENS * CHARACTERS_PER_TOKEN:
        text += PARAGRAPH.format(number=number, part=part)
        part += 1
    code = f"```python\ndef step_{number}(value: int) -> int:\n    return value + {number}  # one more\n```\n\n"
    return text[: ANSWER_TOKENS * CHARACTERS_PER_TOKEN - len(code)].rstrip("`*[\n ") + "\n\n" + code


def call(identity: str, name: str, arguments: dict[str, Any]) -> Reply:
    delta = call_delta(0, call_id=identity, name=name, arguments=json.dumps(arguments))
    return stream(chunk("", role="assistant"), chunk(calls=[delta]), chunk(finish="tool_calls"), DONE)


def stream_answer(number: int) -> Reply:
    text = answer_text(number)
    parts: list[bytes | Action] = [event(chunk("", role="assistant"))]
    pieces = [text[at : at + CHARACTERS_PER_TOKEN] for at in range(0, len(text), CHARACTERS_PER_TOKEN)]
    for at in range(0, len(pieces), TOKENS_AT_ONCE):
        parts += [event(chunk(piece)) for piece in pieces[at : at + TOKENS_AT_ONCE]]
        parts.append(BREAK)
    return stream(*parts, chunk(f"{END} {number}."), chunk(finish="stop"), DONE)


def respond(request: Request) -> Reply:
    asked = next(str(message["content"]) for message in reversed(request.messages) if message["role"] == "user")
    number = int(asked.split()[-1]) if asked.split()[-1].isdigit() else 0
    turn_messages = []
    for message in reversed(request.messages):
        if message["role"] == "user":
            break
        turn_messages.append(message)
    results = [message for message in turn_messages if message["role"] == "tool"]
    if request.closing or len(results) > 1:
        return stream_answer(number)
    if not results:
        return call(f"read{number}", "read_file", {"path": FILE})
    line = number % LINES
    old_line = next(row for row in Path(FOLDER, FILE).read_text().splitlines() if row.startswith(f"value_{line} ="))
    edit = {"old": old_line, "new": f"value_{line} = {line}  # as of turn {number}"}
    return call(f"edit{number}", "edit_file", {"path": FILE, "edits": [edit], "summary": f"Note turn {number}"})


FOLDER = ""


def serve(folder: str) -> None:
    """Serve the model of the workspace in `folder`; print the base URL, and end when stdin is closed."""
    global FOLDER
    FOLDER = folder
    with WireServer() as server:

        def answer(request: Request) -> Reply:
            # Recorded requests are not needed, and grow with the conversation.
            server.requests.clear()
            return respond(request)

        server.model(answer)
        print(server.base_url, flush=True)
        sys.stdin.read()


class Probes:
    """Records garbage collection pauses, and how long the event loop was blocked."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._started = 0.0
        self.collections: list[tuple[int, float]] = []
        """Generation and milliseconds of each."""
        self.held = [0.0] * MAX_PAUSE_COUNT
        """The longest CPU times in milliseconds between two checks."""
        self._last = 0.0
        gc.callbacks.append(self._collected)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._started = time.thread_time()
        else:
            self.collections.append((info["generation"], (time.thread_time() - self._started) * 1e3))

    def tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.thread_time()
        if self._last:
            heapq.heappushpop(self.held, (now - self._last) * 1e3)
        self._last = now
        loop.call_later(TICK, self.tick, loop)

    def write(self) -> None:
        """Write the figures since the last report to the report file, and reset them."""
        figures = {"collections": self.collections, "held": sorted(self.held), "threads": threading.active_count()}
        self.collections, self.held, self._last = [], [0.0] * MAX_PAUSE_COUNT, 0.0
        part = self._report.with_suffix(".part")
        part.write_text(json.dumps(figures))
        part.rename(self._report)


def app(report: str, arguments: list[str]) -> int:
    """Run signoff; SIGUSR2 makes it write the figures of its probes to a file."""
    import signal

    probes = Probes(Path(report))

    class ProbedLoop(asyncio.SelectorEventLoop):
        def __init__(self, selector: Any = None) -> None:
            super().__init__(selector)
            self.call_soon(probes.tick, self)
            self.call_soon(self.add_signal_handler, signal.SIGUSR2, probes.write)

    asyncio.SelectorEventLoop = ProbedLoop
    sys.argv = ["signoff", *arguments]
    from app.cli.main import main

    return main()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", folder]:
            serve(folder)
        case ["app", report, *arguments]:
            raise SystemExit(app(report, arguments))
