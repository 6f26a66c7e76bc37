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


CHANGED, SAME, BESIDE = CommentedLineChange.CHANGED, CommentedLineChange.SAME, CommentedLineChange.BESIDE
UNKNOWN, GONE = CommentedLineChange.UNKNOWN, CommentedLineChange.GONE


@pytest.mark.parametrize(
    ("second", "answers"),
    [
        (
            "one\ndeux\nthree\nvier\nfive\n",
            [
                (on(2), CHANGED),
                (on(4), SAME),
                (on(3), BESIDE),
                (on(2, "old"), CHANGED),
                (on(4, quote=" three\n-four\n+vier"), SAME),
                (on(4, quote=" something\n+else"), UNKNOWN),
                (on(40), UNKNOWN),
                (on(1, path="b.py"), UNKNOWN),
                (on(1, path="c.py"), GONE),
            ],
        ),
        ("one\nzwei\nmore\nthree\nvier\nfive\n", [(on(2), BESIDE), (on(5), SAME)]),
        ("one\nzwei\nthree\nfive\n", [(on(4), CHANGED)]),
        ("one\nzwei\nthree\nfour\nfive\n", [(on(4, "old"), CHANGED)]),
        ("one\nzwei\nthree\nvier\nfive\nsix\n", [(on(4, "old"), SAME), (on(5, "old"), UNKNOWN)]),
        ("one\nfour\nthree\nfive\n", [(on(2, "old", quote="-two"), CHANGED)]),
    ],
)
def test_comments_follow_their_line_into_the_next_version(
    revise: Revise, second: str, answers: list[tuple[LineComment, CommentedLineChange]]
) -> None:
    _, store, proposal = revise({"a.py": second})
    comments = [comment for comment, _ in answers]
    assert compare_commented_lines(store, proposal, comments) == tuple(answer for _, answer in answers)


def test_a_comment_of_a_partial_denial_is_compared_with_its_part(revise: Revise) -> None:
    _, store, proposal = revise({"a.py": "one\ndeux\nthree\nvier\nfive\n"}, deny_first=("1",))
    comments = [on(2, quote=" one\n-two\n+zwei\n three"), on(4, quote=" three\n-four\n+vier")]
    assert compare_commented_lines(store, proposal, comments) == (CHANGED, SAME)


def test_a_proposal_without_a_predecessor_has_no_follow_ups(bench: Callable[..., Bench]) -> None:
    made = bench({"a.py": BASE})
    proposal = made.write(**{"a.py": FIRST})
    assert compare_commented_lines(made.store, proposal.id, [on(2), on(4)]) == (UNKNOWN, UNKNOWN)
    assert compare_commented_lines(made.store, "P99", [on(2)]) == (UNKNOWN,)


def test_a_removed_line_of_a_changed_file_is_not_found_by_number(bench: Callable[..., Bench]) -> None:
    made = bench({"a.py": BASE})
    first = made.write(**{"a.py": FIRST})
    made.service.deny(first.id)
    made.put(**{"a.py": f"zero\n{BASE}"})
    draft = made.service.new_draft("session")
    draft.write("a.py", "zero\none\ntwo\nthree\nvier\nfive\n")
    second = made.service.stage(draft, "second", answers=(first.id,))
    assert compare_commented_lines(made.store, second.id, [on(2, "old"), on(4, "new")]) == (UNKNOWN, SAME)
