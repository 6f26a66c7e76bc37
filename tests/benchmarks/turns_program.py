"""The other programs of the long session: the model that reads, edits and answers, and signoff with its own probes.

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
"""So many come in one piece: the rest of the answer is still on its way when the first is painted."""
END = "The end of"
"""What the last line of an answer begins with; the number of its turn comes after it."""

LONGEST = 10
TICK = 0.004
"""Seconds between two looks at how long the event loop was held."""

PARAGRAPH = """## Step {number}.{part}

The change touches `value_{number}`, **which** is read in a [few places](https://example.org/{number}/{part}); the
others are left as they are, since nothing there depends on it.

- `first_{part}` stays
- second, with *emphasis* and a few words more

"""


def content(number: int) -> str:
    """The file as the turn of this number leaves it, if it is approved."""
    return "".join(
        f"value_{line} = {line}  # as of turn {number if line == number % LINES else 0}\n" for line in range(LINES)
    )


def answer_text(number: int) -> str:
    """An answer of 400 tokens in Markdown, different in every turn."""
    text, part = "", 0
    while len(text) < ANSWER_TOKENS * CHARACTERS_PER_TOKEN:
        text += PARAGRAPH.format(number=number, part=part)
        part += 1
    code = f"```python\ndef step_{number}(value: int) -> int:\n    return value + {number}  # one more\n```\n\n"
    return text[: ANSWER_TOKENS * CHARACTERS_PER_TOKEN - len(code)].rstrip("`*[\n ") + "\n\n" + code


def call(identity: str, name: str, arguments: dict[str, Any]) -> Reply:
    """A response with one tool call."""
    delta = call_delta(0, call_id=identity, name=name, arguments=json.dumps(arguments))
    return stream(chunk("", role="assistant"), chunk(calls=[delta]), chunk(finish="tool_calls"), DONE)


def answered(number: int) -> Reply:
    """The answer, as many pieces."""
    text = answer_text(number)
    parts: list[bytes | Action] = [event(chunk("", role="assistant"))]
    pieces = [text[at : at + CHARACTERS_PER_TOKEN] for at in range(0, len(text), CHARACTERS_PER_TOKEN)]
    for at in range(0, len(pieces), TOKENS_AT_ONCE):
        parts += [event(chunk(piece)) for piece in pieces[at : at + TOKENS_AT_ONCE]]
        parts.append(BREAK)
    return stream(*parts, chunk(f"{END} {number}."), chunk(finish="stop"), DONE)


def respond(request: Request) -> Reply:
    """Read the file, change a line of it, say so."""
    asked = next(str(one["content"]) for one in reversed(request.messages) if one["role"] == "user")
    number = int(asked.split()[-1]) if asked.split()[-1].isdigit() else 0
    since = []
    for one in reversed(request.messages):
        if one["role"] == "user":
            break
        since.append(one)
    results = [one for one in since if one["role"] == "tool"]
    if request.closing or len(results) > 1:
        return answered(number)
    if not results:
        return call(f"read{number}", "read_file", {"path": FILE})
    line = number % LINES
    found = next(row for row in Path(FOLDER, FILE).read_text().splitlines() if row.startswith(f"value_{line} ="))
    edit = {"old": found, "new": f"value_{line} = {line}  # as of turn {number}"}
    return call(f"edit{number}", "edit_file", {"path": FILE, "edits": [edit], "summary": f"Note turn {number}"})


FOLDER = ""


def serve(folder: str) -> None:
    """Be the model of the workspace in `folder`; prints where, and ends with its standard input."""
    global FOLDER
    FOLDER = folder
    with WireServer() as server:

        def answer(request: Request) -> Reply:
            # What was asked is not looked at again, and grows by the whole conversation each time.
            server.requests.clear()
            return respond(request)

        server.model(answer)
        print(server.base_url, flush=True)
        sys.stdin.read()


class Probes:
    """What a program can say of itself: pauses of the collector, how long its loop was held, what it holds."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._begun = 0.0
        self.collections: list[tuple[int, float]] = []
        """Generation and milliseconds of each."""
        self.held = [0.0] * LONGEST
        """The longest times, in milliseconds of CPU, between two looks."""
        self._last = 0.0
        gc.callbacks.append(self._collected)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun = time.thread_time()
        else:
            self.collections.append((info["generation"], (time.thread_time() - self._begun) * 1e3))

    def tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.thread_time()
        if self._last:
            heapq.heappushpop(self.held, (now - self._last) * 1e3)
        self._last = now
        loop.call_later(TICK, self.tick, loop)

    def write(self) -> None:
        """Tell what there was since the last time, and begin anew."""
        told = {
            "collections": self.collections,
            "held": sorted(self.held),
            "threads": threading.active_count(),
        }
        self.collections, self.held, self._last = [], [0.0] * LONGEST, 0.0
        part = self._report.with_suffix(".part")
        part.write_text(json.dumps(told))
        part.rename(self._report)


def app(report: str, arguments: list[str]) -> int:
    """Run signoff; at SIGUSR2 it writes to a file what its probes have found."""
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
