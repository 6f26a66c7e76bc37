"""Pruning: what is old and needed by nobody goes, with its space; everything else stays."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from app.conversation.events import UserMessage
from app.images.image import Image
from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.proposal_service import ProposalService
from app.proposals.values.proposal_errors import UnknownProposal
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.pruning import PruneReport, prune_workspace
from app.storage.session_store import SessionStore
from app.storage.sqlite_proposal_store import FRESH_SECONDS, SqliteProposalStore
from app.workspace.paths import Workspace
from tests.unit.images.pictures import png
from tests.unit.proposals.faults import Steps, Watched, in_child, kill

MANY_LINES = "".join(f"{number:08}\n" for number in range(20_000))


class Bench:
    """A proposal service and a session store over one database."""

    def __init__(self, base: Path, name: str = "ws") -> None:
        self.base = base
        self.root = base / name
        self.root.mkdir()
        self.database = Database(base / "signoff.db")
        signal = DatabaseChangeSignal(base / "signals", name)
        self.name = name
        self.sessions = SessionStore(self.database, name, signal)
        self.store = SqliteProposalStore(self.database, name, signal)
        self.service = ProposalService(Workspace(self.root), self.store, base / f"{name}.lock")

    def stage(self, path: str, content: str, session: str = "") -> str:
        draft = self.service.new_draft(session)
        draft.write(path, content)
        return self.service.stage(draft, "summary").id

    def prune(self, *, age: float = -1.0) -> PruneReport:
        """Prune as if every content had been put long ago."""
        with self.database.transaction() as connection:
            connection.execute("UPDATE blobs SET added = added - ?", (2 * FRESH_SECONDS,))
        return prune_workspace(self.database, self.name, time.time() - age)

    def size(self) -> int:
        """Bytes on disk, the write-ahead log included."""
        return sum(file.stat().st_size for file in self.database.path.parent.glob("signoff.db*"))

    def contents(self) -> int:
        return len(self.database.query_rows("SELECT 1 FROM blobs"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_pruning_a_denied_proposal_frees_its_space(bench: Bench) -> None:
    proposal = bench.stage("big.txt", MANY_LINES)
    bench.service.deny(proposal)
    before = bench.size()
    done = bench.prune()
    assert (done.proposals, done.contents) == (1, 1) and done.freed == len(MANY_LINES)
    assert bench.contents() == 0
    assert bench.size() < before - len(MANY_LINES) / 2
    with pytest.raises(UnknownProposal):
        bench.service.get(proposal)


def test_a_pinned_session_is_not_pruned_and_later_events_of_a_pruned_one_are_kept(bench: Bench) -> None:
    record = bench.sessions.create()
    bench.sessions.append_events(record.id, [UserMessage(text="remember this")])
    bench.sessions.pin(record.id, True)
    assert bench.sessions.get(record.id).pinned
    assert bench.prune().sessions == 0
    bench.sessions.pin(record.id, False)
    assert bench.prune().sessions == 1
    bench.sessions.append_events(record.id, [UserMessage(text="after")])
    assert [found.id for found in bench.sessions.all()] == [record.id]
    assert [event.text for event in bench.sessions.events(record.id) if isinstance(event, UserMessage)] == ["after"]


def test_pruning_keeps_waiting_proposals(bench: Bench) -> None:
    (bench.root / "a").write_text("old\n")
    proposal = bench.stage("a", "new\n")
    assert bench.prune().proposals == 0
    bench.service.approve(proposal)
    assert (bench.root / "a").read_text() == "new\n"


def test_pruning_keeps_undo_of_used_sessions(bench: Bench) -> None:
    record = bench.sessions.create()
    (bench.root / "a").write_text("old\n")
    proposal = bench.stage("a", "new\n", record.id)
    bench.service.approve(proposal)
    moment = time.time()
    bench.sessions.append_events(record.id, [UserMessage(text="hello")])
    for done in (bench.prune(age=3600.0), prune_workspace(bench.database, bench.name, moment)):
        assert (done.sessions, done.proposals, done.contents) == (0, 0, 0)
    bench.service.undo(proposal)
    assert (bench.root / "a").read_text() == "old\n"
    assert bench.prune().sessions == 1
    assert bench.contents() == 0


def test_content_of_other_workspaces_and_new_content_is_not_pruned(bench: Bench, tmp_path: Path) -> None:
    other = Bench(tmp_path, "other")
    kept = other.stage("b", "theirs\n")
    (fresh,) = bench.store.put_blobs([b"about to be staged"])
    prune_workspace(bench.database, bench.name, time.time() + 1)
    assert bench.store.read_blob(fresh) == b"about to be staged"
    bench.prune()
    with pytest.raises(KeyError):
        bench.store.read_blob(fresh)
    other.service.approve(kept)
    assert (other.root / "b").read_text() == "theirs\n"


def test_what_an_unfinished_apply_needs_stays(bench: Bench) -> None:
    (bench.root / "a").write_text("old\n")
    (bench.root / "b").write_text("old\n")
    draft = bench.service.new_draft("")
    draft.write("a", "new\n")
    draft.write("b", "new\n")
    proposal = bench.service.stage(draft, "summary").id
    bench.service.approve(proposal)
    steps = Steps(kill, lambda at: steps.names[:at].count("exchange") == 2)
    workspace = Workspace(bench.root)
    disk: Any = Watched(PosixFilesystem(bench.root, workspace.read_limit), steps)
    cut_off = ProposalService(workspace, bench.store, bench.base / "ws.lock", disk)
    assert in_child(lambda: cut_off.undo(proposal) and None) == signal.SIGKILL
    assert (bench.root / "a").read_text() != (bench.root / "b").read_text()
    done = bench.prune()
    assert (done.proposals, done.contents) == (0, 0)
    [line] = bench.service.recover()
    assert "every file is as before" in line
    assert ((bench.root / "a").read_text(), (bench.root / "b").read_text()) == ("new\n", "new\n")


def test_storing_old_content_again_protects_it_from_pruning(bench: Bench) -> None:
    (name,) = bench.store.put_blobs([b"again"])
    with bench.database.transaction() as connection:
        connection.execute("UPDATE blobs SET added = 0")
    bench.store.put_blobs([b"again"])
    prune_workspace(bench.database, bench.name, time.time() + 1)
    assert bench.store.read_blob(name) == b"again"


def test_an_image_is_kept_while_a_message_names_it(bench: Bench) -> None:
    said, gone = png(1, 1), png(2, 2)
    bench.store.put_blobs([said, gone])
    session = bench.sessions.create().id
    bench.sessions.append_events(session, [UserMessage(text="look", images=(Image.from_bytes("shot.png", said),))])
    assert bench.prune(age=10**6).contents == 1
    assert bench.store.read_blob(Image.from_bytes("", said).sha256) == said
    fork = bench.sessions.fork(session)
    bench.sessions.delete([session])
    assert bench.prune(age=10**6).contents == 0
    bench.sessions.delete([fork.id])
    assert bench.prune(age=10**6).contents == 1 and bench.contents() == 0


def test_pruning_succeeds_although_the_file_cannot_shrink(bench: Bench) -> None:
    bench.service.deny(bench.stage("a.txt", MANY_LINES))
    with bench.database.transaction() as connection:
        reading = connection.execute("VALUES (1), (2), (3)")
        assert next(reading), "a statement under way keeps the file from being written anew"
    assert bench.prune().proposals == 1
