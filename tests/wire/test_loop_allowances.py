"""What the user allowed once is asked again, for the session not again, for the project never again until revoked."""

import asyncio
from pathlib import Path

import pytest

from app.agent.permission_requests import Allowances
from app.agent.updates import ConfirmationRequested, SessionFailed, Update
from app.conversation.events import ToolResult
from app.tools.base.command_forms import CommandForm
from app.tools.base.contract import Confirmation, ConfirmationAnswer, PermissionScope
from tests.wire.bench import Bench, bench
from tests.wire.server import WireServer

ECHO = CommandForm(("echo",), open=True)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))


class User:
    """Answers what is asked, each time with the next answer, the last one for ever."""

    def __init__(self, on: Bench, *answers: ConfirmationAnswer) -> None:
        self.asked: list[str] = []
        self._on = on
        self._answers = list(answers)
        on.session.subscribe(self._answer)

    def _answer(self, update: Update) -> None:
        if isinstance(update, ConfirmationRequested):
            self.asked.append(update.confirmation.detail)
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            self._on.session.confirm(update.key, answer)


async def run(on: Bench, *commands: str) -> None:
    for command in commands:
        on.server.turn(calls=[("run_command", {"command": command})])
        on.server.say("Done.")
        await on.say(f"Run {command}")


def summaries(on: Bench) -> list[str]:
    return [event.summary for event in on.events if isinstance(event, ToolResult)]


async def test_without_a_form_only_the_very_same_is_allowed_for_the_session(
    server: WireServer, tmp_path: Path
) -> None:
    async with bench(server, tmp_path) as on:
        user = User(
            on, ConfirmationAnswer(allowed=True), ConfirmationAnswer(allowed=True, span=PermissionScope.SESSION)
        )
        await run(on, "echo a", "echo a", "echo a", "echo b")
        assert user.asked == ["echo a", "echo a", "echo b"]


async def test_a_command_that_is_allowed_lets_no_secret_of_its_name_be_read(
    server: WireServer, tmp_path: Path
) -> None:
    async with bench(server, tmp_path) as on:
        (on.root / ".env").write_text("KEY=1\n")
        form = CommandForm((".env",), open=True)
        user = User(on, ConfirmationAnswer(True, span=PermissionScope.SESSION, form=form), ConfirmationAnswer(False))
        await run(on, ".env")
        server.turn(calls=[("read_file", {"path": ".env"})])
        server.say("Done.")
        await on.say("Read it")
        assert user.asked == [".env", ".env"]


async def test_what_a_command_has_changed_is_asked_about_each_time() -> None:
    asked = Confirmation("changes", "Keep what it changed?", "make", ".")
    allowances = Allowances()
    await allowances.remember(asked, ConfirmationAnswer(allowed=True, span=PermissionScope.SESSION))
    assert await allowances.covering(asked) == ""


async def test_the_first_answer_counts(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        User(on, ConfirmationAnswer(True))
        User(on, ConfirmationAnswer(False))
        await run(on, "echo a")
        assert summaries(on)[-1].startswith("exit 0")


async def test_a_no_allows_nothing_whatever_it_is_said_for(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        same, form = (
            ConfirmationAnswer(False, span=PermissionScope.SESSION),
            ConfirmationAnswer(False, span=PermissionScope.PROJECT, form=ECHO),
        )
        user = User(on, same, form, ConfirmationAnswer(False))
        await run(on, "echo a", "echo a", "echo a")
        assert user.asked == ["echo a"] * 3
        assert on.runtime.allowed_commands.forms() == []


async def test_a_form_covers_others_of_it_but_nothing_that_does_more(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        user = User(
            on, ConfirmationAnswer(allowed=True, span=PermissionScope.SESSION, form=ECHO), ConfirmationAnswer(False)
        )
        more = ["echo a; touch x", "echo a && touch x", "echo a | tee x", "echo a > x", "echo $(touch x)", "A=b echo"]
        await run(on, "echo a", "echo 'b c' *", *more)
        assert user.asked == ["echo a", *more]
        assert not (on.root / "x").exists()
        assert summaries(on)[1].endswith("allowed: echo … in this session")
    async with bench(server, tmp_path) as again:
        user = User(again, ConfirmationAnswer(False))
        await run(again, "echo a")
        assert user.asked == ["echo a"]


async def test_what_is_allowed_in_the_project_outlives_the_session_until_it_is_revoked(
    server: WireServer, tmp_path: Path
) -> None:
    async with bench(server, tmp_path) as on:
        User(on, ConfirmationAnswer(allowed=True, span=PermissionScope.PROJECT, form=ECHO))
        await run(on, "echo a")
    async with bench(server, tmp_path) as again:
        user = User(again, ConfirmationAnswer(False))
        await run(again, "echo b")
        assert user.asked == []
        assert summaries(again)[-1].endswith("allowed: echo … in this project")
        again.runtime.allowed_commands.remove(ECHO.dump())
        await run(again, "echo c")
        assert user.asked == ["echo c"]
    (other := tmp_path / "other").mkdir()
    async with bench(server, other) as elsewhere:
        user = User(elsewhere, ConfirmationAnswer(False))
        await run(elsewhere, "echo a")
        assert user.asked == ["echo a"]


async def test_nothing_is_allowed_beforehand_where_no_user_is(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path, attended=False) as on:
        on.runtime.allowed_commands.add(ECHO.dump())
        user = User(on, ConfirmationAnswer(False))
        await run(on, "echo a")
        assert user.asked == ["echo a"]


async def test_a_store_that_fails_asks_and_says_so_and_a_yes_stays_a_yes(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        with on.runtime.database.transaction() as connection:
            connection.execute("DROP TABLE allowed_commands")
        user = User(on, ConfirmationAnswer(allowed=True, span=PermissionScope.PROJECT, form=ECHO))
        await asyncio.wait_for(run(on, "echo a", "echo b"), 30)
        assert user.asked == ["echo a"]
        told = [update.message for update in on.updates if isinstance(update, SessionFailed)]
        assert len(told) == 2 and "could not be read" in told[0] and "could not be kept" in told[1]
        assert summaries(on)[0].startswith("exit 0")
