"""One queue by need over all origins: its order, the way through it, what was read of it, and what needs the user."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversation.events import Question
from app.proposals.values.attention_reason import AttentionReason, ReasonKind
from app.proposals.values.models import Proposal
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.review.review_state import order_by_urgency
from app.runtime.model_connection import connect_model, create_or_resume_session
from app.storage.process_coordination import SessionLock
from app.tools.base.contract import PermissionAnswer
from app.ui.controllers.review_services import ReadingPace
from app.ui.terminal.attention import window_title
from tests.ui.running_app import Running, running
from tests.ui.sample_diffs import file_diff, proposal
from tests.wire.server import WireServer

RISK = AttentionReason(kind=ReasonKind.UNASKED, path="a.py")
KINDS = (OriginKind.MODEL, OriginKind.AGENT, OriginKind.PATCH, OriginKind.DISK)


def waiting(number: int, kind: OriginKind, *, risky: bool = False, above: tuple[str, ...] = ()) -> Proposal:
    made = proposal(f"P{number}", [file_diff(f"f{number}.py", "a\n", "b\n")], "Edit")
    files = tuple(change.model_copy(update={"stacked_on": above}) for change in made.files)
    return made.model_copy(
        update={
            "origin": ProposalOrigin(kind=kind),
            "created": float(number),
            "reasons": (RISK,) if risky else (),
            "files": files,
        }
    )


def test_blocked_agents_come_first_then_risks_then_the_oldest() -> None:
    items = [
        waiting(1, OriginKind.PATCH, risky=True),
        waiting(2, OriginKind.PATCH),
        waiting(3, OriginKind.AGENT),
        waiting(4, OriginKind.MODEL, risky=True),
        waiting(5, OriginKind.COMMAND),
    ]
    for given_order in itertools.permutations(items):
        assert [one.id for one in order_by_urgency(given_order)] == ["P4", "P3", "P5", "P1", "P2"]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.booleans(), st.sets(st.integers(1, 8))), min_size=1, max_size=8))
def test_no_proposal_comes_before_one_that_it_builds_on(drawn: list[tuple[OriginKind, bool, set[int]]]) -> None:
    items = [
        waiting(number, kind, risky=risky, above=tuple(f"P{one}" for one in sorted(below) if one < number))
        for number, (kind, risky, below) in enumerate(drawn, 1)
    ]
    ordered = [one.id for one in order_by_urgency(items)]
    assert sorted(ordered) == sorted(one.id for one in items)
    for item in items:
        for name in item.files[0].stacked_on:
            assert ordered.index(name) < ordered.index(item.id)


async def stage(run: Running, *files: tuple[str, int], **origin: Any) -> None:
    """Stage a proposal for each file, given by its name and lines, and wait until they are listed."""
    service, before = run.runtime.service, run.app.workbench.waiting
    for name, lines in files:
        draft = service.new_draft("")
        draft.write(name, "".join(f"{name} {number}\n" for number in range(lines)))
        draft.origin = ProposalOrigin(**origin)
        service.stage(draft, f"Add {name}")
    await run.app.show_proposals()
    await run.until(lambda: run.app.workbench.waiting == before + len(files), "the proposals")


async def see_proposal(run: Running, name: str) -> None:
    await run.until(lambda: run.app.workbench.review.state.current == name, f"{name} to be shown")
    await run.review()


async def test_one_key_visits_all_unread_lines_where_reading_stopped_and_counts_them(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server, size=(160, 45)) as run:
        await stage(run, ("a.txt", 60), ("b.txt", 70), ("c.txt", 3), kind=OriginKind.PATCH)
        await run.review()
        await see_proposal(run, "P1")
        await run.see("of 133 lines")
        assert " min" not in run.text
        await run.pilot.press("J")
        await see_proposal(run, "P2")
        await run.pilot.press("K")
        await see_proposal(run, "P1")
        shown = ["P1"]
        for _ in range(20):
            await run.pilot.press("right_parenthesis")
            await run.painted()
            if (now := run.app.workbench.review.state.current) != shown[-1]:
                shown.append(now)
                await see_proposal(run, now)
                if now == "P2":
                    await run.until(lambda: run.app.workbench.review.view.scroll_offset.y > 5, "the unseen lines")
        assert shown == ["P1", "P2", "P3"]
        await run.see("read 133 of 133 lines")
        await run.pilot.press("right_parenthesis")
        await run.see("Everything that would be written has been on screen.")


async def test_the_remaining_reading_time_is_shown_if_enabled(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(160, 45), reading={"pace": True}) as run:
        run.runtime.sessions.set_setting("reading pace", "1200 100")
        await stage(run, ("a.txt", 90), kind=OriginKind.PATCH)
        await run.review()
        await run.see("of 90 lines", " min")


def test_the_reading_pace_ignores_pauses_and_needs_some_lines() -> None:
    pace = ReadingPace()
    pace.record_read_lines(10, 100.0)
    pace.record_read_lines(40, 130.0)
    assert pace.minutes_for(60) is None
    pace.record_read_lines(50, 1000.0)
    pace.record_read_lines(70, 1020.0)
    assert pace.minutes_for(60) == pytest.approx(1.0)
    again = ReadingPace()
    again.restore(pace.stored_form)
    assert again.minutes_for(60) == pytest.approx(1.0)
    again.restore("nonsense")
    assert again.minutes_for(60) == pytest.approx(1.0)


async def test_f6_focuses_a_permission_a_question_or_a_proposal(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(160, 45)) as run:
        await run.pilot.press("f6")
        await run.see("Nothing needs you in this workspace.")
        await stage(run, ("a.txt", 3), kind=OriginKind.PATCH)
        await run.pilot.press("f6")
        await run.until(lambda: run.app.workbench.is_in_review, "the review")
        await run.pilot.press("f2")
        server.call("ask_user", {"question": "Which?", "options": ["a", "b"]})
        await run.say("ask me")
        await run.pilot.press("f4", "f6")
        await run.until(lambda: run.app.workbench.is_in_composer, "the question")
        server.call("run_command", {"command": "echo hello"})
        server.say("It ran.")
        await run.write("a")
        await run.pilot.press("enter")
        await run.see("Needs your permission")
        await run.pilot.press("f2", "f6")
        await run.until(lambda: run.app.workbench.is_in_review, "the permission")


async def test_f6_opens_the_session_whose_model_asks(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(160, 45)) as run:
        server.call("ask_user", {"question": "Which of them?", "options": ["a", "b"]})
        await run.say("ask me")
        first = run.app.require_session().id
        await run.command("new")
        await run.until(lambda: run.app.require_session().id != first, "the new session")
        await run.pilot.press("f6")
        await run.until(lambda: run.app.require_session().id == first, "the session that asks")
        await run.see("Which of them?")


async def test_f6_names_what_waits_in_another_window(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(160, 45)) as run:
        record = run.runtime.sessions.create(model="test-model")
        run.runtime.sessions.rename(record.id, "Elsewhere")
        other = create_or_resume_session(run.runtime, connect_model(run.runtime), record, attended=True)
        server.call("run_command", {"command": "echo hello"})
        server.say("It did not run.")
        turn = asyncio.create_task(other.send("run it"))
        await run.until(lambda: other.permission_requests.open_requests, "the permission request")
        await run.pilot.press("f6")
        await run.told("The model of “Elsewhere” needs your permission, in its own window.")
        for key in list(other.permission_requests.open_requests):
            other.answer_permission_request(key, PermissionAnswer(allowed=False))
        await turn
        await other.wait_until_idle()
        await run.pilot.press("f6")
        await run.told("Nothing needs you in this workspace.")
        await other.close()
        # F6 names the session that another window has.
        asking = run.runtime.sessions.create(model="m")
        run.runtime.sessions.rename(asking.id, "Elsewhere")
        run.runtime.sessions.append_events(asking.id, [Question(call="c1.0", text="Which?")])
        lock = SessionLock(run.runtime.dirs.session_lock(asking.id))
        lock.acquire()
        await run.pilot.press("f6")
        await run.told("The model of “Elsewhere” asks you something, in its own window.")


@pytest.mark.parametrize(
    ("needed", "folder", "title"),
    [(0, "work", "signoff - work"), (3, "a\x1b]2;b\a", "signoff (3) - a]2,b"), (1, "x\ny", "signoff (1) - x y")],
)
def test_the_window_title_has_the_count_and_no_control_characters(needed: int, folder: str, title: str) -> None:
    assert window_title(needed, folder) == title
