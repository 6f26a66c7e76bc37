"""What anyone says of decisions is what the record has: a change of a table is without effect on it, or is named."""

import contextlib
import json
import random
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from app.agent.decision_service import approval_event, decision_event, edit_event, undo_event
from app.conversation.events import DecisionKind, ProposalStaged, UserMessage
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import DecisionResult, Proposal
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.storage.database import MIGRATIONS
from tests.commands.test_verify import git, run
from tests.examples import scale_examples

LINES = "".join(f"line {number}\n" for number in range(40))
DECIDED = {"partly_approved", "applied", "denied", "undone"}


def columns() -> list[tuple[str, str]]:
    """All columns of all tables, so that none is forgotten."""
    connection = sqlite3.connect(":memory:")
    for statement in (statement for script in MIGRATIONS for statement in script):
        connection.execute(statement)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [
        (table, row[1])
        for table in sorted(tables)
        if not table.startswith("sqlite_")
        for row in connection.execute(f"PRAGMA table_info({table})")
    ]


class Reviews:
    """Proposals of a session and of another agent, decided in all ways."""

    def __init__(self, runtime: OpenWorkspace) -> None:
        self._runtime = runtime
        self._session = runtime.sessions.create(title="work").id
        self._say(UserMessage(text="do it"))

    def stage(self, path: str, text: str, agent: str = "") -> Proposal:
        draft = self._runtime.service.new_draft("" if agent else self._session)
        draft.origin = (
            ProposalOrigin(kind=OriginKind.AGENT, agent=agent) if agent else ProposalOrigin(model="gpt-9", host="h:1")
        )
        draft.write(path, text)
        staged = self._runtime.service.stage(draft, f"change {path}")
        if not agent:
            files = tuple(change.stat for change in staged.files)
            self._say(ProposalStaged(proposal=staged.id, summary=staged.summary, files=files, calls=()))
        return staged

    def approve(self, proposal: Proposal, hunks: list[str] | None = None, feedback: str = "") -> None:
        done = self._runtime.service.approve(proposal.id, hunks, feedback=feedback)
        self._tell(done, approval_event(done, feedback=feedback))

    def deny(self, proposal: Proposal, feedback: str = "") -> None:
        comment = LineComment(path="a.txt", line=3, side="new", quote="+x", text="why?")
        comments = (comment,) if feedback else ()
        done = self._runtime.service.deny(proposal.id, None, feedback, comments)
        self._tell(done, decision_event(done, DecisionKind.DENIED, feedback=feedback, comments=comments))

    def undo(self, proposal: Proposal) -> None:
        done = self._runtime.service.undo(proposal.id)
        self._tell(done, undo_event(done))

    def edit(self, proposal: Proposal, path: str, text: str) -> None:
        changed = self._runtime.service.replace_proposed_text(proposal.id, path, text)
        self._tell(DecisionResult(changed), edit_event(changed, path))

    def _tell(self, result: DecisionResult, event: Any) -> None:
        if result.proposal.session:
            self._say(event)
        else:
            self._runtime.sessions.record_decision(event)

    def _say(self, *events: Any) -> None:
        self._runtime.sessions.append_events(self._session, events)


@dataclass(frozen=True)
class Reviewed:
    """A folder with a home and a workspace, and what is said of the decisions in it."""

    base: Path
    said: dict[str, Any]


@pytest.fixture(scope="module")
def decided_all(tmp_path_factory: pytest.TempPathFactory) -> Reviewed:
    """A folder with a home and a repository, where decisions of all kinds were made and one commit holds some."""
    base = tmp_path_factory.mktemp("reviewed")
    root = base / "ws"
    root.mkdir()
    git(root, "init", "--quiet", "-b", "main")
    for name, value in (("user.name", "Ann"), ("user.email", "ann@example.org")):
        git(root, "config", name, value)
    (root / "a.txt").write_text(LINES)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "start")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGNOFF_HOME", str(base / "home"))
        runtime = open_workspace(root, {}, {})
        reviews = Reviews(runtime)
        part = reviews.stage("a.txt", LINES.replace("line 3\n", "three\n").replace("line 33\n", "33\n"))
        reviews.approve(part, ["1"], "only the first")
        reviews.deny(part, "not the second")
        reviews.approve(reviews.stage("new.txt", "new\n"), feedback="good")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "-m", "the model's")
        reviews.deny(reviews.stage("bad.txt", "bad\n"), "never")
        undone_one = reviews.stage("gone.txt", "gone\n")
        reviews.approve(undone_one)
        reviews.undo(undone_one)
        by_hand = reviews.stage("hand.txt", "theirs\n")
        reviews.edit(by_hand, "hand.txt", "mine\n")
        reviews.approve(by_hand)
        reviews.approve(reviews.stage("bytes.bin", "\0binary\0", "claude"), feedback="as you like")
        waits = reviews.stage("b.txt", LINES, "claude")
        reviews.approve(waits)
        half = reviews.stage("b.txt", LINES.replace("line 5\n", "five\n").replace("line 30\n", "30\n"))
        reviews.approve(half, ["1"])
        runtime.seen_lines_store.add_seen({half.id: {half.hunks[1].id: b"\1\1"}})
        # As a process leaves it that ends at once.
        runtime.service.deny(reviews.stage("c.txt", "c\n").id, None, "left over")
        with runtime.database.transaction() as connection:
            # Or it is recorded as soon as somebody looks.
            connection.execute("UPDATE unrecorded SET time = time + 86400")
        runtime.close()
        patch.chdir(root)
        assert run("log", "--verify")[0] == 0
        return Reviewed(base, said())


@pytest.fixture
def reviewed(decided_all: Reviewed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reviewed:
    """The same, from within the workspace; a copy of the database lies in `tmp_path`."""
    monkeypatch.setenv("SIGNOFF_HOME", str(decided_all.base / "home"))
    monkeypatch.chdir(decided_all.base / "ws")
    for file in (decided_all.base / "home").rglob("signoff.db*"):
        shutil.copy(file, tmp_path)
    return decided_all


@contextlib.contextmanager
def tampered(base: Path, kept: Path, statement: str, values: tuple[Any, ...]) -> Iterator[None]:
    [database] = (base / "home").rglob("signoff.db")
    try:
        with contextlib.closing(sqlite3.connect(database)) as connection, connection:
            connection.execute(statement, values)
        yield
    finally:
        for left in database.parent.glob("signoff.db*"):
            left.unlink()
        for each in kept.glob("signoff.db*"):
            shutil.copy(each, database.parent)


PROPOSALS = [f"P{number}" for number in range(1, 10)]


def said() -> dict[str, Any]:
    """What is said of decisions, by who says it; without those that know nothing of it any more."""
    found: dict[str, Any] = {"log": run("log"), "log --json": run("log", "--json")}
    found["trailers --staged"] = run("trailers", "--staged")
    code, text = run("notes", "--denials")
    found["notes"] = git(Path.cwd(), "notes", "--ref=signoff", "show", "HEAD") if code == 0 else text
    for name in PROPOSALS:
        found[f"trailers {name}"] = run("trailers", name)
        code, shown = run("show", name, "--json")
        if code == 0 and (state := json.loads(shown)["state"]) in DECIDED:
            if state == "partly_approved":
                # What waits may still change, without a decision.
                files = json.loads(shown)["files"]
                found[f"show {name}"] = [(hunk["number"], hunk["state"]) for file in files for hunk in file["hunks"]]
                continue
            found[f"show {name}"] = shown
            code, review = run("export", name, "--review")
            if code == 0:
                found[f"review {name}"] = review
    code, exported = run("export", "latest", "--format", "json")
    if code == 0:
        decisions = [event for event in json.loads(exported) if event["type"] == "proposal_decided"]
        found["session"] = [{name: value for name, value in event.items() if name != "id"} for event in decisions]
    return found


def rows_of(database: Path, table: str, column: str = "NULL") -> tuple[str, list[tuple[Any, Any]]]:
    """By which column rows are known, and of each row that and the value of another column."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        for name in ("rowid", "sha256", "path", "hunk"):
            with contextlib.suppress(sqlite3.OperationalError):
                return name, connection.execute(f"SELECT {name}, {column} FROM {table}").fetchall()
    raise AssertionError(table)


_OTHER = {
    "approved": "denied",
    "denied": "approved",
    "partly_approved": "approved",
    "applied": "denied",
    "undone": "applied",
    "pending": "applied",
    "proposal_decided": "notice",
}


def changed(value: Any, dice: random.Random) -> Any:
    if isinstance(value, bytes):
        return changed(value.decode("utf-8", "replace"), dice).encode()
    if isinstance(value, str) and value[:1] == "{":
        document = json.loads(value)
        places = [*leaves(document)]
        if dice.random() < 0.1:
            return value[: len(value) // 2]
        holder, key = dice.choice(places)
        holder[key] = changed(holder[key], dice)
        return json.dumps(document)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if value is None:
        return None
    return _OTHER.get(value, f"{value}x")


def leaves(document: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        if isinstance(value, dict | list):
            yield from leaves(value)
        else:
            yield document, key


HARMS = scale_examples(8) // 2
"""Number of harms to each column, and of rows that are removed from each table."""


@pytest.mark.parametrize(("table", "column"), columns())
def test_a_changed_database_value_is_ignored_or_reported(
    reviewed: Reviewed, tmp_path: Path, table: str, column: str
) -> None:
    known_by, rows = rows_of(tmp_path / "signoff.db", table, column)
    dice = random.Random(f"{table}.{column}")
    dice.shuffle(rows)
    harms = ((changed(value, dice), row) for row, value in rows if value is not None)
    statement = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {known_by} = ?"
    check(reviewed, tmp_path, [(statement, values) for values in islice(harms, HARMS)])


@pytest.mark.parametrize("table", sorted({table for table, _ in columns()}))
def test_a_removed_database_row_is_ignored_or_reported(reviewed: Reviewed, tmp_path: Path, table: str) -> None:
    known_by, rows = rows_of(tmp_path / "signoff.db", table)
    random.Random(table).shuffle(rows)
    statement = f"DELETE FROM {table} WHERE {known_by} = ?"
    check(reviewed, tmp_path, [(statement, (row,)) for row, _ in rows[:HARMS]])


def check(reviewed: Reviewed, kept: Path, harms: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
    """Carry out each statement by itself, and compare what is said with what was said before.

    What is named may differ: of such harms, only the first is gone through for what becomes of the commands.
    """
    before, is_named = reviewed.said, False
    for statement, values in harms:
        with tampered(reviewed.base, kept, statement, values):
            code, named = run("log", "--verify")
            if is_named and code and named:
                continue
            is_named = bool(code and named)
            after = said()
        differ = [who for who in after if after[who] != before[who]]
        assert not differ or is_named, (statement, values, [(before[who], after[who]) for who in differ[:1]])
