"""What a new version does at the comments on the one before."""

from collections.abc import Callable

import pytest

from app.proposals.decide.comment_follow_up import CommentedLineChange, compare_commented_lines
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.record_entries import RecordingStore
from tests.unit.proposals.bench import Bench

BASE = "one\ntwo\nthree\nfour\nfive\n"
FIRST = "one\nzwei\nthree\nvier\nfive\n"

Revise = Callable[..., tuple[RecordingStore, str]]


@pytest.fixture
def revise(bench: Callable[..., Bench]) -> Revise:
    """Stages a first version, has it denied, and stages the second: content by path."""

    def make(second: dict[str, str], deny_first: tuple[str, ...] = ()) -> tuple[RecordingStore, str]:
        site = bench({"a.py": BASE})
        first = site.write(**{"a.py": FIRST, "c.py": "c\n"})
        for number in deny_first:
            site.service.deny(first.id, (number,))
        site.service.deny(first.id, feedback="again")
        return site.store, site.write(first.id, **second).id

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
    store, proposal = revise({"a.py": second})
    comments = [comment for comment, _ in answers]
    assert compare_commented_lines(store, proposal, comments) == tuple(answer for _, answer in answers)


def test_a_comment_of_a_partial_denial_is_compared_with_its_part(revise: Revise) -> None:
    store, proposal = revise({"a.py": "one\ndeux\nthree\nvier\nfive\n"}, deny_first=("1",))
    comments = [on(2, quote=" one\n-two\n+zwei\n three"), on(4, quote=" three\n-four\n+vier")]
    assert compare_commented_lines(store, proposal, comments) == (CHANGED, SAME)


def test_a_proposal_without_a_predecessor_has_no_follow_ups(bench: Callable[..., Bench]) -> None:
    made = bench({"a.py": BASE})
    proposal = made.write(**{"a.py": FIRST})
    assert compare_commented_lines(made.store, proposal.id, [on(2), on(4)]) == (UNKNOWN, UNKNOWN)
    assert compare_commented_lines(made.store, "P99", [on(2)]) == (UNKNOWN,)


def test_a_removed_line_of_a_changed_file_is_not_found_by_number(bench: Callable[..., Bench]) -> None:
    site = bench({"a.py": BASE})
    first = site.write(**{"a.py": FIRST})
    site.service.deny(first.id)
    site.put(**{"a.py": f"zero\n{BASE}"})
    second = site.write(first.id, **{"a.py": "zero\none\ntwo\nthree\nvier\nfive\n"})
    assert compare_commented_lines(site.store, second.id, [on(2, "old"), on(4, "new")]) == (UNKNOWN, SAME)
