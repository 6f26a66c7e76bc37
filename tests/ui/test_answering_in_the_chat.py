"""What a tool waits for is answered in the empty composer, and never by somebody who writes there."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.conversation.events import CallOutcome, ToolResult
from tests.ui.running_app import Running, running, stage
from tests.wire.bench import of_role
from tests.wire.server import WireServer
from widgets.chat import composer_field
from widgets.common.input_order import PossiblyPastedKey
from widgets.review import decision_keys, permission_bar
from widgets.review.permission_bar import PermissionBar

NARROW, WIDE = (80, 24), (120, 40)
COMMAND = "echo from-the-tool"
NEVER = 3600.0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a key waits for takes no time, unless a test says so."""
    monkeypatch.setattr(composer_field, "TYPING_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(PermissionBar, "alone_seconds", 0.0)


async def ask(run: Running, server: WireServer, command: str = COMMAND) -> None:
    server.call("run_command", {"command": command})
    server.say("The end.")
    await run.submit("run it")
    await run.see("Needs your permission", "Run a command?")


@asynccontextmanager
async def asked(
    folder: Path, server: WireServer, size: tuple[int, int] = NARROW, command: str = COMMAND
) -> AsyncIterator[Running]:
    """A running app in which a command waits for an answer, and the keys could answer it."""
    async with running(folder, server, size=size) as run:
        await ask(run, server, command)
        yield run


def bar_of(run: Running) -> PermissionBar:
    return run.app.workbench.query_one(PermissionBar)


async def ready(run: Running) -> None:
    def can_answer() -> bool:
        assert run.text, "what is looked at is painted"
        seen = (
            run.app.workbench.review.readiness.picture_clock.was_on_screen_at(time.monotonic())
            or run.app.size == NARROW
        )
        return (
            bar_of(run).grace_period.is_over
            and bar_of(run).on_screen_clock.was_on_screen_at(time.monotonic())
            and seen
        )

    await run.until(can_answer, "the picture of the question")


def outcomes(run: Running) -> list[CallOutcome]:
    return [event.outcome for event in run.app.require_session().log.events if isinstance(event, ToolResult)]


async def test_a_single_key_answers_a_permission_once_or_for_the_session(tmp_path: Path, server: WireServer) -> None:
    async with asked(tmp_path, server) as run:
        assert run.text.count(COMMAND) == 1, "it stands once on the screen"
        expected: list[CallOutcome] = []
        for key, outcome in (("y", CallOutcome.OK), ("n", CallOutcome.REJECTED), ("a", CallOutcome.OK)):
            if expected:
                await ask(run, server)
            expected.append(outcome)
            await ready(run)
            await run.pilot.press(key)
            await run.until(lambda: run.turns == len(expected), "the end of the turn")
            await run.settled()
            assert outcomes(run) == expected
            assert run.app.workbench.composer.draft == "" and "needs your permission" not in run.text
            assert of_role(server.last, "user") == ["run it"] * len(expected), "the key was no message"
        server.call("run_command", {"command": COMMAND})
        server.say("Once more.")
        await run.say("again")
        assert outcomes(run) == [*expected, CallOutcome.OK]


async def test_a_key_with_others_in_the_same_read_is_no_answer(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(tmp_path, server) as run:
        composer = run.app.workbench.composer
        for text in ("yes please", "no, wait", "all of it"):
            monkeypatch.setattr(PermissionBar, "alone_seconds", NEVER)
            await ready(run)
            await run.write(text[0])
            await run.see("unless another key follows")
            await run.write(text[1:])
            monkeypatch.setattr(PermissionBar, "alone_seconds", 0.0)
            await run.pilot.press("backspace")
            await run.painted()
            assert composer.draft == text[:-1] and outcomes(run) == [], "it is the beginning of a message"
            assert "The keys answer only while the composer is empty" in " ".join(run.text.replace("▌", "").split())
            composer.draft = ""
        for key in "y", "n":
            run.app.post_message(PossiblyPastedKey(key, key))
        await run.see("Several keys came at once")
        assert composer.draft == "yn" and outcomes(run) == []
        monkeypatch.setattr(PermissionBar, "alone_seconds", NEVER)
        for after in ("backspace", "left"):
            composer.draft = ""
            await ready(run)
            await run.pilot.press("y")
            await run.see("unless another key follows")
            await run.pilot.press(after)
            assert "unless another key follows" not in run.text and outcomes(run) == [], after
        composer.draft = ""
        await ready(run)
        await run.pilot.press("y", "enter", "enter")
        assert composer.draft == "y" and not run.app.require_session().queue
        bar_of(run)._send_pending_answer()
        await run.see("The end.")
        assert outcomes(run) == [CallOutcome.OK] and of_role(server.last, "user") == ["run it"]
        await run.settled()
        await ask(run, server)
        await ready(run)
        await run.pilot.press("y", "escape")
        assert "unless another key follows" not in run.text
        assert outcomes(run)[1:] in ([], [CallOutcome.ABORTED])


async def test_a_key_right_after_the_question_before_the_paint_or_in_a_draft_is_no_answer(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_keys, "GRACE_SECONDS", NEVER)
    async with asked(tmp_path, server) as run:
        await run.pilot.press("y")
        await run.see("changed just now")
        assert run.app.workbench.composer.draft == "y" and outcomes(run) == []
        monkeypatch.setattr(decision_keys, "GRACE_SECONDS", 0.0)
        run.app.workbench.composer.draft = ""
        # Before the question was painted.
        await ready(run)
        bar = bar_of(run)
        bar.render_lines = lambda crop: super(PermissionBar, bar).render_lines(crop)  # type: ignore[method-assign]
        bar.require_repaint()
        await run.pilot.press("y")
        await run.see("before this was on the screen")
        assert run.app.workbench.composer.draft == "y" and outcomes(run) == []
        # A writer is not asked.
        del bar.render_lines
        run.app.workbench.composer.draft = ""
        await ready(run)
        monkeypatch.setattr(composer_field, "TYPING_PAUSE_SECONDS", NEVER)
        await run.pilot.press("h", "backspace", "y")
        await run.see("You were writing just before it")
        assert run.app.workbench.composer.draft == "y" and outcomes(run) == []
        # Behind other text, and where letters are no text.
        monkeypatch.setattr(composer_field, "TYPING_PAUSE_SECONDS", 0.0)
        run.app.workbench.composer.draft = ""
        await ready(run)
        composer = run.app.workbench.composer
        composer.draft = "hm"
        await run.pilot.press("y", "n", "a")
        assert composer.draft == "hmyna"
        composer.draft = ""
        composer.set_vim(True)
        await run.pilot.press("escape", "y", "n", "a")
        await run.painted()
        assert composer.draft == "" and outcomes(run) == []
        await run.pilot.press("y")
        await run.see("The end.")
        assert outcomes(run) == [CallOutcome.OK], "letters are text again, and this one stands alone"


async def test_a_command_too_long_for_the_chat_is_answered_in_the_review(tmp_path: Path, server: WireServer) -> None:
    command = "\n".join(f"echo {number}" for number in range(30))
    async with asked(tmp_path, server, command=command) as run:
        await ready(run)
        await run.see("F4 shows all of it; allow it there", "more lines")
        await run.pilot.press("y")
        await run.see("It does not fit here")
        assert run.app.workbench.composer.draft == "y" and outcomes(run) == []
        await run.pilot.press("backspace")
        await run.pilot.press("n")
        await run.see("The end.")
        assert outcomes(run) == [CallOutcome.REJECTED]


async def test_enter_in_an_empty_composer_focuses_what_waits(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, server) as run:
        composer = run.app.workbench.composer
        await run.pilot.press("enter")
        assert run.app.focused is composer.editor, "nothing waits"
        await stage(run, server)
        await run.see("waits for you · Enter or click", "Enter goes to the review")
        monkeypatch.setattr(composer_field, "TYPING_PAUSE_SECONDS", NEVER)
        await run.pilot.press("enter")
        assert run.app.focused is composer.editor, "right after text it is dead"
        monkeypatch.setattr(composer_field, "TYPING_PAUSE_SECONDS", 0.0)
        # However busy the machine is, the grace period is not over yet.
        monkeypatch.setattr(decision_keys, "GRACE_SECONDS", NEVER)
        await run.pilot.press("enter")
        await run.until(lambda: run.app.focused is run.app.workbench.review.view, "the review")
        await run.pilot.press("y")
        assert run.proposals[0].state.is_pending, "whoever pressed Enter twice and writes on decides nothing"


def test_an_answer_key_waits_longer_than_a_typing_pause() -> None:
    assert permission_bar.ALONE_SECONDS >= 0.5


async def test_the_proposal_of_a_command_is_named_by_the_command(tmp_path: Path, server: WireServer) -> None:
    command = "sed -i \"s/'Hello '/'Hello    '/\" greet.py"
    async with asked(tmp_path, server, WIDE, command) as run:
        await ready(run)
        await run.pilot.press("y")
        await run.see("The end.", "P1")
        await run.settled()
        assert outcomes(run) == [CallOutcome.STAGED]
        assert run.proposals[0].summary == f"Command: {command}"
        await run.see("P1  Command: sed -i", "'Hello    '", "· 1 file")
        await run.pilot.press("f3")
        await run.until(lambda: run.app.workbench.review.preview.diffs, "the diff")
        assert "Result of" not in run.text
