"""What changed from one version of a proposal to the next."""

import pytest

from app.proposals.decide.comment_follow_up import version_diffs
from app.proposals.locate.matching import Replacement
from app.proposals.proposal_service import ProposalService
from app.proposals.values.proposal_errors import UnknownProposal
from app.workspace.paths import Workspace
from tests.unit.proposals.memory_store import MemoryStore


@pytest.fixture
def service(tmp_path):  # type: ignore[no-untyped-def]
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "a.py").write_text("one\ntwo\nthree\n")
    (root / "b.py").write_text("b\n")
    store = MemoryStore()
    return ProposalService(Workspace(root), store, tmp_path / "lock"), store


def test_only_what_differs_between_the_two_is_shown(service) -> None:  # type: ignore[no-untyped-def]
    made, store = service
    draft = made.draft("s")
    draft.edit("a.py", [Replacement("two", "zwei")])
    draft.edit("b.py", [Replacement("b", "B")])
    first = made.stage(draft, "first")
    made.deny(first.id, feedback="in French, and leave b alone")
    draft = made.draft("s")
    draft.edit("a.py", [Replacement("two", "deux")])
    draft.write("c.py", "c\n")
    second = made.stage(draft, "second", answers=(first.id,))
    diffs = {diff.change.path: diff for diff in version_diffs(store, second.id)}
    assert set(diffs) == {"a.py", "b.py", "c.py"}
    assert (diffs["a.py"].old, diffs["a.py"].new) == (("one", "zwei", "three"), ("one", "deux", "three"))
    assert (diffs["b.py"].old, diffs["b.py"].new) == (("B",), ("b",))
    assert diffs["c.py"].change.base is None and diffs["c.py"].new == ("c",)


def test_a_file_that_both_write_alike_is_left_out(service) -> None:  # type: ignore[no-untyped-def]
    made, store = service
    draft = made.draft("s")
    draft.edit("a.py", [Replacement("two", "zwei")])
    draft.edit("b.py", [Replacement("b", "B")])
    first = made.stage(draft, "first")
    made.deny(first.id)
    draft = made.draft("s")
    draft.edit("a.py", [Replacement("two", "zwei")])
    draft.edit("b.py", [Replacement("b", "C")])
    second = made.stage(draft, "second", answers=(first.id,))
    assert [diff.change.path for diff in version_diffs(store, second.id)] == ["b.py"]


def test_a_rename_that_is_new_in_the_second_version_moves_the_file(service) -> None:  # type: ignore[no-untyped-def]
    made, store = service
    draft = made.draft("s")
    draft.edit("a.py", [Replacement("two", "zwei")])
    first = made.stage(draft, "first")
    made.deny(first.id)
    draft = made.draft("s")
    draft.rename("a.py", "z.py")
    second = made.stage(draft, "second", answers=(first.id,))
    diffs = {diff.change.path: diff for diff in version_diffs(store, second.id)}
    assert diffs["a.py"].change.result is None and diffs["a.py"].old == ("one", "zwei", "three")
    assert diffs["z.py"].change.base is None and diffs["z.py"].new == ("one", "two", "three")


def test_a_first_version_has_nothing_to_be_compared_with(service) -> None:  # type: ignore[no-untyped-def]
    made, store = service
    draft = made.draft("s")
    draft.edit("b.py", [Replacement("b", "B")])
    first = made.stage(draft, "first")
    for name in (first.id, "P99"):
        with pytest.raises(UnknownProposal):
            version_diffs(store, name)
