"""What the model had read before it edits: reasons for attention, from the log alone."""

from pathlib import Path
from typing import Any

import pytest

from app.agent.read_history import find_reads_before_proposal
from app.proposals.risk.change_summary import format_attention_reason
from app.proposals.risk.read_reasons import format_read_history
from app.proposals.values.models import Proposal
from tests.wire.bench import Bench, bench, edit
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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "parse.py").write_text(PARSE)
    (root / "greet.py").write_text("def greet(name):\n    return 'Hello ' + name\n")
    (root / "server.py").write_text("from parse import parse_header\nprint(parse_header('a: b'))\n")
    (root / "client.py").write_text("from parse import parse_header\nprint(parse_header('c: d'))\n")
    (root / "NOTES.md").write_text("parse_header parses\n")
    return root


async def send(on: Bench, server: WireServer, text: str, *calls: tuple[str, dict[str, Any]]) -> None:
    """Have the model answer with one call after the other, and then with words."""
    for name, arguments in calls:
        server.call(name, arguments)
    await on.say(text, last="Done.")


def latest(on: Bench) -> Proposal:
    assert on.runtime.service.pending(), on.server.last.said[-3:]
    return on.runtime.service.pending()[-1]


def reasons(on: Bench) -> list[str]:
    proposal = latest(on)
    changes = {change.path: change for change in proposal.files}
    return [
        format_attention_reason(one, changes[one.path]) for one in proposal.reasons if one.kind.is_from_read_history
    ]


async def test_an_edit_of_an_unread_file_is_marked(server: WireServer, root: Path) -> None:
    async with bench(server, root.parent) as on:
        await send(on, server, "Fix it", ("list_files", {}), BODY)
        assert reasons(on) == [UNREAD]
        assert latest(on).order == ("parse.py",)


@pytest.mark.parametrize(
    "before",
    [
        [READ],
        [("read_file", {"path": "parse.py", "start_line": 40, "end_line": 45})],
        [SEARCH],
        [("write_file", {"path": "parse.py", "content": "x"})],
    ],
)
async def test_an_edit_of_a_file_read_searched_or_written_before_is_not_marked(
    server: WireServer, root: Path, before: list[tuple[str, dict[str, Any]]]
) -> None:
    async with bench(server, root.parent) as on:
        await send(on, server, "Look", *before)
        if before[0][0] == "write_file":
            on.runtime.service.deny("P1")
        await send(on, server, "Fix it", BODY)
        assert reasons(on) == []


async def test_a_read_in_the_same_response_does_not_count(server: WireServer, root: Path) -> None:
    async with bench(server, root.parent) as on:
        await on.say("Fix it", [READ, BODY])
        assert reasons(on) == [UNREAD]


async def test_code_that_the_user_pasted_counts_as_read(server: WireServer, root: Path) -> None:
    async with bench(server, root.parent) as on:
        await send(on, server, "Fix this:\n    return name, value.strip()\n", BODY)
        assert reasons(on) == []


async def test_an_edit_near_lines_changed_after_the_read_is_marked(server: WireServer, root: Path) -> None:
    async with bench(server, root.parent) as on:
        await send(on, server, "Look", READ)
        (root / "parse.py").write_text(PARSE.replace("name, _, value = line", "name, _, value = line.lower()"))
        await send(on, server, "Fix it", BODY)
        assert reasons(on) == ["Edits the file near lines that changed after the model had read it (old line 45)."]


async def test_distant_changes_and_the_models_own_are_not_marked(server: WireServer, root: Path) -> None:
    async with bench(server, root.parent) as on:
        await send(on, server, "Look", READ)
        (root / "parse.py").write_text(PARSE.replace("setting_number_3 ", "setting_number_three "))
        await send(on, server, "Fix it", BODY)
        assert reasons(on) == []
        on.runtime.service.approve("P1")
        await send(on, server, "Once more", SIGNATURE)
        assert reasons(on) == []


async def test_a_changed_definition_names_unread_uses_that_were_found(server: WireServer, root: Path) -> None:
    async with bench(server, root.parent) as on:
        await send(on, server, "Add strict", READ, SEARCH, ("read_file", {"path": "client.py"}), SIGNATURE)
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


async def test_a_change_inside_a_definition_names_no_uses(server: WireServer, root: Path) -> None:
    async with bench(server, root.parent) as on:
        await send(on, server, "Fix it", READ, SEARCH, BODY)
        assert reasons(on) == []


async def test_the_mark_stays_after_the_user_edits_the_proposed_text(server: WireServer, root: Path) -> None:
    async with bench(server, root.parent) as on:
        await send(on, server, "Fix it", BODY)
        on.runtime.service.replace_proposed_text("P1", "parse.py", PARSE.replace("value.strip()", "value.lstrip()"))
        assert reasons(on) == [UNREAD]


async def test_a_partly_approved_edit_is_no_change_after_the_read(server: WireServer, root: Path) -> None:
    both = [
        {"old": "value.strip()", "new": "value.strip_all_of_it()"},
        {"old": "setting_number_3 = 3", "new": "setting_number_3 = 4"},
    ]
    async with bench(server, root.parent) as on:
        await send(on, server, "Fix it", READ, ("edit_file", {"path": "parse.py", "edits": both}))
        body = next(hunk for hunk in latest(on).hunks if hunk.old_start > 40)
        on.runtime.service.approve("P1", hunks=[body.id])
        on.runtime.service.deny("P1")
        await send(on, server, "Once more", SIGNATURE)
        assert reasons(on) == []


async def test_a_definition_that_is_only_indented_names_no_uses(server: WireServer, root: Path) -> None:
    inside = {"old": "def parse_header(line):", "new": "class Parser:\n    def parse_header(line):"}
    async with bench(server, root.parent) as on:
        await send(on, server, "Move it", READ, SEARCH, ("edit_file", {"path": "parse.py", "edits": [inside]}))
        assert reasons(on) == []


async def test_the_model_is_not_told_about_the_marks(server: WireServer, root: Path) -> None:
    async with bench(server, root.parent) as on:
        await send(on, server, "Fix it", edit())
        await send(on, server, "And?")
        assert not any("without having read" in text for request in server.requests for _, text in request.said)
