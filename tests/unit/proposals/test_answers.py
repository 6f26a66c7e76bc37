"""What a new version does at the comments on the one before."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.proposals.decide.comment_follow_up import CommentedLineChange, compare_commented_lines
from app.proposals.proposal_service import ProposalService
from app.proposals.values.decision_facts import LineComment
from app.workspace.paths import Workspace
from tests.unit.proposals.bench import Bench
from tests.unit.proposals.memory_store import MemoryStore

BASE = "one\ntwo\nthree\nfour\nfive\n"
FIRST = "one\nzwei\nthree\nvier\nfive\n"

Revise = Callable[..., tuple[ProposalService, MemoryStore, str]]


@pytest.fixture
def revise(tmp_path: Path) -> Revise:
    """Stages a first version, has it denied, and stages the second: content by path."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "a.py").write_text(BASE)

    def make(second: dict[str, str], deny_first: tuple[str, ...] = ()) -> tuple[ProposalService, MemoryStore, str]:
        store = MemoryStore()
        service = ProposalService(Workspace(root), store, tmp_path / "lock")
        draft = service.new_draft("s")
        draft.write("a.py", FIRST)
        draft.write("c.py", "c\n")
        proposal = service.stage(draft, "first")
        for number in deny_first:
            service.deny(proposal.id, (number,))
        service.deny(proposal.id, feedback="again")
        draft = service.new_draft("s")
        for path, text in second.items():
            draft.write(path, text)
        return service, store, service.stage(draft, "second", answers=(proposal.id,)).id

    return make


def on(line: int, side: str = "new", quote: str = "", path: str = "a.py") -> LineComment:
    return LineComment.model_validate({"path": path, "line": line, "side": side, "quote": quote, "text": "?"})


@pytest.mark.parametrize(
    ("second", "comment", "answer"),
    [
        ("one\ndeux\nthree\nvier\nfive\n", on(2), CommentedLineChange.CHANGED),
        ("one\ndeux\nthree\nvier\nfive\n", on(4), CommentedLineChange.SAME),
        ("one\ndeux\nthree\nvier\nfive\n", on(3), CommentedLineChange.BESIDE),
        ("one\nzwei\nmore\nthree\nvier\nfive\n", on(2), CommentedLineChange.BESIDE),
        ("one\nzwei\nmore\nthree\nvier\nfive\n", on(5), CommentedLineChange.SAME),
        ("one\nzwei\nthree\nfive\n", on(4), CommentedLineChange.CHANGED),
        ("one\nzwei\nthree\nfour\nfive\n", on(4, "old"), CommentedLineChange.CHANGED),
        ("one\nzwei\nthree\nvier\nfive\nsix\n", on(4, "old"), CommentedLineChange.SAME),
        ("one\ndeux\nthree\nvier\nfive\n", on(2, "old"), CommentedLineChange.CHANGED),
        ("one\ndeux\nthree\nvier\nfive\n", on(4, quote=" three\n-four\n+vier"), CommentedLineChange.SAME),
        ("one\ndeux\nthree\nvier\nfive\n", on(4, quote=" something\n+else"), CommentedLineChange.UNKNOWN),
        ("one\ndeux\nthree\nvier\nfive\n", on(40), CommentedLineChange.UNKNOWN),
        ("one\nfour\nthree\nfive\n", on(2, "old", quote="-two"), CommentedLineChange.CHANGED),
        ("one\nzwei\nthree\nvier\nfive\nsix\n", on(5, "old"), CommentedLineChange.UNKNOWN),
        ("one\ndeux\nthree\nvier\nfive\n", on(1, path="b.py"), CommentedLineChange.UNKNOWN),
    ],
)
def test_comments_follow_their_line_into_the_next_version(
    revise: Revise, second: str, comment: LineComment, answer: CommentedLineChange
) -> None:
    _, store, proposal = revise({"a.py": second})
    assert compare_commented_lines(store, proposal, [comment]) == (answer,)


def test_a_comment_on_a_file_not_in_the_new_version_is_reported(revise: Revise) -> None:
    _, store, proposal = revise({"a.py": BASE + "six\n"})
    assert compare_commented_lines(store, proposal, [on(1, path="c.py")]) == (CommentedLineChange.GONE,)


def test_a_comment_of_a_partial_denial_is_compared_with_its_part(revise: Revise) -> None:
    _, store, proposal = revise({"a.py": "one\ndeux\nthree\nvier\nfive\n"}, deny_first=("1",))
    quote = " one\n-two\n+zwei\n three"
    assert compare_commented_lines(store, proposal, [on(2, quote=quote), on(4, quote=" three\n-four\n+vier")]) == (
        CommentedLineChange.CHANGED,
        CommentedLineChange.SAME,
    )


def test_a_proposal_without_a_predecessor_has_no_follow_ups(bench: Callable[..., Bench]) -> None:
    made = bench({"a.py": BASE})
    proposal = made.write(**{"a.py": FIRST})
    assert compare_commented_lines(made.store, proposal.id, [on(2), on(4)]) == (
        CommentedLineChange.UNKNOWN,
        CommentedLineChange.UNKNOWN,
    )
    assert compare_commented_lines(made.store, "P99", [on(2)]) == (CommentedLineChange.UNKNOWN,)


def test_a_removed_line_of_a_changed_file_is_not_found_by_number(
    bench: Callable[..., Bench],
) -> None:
    made = bench({"a.py": BASE})
    first = made.write(**{"a.py": FIRST})
    made.service.deny(first.id)
    made.put(**{"a.py": f"zero\n{BASE}"})
    draft = made.service.new_draft("session")
    draft.write("a.py", "zero\none\ntwo\nthree\nvier\nfive\n")
    second = made.service.stage(draft, "second", answers=(first.id,))
    assert compare_commented_lines(made.store, second.id, [on(2, "old"), on(4, "new")]) == (
        CommentedLineChange.UNKNOWN,
        CommentedLineChange.SAME,
    )
