"""What the model had read before it edits: reasons for attention, from the log alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.read_history import find_reads_before_proposal
from app.proposals.risk.change_summary import format_attention_reason
from app.proposals.risk.read_reasons import format_read_history
from app.proposals.values.models import Proposal
from tests.wire.bench import Bench, bench
from tests.wire.server import WireServer

PARSE = "".join(f"setting_number_{number} = {number}\n" for number in range(40)) + (
    "\n\ndef parse_header(line):\n    name, _, value = line.partition(':')\n    return name, value.strip()\n"
)
READ = ("read_file", {"path": "parse.py"})
SEARCH = ("search_text", {"pattern": "parse_header"})
SIGNATURE = (
    "edit_file",
    {"path": "parse.py", "edits": [{"old": "parse_header(line)", "new": "parse_header(line, strict)"}]},
)
BODY = ("edit_file", {"path": "parse.py", "edits": [{"old": "value.strip()", "new": "value.rstrip()"}]})
UNREAD = "Edits the file without having read it."


INSIDE = {"old": "def parse_header(line):", "new": "class Parser:\n    def parse_header(line):"}
INDENT = ("edit_file", {"path": "parse.py", "edits": [INSIDE]})


@pytest.fixture
async def on(server: WireServer, tmp_path: Path) -> AsyncIterator[Bench]:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "parse.py").write_text(PARSE)
    (root / "server.py").write_text("from parse import parse_header\nprint(parse_header('a: b'))\n")
    (root / "client.py").write_text("from parse import parse_header\nprint(parse_header('c: d'))\n")
    (root / "NOTES.md").write_text("parse_header parses\n")
    async with bench(server, tmp_path) as opened:
        yield opened


def latest(on: Bench) -> Proposal:
    assert on.runtime.service.pending(), on.server.last.said[-3:]
    return on.runtime.service.pending()[-1]


def reasons(on: Bench) -> list[str]:
    proposal = latest(on)
    changes = {change.path: change for change in proposal.files}
    return [
        format_attention_reason(one, changes[one.path]) for one in proposal.reasons if one.kind.is_from_read_history
    ]


async def test_an_edit_of_an_unread_file_is_marked_for_the_user_alone(server: WireServer, on: Bench) -> None:
    await on.say("Fix it", ("list_files", {}), BODY)
    assert reasons(on) == [UNREAD]
    assert latest(on).order == ("parse.py",)
    on.runtime.service.replace_proposed_text("P1", "parse.py", PARSE.replace("value.strip()", "value.lstrip()"))
    assert reasons(on) == [UNREAD], "the mark stays after the user edits the proposed text"
    await on.say("And?", last="Done.")
    assert not any("without having read" in text for request in server.requests for _, text in request.said)


@pytest.mark.parametrize(
    ("before", "words", "call"),
    [
        ([READ], "Fix it", BODY),
        ([("read_file", {"path": "parse.py", "start_line": 40, "end_line": 45})], "Fix it", BODY),
        ([SEARCH], "Fix it", BODY),
        ([("write_file", {"path": "parse.py", "content": "x"})], "Fix it", BODY),
        ([], "Fix this:\n    return name, value.strip()\n", BODY),
        ([READ, SEARCH], "Fix it", BODY),
        ([READ, SEARCH], "Move it", INDENT),
    ],
    ids=["read", "read in part", "searched", "written", "pasted by the user", "inside a definition", "only indented"],
)
async def test_an_edit_of_a_known_file_is_not_marked(
    on: Bench, before: list[tuple[str, dict[str, Any]]], words: str, call: tuple[str, dict[str, Any]]
) -> None:
    if before:
        await on.say("Look", *before)
    if on.runtime.service.pending():
        on.runtime.service.deny("P1")
    await on.say(words, call)
    assert reasons(on) == []


async def test_a_read_in_the_same_response_does_not_count(on: Bench) -> None:
    await on.say("Fix it", [READ, BODY])
    assert reasons(on) == [UNREAD]


async def test_an_edit_near_lines_changed_after_the_read_is_marked(on: Bench) -> None:
    await on.say("Look", READ)
    (on.root / "parse.py").write_text(PARSE.replace("name, _, value = line", "name, _, value = line.lower()"))
    await on.say("Fix it", BODY)
    assert reasons(on) == ["Edits the file near lines that changed after the model had read it (old line 45)."]


async def test_distant_changes_and_the_models_own_are_not_marked(on: Bench) -> None:
    await on.say("Look", READ)
    (on.root / "parse.py").write_text(PARSE.replace("setting_number_3 ", "setting_number_three "))
    await on.say("Fix it", BODY)
    assert reasons(on) == []
    on.runtime.service.approve("P1")
    await on.say("Once more", SIGNATURE)
    assert reasons(on) == []


async def test_a_changed_definition_names_unread_uses_that_were_found(on: Bench) -> None:
    await on.say("Add strict", READ, SEARCH, ("read_file", {"path": "client.py"}), SIGNATURE)
    assert reasons(on) == [
        "Changes parse_header, which 1 file that the model found but did not read uses: server.py (old line 43)."
    ]
    history = find_reads_before_proposal(on.session.log.events, "P1", ["parse.py"])
    assert history is not None
    version = on.runtime.service.get("P1").files[0].base
    assert version is not None
    assert format_read_history(history, ["parse.py"]) == [
        "You asked: Add strict",
        f"parse.py: 45 lines at version {version.sha256[:12]}",
        "Also read: client.py",
        "Searched for parse_header: 4 found; not read: server.py",
    ]


async def test_a_partly_approved_edit_is_no_change_after_the_read(on: Bench) -> None:
    both = [
        {"old": "value.strip()", "new": "value.strip_all_of_it()"},
        {"old": "setting_number_3 = 3", "new": "setting_number_3 = 4"},
    ]
    await on.say("Fix it", READ, ("edit_file", {"path": "parse.py", "edits": both}))
    body = next(hunk for hunk in latest(on).hunks if hunk.old_start > 40)
    on.runtime.service.approve("P1", hunks=[body.id])
    on.runtime.service.deny("P1")
    await on.say("Once more", SIGNATURE)
    assert reasons(on) == []
