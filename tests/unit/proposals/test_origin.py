"""Where proposals come from: stored, read back from older rows, and no reason to treat them differently."""

import json
from pathlib import Path

import pytest

from app.proposals.values.models import Proposal, ProposalState
from app.proposals.values.origin import Origin, OriginKind
from app.storage.change_signals import ChangeSignal
from app.storage.database import Database
from app.storage.sqlite_proposal_store import SqliteProposalStore
from tests.unit.proposals.bench import Bench

CLAUDE = Origin(kind=OriginKind.AGENT, agent="claude", model="claude-opus-4-8", session="5f0c", prompt="p1")
CODEX = Origin(kind=OriginKind.AGENT, agent="codex", model="gpt-5.5", session="77aa", prompt="t9")
LINES = "".join(f"line {number}\n" for number in range(1, 31))


def staged_by(bench: Bench, origin: Origin, line: int, text: str) -> Proposal:
    """What an agent makes of the file as it would be with all that waits."""
    draft = bench.service.draft("")
    draft.origin = origin
    content = (draft.read("a.txt").content or b"").decode()
    draft.write("a.txt", content.replace(f"line {line}\n", text))
    return bench.service.stage(draft, f"Line {line}")


def test_a_row_of_an_earlier_version_names_the_kind_alone(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    store = SqliteProposalStore(database, "here", ChangeSignal(tmp_path, "here"))
    store.save_proposal(Proposal(id="P1", workspace="here", created=1.0, summary="An edit", files=()))
    (row,) = database.rows("SELECT body FROM proposals")
    for kind in ("model", "patch", "undo"):
        body = json.dumps({**json.loads(str(row[0])), "origin": kind})
        with database.transaction() as connection:
            connection.execute("UPDATE proposals SET body = ?", (body,))
        assert (found := store.proposal("P1")) and found.origin == Origin(kind=OriginKind(kind))


def test_an_origin_is_kept_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"a.txt": LINES})
    proposal = staged_by(bench, CLAUDE, 3, "three\n")
    assert bench.service.get(proposal.id).origin == CLAUDE


def test_a_draft_is_its_models_or_a_patch(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"a.txt": LINES})
    assert bench.edit("a.txt", ("line 3\n", "three\n")).origin.kind is OriginKind.MODEL
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -9 +9 @@\n-line 9\n+nine\n"
    assert bench.service.stage_patch(patch).origin.kind is OriginKind.PATCH


def test_proposals_of_several_agents_stack_and_are_re_based_as_those_of_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"a.txt": LINES})
    first = staged_by(bench, CLAUDE, 3, "three\nand a half\n")
    second = staged_by(bench, CODEX, 20, "twenty\n")
    third = bench.edit("a.txt", ("line 28\n", "twenty-eight\n"))
    assert second.files[0].stacked_on == (first.id,)
    assert third.files[0].stacked_on == (first.id, second.id)
    bench.service.deny(first.id)
    bench.put(**{"a.txt": f"// head\n{LINES}"})
    bench.service.refresh()
    for proposal in (second, third):
        assert bench.service.get(proposal.id).state is ProposalState.PENDING
        bench.service.approve(proposal.id)
    wanted = f"// head\n{LINES}".replace("line 20\n", "twenty\n").replace("line 28\n", "twenty-eight\n")
    assert bench.read("a.txt").decode() == wanted


def test_what_stands_on_another_agents_denied_lines_turns_stale(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"a.txt": LINES})
    first = staged_by(bench, CLAUDE, 3, "three\n")
    draft = bench.service.draft("")
    draft.origin = CODEX
    draft.write("a.txt", (draft.read("a.txt").content or b"").decode().replace("three\n", "THREE\n"))
    second = bench.service.stage(draft, "Louder")
    bench.service.deny(first.id)
    assert bench.service.get(second.id).state is ProposalState.STALE


@pytest.mark.parametrize(
    ("origin", "wanted", "other"),
    [
        (CLAUDE, ("claude", "Claude", "agent", "claude-opus-4-8"), "codex"),
        (Origin(model="qwen"), ("signoff", "model", "qwen"), "claude"),
        (Origin(kind=OriginKind.COMMAND, model="qwen"), ("command", "qwen"), "signoff"),
        (Origin(kind=OriginKind.PROGRAM), ("signoff", "program"), "model"),
        (Origin(kind=OriginKind.PATCH), ("patch",), ""),
    ],
)
def test_a_filter_takes_agent_kind_and_model(origin: Origin, wanted: tuple[str, ...], other: str) -> None:
    assert all(origin.matches(each) for each in wanted)
    assert not origin.matches(other)
