"""A defect in the last file by path is met early, on commits of our own, whatever else is in them."""

from tests.attention.commits import as_proposal, marks, share_before
from tests.attention.planted import commits

_LEAST, _EARLY = 0.8, 1 / 3
_MARKS_PER_HUNK = 0.2


def test_a_defect_in_the_last_file_stands_in_the_first_third() -> None:
    shares = {
        f"{number}: {path}": share_before(as_proposal(files), path) for number, (path, files) in enumerate(commits())
    }
    late = [name for name, share in shares.items() if share > _EARLY]
    assert len(shares) == 30
    assert len(late) <= (1 - _LEAST) * len(shares), late


def test_the_same_commits_without_the_defect_are_hardly_marked() -> None:
    hunks = marked = 0
    for path, files in commits():
        proposal = as_proposal({name: texts for name, texts in files.items() if name != path})
        hunks += len(proposal.hunks)
        marked += len(marks(proposal))
    assert marked <= _MARKS_PER_HUNK * hunks, (marked, hunks)


def test_the_order_is_the_same_whenever_it_is_made() -> None:
    for _, files in commits():
        backwards = dict(reversed(files.items()))
        first, second = as_proposal(files), as_proposal(backwards)
        assert (first.order, first.reasons) == (second.order, second.reasons)
        assert sorted(first.order) == [change.path for change in first.files]
