"""What a sandbox is given to lay over the disk."""

from pathlib import Path

from app.proposals.locate.matching import Replacement
from app.proposals.proposal_service import ProposalService
from app.workspace.paths import Workspace
from tests.unit.proposals.memory_store import MemoryStore


def staged(service: ProposalService, path: str, old: str, new: str) -> str:
    draft = service.draft("s")
    draft.edit(path, [Replacement(old, new)])
    return service.stage(draft, "").id


def test_a_proposal_alone_lies_on_those_that_it_stacks_on_and_on_no_others(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    (root / "a").write_text("one\ntwo\nthree\n")
    (root / "b").write_text("b\n")
    service = ProposalService(Workspace(root), MemoryStore(), tmp_path / "lock")
    first = staged(service, "a", "one", "1")
    other = staged(service, "b", "b", "B")
    second = staged(service, "a", "three", "3")
    third = staged(service, "a", "two", "2")

    def texts(proposal: str) -> dict[str, bytes | None]:
        return {path: leaf.data if leaf else None for path, leaf in service.check_trees(proposal).after.items()}

    assert texts(first) == {"a": b"1\ntwo\nthree\n"}
    assert texts(other) == {"b": b"B\n"}
    assert texts(second) == {"a": b"1\ntwo\n3\n"}
    assert texts(third) == {"a": b"1\n2\n3\n"}
