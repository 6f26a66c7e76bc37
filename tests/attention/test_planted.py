"""A defect in the last file by path comes early in the review order, in commits of any size."""

from tests.attention.commits import as_proposal, marked_places, share_before
from tests.attention.planted import commits

_MIN_EARLY_SHARE, _EARLY_SHARE = 0.8, 1 / 3
_MAX_MARKS_PER_HUNK = 0.2


def test_defect_in_the_last_file_comes_in_the_first_third() -> None:
    shares = {
        f"{number}: {path}": share_before(as_proposal(files), path) for number, (path, files) in enumerate(commits())
    }
    late = [name for name, share in shares.items() if share > _EARLY_SHARE]
    assert len(shares) == 30
    assert len(late) <= (1 - _MIN_EARLY_SHARE) * len(shares), late


def test_commits_without_the_defect_have_few_marks() -> None:
    hunks = marked = 0
    for path, files in commits():
        proposal = as_proposal({name: texts for name, texts in files.items() if name != path})
        hunks += len(proposal.hunks)
        marked += len(marked_places(proposal))
    assert marked <= _MAX_MARKS_PER_HUNK * hunks, (marked, hunks)


def test_order_does_not_depend_on_file_order() -> None:
    for _, files in commits():
        backwards = dict(reversed(files.items()))
        first, second = as_proposal(files), as_proposal(backwards)
        assert (first.order, first.reasons) == (second.order, second.reasons)
        assert sorted(first.order) == [change.path for change in first.files]
