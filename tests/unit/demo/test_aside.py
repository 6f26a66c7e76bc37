"""What the demo model says to a question that is asked aside, in the words of the real program."""

from collections.abc import Sequence
from typing import Any

import pytest

from app.agent.side_questions import SideSubject, make_briefs
from app.conversation.events import SideQuestion
from app.demo.demo_model import respond
from app.proposals.values.models import FileChange, FileDiff, FileOperation, FileVersion, Hunk, Proposal
from tests.unit.demo.player import TOOLS

DAY = "LUNAR_DAY = timedelta(hours=24)"
OLD = ("from datetime import timedelta", "", DAY, "", "", "def next_day(time):", "    return time + LUNAR_DAY")
NEW = (*OLD[:2], "LUNAR_DAY = timedelta(hours=24, minutes=50)", *OLD[3:])


def subject(*, whole: bool = False, old: Sequence[str] = OLD, new: Sequence[str] = NEW) -> SideSubject:
    hunk = Hunk(id="h", number=1, old_start=2, old_count=1, new_start=2, new_count=1)
    version = FileVersion(sha256="0" * 64, size=1)
    change = FileChange(
        path="moon.py", op=FileOperation.EDIT, base=version, result=version, hunks=(hunk,), added=1, removed=1
    )
    proposal = Proposal(id="P1", workspace="/w", created=0.0, summary="Keep the moon's time", files=(change,))
    return SideSubject(proposal, FileDiff(change=change, old=tuple(old), new=tuple(new)), None if whole else hunk)


def asked(text: str, **more: Any) -> str:
    question = SideQuestion(uid="q", proposal="P1", path="moon.py", hunk="h", number=1, text=text)
    messages: Sequence[dict[str, Any]] = [
        {"role": "system", "content": "You are signoff."},
        {"role": "user", "content": "Fix it"},
        {"role": "assistant", "content": "P1 is staged."},
        {"role": "system", "content": next(make_briefs(subject(**more), question, ()))},
        {"role": "user", "content": text},
    ]
    reply = respond({"messages": messages, "tools": TOOLS.schemas, "tool_choice": "none"})
    assert not reply.calls
    return reply.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("what calls this?", "`moon.py`: `return time + LUNAR_DAY`"),
        ("Why?", "**Keep the moon's time**"),
        ("explain it", "LUNAR_DAY = timedelta(hours=24, minutes=50)"),
    ],
)
def test_it_answers_from_the_hunk_and_what_is_around_it(text: str, said: str) -> None:
    assert said in asked(text)


def test_without_a_hunk_it_says_what_it_can_do() -> None:
    assert "know hunks only" in asked("why?", whole=True)


@pytest.mark.parametrize(
    ("line", "said"),
    [("LUNAR_DAY = 2", "Nothing that I have read names `LUNAR_DAY`"), ("spring = 2", "neither defines anything")],
    ids=["named, and used nowhere", "without a name"],
)
def test_it_says_so_where_nothing_is_found(line: str, said: str) -> None:
    assert said in asked("what calls this?", old=("", "", "neap = 1"), new=("", "", line))
