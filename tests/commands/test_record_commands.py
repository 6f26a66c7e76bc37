"""What the command line says of the record and for a commit."""

import base64
import contextlib
import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from app.agent.decision_service import approval_event, decision_event
from app.cli.approve_deny_undo import _AGENT_VARIABLE
from app.conversation.events import DecisionKind, ProposalStaged, SideAnswer, SideQuestion, UserMessage
from app.proposals.values.decision_facts import DecisionContext, LineComment, RecordedCheckResult
from app.proposals.values.origin import ProposalOrigin
from app.runtime import unfinished_work
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.sandbox.captured_changes import WrittenIgnoredPath
from app.storage.database import EVENTS_IN_THE_RECORD, MIGRATIONS
from tests.commands.test_verify import exits, git

ROOT = Path(__file__).resolve().parents[2]
LINES = "".join(f"line {number}\n" for number in range(40))


@contextlib.contextmanager
def opened(root: Path) -> Iterator[OpenWorkspace]:
    runtime = open_workspace(root, {}, {})
    yield runtime
    runtime.close()


def stage(runtime: OpenWorkspace, path: str, text: str) -> str:
    draft = runtime.service.new_draft("session")
    draft.write(path, text)
    return runtime.service.stage(draft, path).id


def printed(*words: str) -> Any:
    """Return the JSON document that a command prints."""
    return json.loads(exits(0, *words))


def alter(root: Path, *statements: str) -> None:
    with opened(root) as runtime, runtime.database.transaction() as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace in which P1 was approved whole and P2 in part."""
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    root = tmp_path / "ws"
    root.mkdir()
    (root / "a.txt").write_text(LINES)
    with opened(root) as runtime:
        runtime.service.approve(stage(runtime, "b.txt", "b\n"))
        text = LINES.replace("line 3\n", "three\n").replace("line 33\n", "thirty-three\n")
        runtime.service.approve(stage(runtime, "a.txt", text), ["1"])
    monkeypatch.chdir(root)
    return root


def test_log_verify_accepts_a_sound_record_and_names_a_broken_entry(root: Path) -> None:
    (root / "b.txt").write_text("mine\n")
    shown = exits(0, "log", "--verify").splitlines()
    assert shown[0].startswith("2 decisions, each as it was recorded.")
    assert shown[1:] == [
        "1 of 2 files on disk holds the bytes that were signed last.",
        "  b.txt has changed since P1",
    ]
    alter(root, "UPDATE record SET body = CAST(replace(CAST(body AS TEXT), 'P1', 'P9') AS BLOB)")
    document = json.loads(exits(3, "log", "--verify", "--json"))
    assert [one["number"] for one in document["broken"]] == [1]
    assert "Entry 1 is not what was written" in exits(3, "log", "--verify")


def told(root: Path) -> None:
    """P1 and P2 with their events, P3 denied with words."""
    with opened(root) as runtime:
        unfinished_work.record_unrecorded_decisions(runtime, patience=-1)
        denied = runtime.service.deny(stage(runtime, "c.txt", "c\n"), None, "not this")
        runtime.sessions.record_decision(decision_event(denied, DecisionKind.DENIED, feedback="not this"))


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        ("""UPDATE decisions SET body = replace(body, '"approved"', '"denied"')""", "Row 1 of the table decisions"),
        ("UPDATE decisions SET body = '{'", "Row 1 of the table decisions cannot be read"),
        ("DELETE FROM decisions WHERE proposal = 'P1'", "approved of P1 is gone"),
        ("""UPDATE proposals SET body = replace(body, '"applied"', '"denied"')""", "Proposal P1 is not as"),
        ("UPDATE proposals SET state = 'denied' WHERE number = 1", "columns of proposal P1"),
        ("DELETE FROM record_ends", "does not have the end of the record"),
        ("UPDATE record_ends SET number = number - 1", "does not have the end of the record"),
        ("DELETE FROM record; DELETE FROM record_ends", "a decision that the record does not have: approved of P1"),
    ],
)
def test_log_verify_names_mismatches(root: Path, harm: str, named: str) -> None:
    told(root)
    before = printed("log", "--json")
    assert [line["decision"] for line in before] == ["approved", "partly_approved", "denied"]
    exits(0, "log", "--verify")
    alter(root, *harm.split("; "))
    if "FROM record;" not in harm:
        after = printed("log", "--json")
        assert [{**line, "feedback": "", "words_lost": False} for line in after] == [
            {**line, "feedback": ""} for line in before
        ]
    assert named in exits(3, "log", "--verify")
    assert any(named in line for line in json.loads(exits(3, "log", "--verify", "--json"))["differences"])


@pytest.mark.parametrize("harm", ["DELETE FROM record_ends", "UPDATE record_ends SET number = number - 1"])
def test_decisions_after_a_wrong_end_of_the_record_are_possible_and_marked(root: Path, harm: str) -> None:
    alter(root, harm)
    exits(0, "approve", "P2")
    assert "Entry 3 does not follow entry 2" in exits(3, "log", "--verify")


def test_the_record_is_verified_where_git_fails(root: Path) -> None:
    git(root, "init", "--quiet")
    (root / ".git/config").write_text("[core\n")
    for words in ((), ("--json",)):
        assert "statements in git's notes were not checked" in exits(0, "log", "--verify", *words)


def test_changed_feedback_is_not_shown_and_reported(root: Path) -> None:
    told(root)
    assert printed("log", "--json")[-1]["feedback"] == "not this"
    alter(root, "UPDATE decisions SET body = replace(body, 'not this', 'yes this')")
    line = printed("log", "--json")[-1]
    assert (line["feedback"], line["words_lost"]) == ("", True)
    assert "the stored feedback is missing or was changed" in exits(0, "log")
    assert "yes this" not in exits(0, "export", "P3", "--review").partition("## Denied")[2]
    verified = exits(3, "log", "--verify")
    assert "other words than those of entry" in verified and "beside it differs in 1 place." in verified


def test_decisions_older_than_the_record_are_added_once(root: Path) -> None:
    told(root)
    before = printed("log", "--json")
    version = MIGRATIONS.index(EVENTS_IN_THE_RECORD)
    later = ("DROP TABLE seen_lines", "DROP TABLE agent_reads", "ALTER TABLE captured DROP COLUMN changed")
    alter(root, "DELETE FROM record", "DELETE FROM record_ends", *later, f"PRAGMA user_version={version}")
    after = printed("log", "--json")
    assert [(one["proposal"], one["decision"], one["feedback"], one["files"]) for one in after] == [
        (one["proposal"], one["decision"], one["feedback"], one["files"]) for one in before
    ]
    assert "0 decisions, and 3 of an earlier version" in exits(0, "log", "--verify")
    assert "P1 was decided before the record was kept" in exits(3, "trailers", "P1")
    alter(root, """UPDATE decisions SET body = replace(body, '"approved"', '"denied"')""")
    exits(3, "log", "--verify")


def test_trailers_are_printed_for_written_proposals(root: Path) -> None:
    assert exits(0, "trailers", "P1", "P2").splitlines() == [
        "Assisted-by: signoff",
        "Reviewed-in: signoff P1 (1/1 hunks)",
        "Reviewed-in: signoff P2 (1/2 hunks)",
    ]
    with opened(root) as runtime:
        name = stage(runtime, "c.txt", "c\n")
    assert f"{name} has written nothing" in exits(3, "trailers", name)
    exits(0, "undo", "P1")
    assert "P1 has written nothing" in exits(3, "trailers", "P1")


def test_pruned_content_is_reported_as_removed(root: Path) -> None:
    with opened(root) as runtime:
        session = runtime.sessions.create()
        staged = runtime.service.get(stage(runtime, "d.txt", "d\n"))
        files = tuple(one.stat for one in staged.files)
        event = ProposalStaged(proposal=staged.id, summary="waits", files=files, calls=())
        runtime.sessions.append_events(session.id, [UserMessage(text="hello"), event])
    alter(root, "DELETE FROM blobs")
    assert "The contents of P2 were pruned" in exits(3, "export", "P2", "--review")
    assert "hello" in exits(0, "export", session.id)


class Page(HTMLParser):
    """The text of a page, its elements, and whether each that was opened was closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.styles: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self.open[-1:] == ["style"]:
            self.styles.append(data)


def reviewed(root: Path) -> None:
    """P3, approved in part over a red check, with a comment, the rest denied with words; its texts are hostile."""
    with opened(root) as runtime:
        runtime.service.deny("P2")
        text = (root / "a.txt").read_text()
        draft = runtime.service.new_draft("session")
        changed = text.replace("line 9\n", "</td><script>alert(1)</script>\n").replace("line 30\n", "no\n")
        draft.write("a.txt", changed)
        name = runtime.service.stage(draft, "Take <b>this</b>").id
        comment = LineComment(path="a.txt", line=10, side="new", quote="+x", text="Why\n```\nthis?")
        check = RecordedCheckResult(name="tests", state="failed", words="1 failed, 0 before")
        red = DecisionContext(through="app", unseen_lines=1, unseen_files=("a.txt",), checks=(check,))
        done = runtime.service.approve(name, ["1"], comments=[comment], circumstances=red)
        runtime.sessions.record_decision(approval_event(done, comments=(comment,)))
        session = runtime.sessions.create(title="t").id
        place: dict[str, Any] = {"proposal": name, "path": "a.txt", "hunk": "h", "number": 2}
        asked = SideQuestion(uid="q", picked="+no\n+```", text="# Is <i>this</i> safe?", **place)
        text = "# Yes\n```\nit <u>is</u>"
        answer = SideAnswer(question="q", proposal=name, text=text, model="m", state="truncated")
        runtime.sessions.append_events(session, [asked, answer])
        done = runtime.service.deny(name, None, "Not \u202ethe rest")
        runtime.sessions.record_decision(decision_event(done, DecisionKind.DENIED, feedback="Not \u202ethe rest"))


def test_an_exported_review_has_no_scripts_and_valid_markdown(root: Path) -> None:
    reviewed(root)
    source = exits(0, "export", "P3", "--review", "--format", "html")
    page = Page(source)
    assert page.open == [] and not page.tags & {"script", "img", "link", "iframe", "b1"}
    assert not re.search(r"(?:src|href)=", source)
    text = "".join(page.words)
    order = ["Take <b>this</b>", "hunks approved 1", "1 changed line never on screen (a.txt)", "1 failed, 0 before"]
    order += ["denied 2", "</td><script>alert(1)</script>", "Why\n```\nthis?"]
    order += ["Asked aside", "Lines of hunk 2 of P3 in a.txt", "+no\n+```", "# Is <i>this</i> safe?"]
    order += ["m answered (truncated)", "# Yes\n```\nit <u>is</u>"]
    places = [text.index(each) for each in order]
    assert places == sorted(places)
    assert "\u202e" not in source and "Denied: hunk 2" in text
    assert "prefers-color-scheme:light" in source
    [style] = page.styles
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    [policy] = [each["content"] for tag, each in page.elements if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    allowed = {name: values for name, *values in (part.split() for part in policy.split(";"))}
    assert allowed == {
        "default-src": ["'none'"],
        "style-src": [f"'sha256-{digest}'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    names = [tag for tag, _ in page.elements]
    assert names.index("meta") < names.index("style"), "it holds for what follows it"
    assert not any("style" in attributes for _, attributes in page.elements)
    assert "@import" not in style and "url(" not in style
    text = exits(0, "export", "P3", "--review")
    assert "> Why\n> ```\n> this?" in text
    assert "## Asked aside\n\n### Lines of hunk 2 of P3 in a.txt, " in text
    assert "> # Is <i>this</i> safe?\n\nm answered (truncated):\n\n> # Yes\n> ```\n> it <u>is</u>" in text
    assert "- tests: 1 failed, 0 before" in text
    fences = re.findall(r"^(`{3,})", text, re.MULTILINE)
    assert len(fences) % 2 == 0
    exits(2, "export", "P3", "--review", "--format", "json")
    exits(2, "export", "latest", "--format", "html")


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose workspace lies in a folder of it; a model's edits on three files, two were taken."""
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    top = tmp_path / "repository"
    root = top / "sub folder"
    root.mkdir(parents=True)
    git(top, "init", "--quiet", "-b", "main")
    for name, value in (("user.name", "Ann"), ("user.email", "ann@example.org")):
        git(top, "config", name, value)
    (root / "a file.txt").write_text(LINES)
    (root / "mine.txt").write_text("mine\n")
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "-m", "start")
    with opened(root) as runtime:

        def stage(path: str, text: str) -> str:
            draft = runtime.service.new_draft("s1")
            draft.origin = ProposalOrigin(model="gpt-9", host="models.example:8443", session="s1")
            draft.write(path, text)
            return runtime.service.stage(draft, "summary").id

        first = LINES.replace("line 3\n", "three\n").replace("line 33\n", "33\n")
        runtime.service.approve(stage("a file.txt", first), ["1"])
        runtime.service.deny("P1", None, "not so")
        second = (root / "a file.txt").read_text().replace("line 10\n", "ten\nand a half\n")
        runtime.service.approve(stage("a file.txt", second))
        runtime.service.approve(stage("new.txt", "new\nfile\n"))
        runtime.service.approve(undone := stage("gone.txt", "gone\n"))
        runtime.service.undo(undone)
    (root / "mine.txt").write_text("mine too\n")
    monkeypatch.chdir(root)
    return root


def test_a_git_hook_adds_the_trailers_to_the_users_commit(committed: Path) -> None:
    hook = committed.parent / ".git/hooks/prepare-commit-msg"
    hook.parent.mkdir(exist_ok=True)
    script = committed.parent.parent / "hook.py"
    program = shlex.join([sys.executable, str(script)])
    hook.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {program} "$PWD/$1" "{committed}"\n')
    script.write_text(
        "import sys\nfrom app.cli.main import main\n"
        "sys.exit(main(['trailers', '--staged', '--into', sys.argv[1], '--workspace', sys.argv[2]]))\n"
    )
    hook.chmod(0o755)
    git(committed, "add", "--all")
    git(committed, "commit", "--quiet", "-m", "only mine", "--", "mine.txt")
    assert git(committed, "log", "-1", "--format=%(trailers)") == "", "what else is staged is not in it"
    git(committed, "commit", "--quiet", "-m", "the model's")
    assert git(committed, "log", "-1", "--format=%(trailers:unfold)").splitlines() == [
        "Assisted-by: signoff:gpt-9",
        "Reviewed-in: signoff P1 (1/2 hunks)",
        "Reviewed-in: signoff P2 (1/1 hunks)",
        "Reviewed-in: signoff P3 (1/1 hunks)",
    ]


def test_trailers_are_not_confirmed_by_an_empty_record(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "other"))
    exits(0, "log", "--verify")
    git(committed, "commit", "--quiet", "-m", "work", "-m", "Reviewed-in: signoff P1 (1/2 hunks)", "--", "mine.txt")
    reviewed_commit = git(committed, "rev-parse", "HEAD")
    git(committed, "commit", "--quiet", "--allow-empty", "-m", "Reviewed-in: signoff P2 is in the subject alone")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(committed.parent), str(clone))
    monkeypatch.chdir(clone)
    shown = exits(3, "log", "--verify")
    assert f"trailers of commits name reviews ({reviewed_commit[:12]})" in shown
    assert "nothing has been" not in shown
    assert json.loads(exits(3, "log", "--verify", "--json"))["unknown"] == [reviewed_commit]


def test_notes_have_the_approved_lines_and_the_caller_of_a_deciding_command(
    committed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(committed, "commit", "--quiet", "-m", "only mine", "--", "mine.txt")
    assert "nothing was noted" in exits(3, "notes")
    assert git(committed, "for-each-ref", "refs/notes") == ""
    git(committed, "add", "--all")
    git(committed, "commit", "--quiet", "-m", "the model's")
    assert "3 decisions on 2 files" in exits(0, "notes", "--git-ai")
    document = json.loads(git(committed, "notes", "--ref=signoff", "show", "HEAD"))
    assert [one["proposal"] for one in document["decisions"]] == ["P1", "P2", "P3"]
    assert all(one["who"] == "Ann <ann@example.org>" for one in document["decisions"])
    for path in ("a file.txt", "new.txt"):
        results = [file["result"] for one in document["decisions"] for file in one["files"] if file["path"] == path]
        assert results[-1] == git(committed, "rev-parse", f"HEAD:sub folder/{path}")
    assert "denied" not in json.dumps(document) and "not so" not in json.dumps(document)
    assert document["decisions"][0]["hunks"] == {"approved": [1], "of": 2}
    attested, _, about = git(committed, "notes", "--ref=ai", "show", "HEAD").partition("\n---\n")
    [(key, prompt)] = json.loads(about)["prompts"].items()
    assert attested == f'"sub folder/a file.txt"\n  {key} 4,11-12\n"sub folder/new.txt"\n  {key} 1-2'
    assert prompt["agent_id"] == {"tool": "signoff", "id": "P1", "model": "gpt-9"} or prompt["agent_id"]["model"]
    alter(committed, "DELETE FROM blobs WHERE CAST(data AS TEXT) LIKE 'line%'")
    noted = printed("notes", "--git-ai", "--json")
    assert (noted["files"], noted["lines"]) == (2, 2)
    assert git(committed, "notes", "--ref=ai", "show", "HEAD").startswith('"sub folder/new.txt"')
    monkeypatch.setenv("CLAUDECODE", "1")
    printed("undo", "P3", "--json")
    printed("redo", "P3", "--json")
    exits(0, "notes")
    document = json.loads(git(committed, "notes", "--ref=signoff", "show", "HEAD"))
    callers = {one["proposal"]: one["caller"] for one in document["decisions"]}
    assert callers["P1"] is None and "CLAUDECODE" in callers["P3"]["agent_variables"]


def test_schemas_need_no_usable_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "file"))
    for words in ("log --schema", "log --verify --schema", "doctor --hook-schema"):
        assert "properties" in exits(0, *words.split())


def test_log_fits_its_schema_and_names_the_host_of_the_model(committed: Path) -> None:
    printed("undo", "P3", "--json")
    assert printed("log", "--json")[-1]["origin"]["host"] == "models.example:8443"
    for more in ((), ("--verify",)):
        schema = printed("log", *more, "--schema")
        validator = Draft202012Validator(schema)
        validator.check_schema(schema)
        document = printed("log", *more, "--json")
        assert document
        assert [error.message for error in validator.iter_errors(document)] == []
        fields = [schema, *schema["$defs"].values()]
        assert any("description" in field for part in fields for field in part.get("properties", {}).values())
        one = document if more else document[0]
        for harmed in ({**one, "more": 1}, dict(list(one.items())[1:])):
            assert list(validator.iter_errors(harmed if more else [harmed]))


@pytest.mark.parametrize("terminal", [True, False])
def test_the_record_names_the_caller_of_a_deciding_command(
    terminal: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an agent's variables it has the names; their values may be keys."""
    for name in [name for name in os.environ if _AGENT_VARIABLE.fullmatch(name)]:
        monkeypatch.delenv(name)
    for name in ("CLAUDECODE", "CODEX_SANDBOX", "AIDER_OPENAI_API_KEY", "EDITOR"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setattr("os.isatty", lambda descriptor: terminal)
    with opened(root) as runtime:
        assert stage(runtime, "c.txt", "c\n") == "P3"
    for words in (["undo", "P1"], ["redo", "P1"], ["deny", "P3"], ["undo", "P3"], ["approve", "P3", "--force"]):
        exits(0, *words, "--json")
    earlier, lines = (found := printed("log", "--json"))[:2], found[2:]
    assert [line["caller"] for line in earlier] == [None, None]
    assert [line["decision"] for line in lines] == ["undone", "redone", "denied", "reopened", "approved"]
    for line in lines:
        told = line["caller"]
        assert told["agent_variables"] == ["AIDER_OPENAI_API_KEY", "CLAUDECODE", "CODEX_SANDBOX"]
        assert (told["stdin_is_terminal"], told["stdout_is_terminal"]) == (terminal, terminal)
        assert told["parent"] == Path(f"/proc/{os.getppid()}/comm").read_text().strip()
    called = ("in" if terminal else "without") + " a terminal, AIDER_OPENAI_API_KEY, CLAUDECODE, CODEX_SANDBOX set)"
    assert exits(0, "log").count(called) == len(lines)
    assert called.removesuffix(")") in exits(0, "export", "P3", "--review")
    exits(0, "log", "--verify")
    with opened(root) as runtime:
        queries = (f"SELECT CAST(body AS TEXT) FROM {table}" for table in ("record", "proposals"))
        kept = [row for query in queries for row in runtime.database.query_rows(query)]
    assert "hunter2" not in str(kept) and "CLAUDECODE" in str(kept)


def test_other_writes_of_a_command_are_shown_with_its_proposal(root: Path) -> None:
    with opened(root) as runtime:
        draft = runtime.service.new_draft("session")
        draft.write("c.txt", "c\n")
        draft.ignored.extend((WrittenIgnoredPath("node_modules/", 312, 2), WrittenIgnoredPath("app\x1b[2J.log", 1)))
        assert runtime.service.stage(draft, "waits").id == "P3"
    words = "also written, ignored by git: node_modules/, 312 files, 2 removed; app"
    lines = [
        {"path": "node_modules/", "written": 312, "removed": 2},
        {"path": "app\x1b[2J.log", "written": 1, "removed": 0},
    ]
    assert printed("proposals", "--json")[-1]["ignored"] == lines
    assert printed("show", "P3", "--json")["ignored"] == lines
    assert words in exits(0, "proposals")
    printed("deny", "P3", "--json")
    assert printed("log", "--json")[-1]["ignored"] == lines
    for command in (["log"], ["export", "P3", "--review"], ["export", "P3", "--review", "--format", "html"]):
        out = exits(0, *command)
        # Into a file goes a patch with all its bytes.
        assert words in out and ("\x1b" not in out or command[-1] == "--review")
