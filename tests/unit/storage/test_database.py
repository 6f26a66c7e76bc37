"""The database: private, migrated, never overwritten, durable."""

import os
import pickle
import re
import signal
import sqlite3
import stat
import tracemalloc
from contextlib import closing
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import ValidationError

import app.storage
from app.conversation.events import (
    AssistantMessage,
    ContentPruned,
    DecisionKind,
    Event,
    HistoryCompacted,
    MessageQueued,
    ProposalChanged,
    ProposalDecided,
    ProposalStaged,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from app.conversation.payload.history import read_omissions
from app.proposals.values.models import FileChange, FileOperation, Hunk, Proposal
from app.storage import StorageError
from app.storage.app_dirs import HOME_VARIABLE, find_app_dirs
from app.storage.captured_edit_store import CapturedAgentTurn, CapturedEditStore, CapturedFileEdit
from app.storage.database import MIGRATIONS, Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.session_store import SessionStore
from app.storage.sqlite_proposal_store import SqliteProposalStore
from tests.unit.conversation.histories import Simulation, sessions
from tests.unit.proposals.faults import in_child


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(
        Database(tmp_path / "state" / "signoff.db"), "/w", DatabaseChangeSignal(tmp_path / "signals", "/w")
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_state_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "state" / "signoff.db"
    database = Database(path)
    with database.transaction() as connection:
        connection.execute("INSERT INTO blobs (sha256, data) VALUES ('a', x'00')")
    assert mode(path.parent) == 0o700
    files = [mode(found) for found in path.parent.iterdir()]
    assert len(files) >= 2, "the write-ahead log lies beside it"
    assert set(files) == {0o600}
    Database(path).close()
    path.chmod(0o644)
    path.parent.chmod(0o755)
    Database(path).close()
    assert (mode(path.parent), mode(path)) == (0o700, 0o600)


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "signoff.db"
    Database(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    connection.close()
    before, descriptors = path.read_bytes(), len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(StorageError, match="newer signoff") as raised:
        Database(path)
    assert path.read_bytes() == before
    assert len(list(Path("/dev/fd").iterdir())) <= descriptors, f"open while {raised.value} is told"


def test_a_damaged_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "signoff.db"
    Database(path).close()
    schema = path.read_bytes().replace(b"tabledecisions", b"table\xe3ecisions")
    schema = schema.replace(b"CREATE TABLE decisions", b"CREATE TABLX decisions")
    for content in (b"this is not a database, but it is somebody's file" * 40, b"SQLite format 3\0junk" * 99, schema):
        path.write_bytes(content)
        with pytest.raises(StorageError, match="damaged") as caught:
            Database(path)
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="SIGNOFF_HOME"):
        Database(tmp_path / "file" / "signoff.db")


def test_a_new_database_that_another_process_is_opening_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "signoff.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr("app.storage.database.time.sleep", lambda _: other.execute("COMMIT"))
        Database(path).close()


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "signoff.db")
    with pytest.raises(RuntimeError), database.transaction() as connection:
        connection.execute("INSERT INTO blobs (sha256, data) VALUES ('a', x'00')")
        raise RuntimeError
    assert database.query_rows("SELECT * FROM blobs") == []
    with database.transaction() as connection:
        connection.execute("INSERT INTO blobs (sha256, data) VALUES ('a', x'00')")
    assert len(database.query_rows("SELECT * FROM blobs")) == 1


def test_appended_events_survive_sigkill(tmp_path: Path) -> None:
    def opened() -> SessionStore:
        return SessionStore(Database(tmp_path / "signoff.db"), "/w", DatabaseChangeSignal(tmp_path / "signals", "/w"))

    def append() -> None:
        store = opened()
        record = store.create()
        for number in range(5):
            store.append_events(record.id, [UserMessage(text=str(number))])
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(append) == signal.SIGKILL
    store = opened()
    (record,) = store.all()
    events = store.events(record.id)
    assert [event.text for event in events if isinstance(event, UserMessage)] == ["0", "1", "2", "3", "4"]


def test_events_are_stored_and_read_unchanged(store: SessionStore) -> None:
    record = store.create(model="m")
    stored = store.append_events(record.id, [UserMessage(text="a\n\ttab ☃ \x00"), UserMessage(text="")])
    assert [event.id for event in stored] == sorted(event.id for event in stored) and stored[0].time > 0
    assert store.events(record.id) == stored
    assert store.events(record.id, after=stored[0].id) == stored[1:]
    assert store.get(record.id).title == "a tab ☃ \x00"


def test_sessions_are_found_by_a_unique_id_prefix(store: SessionStore) -> None:
    record = store.create()
    store.append_events(record.id, [UserMessage(text="hello")])
    assert store.get(record.id[:4]).id == record.id
    for wrong in ("", "%", "zzzz", "_" * 8):
        with pytest.raises(StorageError, match="There is no session"):
            store.get(wrong)
    ids = {store.create().id for _ in range(17)}
    shared = next(first for first in "0123456789abcdef" if sum(one.startswith(first) for one in ids) > 1)
    with pytest.raises(StorageError, match="give more of the id"):
        store.get(shared)


def test_a_session_is_listed_with_the_model_that_answered_last(store: SessionStore) -> None:
    record = store.create(model="a slip")
    store.append_events(record.id, [UserMessage(text="hello")])
    assert store.get(record.id).model == "a slip"
    answers = [AssistantMessage(text="hi", model="large"), AssistantMessage(text="so", model="small")]
    store.append_events(record.id, answers)
    assert [one.model for one in store.all()] == ["small"]


def test_a_fork_is_independent_and_has_no_queued_messages(store: SessionStore) -> None:
    record = store.create()
    said = store.append_events(record.id, [UserMessage(text="one"), UserMessage(text="two"), MessageQueued(text="x")])
    fork = store.fork(record.id, upto=said[0].id)
    store.append_events(fork.id, [UserMessage(text="three")])
    texts = [event.text for event in store.events(fork.id) if isinstance(event, UserMessage)]
    assert texts == ["one", "three"]
    assert store.events(record.id) == said
    assert [event.type for event in store.events(store.fork(record.id).id)] == ["user_message"] * 2


def test_a_fork_keeps_times_and_a_deletion_the_decisions(store: SessionStore) -> None:
    record = store.create()
    decided = ProposalDecided(proposal="P1", decision=DecisionKind.DENIED, feedback="no")
    said = store.append_events(record.id, [decided])
    fork = store.fork(record.id)
    assert [event.time for event in store.events(fork.id)] == [event.time for event in said]
    assert [(one.session, one.decided.proposal) for one in store.decisions()] == [(record.id, "P1")]
    store.delete([record.id, fork.id])
    assert store.all() == []
    assert [one.decided.feedback for one in store.decisions()] == ["no"]


def test_settings_are_kept_by_workspace(store: SessionStore, tmp_path: Path) -> None:
    other = SessionStore(store._database, "/other", DatabaseChangeSignal(tmp_path / "signals", "/other"))
    store.set_setting("draft", "half a sentence")
    store.set_setting("learned", "x", shared=True)
    assert (store.setting("draft"), other.setting("draft")) == ("half a sentence", None)
    assert other.setting("learned", shared=True) == "x"
    store.set_setting("draft", None)
    assert store.setting("draft") is None


def test_a_fork_compacts_and_prunes_its_own_events(store: SessionStore) -> None:
    record = store.create()
    said = store.append_events(record.id, [UserMessage(text=text) for text in ("one", "two", "three")])
    results = (said[0].id, said[1].id)
    store.append_events(record.id, [HistoryCompacted(upto=said[1].id, summary="so far", method="summary")])
    store.append_events(record.id, [ContentPruned(results=results)])
    fork = store.fork(record.id)
    one, two, _, compacted, pruned = store.events(fork.id)
    assert isinstance(compacted, HistoryCompacted) and compacted.upto == two.id
    assert isinstance(pruned, ContentPruned) and pruned.results == (one.id, two.id)
    assert read_omissions(store.events(fork.id)).cut == read_omissions(store.events(record.id)).cut == 1


@pytest.mark.parametrize("body", ["{", '{"written": "by a later version"}', "null"])
def test_a_row_that_cannot_be_read_is_one_clear_line(store: SessionStore, tmp_path: Path, body: str) -> None:
    database = store._database
    proposals = SqliteProposalStore(database, "/w", DatabaseChangeSignal(tmp_path / "signals", "/w"))
    record = store.create()
    store.append_events(record.id, [ProposalDecided(proposal="P1", decision=DecisionKind.DENIED)])
    with database.transaction() as connection:
        connection.execute("INSERT INTO proposals VALUES ('/w', 1, '', 'pending', 1, 0, ?)", (body,))
        connection.execute("INSERT INTO proposals VALUES ('/w', 2, '', 'denied', 0, 0, ?)", (body,))
        connection.execute("INSERT INTO journal VALUES (1, '/w', 'P1', 'open', 0, ?)", (body,))
        connection.execute("UPDATE decisions SET body = ?", (body,))
        connection.execute("UPDATE events SET body = ?", (body,))
    for reading in (
        lambda: proposals.proposal("P1"),
        proposals.proposals,
        proposals.recent_proposals,
        proposals.journal_records,
        store.decisions,
        lambda: store.events(record.id),
    ):
        with pytest.raises(StorageError) as caught:
            reading()
        assert "update signoff" in str(caught.value) and "\n" not in str(caught.value)


def test_commits_are_flushed_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = 2  # https://www.sqlite.org/pragma.html#pragma_synchronous
    connect = sqlite3.connect

    def elsewhere(*arguments: Any, **named: Any) -> sqlite3.Connection:
        # As on macOS, whose SQLite is built with SQLITE_DEFAULT_WAL_SYNCHRONOUS=1.
        connection: sqlite3.Connection = connect(*arguments, **named)
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    monkeypatch.setattr(sqlite3, "connect", elsewhere)
    database = Database(tmp_path / "signoff.db")
    assert database.query_rows("PRAGMA synchronous") == [(full,)]
    assert database.query_rows("PRAGMA journal_mode") == [("wal",)]


def test_a_fork_receives_rebases_of_its_proposals(store: SessionStore) -> None:
    record, stranger = store.create(), store.create()
    store.append_events(record.id, [ProposalStaged(proposal="P1", summary="Edit", files=(), calls=())])
    fork = store.fork(record.id)
    store.append_events(record.id, [ProposalChanged(proposal="P1", state="pending")])
    assert [event.type for event in store.events(fork.id)] == ["proposal_staged", "proposal_changed"]
    store.append_events(fork.id, [ProposalChanged(proposal="P1", state="stale", reason="It no longer fits.")])
    assert [event.type for event in store.events(record.id)].count("proposal_changed") == 2
    assert store.events(stranger.id) == []
    assert [event.type for event in store.events(store.fork(fork.id).id)].count("proposal_changed") == 2
    assert [event.type for event in store.events(record.id)].count("proposal_changed") == 2


@pytest.mark.parametrize(
    ("state", "decision", "feedback"),
    [("applied", "approved", ""), ("denied", "denied", "Not so."), ("undone", "undone", ""), ("superseded", "", "")],
)
def test_unrecorded_rows_of_old_versions(tmp_path: Path, state: str, decision: str, feedback: str) -> None:
    path = tmp_path / "signoff.db"
    before = next(at for at, each in enumerate(MIGRATIONS) if "ALTER TABLE unrecorded" in each[0])
    with sqlite3.connect(path) as connection:
        for statement in (statement for script in MIGRATIONS[:before] for statement in script):
            connection.execute(statement)
        connection.execute("INSERT INTO unrecorded VALUES ('here', 'P12', 5)")
        connection.execute(
            "INSERT INTO proposals VALUES ('here', 12, '', ?, 0, 1, ?)", (state, '{"feedback": "Not so."}')
        )
        connection.execute(f"PRAGMA user_version = {before}")
    connection.close()
    store = SqliteProposalStore(Database(path), "here", DatabaseChangeSignal(tmp_path, "here"))
    found = [(name, last.decision, last.feedback) for name, last in store.unrecorded_decisions()]
    assert found == ([("P12", decision, feedback)] if decision else [])


def test_no_statement_numbers_its_placeholders() -> None:
    """SQLite takes `?1`, but Python 3.12 and 3.13 warn of it, and 3.14 refuses it where the values are a sequence."""
    folder = Path(app.storage.__file__).parent
    assert not [path.name for path in folder.glob("*.py") if re.search(r"\?\d", path.read_text(encoding="utf-8"))]


def _survives_json(event: Event) -> bool:
    """Return whether JSON can hold all of an event: neither a half surrogate pair nor NaN is in it."""
    try:
        return type(event).model_validate_json(event.model_dump_json()) == event
    except ValueError:
        return False


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(simulated=sessions())
def test_events_are_read_as_stored(simulated: Simulation, tmp_path_factory: pytest.TempPathFactory) -> None:
    log = [event for event in simulated.events if _survives_json(event)]
    folder = tmp_path_factory.mktemp("state")
    database = Database(folder / "signoff.db")
    try:
        store = SessionStore(database, "/w", DatabaseChangeSignal(folder / "signals", "/w"))
        session = store.create().id
        stored = store.append_events(session, log)
        read = store.events(session)
    finally:
        database.close()
    assert list(read) == list(stored)
    for given_one, *kept in zip(log, stored, read, strict=True):
        for event in kept:
            expected = given_one.model_copy(update={"id": event.id, "time": event.time})
            assert event == expected
            assert event.model_dump_json() == expected.model_dump_json()
            assert pickle.loads(pickle.dumps(event)) == deepcopy(event) == event.model_copy() == event
            assert event.model_copy(update={"id": 0}).id == 0
            with pytest.raises(ValidationError):
                event.id = 0


def test_a_long_log_is_read_completely_with_little_memory(store: SessionStore) -> None:
    turn: list[Event] = [TurnStarted(cause="message"), UserMessage(text="one"), TurnEnded(stopped="answer")]
    record = store.create()
    stored = store.append_events(record.id, turn * 1_000)
    tracemalloc.start()
    try:
        read = store.events(record.id)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read == stored
    assert held < 700 * len(read), f"{held / len(read):.0f} bytes for a short event"
    assert most < held + 180 * len(read), "what is read is not held twice"
    assert [event.model_dump_json() for event in read[:3]] == [event.model_dump_json() for event in stored[:3]]


def test_a_stored_proposal_takes_little_memory(tmp_path: Path) -> None:
    store = SqliteProposalStore(Database(tmp_path / "db"), "/w", DatabaseChangeSignal(tmp_path, "/w"))
    hunks = tuple(
        Hunk(id=str(at), number=at, old_start=at, old_count=1, new_start=at, new_count=1) for at in range(1, 21)
    )
    files = (FileChange(path="a", op=FileOperation.EDIT, base=None, result=None, hunks=hunks),)
    kept = [
        Proposal(id=f"P{number}", workspace="/w", created=1.0, summary="An edit", files=files)
        for number in range(1, 31)
    ]
    for one in kept:
        store.save_proposal(one)
    store.proposal("P1")
    tracemalloc.start()
    try:
        read = store.proposals()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert read == kept
    assert read[1].model_dump_json() == kept[1].model_dump_json()
    assert held < 800 * len(read) * len(hunks), f"{held / len(read) / len(hunks):.0f} bytes for a hunk"


def test_two_connections_of_a_process_see_what_others_write(tmp_path: Path) -> None:
    path = tmp_path / "signoff.db"

    def write(key: str) -> None:
        database = Database(path)
        with database.transaction() as connection:
            connection.execute("INSERT INTO settings VALUES ('', ?, '')", (key,))
        database.close()

    first = Database(path)
    with first.transaction() as connection:
        connection.execute("INSERT INTO settings VALUES ('', 'ours', '')")
        # A current one opens while another writes.
        Database(path).close()
    second = Database(path)
    keys = {("ours",)}
    for key in ("a", "b", "c"):
        assert in_child(partial(write, key)) == 0
        keys.add((key,))
        for database in (first, second):
            assert set(database.query_rows("SELECT key FROM settings")) == keys
    first.close()
    second.close()


def test_a_title_is_the_first_real_message_unless_the_user_gave_one(store: SessionStore) -> None:
    for said, title in (
        (["hi", "Bound the retry loop in client.py"], "Bound the retry loop in client.py"),
        (["Bound the retry loop", "and now write the changelog of it"], "Bound the retry loop"),
        (["hi", "go on"], "hi"),
        (["修复重试循环", "please say that in English words"], "修复重试循环"),
        (["Why this?\n\n  Traceback (most recent call last)"], "Why this? Traceback (most recent call last)"),
        (["x" * 200], "x" * 79 + "…"),
    ):
        messages = [UserMessage(text=text) for text in said]
        for batches in ([messages], [[message] for message in messages]):
            record = store.create()
            for batch in batches:
                store.append_events(record.id, batch)
            assert store.get(record.id).title == title
    store.rename(record.id, "auth")
    store.append_events(record.id, [UserMessage(text="a message that would be a good title")])
    assert store.get(record.id).title == "auth"


def test_a_misplaced_configuration_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert find_app_dirs().misplaced_config_file is None
    (tmp_path / "config.toml").touch()
    assert find_app_dirs().misplaced_config_file == tmp_path / "config.toml"
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.toml").touch()
    assert find_app_dirs().misplaced_config_file is None
    monkeypatch.delenv(HOME_VARIABLE)
    assert find_app_dirs().misplaced_config_file is None, "in the folders of the platform none is"


def test_a_concurrent_capture_stores_nothing_and_must_retry(tmp_path: Path) -> None:
    changes = DatabaseChangeSignal(tmp_path / "signals", "/w")
    captured = CapturedEditStore(Database(tmp_path / "signoff.db"), "/w", changes)
    turn = CapturedAgentTurn("claude", "s", "p")

    def file(after: bytes) -> CapturedFileEdit:
        return CapturedFileEdit("a.py", b"a", 0o644, after)

    captured.store_edits(turn, [file(b"b")])
    assert captured.store_edits(turn, [file(b"mine")]) == ""
    seen = captured.captured_files("P1")
    captured.store_edits(turn._replace(proposal="P1"), [file(b"c")], seen)
    assert captured.store_edits(turn._replace(proposal="P1"), [file(b"mine")], seen) == ""
    assert captured.captured_files("P1") == [file(b"c")]


def test_proposals_in_use_are_not_parsed_again(tmp_path: Path) -> None:
    store = SqliteProposalStore(Database(tmp_path / "db"), "here", DatabaseChangeSignal(tmp_path, "here"))
    one = Proposal(id="P1", workspace="here", created=1.0, summary="An edit", files=())
    store.save_proposal(*(one.model_copy(update={"id": f"P{number}"}) for number in range(1, 101)))
    held = store.recent_proposals()
    assert len(held) == 100
    assert all(before is after for before, after in zip(held, store.recent_proposals(), strict=True))
    store.save_proposal(one.model_copy(update={"summary": "Another"}))
    assert store.recent_proposals()[0].summary == "Another"
