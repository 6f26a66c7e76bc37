"""The record: what each decision leaves in it, and that no change of an entry goes unnoticed."""

import hashlib
import json
import random
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from app.agent.decision_service import approval_event, decision_event, undo_event
from app.conversation.events import DecisionKind
from app.proposals.decide.proposal_commits import decisions_leading_to
from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.proposal_service import ProposalService
from app.proposals.values.decision_facts import DecisionContext, LineComment, RecordedCheckResult
from app.proposals.values.record_entries import LATEST, DecisionRecordEntry, git_blob_id
from app.sandbox.captured_changes import WrittenIgnoredPath
from app.storage import StorageError
from app.storage.database import Database
from app.storage.record_store import ChainVerification, DecisionRecordReader, TablesAndRecordComparer
from app.workspace.paths import Workspace
from tests.examples import scale_examples
from tests.unit.proposals.faults import Steps, Watched, in_child, kill
from tests.unit.proposals.repositories import git
from tests.unit.storage.test_pruning import Bench
from widgets.diff.file_facts import proposal_notes


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def entries(bench: Bench) -> list[DecisionRecordEntry]:
    verified = DecisionRecordReader(bench.database, bench.name).verify_chain()
    assert verified.broken == ()
    return list(verified.entries)


def wrong(bench: Bench) -> list[str]:
    """What verification names, beside entries."""
    verified = DecisionRecordReader(bench.database, bench.name).verify_chain()
    return [*TablesAndRecordComparer(bench.database, bench.name, verified).find_differences()]


def lines(**changed: str) -> str:
    return "".join(changed.get(f"line_{number}", f"line {number}") + "\n" for number in range(30))


def test_a_partial_approval_records_content_before_and_after(bench: Bench) -> None:
    git(bench.root, "init", "--quiet")
    (bench.root / "a.txt").write_text(lines())
    git(bench.root, "add", "--all")
    base = git(bench.root, "rev-parse", ":a.txt").decode().strip()
    name = bench.stage("a.txt", lines(line_2="two", line_15="fifteen", line_28="no"))
    red = RecordedCheckResult(name="tests", state="failed", words="1 failed")
    seen = DecisionContext(through="app", unseen_lines=2, unseen_files=("a.txt",), checks=(red,))
    bench.service.approve(name, ["1", "3"], circumstances=seen)
    bench.service.deny(name, None, "not this\none")
    git(bench.root, "add", "--all")
    result = git(bench.root, "rev-parse", ":a.txt").decode().strip()
    approved, denied = entries(bench)
    assert [(file.path, file.base, file.result) for file in approved.files] == [("a.txt", base, result)]
    assert (approved.hunks.approved, approved.hunks.waiting) == ((1, 3), (2,))
    assert (approved.decision, approved.number, approved.before) == ("partly_approved", 1, "")
    assert approved.circumstances == seen
    assert [(file.path, file.base, file.result) for file in denied.files] == [("a.txt", "", "")]
    assert (denied.decision, denied.hunks.denied, bool(denied.words)) == ("denied", (2,), True)
    assert "not this" not in denied.model_dump_json()
    assert denied.content != approved.content, "the second was about what was left"


def test_new_and_deleted_files_undo_and_redo_are_recorded(bench: Bench) -> None:
    (bench.root / "old.txt").write_text("old\n")
    draft = bench.service.new_draft("")
    draft.write("new.txt", "new\n")
    draft.delete("old.txt")
    name = bench.service.stage(draft, "summary").id
    bench.service.approve(name)
    bench.service.undo(name)
    bench.service.redo(name)
    old, new = git_blob_id(b"old\n"), git_blob_id(b"new\n")
    found = [(one.decision, sorted((f.path, f.base, f.result) for f in one.files)) for one in entries(bench)]
    there = [("new.txt", "", new), ("old.txt", old, "")]
    back = [("new.txt", new, ""), ("old.txt", "", old)]
    assert found == [("approved", there), ("undone", back), ("redone", there)]
    assert git_blob_id(b"new\n") == git(bench.root, "hash-object", "--stdin", given=b"new\n").decode().strip()


@pytest.mark.parametrize("step", range(1, 12))
def test_a_crash_leaves_a_decision_with_its_entry_or_neither(bench: Bench, step: int) -> None:
    (bench.root / "a.txt").write_text("a\n")
    name = bench.stage("a.txt", "b\n")
    steps = Steps(kill, lambda at: at == step)
    workspace = Workspace(bench.root)
    disk: Any = Watched(PosixFilesystem(bench.root, workspace.read_limit), steps)
    store: Any = Watched(bench.store, steps)
    cut_off = ProposalService(workspace, store, bench.base / "ws.lock", disk)
    in_child(lambda: cut_off.approve(name) and None)
    bench.service.recover()
    last = bench.service.get(name).last
    assert [entry.count for entry in entries(bench)] == ([last.number] if last else [])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with fifty decisions of all kinds, recorded with their words."""
    bench = Bench(tmp_path_factory.mktemp("recorded"))
    for number in range(33):
        name = bench.stage("a.txt", lines(line_2=f"two {number}", line_20=f"twenty {number}"))
        if number % 2 == 0:
            bench.sessions.record_decision(approval_event(bench.service.approve(name)))
            bench.sessions.record_decision(undo_event(bench.service.undo(name)))
            continue
        comment = LineComment(path="a.txt", line=3, side="new", quote="+two", text=f"why {number}?")
        done = bench.service.deny(name, None, f"no {number}", [comment])
        words = decision_event(done, DecisionKind.DENIED, feedback=f"no {number}", comments=(comment,))
        bench.sessions.record_decision(words)
    bench.database.query_rows("PRAGMA wal_checkpoint(TRUNCATE)")
    bench.database.close()
    return bench.database.path


@pytest.fixture
def fifty(recorded: Path, tmp_path: Path) -> Bench:
    """With fifty decisions."""
    shutil.copy(recorded, tmp_path)
    return Bench(tmp_path)


def rows(bench: Bench) -> list[tuple[int, bytes, str]]:
    found = bench.database.query_rows("SELECT number, body, sha256 FROM record ORDER BY number")
    return cast(list[tuple[int, bytes, str]], found)


def verify(path: Path, name: str) -> ChainVerification:
    database = Database(path)
    try:
        return DecisionRecordReader(database, name).verify_chain()
    finally:
        database.close()


def test_every_flipped_byte_of_an_entry_is_named(fifty: Bench) -> None:
    written = rows(fifty)
    assert [number for number, _, _ in written] == [*range(1, 101)] and len(entries(fifty)) == 50
    fifty.database.query_rows("PRAGMA wal_checkpoint(TRUNCATE)")
    fifty.database.close()
    sound = fifty.database.path.read_bytes()
    # The hash stands before the bytes; in the entry that follows it stands by itself.
    stored = [(number, digest.encode() + body) for number, body, digest in written]
    places = [(number, start := sound.index(row), start + len(row)) for number, row in stored]
    dice = random.Random(66)
    named = 0
    for _ in range(scale_examples(200)):
        place = dice.randrange(len(sound))
        flipped = bytearray(sound)
        flipped[place] ^= 1 << dice.randrange(8)
        copy = fifty.base / "flipped.db"
        copy.write_bytes(flipped)
        touched = {number for number, start, end in places if start <= place < end}
        try:
            broken = {one.number for one in verify(copy, fifty.name).broken}
        except StorageError as error:
            assert str(copy) in str(error)
            continue
        finally:
            for left in fifty.base.glob("flipped.db*"):
                left.unlink()
        assert touched <= broken
        named += len(touched)
    assert named


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        ("DELETE FROM record WHERE number = 4", {4}),
        ("DELETE FROM record WHERE number = 5", {5}),
        ("DELETE FROM record WHERE number >= 30", {*range(30, 101)}),
        ("UPDATE record SET body = CAST(replace(CAST(body AS TEXT), 'P', 'Q') AS BLOB) WHERE number = 7", {7}),
        ("UPDATE record SET number = number + 1000 WHERE number = 9", None),
        ("DELETE FROM record_ends", set()),
        # Forged with its hash: the next entry tells, or the head.
        (11, {12}),
        (100, {100}),
    ],
)
def test_what_somebody_changes_is_named(fifty: Bench, harm: str | int, named: set[int] | None) -> None:
    values: tuple[object, ...] = ()
    if isinstance(harm, int):
        body = rows(fifty)[harm - 1][1]
        forged = body.replace(b'"decision":"', b'"decision":"not_')
        assert forged != body
        values = (forged, hashlib.sha256(forged).hexdigest(), harm)
        harm = "UPDATE record SET body = ?, sha256 = ? WHERE number = ?"
    with fifty.database.transaction() as connection:
        connection.execute(harm, values)
    broken = {one.number for one in DecisionRecordReader(fifty.database, fifty.name).verify_chain().broken}
    assert broken == named if named is not None else broken


def test_an_undone_decision_does_not_explain_the_content(bench: Bench) -> None:
    (bench.root / "a.txt").write_text("a\n")
    first = bench.stage("a.txt", "b\n")
    bench.service.approve(first)
    bench.service.undo(first)
    second = bench.stage("a.txt", "b\n")
    bench.service.approve(second)
    steps = decisions_leading_to(entries(bench), "a.txt", git_blob_id(b"b\n"))
    assert [step.entry.proposal for step in steps] == [second]


def as_earlier_versions_wrote_it(entry: DecisionRecordEntry, version: int) -> bytes:
    """The bytes of an entry of format 1, without host, 2, without caller, 3, modes, 4, state, or 5, evidence."""
    values = entry.model_dump(mode="json") | {"format": version}
    del values["circumstances"]["evidence"]
    if version == 5:
        return json.dumps(values, separators=(",", ":")).encode()
    for name in ("state", "left", "last"):
        del values[name]
    for name in ("approved_files", "denied_files"):
        del values["hunks"][name]
    if version < 4:
        for file in values["files"]:
            del file["base_mode"], file["result_mode"]
    if version < 3:
        del values["circumstances"]["caller"]
        del values["ignored"]
    if version == 1:
        del values["origin"]["host"]
    return json.dumps(values, separators=(",", ":")).encode()


def put(bench: Bench, number: int, body: bytes) -> None:
    link = (hashlib.sha256(body).hexdigest(), bench.name, number)
    with bench.database.transaction() as connection:
        connection.execute("UPDATE record SET body = ?, sha256 = ? WHERE workspace = ? AND number = ?", (body, *link))
        connection.execute("UPDATE record_ends SET sha256 = ? WHERE workspace = ? AND number = ?", link)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_entries_of_an_earlier_version_stay_valid(version: int, bench: Bench) -> None:
    bench.service.approve(bench.stage("a.txt", "a\n"))
    [entry] = entries(bench)
    old = as_earlier_versions_wrote_it(entry, version)
    put(bench, 1, old)
    bench.service.approve(bench.stage("b.txt", "b\n"))
    first, second = entries(bench)
    assert (first.format, first.origin.host, first.circumstances.caller, second.format) == (version, "", None, LATEST)
    assert wrong(bench) == []
    assert second.before == hashlib.sha256(old).hexdigest()


def test_other_writes_of_a_command_are_in_the_record_and_above_the_diff(bench: Bench) -> None:
    draft = bench.service.new_draft("")
    draft.write("a.txt", "a\n")
    draft.ignored.append(WrittenIgnoredPath("node_modules/", 312))
    proposal = bench.service.stage(draft, "summary")
    bench.service.approve(proposal.id)
    [entry] = entries(bench)
    assert entry.ignored == (WrittenIgnoredPath("node_modules/", 312),)
    assert [note.text for note in proposal_notes(proposal)][-1:] == [
        "Also written, ignored by git: node_modules/, 312 files."
    ]


def test_an_entry_of_a_later_version_is_told_from_a_broken_one(bench: Bench) -> None:
    bench.service.approve(bench.stage("a.txt", "a\n"))
    [entry] = entries(bench)
    put(bench, 1, json.dumps(entry.model_dump(mode="json") | {"format": LATEST + 1, "more": 1}).encode())
    [broken] = DecisionRecordReader(bench.database, bench.name).verify_chain().broken
    assert broken.number == 1 and "later version of signoff; update it" in broken.why
    put(bench, 1, json.dumps(entry.model_dump(mode="json") | {"more": 1}).encode())
    [broken] = DecisionRecordReader(bench.database, bench.name).verify_chain().broken
    assert broken.why == "is not what was written"


@pytest.mark.parametrize(
    ("lost", "found"), [(["record_ends"], (50, 0)), (["record"], (0, 100)), (["record", "record_ends"], None)]
)
def test_an_unreadable_table_is_a_mismatch(fifty: Bench, lost: list[str], found: tuple[int, int] | None) -> None:
    with fifty.database.transaction() as connection:
        for table in lost:
            connection.execute(f"DROP TABLE {table}")
    record = DecisionRecordReader(fifty.database, fifty.name)
    if found is None:
        with pytest.raises(StorageError):
            record.verify_chain()
    else:
        verified = record.verify_chain()
        assert (len(verified.entries), len(verified.broken)) == found
        assert all("cannot be read" in broken.why for broken in verified.broken)


def test_pruning_keeps_the_chain_of_the_record_valid(fifty: Bench) -> None:
    before = rows(fifty)
    fifty.prune()
    assert rows(fifty) == before
    assert len(entries(fifty)) == 50 and wrong(fifty) == []
