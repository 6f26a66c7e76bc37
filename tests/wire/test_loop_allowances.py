"""What the user says to a call: allowed once, for the session or the project; denied, with words or without."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.permission_requests import GrantedPermissions
from app.agent.updates import PermissionRequested, SessionFailed, Update
from app.conversation.events import (
    CallDeniedWithFeedback,
    CallOutcome,
    ContentPruned,
    Event,
    HistoryCompacted,
    ToolResult,
)
from app.conversation.payload.projection import CachedPayloadBuilder
from app.tools.base.command_forms import AllowableCommandPattern
from app.tools.base.contract import PermissionAnswer, PermissionDuration, PermissionRequest
from tests.oracles.reading import misplaced
from tests.wire.bench import Bench, bench, edit
from tests.wire.server import Request, WireServer

ECHO = AllowableCommandPattern(("echo",), open=True)


class User:
    """Answers what is asked, each time with the next answer, the last one for ever."""

    def __init__(self, on: Bench, *answers: PermissionAnswer) -> None:
        self.asked: list[str] = []
        self._on = on
        self._answers = list(answers)
        on.session.subscribe(self._answer)

    def _answer(self, update: Update) -> None:
        if isinstance(update, PermissionRequested):
            self.asked.append(update.permission_request.detail)
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            self._on.session.answer_permission_request(update.key, answer)


async def run(on: Bench, *commands: str) -> None:
    for command in commands:
        await on.say(f"Run {command}", ("run_command", {"command": command}))


def summaries(on: Bench) -> list[str]:
    return [event.summary for event in on.events if isinstance(event, ToolResult)]


async def test_without_a_form_only_the_identical_command_is_allowed_and_no_denial_is_kept(on: Bench) -> None:
    user = User(
        on,
        PermissionAnswer(False, duration=PermissionDuration.SESSION),
        PermissionAnswer(False, duration=PermissionDuration.PROJECT, form=ECHO),
        PermissionAnswer(allowed=True),
        PermissionAnswer(allowed=True, duration=PermissionDuration.SESSION),
    )
    await run(on, *["echo a"] * 5, "echo b")
    assert user.asked == [*["echo a"] * 4, "echo b"]
    assert on.runtime.allowed_commands.forms() == []


async def test_an_allowed_command_does_not_allow_a_secret_file_of_that_name(server: WireServer, on: Bench) -> None:
    (on.root / ".env").write_text("KEY=1\n")
    form = AllowableCommandPattern((".env",), open=True)
    user = User(on, PermissionAnswer(True, duration=PermissionDuration.SESSION, form=form), PermissionAnswer(False))
    await run(on, ".env")
    await on.say("Read it", ("read_file", {"path": ".env"}))
    assert user.asked == [".env", ".env"]


async def test_changes_of_a_command_are_asked_about_each_time() -> None:
    asked = PermissionRequest("changes", "Keep what it changed?", "make", ".")
    allowances = GrantedPermissions()
    await allowances.remember_answer(asked, PermissionAnswer(allowed=True, duration=PermissionDuration.SESSION))
    assert await allowances.describe_earlier_permission(asked) == ""


async def test_the_first_answer_to_a_permission_request_counts(on: Bench) -> None:
    User(on, PermissionAnswer(True))
    User(on, PermissionAnswer(False))
    await run(on, "echo a")
    assert summaries(on)[-1].startswith("exit 0")


async def test_a_permission_form_covers_only_commands_of_that_form(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        user = User(
            on,
            PermissionAnswer(allowed=True, duration=PermissionDuration.SESSION, form=ECHO),
            PermissionAnswer(False),
        )
        more = ["echo a; touch x", "echo a && touch x", "echo a | tee x", "echo a > x", "echo $(touch x)", "A=b echo"]
        await run(on, "echo a", "echo 'b c' *", *more)
        assert user.asked == ["echo a", *more]
        assert not (on.root / "x").exists()
        assert summaries(on)[1].endswith("allowed: echo … in this session")
        (on.root / "docs/in").mkdir(parents=True)
        await on.say("Write", ("write_file", {"path": "docs/Head", "content": "ref: refs/heads/main"}))
        user.asked.clear()
        for folder in ("docs/in", "docs", "."):
            await on.say("Run it there", ("run_command", {"command": "echo a", "folder": folder}))
        assert user.asked == ["echo a"] * 2, "git could run what docs/config names"
    async with bench(server, tmp_path) as again:
        user = User(again, PermissionAnswer(False))
        await run(again, "echo a")
        assert user.asked == ["echo a"]


async def test_a_project_allowance_holds_until_revoked(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        User(on, PermissionAnswer(allowed=True, duration=PermissionDuration.PROJECT, form=ECHO))
        await run(on, "echo a")
    async with bench(server, tmp_path) as again:
        user = User(again, PermissionAnswer(False))
        await run(again, "echo b")
        assert user.asked == []
        assert summaries(again)[-1].endswith("allowed: echo … in this project")
        again.runtime.allowed_commands.remove(ECHO.dump())
        await run(again, "echo c")
        assert user.asked == ["echo c"]
    (other := tmp_path / "other").mkdir()
    async with bench(server, other) as elsewhere:
        user = User(elsewhere, PermissionAnswer(False))
        await run(elsewhere, "echo a")
        assert user.asked == ["echo a"]


async def test_stored_permissions_do_not_apply_without_a_user(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path, attended=False) as on:
        on.runtime.allowed_commands.add(ECHO.dump())
        user = User(on, PermissionAnswer(False))
        await run(on, "echo a")
        assert user.asked == ["echo a"]


async def test_a_failing_permission_store_is_reported_and_the_answer_counts(on: Bench) -> None:
    with on.runtime.database.transaction() as connection:
        connection.execute("DROP TABLE allowed_commands")
    user = User(on, PermissionAnswer(allowed=True, duration=PermissionDuration.PROJECT, form=ECHO))
    await asyncio.wait_for(run(on, "echo a", "echo b"), 30)
    assert user.asked == ["echo a"]
    told = [update.message for update in on.updates if isinstance(update, SessionFailed)]
    assert len(told) == 2 and "could not be read" in told[0] and "could not be kept" in told[1]
    assert summaries(on)[0].startswith("exit 0")


WORDS = "No, not like this:\n\n1. use make\n2. <b>keep</b> the cache. " + "And mind what I said before. " * 30
MANY = "for i in $(seq 501); do echo $i > f$i; done"
CALLS: dict[str, tuple[tuple[str, dict[str, Any]], str]] = {
    "command": (("run_command", {"command": "touch ran"}), "`touch ran`. It did not run"),
    "secret": (("read_file", {"path": ".env"}), "did not let you see .env"),
    "changes": (("run_command", {"command": MANY}), "thrown away"),
}
"""What is denied by the question's kind, and what the note on it says."""


@pytest.fixture
def wired(server: WireServer, on_wire: Bench) -> Iterator[Bench]:
    """A session on each wire, whose notes are true of where words stand."""
    (on_wire.root / ".env").write_text("KEY=hunter2\n")
    yield on_wire
    assert [misplaced(one.body) for one in server.requests if misplaced(one.body)] == []


def deny(on: Bench, kind: str, *words: str) -> None:
    """Deny what is asked of this kind, each time with the next words, and allow the rest."""
    left = list(words)

    def answer(update: Update) -> None:
        if isinstance(update, PermissionRequested):
            denied = update.permission_request.kind == kind
            answer = PermissionAnswer(allowed=not denied, feedback=left.pop(0) if denied else "")
            on.session.answer_permission_request(update.key, answer)

    on.session.subscribe(answer)


def heard(request: Request, words: str) -> list[str]:
    """Who says the words, each time that they are said."""
    return [role for role, text in request.said for _ in range(text.count(words))]


async def assert_feedback_follows_all_results(server: WireServer, on: Bench, kind: str) -> None:
    call, fact = CALLS[kind]
    deny(on, kind, WORDS)
    server.turn(calls=[call, ("read_file", {"path": "greet.py"})])
    server.turn("Looking again.", calls=[("list_files", {})])
    await on.say("Go", last="I will use make.")
    assert on.stopped == "answer"
    following = server.requests[1].said
    assert heard(server.requests[1], WORDS.strip()) == ["user"]
    place = next(at for at, (_, text) in enumerate(following) if WORDS.strip() in text)
    assert max(at for at, (role, _) in enumerate(following) if role == "tool") < place
    [note] = [text for role, text in following if role == "system" and fact in text]
    assert "own words" in note
    # It stays where it is, and is not said again.
    assert heard(server.last, WORDS.strip()) == ["user"]
    [event] = [one for one in on.events if isinstance(one, CallDeniedWithFeedback)]
    assert (event.source, event.feedback) == ("user", WORDS)
    assert WORDS.strip() not in "".join(one.text for one in on.events if isinstance(one, ToolResult))


@pytest.mark.parametrize("kind", ["command", "secret"])
async def test_feedback_of_a_denied_call_follows_all_results(server: WireServer, wired: Bench, kind: str) -> None:
    await assert_feedback_follows_all_results(server, wired, kind)


async def test_feedback_of_denied_changes_follows_all_and_nothing_is_staged(server: WireServer, on: Bench) -> None:
    await assert_feedback_follows_all_results(server, on, "changes")
    assert not on.runtime.service.all() and [each.name for each in on.root.iterdir()] == ["greet.py"]


async def test_feedback_on_several_calls_stays_separate_and_in_order(server: WireServer, wired: Bench) -> None:
    deny(wired, "command", " \n", "first word", "second word")
    await wired.say("Go", CALLS["command"][0])
    assert [text for role, text in server.last.said if role == "user"] == ["Go"], "without words there is no message"
    assert not any("own words" in text for _, text in server.last.said)
    assert [one.outcome for one in wired.events if isinstance(one, ToolResult)] == [CallOutcome.REJECTED]
    await wired.say("Again", [("run_command", {"command": f"touch {name}"}) for name in "ab"])
    spoken = [text for role, text in server.last.said if role == "user"]
    assert spoken[-2:] == ["first word", "second word"]
    told = "".join(text for role, text in server.last.said if role == "system")
    assert told.index("`touch a`") < told.index("`touch b`")


async def test_the_closing_request_contains_the_feedback_of_a_denied_call(server: WireServer, wired: Bench) -> None:
    deny(wired, "command", WORDS)
    await wired.say("Go", [edit(), CALLS["command"][0]])
    assert wired.stopped == "staged" and len(server.requests) == 2
    assert server.last.closing and heard(server.last, WORDS.strip()) == ["user"]
    role, instruction = server.last.said[-1]
    assert role == "system" and "P1" in instruction and "Do not call tools" in instruction


async def test_feedback_survives_pruning_and_a_summary(server: WireServer, wired: Bench) -> None:
    deny(wired, "command", WORDS)
    await wired.say("Go", CALLS["command"][0])
    results = tuple(one.id for one in wired.events if isinstance(one, ToolResult))
    await wired.session.log.append(ContentPruned(results=results))
    await wired.say("And?", last="Pruned.")
    assert heard(server.last, WORDS.strip()) == ["user"]
    summary = HistoryCompacted(upto=wired.events[-1].id, summary="Something was denied.", method="summary")
    await wired.session.log.append(summary)
    await wired.say("And now?", last="Summed up.")
    assert heard(server.last, WORDS.strip()) == ["user"]
    assert not any("run_command" in str(message.get("tool_calls", "")) for message in server.last.messages)


async def test_feedback_is_kept_when_escape_follows_at_once(server: WireServer, on: Bench) -> None:
    def answer(update: Update) -> None:
        if isinstance(update, PermissionRequested):
            on.session.answer_permission_request(update.key, PermissionAnswer(allowed=False, feedback=WORDS))
            on.session.interrupt()

    on.session.subscribe(answer)
    server.turn(calls=[CALLS["command"][0]])
    await on.say("Go")
    assert on.stopped == "aborted"
    await on.say("Go on", last="I see.")
    assert heard(server.last, WORDS.strip()) == ["user"]


async def test_feedback_is_stored_before_the_tool_continues(on: Bench) -> None:
    deny(on, "ignored", WORDS)
    await on.session.permission_requests.ask("c1.0", PermissionRequest("ignored", "Write?", "$ make\nbuild/", "."))
    (kept,) = on.runtime.sessions.events(on.session.id)
    assert isinstance(kept, CallDeniedWithFeedback)
    assert (kept.call, kept.asked, kept.subject, kept.feedback) == ("c1.0", "ignored", "make", WORDS)


async def test_an_old_log_with_feedback_in_the_result_sends_it_once(server: WireServer, wired: Bench) -> None:
    """There the words are in the result: they are sent once, as it was then."""
    deny(wired, "command", "")
    await wired.say("Go", CALLS["command"][0])

    def as_before(event: Event) -> Event:
        if not isinstance(event, ToolResult):
            return event
        return event.model_copy(update={"text": f"{event.text}\nThe user says:\n{WORDS}"})

    kept: tuple[list[Any], list[Any]] = (wired.session.log._events, wired.session.log._with_audience)
    for events in kept:
        events[:] = [as_before(event) for event in events]
    # As after a start: nothing of an earlier request is kept.
    wired.session.context.project = CachedPayloadBuilder().project
    await wired.say("And?", last="And?")
    assert heard(server.last, WORDS.strip()) == ["tool"]
    assert not any("own words" in text for _, text in server.last.said)
