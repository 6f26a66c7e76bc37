"""What hooks put into the store: one call of a turn at a time, each upon what it has seen."""

from pathlib import Path

import pytest

from app.storage.captured_edit_store import AgentTurn, CapturedEdits, CapturedFile
from app.storage.change_signals import ChangeSignal
from app.storage.database import Database

TURN = AgentTurn("claude", "s", "p")


@pytest.fixture
def captured(tmp_path: Path) -> CapturedEdits:
    return CapturedEdits(Database(tmp_path / "signoff.db"), "/w", ChangeSignal(tmp_path / "signals", "/w"))


def file(after: bytes) -> CapturedFile:
    return CapturedFile("a.py", b"a", 0o644, after)


def test_the_calls_of_a_turn_add_to_one_proposal(captured: CapturedEdits) -> None:
    assert captured.capture(TURN, [file(b"b")]) == "P1"
    known = captured.turn("claude", "s", "p")
    assert known is not None and known.proposal == "P1"
    assert captured.capture(known, [file(b"c")], captured.files("P1")) == "P1"
    assert captured.files("P1") == [file(b"c")]


def test_a_call_that_came_second_keeps_nothing_and_has_to_look_anew(captured: CapturedEdits) -> None:
    captured.capture(TURN, [file(b"b")])
    assert captured.capture(TURN, [file(b"mine")]) == ""
    seen = captured.files("P1")
    captured.capture(TURN._replace(proposal="P1"), [file(b"c")], seen)
    assert captured.capture(TURN._replace(proposal="P1"), [file(b"mine")], seen) == ""
    assert captured.files("P1") == [file(b"c")]
