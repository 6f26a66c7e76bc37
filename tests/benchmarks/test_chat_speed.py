"""How the chat stands a flood of text and a long session, as ratios to baselines of the same run.

Run with `pytest tests/benchmarks/test_chat_speed.py -n0 -s` to see the figures. Times are CPU times of the process or
thread, so they say what the app itself takes, however busy the machine is; the milliseconds are printed for people.
"""

import asyncio
import gc
import resource
import statistics
import subprocess
import sys
import time

from textual import on
from textual.events import Key
from textual.pilot import Pilot

from app.agent.updates import Phase, PhaseChanged, Recorded, TextStreamed
from app.conversation.events import AssistantMessage
from tests.ui.chat_app import ChatApp, conversation, staged
from widgets.chat.composer import Composer

SCREEN = (80, 40)
REPEATS = 3
TOKENS = 20_000
CHARACTERS_PER_TOKEN = 4

FLOOD_RATIO = 3.0
"""The most that a flood may cost, in units of rendering the finished text once."""
GROWTH_RATIO = 2.2
"""The most that twice the text may cost."""
MEDIAN_KEY_PAINTS = 2.0
"""The most work between a key and its paint during the flood, in units of one paint of the screen; the median."""
WORST_KEY_PAINTS = 8.0
"""The same for the slowest key."""
OPEN_RATIO = 2.0
"""The most that a start into a session of 2,000 messages may cost, in units of an app that shows one Input."""
PAGE_RATIO = 3.0
"""The most that a page in a long session may cost, in units of a page in a short one."""

END = "This is the end."

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
    return f"{text[: tokens * CHARACTERS_PER_TOKEN]}\n```\n\n{END}\n"


class TimedApp(ChatApp):
    """Measures the work between a key and the paint that shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.pressed: float | None = None
        self.answered: list[float] = []

    def press(self) -> None:
        """Press a key, if the last one has been shown."""
        if self.pressed is None:
            self.pressed = time.thread_time()
            self.post_message(Key("a", "a"))

    @on(Composer.DraftChanged)
    def measure(self) -> None:
        self.call_after_refresh(self.painted)

    def painted(self) -> None:
        if self.pressed is not None:
            self.answered.append(time.thread_time() - self.pressed)
            self.pressed = None


async def shown(app: ChatApp, pilot: Pilot[None]) -> None:
    """Wait until the end of the text is on screen and nothing is left to do."""
    async with asyncio.timeout(60):
        while app.pane.is_flushing or not any(END in row for row in app.shown()[-4:]):
            await asyncio.sleep(0.005)
    await pilot.pause()


async def render_once(app: ChatApp, pilot: Pilot[None], text: str) -> float:
    """CPU seconds until the finished text is on screen."""
    app.pane.open_log([])
    await pilot.pause()
    start = time.process_time()
    app.pane.open_log([AssistantMessage(id=1, text=text)])
    await shown(app, pilot)
    return time.process_time() - start


async def flood(app: TimedApp, pilot: Pilot[None], text: str, *, keys: bool = False) -> float:
    """CPU seconds until the text is on screen that came in token by token, as fast as it can be produced."""
    app.pane.open_log([])
    await pilot.pause()
    presser = asyncio.create_task(press_keys(app)) if keys else None
    start = time.process_time()
    app.pane.apply(PhaseChanged(Phase.STREAMING))
    for position in range(0, len(text), CHARACTERS_PER_TOKEN):
        app.pane.apply(TextStreamed(text[position : position + CHARACTERS_PER_TOKEN]))
        if position % (16 * CHARACTERS_PER_TOKEN) == 0:
            await asyncio.sleep(0)
    app.pane.apply(Recorded(AssistantMessage(id=1, text=text)))
    app.pane.apply(PhaseChanged(Phase.IDLE))
    await shown(app, pilot)
    spent = time.process_time() - start
    if presser is not None:
        presser.cancel()
    return spent


async def press_keys(app: TimedApp) -> None:
    """Type faster than anybody can."""
    while True:
        app.press()
        await asyncio.sleep(0.025)


def settle_memory() -> None:
    """Keep the collector from charging what was there before to what is measured."""
    gc.collect()
    gc.freeze()


async def test_a_flood_costs_little_more_than_the_finished_text() -> None:
    app = TimedApp()
    async with app.run_test(size=SCREEN) as pilot:
        text, twice = markdown(TOKENS), markdown(2 * TOKENS)
        await render_once(app, pilot, text)
        settle_memory()
        once = min([await render_once(app, pilot, text) for _ in range(REPEATS)])
        flooded = min([await flood(app, pilot, text) for _ in range(REPEATS)])
        doubled = min([await flood(app, pilot, twice) for _ in range(REPEATS)])
    print(f"\nfinished {once * 1e3:.0f} ms, flood {flooded * 1e3:.0f} ms, twice the text {doubled * 1e3:.0f} ms")
    assert flooded <= FLOOD_RATIO * once
    assert doubled <= GROWTH_RATIO * flooded


async def test_keys_are_answered_during_a_flood() -> None:
    app = TimedApp()
    async with app.run_test(size=SCREEN) as pilot:
        text = markdown(TOKENS)
        await render_once(app, pilot, text)
        settle_memory()
        paints: list[float] = []
        transcript = app.pane.transcript
        for number in range(10):
            transcript.scroll_to(y=50 * number, animate=False, immediate=True)
            start = time.thread_time()
            await pilot.pause()
            paints.append(time.thread_time() - start)
        paint = statistics.median(paints)
        transcript.follow()
        worst: list[float] = []
        answered: list[float] = []
        for _ in range(REPEATS):
            app.answered.clear()
            await flood(app, pilot, text, keys=True)
            worst.append(max(app.answered))
            answered += app.answered
    median = statistics.median(answered)
    print(
        f"\npaint {paint * 1e3:.1f} ms; {len(answered)} keys: "
        f"median {median * 1e3:.1f} ms, worst {min(worst) * 1e3:.1f} ms"
    )
    assert median <= MEDIAN_KEY_PAINTS * paint
    assert min(worst) <= WORST_KEY_PAINTS * paint


INPUT_APP = """
import asyncio
from textual.app import App
from textual.widgets import Input

class InputApp(App):
    def compose(self):
        yield Input()

async def main():
    async with InputApp().run_test(size=(80, 40)) as pilot:
        await pilot.pause()

asyncio.run(main())
"""
"""The least that an app with a prompt can be."""


def cold_start() -> float:
    """CPU seconds from a new interpreter to the first paint of an app with one Input."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", INPUT_APP], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def test_opening_a_long_session_at_most_doubles_the_cold_start() -> None:
    log = conversation(2000)
    log += [staged(100_000 + number, f"Q{number}") for number in range(100)]
    app = ChatApp()
    async with app.run_test(size=SCREEN) as pilot:
        app.pane.open_log(conversation(20))
        await pilot.pause()
        settle_memory()
        opened: list[float] = []
        for _ in range(REPEATS):
            app.pane.open_log([])
            await pilot.pause()
            start = time.process_time()
            app.pane.open_log(log)
            await pilot.pause()
            opened.append(time.process_time() - start)
    cold = min([await asyncio.to_thread(cold_start) for _ in range(REPEATS)])
    print(f"\nopen {min(opened) * 1e3:.0f} ms on top of a cold start of {cold * 1e3:.0f} ms")
    assert cold + min(opened) <= OPEN_RATIO * cold


async def test_a_page_costs_the_same_however_long_the_session() -> None:
    async def page(messages: int) -> float:
        app = ChatApp(conversation(messages))
        async with app.run_test(size=SCREEN) as pilot:
            await pilot.pause()
            transcript = app.pane.transcript
            settle_memory()
            start = time.process_time()
            for _ in range(20):
                transcript.action_page_up()
                await pilot.pause()
            return (time.process_time() - start) / 20

    short, long = await page(200), await page(4000)
    print(f"\npage up in 200 messages {short * 1e3:.1f} ms, in 4,000 messages {long * 1e3:.1f} ms")
    assert long <= PAGE_RATIO * short
