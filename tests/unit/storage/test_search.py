"""The search over sessions: finds what was said, proposed and read; forgets what is gone."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversation.events import (
    AssistantMessage,
    CallDeniedWithFeedback,
    CallOutcome,
    DecisionKind,
    Event,
    ProposalDecided,
    ProposalStaged,
    Question,
    SideAnswer,
    SideQuestion,
    ToolResult,
    UserMessage,
)
from app.proposals.values.decision_facts import FileDiffStat, LineComment
from app.storage import StorageError, session_search
from app.storage.database import MIGRATIONS, Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.pruning import prune_workspace
from app.storage.session_search import SessionSearch
from app.storage.session_store import SessionStore


class Bench:
    """Sessions of one workspace and the search over them."""

    def __init__(self, base: Path, workspace: str = "/w", database: Database | None = None) -> None:
        self.database = database or Database(base / "signoff.db")
        self.store = SessionStore(self.database, workspace, DatabaseChangeSignal(base / "signals", "w"))
        self.search = SessionSearch(self.database, workspace)

    def say(self, *events: Event) -> str:
        record = self.store.create()
        self.store.append_events(record.id, events)
        return record.id

    def found(self, words: str) -> list[tuple[str, str]]:
        return [(one.kind, one.text) for one in self.search.find(words)]

    def words_kept(self) -> int:
        """How many different words the index knows."""
        with self.database.transaction() as connection:
            connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.words USING fts5vocab(main, search, row)")
        return len(self.database.query_rows("SELECT term FROM words"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


EVENTS: dict[str, tuple[Event, str]] = {
    "you": (UserMessage(text="why does the retry loop spin?"), "RETRY loop"),
    "model": (AssistantMessage(text="Since `max_retry_count` is 0."), "retry_count"),
    "question": (Question(call="c1", text="Which port?", options=("8080", "443")), "port 443"),
    "proposal": (
        ProposalStaged(
            proposal="P7",
            summary="Bound the loop",
            files=(FileDiffStat(path="app/client.py", op="edit", added=1, removed=0),),
            calls=(),
        ),
        "client.py bound",
    ),
    "decision": (
        ProposalDecided(
            proposal="P7",
            decision=DecisionKind.DENIED,
            feedback="use a deadline",
            comments=(LineComment(path="app/client.py", side="new", line=3, quote="x", text="naïve"),),
        ),
        "deadline naive",
    ),
    "file": (
        ToolResult(call="c2", outcome=CallOutcome.OK, text="secret output", reads={"docs/über.md": "0" * 64}),
        "uber",
    ),
    "asked": (
        SideQuestion(uid="q1", proposal="P7", path="app/client.py", hunk="h", number=1, text="what calls this?"),
        "calls P7 client",
    ),
    "answered": (SideAnswer(question="q1", proposal="P7", text="Nothing but the scheduler."), "scheduler"),
}


def test_messages_proposals_and_read_files_are_found(bench: Bench) -> None:
    sessions = [bench.say(UserMessage(text="something else altogether"), event) for event, _ in EVENTS.values()]
    for (kind, (_, words)), session in zip(EVENTS.items(), sessions, strict=True):
        (found,) = bench.search.find(words)
        assert (found.kind, found.session, found.title) == (kind, session, "something else altogether")
        assert found.event == bench.store.events(session)[-1].id


def test_feedback_is_found_but_no_tool_output_nor_discarded_text_nor_another_workspace(
    tmp_path: Path, bench: Bench
) -> None:
    Bench(tmp_path, "/other", bench.database).say(UserMessage(text="output elsewhere"))
    bench.say(EVENTS["file"][0], AssistantMessage(text="half an output", state="discarded"))
    bench.say(CallDeniedWithFeedback(call="c1.0", asked="command", subject="rm -rf build", feedback="mind the cache"))
    assert bench.found("cache") == [("you", "mind the cache")]
    assert bench.found("output") == []


def test_later_messages_are_found_and_the_newest_come_first(bench: Bench) -> None:
    bench.say(UserMessage(text="first thought"))
    assert bench.found("thought") == [("you", "first thought")]
    bench.say(UserMessage(text="second thought"))
    assert bench.found("thou") == [("you", "second thought"), ("you", "first thought")]


def test_a_file_is_found_once_per_session_and_not_again_in_a_fork(bench: Bench) -> None:
    session = bench.say(UserMessage(text="hello there"), EVENTS["file"][0], EVENTS["file"][0])
    bench.store.fork(session)
    assert len(bench.found("hello")) == 1
    assert len(bench.found("uber")) == 2, "once in each"


def test_a_search_index_of_an_earlier_version_is_rebuilt(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.say(UserMessage(text="about the scheduler"), EVENTS["answered"][0])
    before = next(at for at, each in enumerate(MIGRATIONS) if "DROP TABLE IF EXISTS search" in each)
    with bench.database.transaction() as connection:
        connection.execute(session_search._CREATE_INDEX)
        connection.execute("INSERT INTO search (rowid, text) VALUES (1, 'about the scheduler')")
        connection.execute("INSERT INTO settings VALUES ('', 'search.upto', '2')")
        connection.execute("DROP TABLE seen_lines")
        connection.execute("DROP TABLE agent_reads")
        connection.execute("ALTER TABLE captured DROP COLUMN changed")
        connection.execute(f"PRAGMA user_version={before}")
    bench.database.close()
    again = Bench(tmp_path)
    assert {kind for kind, _ in again.found("scheduler")} == {"you", "answered"}
    again.store.delete([one.id for one in again.store.all()])
    assert again.found("scheduler") == [] and again.words_kept() == 0


def test_search_operators_are_taken_as_words_and_words_without_a_letter_find_nothing(bench: Bench) -> None:
    bench.say(UserMessage(text="and not: text, loop or near loop"))
    for words in ('"loop', "loop AND", "NOT loop", "text:loop", "loop*", "NEAR(loop)", "loop'--"):
        assert len(bench.found(words)) == 1, words
    for words in ("", "  ", "-", '"', "*", "( ) ^"):
        assert bench.found(words) == [], words


def test_words_are_found_in_languages_without_spaces(bench: Bench) -> None:
    bench.say(UserMessage(text="请修复重试循环"), UserMessage(text="再試行を直して"))
    assert [text for _, text in bench.found("重试")] == ["请修复重试循环"]
    assert [text for _, text in bench.found("試行")] == ["再試行を直して"]
    assert bench.found("试重") == []


@pytest.mark.parametrize("how", ["deleted", "pruned"])
def test_a_deleted_session_is_removed_from_the_index(bench: Bench, how: str) -> None:
    bench.store.delete([bench.say(UserMessage(text="never searched"))])
    session = bench.say(*(event for event, _ in EVENTS.values()))
    bench.search.update_index()
    assert bench.words_kept() > 20
    # What is not yet in the index is none of its business.
    bench.store.append_events(session, [UserMessage(text="said later")])
    if how == "deleted":
        bench.store.delete([session])
    else:
        prune_workspace(bench.database, "/w", 2e10)
    assert bench.words_kept() == 0
    bench.say(UserMessage(text="said anew"))
    assert bench.found("said") == [("you", "said anew")]


TEXTS = st.text(alphabet=st.sampled_from("abBé_ \n.重试-'\"*"), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(TEXTS.filter(str.strip), min_size=1, max_size=6), words=TEXTS)
def test_every_message_is_found(tmp_path_factory: pytest.TempPathFactory, said: list[str], words: str) -> None:
    bench = Bench(tmp_path_factory.mktemp("search"))
    for text in said:
        bench.say(UserMessage(text=f"{text} {words}"))
    found = bench.search.find(words)
    assert len(found) == (len(said) if any(map(str.isalnum, words)) else 0)


def test_an_index_that_cannot_be_built_is_not_reported_as_missing_fts5(bench: Bench) -> None:
    bench.say(UserMessage(text="hello"))
    with bench.database.transaction() as connection:
        connection.execute("CREATE TABLE search_data (one)")
    with pytest.raises(StorageError) as raised:
        bench.search.find("hello")
    assert "FTS5" not in str(raised.value)
