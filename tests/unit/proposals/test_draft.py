"""The edits of one step: versions, refusals, and what the report tells the model."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.proposals.files.overlay import ContentStore
from app.proposals.locate.matching import TextReplacement
from app.proposals.stack.draft import Draft
from app.proposals.text.file_warnings import describe_file_cautions
from app.proposals.text.line_comparison import LineRange
from app.proposals.values.models import FileOperation, MatchLevel, Proposal, ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import EditRefused
from app.sandbox.captured_changes import LINK_MODE, FileOrLink, PathChange
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.sqlite_proposal_store import SqliteProposalStore
from tests.unit.proposals.bench import Bench, numbered

Make = Callable[..., Bench]


def test_a_proposal_id_is_reserved_only_when_needed(bench: Make) -> None:
    site = bench({"a.txt": numbered(5)})
    site.service.new_draft("session").read("a.txt")
    draft = site.service.new_draft("session")
    assert draft.ensure_proposal_id() == "P1"
    draft.edit("a.txt", [TextReplacement("line 2", "two")])
    assert site.service.stage(draft, "").id == "P1"


def test_all_edits_of_a_step_are_one_proposal(bench: Make) -> None:
    site = bench({"a.txt": numbered(30), "b.txt": "b\n"})
    draft = site.service.new_draft("session")
    version = draft.read("a.txt").version
    assert version == hashlib.sha256(numbered(30).encode()).hexdigest()
    draft.edit("a.txt", [TextReplacement("line 2\n", "two\n")], version[:12])
    draft.edit("a.txt", [TextReplacement("line 20\n", "twenty\n")], version[:12])
    draft.edit("a.txt", [TextReplacement("two\n", "the second\n")], version[:12])
    report = draft.edit("b.txt", [TextReplacement("b", "c")])
    assert [(stat.path, stat.op, stat.added, stat.removed) for stat in report.files] == [("b.txt", "edit", 1, 1)]
    draft.summaries.append("Two files")
    proposal = site.service.stage(draft, "")
    assert proposal.summary == "Two files"
    assert [change.path for change in proposal.files] == ["a.txt", "b.txt"]
    assert [hunk.number for hunk in proposal.hunks] == [1, 2, 3]
    site.service.approve(proposal.id)
    assert site.read("a.txt").decode() == numbered(30, l2="the second", l20="twenty")


def test_an_edit_is_placed_in_the_version_that_was_read_and_not_at_a_copy(bench: Make) -> None:
    text = "def a():\n    return 1\n\n\n\n\ndef b():\n    pass\n"
    site = bench({"a.py": text})
    edit = TextReplacement("    return 1\n", "    return 2\n")
    version = site.service.new_draft("session").read("a.py").version
    site.put(**{"a.py": text.replace("    return 1", "    return 2")})
    draft = site.service.new_draft("session")
    with pytest.raises(EditRefused, match="already has this change"):
        draft.edit("a.py", [edit], version)
    site.put(**{"a.py": "def a():\n    return None\n\n\n\n\ndef b():\n    return 1\n"})
    draft = site.service.new_draft("session")
    with pytest.raises(EditRefused, match=r"a\.py changed since version .* was read, at line 2"):
        draft.edit("a.py", [edit], version)
    assert not draft.has_changes
    site.put(**{"a.py": text.replace("    pass", "    return 1")})
    report = draft.edit("a.py", [edit], version[:12])
    assert "changed since it was read" in report.text
    site.service.approve(site.service.stage(draft, "").id)
    assert site.read("a.py").decode() == "def a():\n    return 2\n\n\n\n\ndef b():\n    return 1\n"


def test_an_edit_next_to_an_earlier_one_of_the_same_step(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    draft = site.service.new_draft("session")
    version = draft.read("a.txt").version
    draft.edit("a.txt", [TextReplacement("line 2\n", "line 2\ninserted\n")], version)
    draft.edit("a.txt", [TextReplacement("line 3\n", "three\n")], version)
    site.service.approve(site.service.stage(draft, "").id)
    assert site.read("a.txt").decode() == numbered(9, l2="line 2\ninserted", l3="three")


def test_an_unknown_file_version_is_noted_also_a_short_one_of_another_file(bench: Make) -> None:
    site = bench({"a.txt": numbered(5), "b.txt": numbered(5, l5="another last line")})
    draft = site.service.new_draft("session")
    present, other = (draft.read(name).version for name in ("a.txt", "b.txt"))
    for known in ("", present[:12], present):
        report = site.service.new_draft("session").edit("a.txt", [TextReplacement("line 2", "two")], known)
        assert len(report.text.splitlines()) == 1, report.text
    for version in (other[:1], other[:4], other[:7], "0123456789ab"):
        draft = site.service.new_draft("session")
        draft.read("b.txt")
        report = draft.edit("a.txt", [TextReplacement("line 2", "two")], version)
        told = f"version {version} is not known; the edit was made in {present[:12]}, which is there now"
        assert told in report.text.splitlines()
    [change] = site.service.stage(draft, "").files
    assert change.notes == (told,)


def test_an_ambiguous_version_prefix_finds_nothing(bench: Make) -> None:
    contents = ContentStore(bench({}).store)
    contents.cache_content("0123456789" + "a" * 54, b"one")
    assert contents.find_by_prefix("0123456789") == b"one"
    contents.cache_content("0123456789" + "b" * 54, b"other")
    assert contents.find_by_prefix("0123456789") is None
    assert contents.find_by_prefix("0123456789b") == b"other"


def test_replace_all_reports_longer_words_that_it_skipped(bench: Make) -> None:
    site = bench({"a.py": "id = width(id)\n"})
    report = site.service.new_draft("session").edit("a.py", [TextReplacement("id", "key", replace_all=True)])
    assert "line 1: 1 more inside longer words left as they are" in report.text.splitlines()


INDENTED = "class A:\n    def f(self):\n        return 1\n"
EQUAL = "a\n\n" + "b\n" * 20 + "a\n"


@pytest.mark.parametrize(
    ("text", "edit", "rung", "model", "user"),
    [
        (
            INDENTED,
            TextReplacement("def f(self):\n    return 1\n", "def f(self):\n    return 2\n"),
            MatchLevel.INDENTATION,
            "line 2: found ignoring indentation",
            "Line 2 was found ignoring indentation.",
        ),
        (
            EQUAL,
            TextReplacement("a", "c", line=1),
            MatchLevel.LINE_HINT,
            "line 1: found by its line number, among several equal places; 2 places; the hint was 1",
            "Line 1 was found by its line number, among several equal places (2 places; the hint was 1).",
        ),
    ],
)
def test_inexact_match_is_explained_once_to_model_and_user(
    bench: Make, text: str, edit: TextReplacement, rung: MatchLevel, model: str, user: str
) -> None:
    site = bench({"a.py": text})
    draft = site.service.new_draft("session")
    report = draft.edit("a.py", [edit])
    [change] = site.service.stage(draft, "").files
    assert change.is_inexact
    assert change.matches[0].rung is rung
    assert (model in report.text.splitlines(), list(describe_file_cautions(change))) == (True, [user])


def test_refusals_leave_the_draft_as_it_was(bench: Make) -> None:
    site = bench({"a.txt": numbered(5), "b.bin": b"\0a", "dir/x": "x"})
    with (site.root / "huge.txt").open("wb") as file:
        file.truncate(21 * 1024 * 1024)
    os.mkfifo(site.root / "pipe")
    draft = site.service.new_draft("session")
    draft.write("kept.txt", "k\n")
    for attempt, message in REFUSALS:
        with pytest.raises(EditRefused, match=message) as caught:
            attempt(draft)
        assert len(str(caught.value).encode()) <= 2048
    assert draft.read("kept.txt").content == b"k\n"
    assert [change.path for change in site.service.stage(draft, "").files] == ["kept.txt"]


HALF = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-line 1\n+two\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two\n"
"""A patch whose second file does not exist."""
REFUSALS: list[tuple[Callable[[Draft], object], str]] = [
    (lambda draft: draft.edit("none.txt", [TextReplacement("a", "b")]), "does not exist"),
    (lambda draft: draft.edit("dir", [TextReplacement("a", "b")]), "is a folder"),
    (lambda draft: draft.edit("a.txt", [TextReplacement("nowhere", "b")]), "not in the file"),
    (lambda draft: draft.edit("b.bin", [TextReplacement("a", "b")]), "binary"),
    (lambda draft: draft.edit("huge.txt", [TextReplacement("x", "y")]), "files over 20,971,520 bytes are not edited"),
    (lambda draft: draft.edit("pipe", [TextReplacement("a", "b")]), "pipe can't be edited: not a regular file"),
    (lambda draft: draft.write("a.txt", numbered(5)), "already has exactly this content"),
    (lambda draft: draft.write("a.txt/x", "x"), "is a file, not a folder"),
    (lambda draft: draft.write("dir", "x"), "is a folder"),
    (lambda draft: draft.delete("none.txt"), "does not exist"),
    (lambda draft: draft.rename("a.txt", "b.bin"), "exists already"),
    (lambda draft: draft.rename("a.txt", "a.txt"), "already has this name"),
    (lambda draft: draft.rename("a.txt", "kept.txt"), r"kept\.txt exists already"),
    (lambda draft: draft.apply_patch(draft.parse_patch("no patch")), "not a patch"),
    (lambda draft: draft.apply_patch(draft.parse_patch(HALF)), r"b\.txt, but there is no such file"),
]


def test_deleted_and_written_again_is_an_edit(bench: Make) -> None:
    site = bench({"a.txt": numbered(5)})
    (site.root / "a.txt").chmod(0o755)
    draft = site.service.new_draft("session")
    draft.delete("a.txt")
    assert draft.read("a.txt").content is None
    with pytest.raises(EditRefused, match="was deleted or renamed"):
        draft.edit("a.txt", [TextReplacement("a", "b")])
    draft.write("a.txt", "new\n")
    [change] = site.service.stage(draft, "").files
    assert (change.op, change.result and change.result.mode) == (FileOperation.EDIT, 0o755)


def test_a_rewritten_file_keeps_encoding_and_line_endings(bench: Make) -> None:
    site = bench({"a.txt": b"\xef\xbb\xbfone\r\ntwo\r\nthree"})
    for text, data in (
        ("one\n2\nthree\nfour\n", b"one\r\n2\r\nthree\r\nfour\r\n"),
        ("one\n2", b"one\r\n2"),
        ("", b""),
    ):
        site.service.approve(site.write(**{"a.txt": text}).id)
        assert site.read("a.txt") == b"\xef\xbb\xbf" + data


def test_the_disk_moves_between_the_edit_and_the_staging(bench: Make) -> None:
    site = bench({"a.txt": numbered(20)})
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("line 15\n", "fifteen\n")])
    site.put(**{"a.txt": numbered(20, l1="first")})
    proposal = site.service.stage(draft, "")
    assert proposal.files[0].rebased
    site.service.approve(proposal.id, revision=1)
    assert site.read("a.txt").decode() == numbered(20, l1="first", l15="fifteen")


def test_text_never_becomes_where_a_link_leads(bench: Make) -> None:
    site = bench({"a.txt": "a\n"})
    link = FileOrLink(b"a.txt", LINK_MODE)
    draft = site.service.new_draft("session")
    draft.add_changes([PathChange("link", None, link)])
    with pytest.raises(EditRefused, match="symbolic link"):
        draft.write("link", "/etc/passwd")
    with pytest.raises(EditRefused, match="symbolic link"):
        draft.apply_patch(draft.parse_patch("--- a/link\n+++ b/link\n@@ -1 +1 @@\n-a.txt\n+/etc/passwd\n"))
    draft.add_changes([PathChange("link", link, None)])
    draft.write("link", "text\n")
    site.service.approve(site.service.stage(draft, "No link").id)
    assert not (site.root / "link").is_symlink()
    assert site.read("link") == b"text\n"


def test_drafted_and_pending_files_block_conflicting_paths(bench: Make) -> None:
    site = bench({})
    site.write(**{"waiting": "w\n", "below/here.txt": "h\n"})
    draft = site.service.new_draft("session")
    draft.write("file", "f\n")
    draft.write("folder/a.txt", "a\n")
    for path, why in (
        ("file/a.txt", "file is a file"),
        ("folder", "folder is a folder"),
        ("waiting/a.txt", "waiting is a file"),
        ("below", "below is a folder"),
        (".", "is the workspace itself"),
    ):
        with pytest.raises(EditRefused, match=why):
            draft.write(path, "x\n")
    draft.rename("folder/a.txt", "folder2")
    draft.write("folder", "free again\n")


def test_changed_lines_since_a_read_may_be_unknown(bench: Make) -> None:
    site = bench({"a.txt": "one\ntwo\n", "b.bin": b"\0"})
    draft = site.service.new_draft("session")
    before = draft.read("a.txt").version
    draft.edit("a.txt", [TextReplacement("two", "zwei")])
    now = draft.read("a.txt")
    assert draft.lines_changed_since(now, [before]) == (LineRange(1, 2),)
    assert draft.lines_changed_since(now, ["0" * 64]) is None
    assert draft.lines_changed_since(draft.read("b.bin"), [before]) is None
    assert draft.lines_changed_since(draft.read("none"), [before]) is None


def test_an_edit_with_a_similar_place_is_not_approved_in_bulk(bench: Make) -> None:
    site = bench({"a.py": "if a:\n    go()\n    end()\nif b:\n        go()\n        end()\n"})
    draft = site.service.new_draft("session")
    report = draft.edit("a.py", [TextReplacement("    go()\n    end()\n", "    end()\n")])
    assert "line 2: found with a doubt; the lines from line 5 differ from it in white space alone" in report.text
    (change,) = site.service.stage(draft, "Edit").files
    assert change.is_inexact


CLAUDE = ProposalOrigin(kind=OriginKind.AGENT, agent="claude", model="claude-opus-4-8", session="5f0c", prompt="p1")
CODEX = ProposalOrigin(kind=OriginKind.AGENT, agent="codex", model="gpt-5.5", session="77aa", prompt="t9")
LINES = "".join(f"line {number}\n" for number in range(1, 31))


def staged_by(bench: Bench, origin: ProposalOrigin, line: int, text: str) -> Proposal:
    """What an agent makes of the file as it would be with all that waits."""
    draft = bench.service.new_draft("")
    draft.origin = origin
    content = (draft.read("a.txt").content or b"").decode()
    draft.write("a.txt", content.replace(f"line {line}\n", text))
    return bench.service.stage(draft, f"Line {line}")


def test_a_row_of_an_earlier_version_names_the_kind_alone(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    store = SqliteProposalStore(database, "here", DatabaseChangeSignal(tmp_path, "here"))
    store.save_proposal(Proposal(id="P1", workspace="here", created=1.0, summary="An edit", files=()))
    (row,) = database.query_rows("SELECT body FROM proposals")
    for kind in ("model", "patch", "undo"):
        body = json.dumps({**json.loads(str(row[0])), "origin": kind})
        with database.transaction() as connection:
            connection.execute("UPDATE proposals SET body = ?", (body,))
        assert (found := store.proposal("P1")) and found.origin == ProposalOrigin(kind=OriginKind(kind))


def test_proposals_of_several_agents_stack_and_rebase(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"a.txt": LINES})
    first = staged_by(bench, CLAUDE, 3, "three\nand a half\n")
    second = staged_by(bench, CODEX, 20, "twenty\n")
    third = bench.edit("a.txt", ("line 28\n", "twenty-eight\n"))
    assert bench.service.get(first.id).origin == CLAUDE
    assert third.origin.kind is OriginKind.MODEL
    assert second.files[0].stacked_on == (first.id,)
    assert third.files[0].stacked_on == (first.id, second.id)
    changed = bench.service.deny(first.id).changed
    assert {each.id: each.files[0].rebased for each in changed} == {second.id: True, third.id: True}
    bench.put(**{"a.txt": f"// head\n{LINES}"})
    bench.service.rebase_pending()
    for proposal in (second, third):
        assert bench.service.get(proposal.id).state is ProposalState.PENDING
        bench.service.approve(proposal.id)
    wanted = f"// head\n{LINES}".replace("line 20\n", "twenty\n").replace("line 28\n", "twenty-eight\n")
    assert bench.read("a.txt").decode() == wanted


def test_a_filter_takes_agent_kind_and_model() -> None:
    for origin, wanted, other in (
        (CLAUDE, ("claude", "Claude", "agent", "claude-opus-4-8"), "codex"),
        (ProposalOrigin(model="qwen"), ("signoff", "model", "qwen"), "claude"),
        (ProposalOrigin(kind=OriginKind.COMMAND, model="qwen"), ("command", "qwen"), "signoff"),
        (ProposalOrigin(kind=OriginKind.PROGRAM), ("signoff", "program"), "model"),
        (ProposalOrigin(kind=OriginKind.PATCH), ("patch",), ""),
    ):
        assert all(origin.matches(each) for each in wanted), origin
        assert not origin.matches(other), origin
