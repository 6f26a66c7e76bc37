"""How the chat looks: a scene for each thing that it shows, in a narrow terminal or in half of a wide one."""

import tomllib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.theme import Theme

from app.agent.updates import (
    CallStreamed,
    EventRecorded,
    PhaseChanged,
    QueuedMessagesChanged,
    ReasoningStreamed,
    SessionPhase,
    TextStreamed,
)
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    DecisionKind,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    ProposalDecided,
    ProposalStaged,
    Question,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
    UserNotice,
)
from app.llm.values.requests_and_updates import TokenUsage
from app.proposals.values.decision_facts import FileDiffStat, HunkOutcome, LineComment
from tests.ui.chat_app import ChatApp, call
from widgets.chat.chat_bars import TurnStatusLine
from widgets.chat.composer_field import ComposerDraft

NARROW = (80, 24)
TALL = (80, 45)

ANSWER = """## What is wrong

The retry loop in `fetch.py` **never backs off**: it calls `time.sleep(0)`, and the
[documentation](https://example.org) says why that hurts.

1. It hammers the server.
2. It hides the real error:
   - the last exception is dropped
   - the caller sees `None`

| File | Lines | Why |
|:--|--:|---|
| app/fetch.py | 12 | the loop itself |
| tests/test_fetch.py | 40 | covers the back-off and giving up |

```python
async def fetch(url: str, tries: int = 3) -> bytes:
    for attempt in range(tries):
        try:
            return await get(url)  # may raise
        except OSError:
            await asyncio.sleep(2 ** attempt)
    raise GaveUp(url)
```

> Errors should never pass silently.

- [x] loop
- [ ] tests
"""

FILES = (
    FileDiffStat(path="app/fetch.py", op="edit", added=12, removed=3),
    FileDiffStat(path="tests/test_fetch.py", op="create", added=40, removed=0),
)

TURN: list[Event] = [
    UserMessage(id=1, time=100, text="The fetcher is flaky. Can you find out why and fix it?\nKeep the public API."),
    TurnStarted(id=2, time=100, cause="message"),
    AssistantMessage(
        id=3,
        reasoning="The user wants to know why it is flaky.\nI should read it.",
        text="I'll read the code first.",
        calls=(
            call("c1.0", path="app/fetch.py", start_line=1, end_line=84),
            call("c1.1", "search_text", pattern="fetch(", path="app"),
            call("c1.2", "run_command", command="pytest -q tests/test_fetch.py"),
        ),
    ),
    ToolResult(id=4, call="c1.0", outcome=CallOutcome.OK, text="1 import asyncio", summary="84 lines"),
    ToolResult(id=5, call="c1.1", outcome=CallOutcome.OK, text="a", summary="3 matches in 2 files", duration=0.12),
    ToolResult(id=6, call="c1.2", outcome=CallOutcome.ERROR, text="boom", summary="exit code 1", duration=4.2),
    AssistantMessage(
        id=7,
        text="The loop never waits. I stage a back-off with a test.",
        calls=(
            call("c2.0", "edit_file", path="app/fetch.py"),
            call("c2.1", "write_file", path="tests/test_fetch.py"),
        ),
        usage=TokenUsage(completion_tokens=812),
    ),
    ToolResult(id=8, call="c2.0", outcome=CallOutcome.STAGED, text="", summary="+12 -3", proposal="P7"),
    ToolResult(id=9, call="c2.1", outcome=CallOutcome.STAGED, text="", summary="+40", proposal="P7"),
    ProposalStaged(id=10, proposal="P7", summary="Back off between retries", files=FILES, calls=("c2.0", "c2.1")),
    Intervention(id=11, kind=InterventionKind.STAGED, text="Staged as P7, not applied. Stop and hand control back."),
    AssistantMessage(id=12, text="I staged **P7**; it backs off and keeps the last error."),
    TurnEnded(id=13, time=121.4, stopped="staged"),
]

AFTERMATH: list[Event] = [
    ProposalDecided(
        id=20,
        proposal="P7",
        decision=DecisionKind.DENIED,
        feedback="Use jitter too.\nAnd no bare sleep in tests.",
        comments=(LineComment(path="app/fetch.py", line=12, side="new", quote="+x", text="why 2?"),),
    ),
    AssistantMessage(id=21, text="Half of an answer", state="discarded"),
    AssistantMessage(id=22, text="Right, jitter. Which one do you", state="interrupted"),
    TurnEnded(id=23, stopped="aborted"),
    UserNotice(id=24, text="The endpoint refuses tool_choice; signoff goes on without it.", level="warning"),
    HistoryCompacted(id=25, upto=9, summary="So far.", method="summary", tokens_before=92_000, tokens_after=14_000),
    ProposalStaged(id=26, proposal="P8", summary="Back off with jitter", files=FILES[:1], calls=(), supersedes="P7"),
    ProposalDecided(
        id=27,
        proposal="P8",
        decision=DecisionKind.PARTLY_APPROVED,
        hunks=(
            HunkOutcome(path="app/fetch.py", hunk="a", header="@@ -1 +1 @@", landed=True),
            HunkOutcome(path="app/fetch.py", hunk="b", header="@@ -9 +9 @@", landed=False),
        ),
        still_pending=True,
    ),
    TurnEnded(id=28, stopped="failed", message="The key was refused. Check it with: signoff doctor"),
]

ASKED: list[Event] = [
    AssistantMessage(id=30, text="One thing is open.", calls=(call("c9.0", "ask_user", question="Which?"),)),
    Question(
        id=31, call="c9.0", text="Which jitter should the back-off use?", options=("Full jitter", "Equal", "None")
    ),
    TurnEnded(id=32, stopped="question"),
]


LONG_QUESTION: list[Event] = [
    AssistantMessage(id=30, calls=(call("c9.0", "ask_user", question="Which?"),)),
    Question(
        id=31,
        call="c9.0",
        text="How shall I go about the **clock**?",
        options=(
            "Pass it in",
            "Leave it where it is, and let the tests set the time of the whole process, which is slower, less exact "
            "and will be hard to take back later",
            "Ask me again when the rest is done",
        ),
    ),
]


class SceneApp(ChatApp):
    """The chat pane under one of signoff's own themes, with a clock that stands still."""

    def __init__(self, log: Sequence[Event], theme: str) -> None:
        super().__init__(log, files=["app/fetch.py", "tests/test_fetch.py", "README.md"])
        self.theme_name = theme
        self.pane.status_line = TurnStatusLine(lambda: 1000.0)

    def on_mount(self) -> None:
        for path in (Path(__file__).parents[2] / "themes").glob("*.toml"):
            self.register_theme(Theme(**tomllib.loads(path.read_text("utf-8"))))
        self.theme = self.theme_name
        self.animation_level = "none"
        self.pane.composer.editor.cursor_blink = False
        super().on_mount()


async def stream(pilot: Pilot[None]) -> None:
    pane = pilot.app.pane  # type: ignore[attr-defined]
    pane.apply_update(PhaseChanged(SessionPhase.STREAMING))
    pane.apply_update(ReasoningStreamed("First this.\nThen the jitter."))
    pane.apply_update(TextStreamed("I'd use **full jit"))
    pane.apply_update(CallStreamed(0, "edit_file", 1234))
    pane.show_streamed_text()
    pane.composer.set_queued_messages(["Then run the tests, please"])
    await pilot.press(*"see @fe")
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def retry(pilot: Pilot[None]) -> None:
    pane = pilot.app.pane  # type: ignore[attr-defined]
    pane.apply_update(PhaseChanged(SessionPhase.RETRYING, "rate limited", 1008.0))
    pane.composer.editor.paste("x\n" * 340)
    await pilot.press(*" fix it", "ctrl+j", *"all")


async def fail(pilot: Pilot[None]) -> None:
    pane = pilot.app.pane  # type: ignore[attr-defined]
    pane.apply_update(EventRecorded(TurnEnded(id=40, stopped="failed", message="The key was refused.")))
    pane.apply_update(QueuedMessagesChanged(("Then run the tests, please", "and tidy up")))
    pane.composer.restore_draft(ComposerDraft("see " + "x\n" * 340 + " and try again", ((4, 684),)).dump())
    await pilot.pause()


DARK, LIGHT = "signoff-dark", "signoff-light"
SCENES: dict[str, tuple[Sequence[Event], tuple[int, int], str, Callable[[Pilot[None]], Awaitable[None]] | None]] = {
    "turn": (TURN, TALL, DARK, None),
    "markdown": ([AssistantMessage(id=1, text=ANSWER)], TALL, DARK, None),
    "decisions_and_mishaps": ([*TURN, *AFTERMATH], TALL, DARK, None),
    "question": ([*TURN, *ASKED], NARROW, LIGHT, None),
    "streaming_with_a_queue_and_completion": (TURN, NARROW, DARK, stream),
    "retrying": (TURN[:1], NARROW, DARK, retry),
    "failure_and_long_options": ([*TURN, *LONG_QUESTION], TALL, DARK, fail),
    "commands": (TURN, NARROW, LIGHT, lambda pilot: pilot.press("slash")),
}
"""Each with its log, size and theme, and what happens before the picture."""


@pytest.mark.parametrize("name", SCENES)
def test_scene(snap_compare: Callable[..., bool], name: str) -> None:
    log, size, theme, before = SCENES[name]
    assert snap_compare(SceneApp(log, theme), terminal_size=size, run_before=before)
