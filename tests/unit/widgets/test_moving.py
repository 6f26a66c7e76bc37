"""A remark stays with its line, whatever is decided on the other hunks of the file."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.proposals.bench import Bench, numbered
from widgets.approval.notes import Remark
from widgets.approval.state import ReviewState


@settings(max_examples=25, deadline=None)
@given(line=st.integers(0, 33), hunk=st.integers(1, 3))
def test_a_remark_moves_with_its_line_when_another_hunk_is_denied(
    tmp_path_factory: pytest.TempPathFactory, line: int, hunk: int
) -> None:
    site = Bench(tmp_path_factory.mktemp("bench"), {"a.txt": numbered(30)})
    proposal = site.edit("a.txt", ("line 2\n", "A\nB\n"), ("line 12\n", "C\nD\nE\n"), ("line 22\n", "F\nG\n"))
    new = site.service.diffs(proposal.id)[0].new
    state = ReviewState()
    state.update([proposal])
    state.remark(proposal, Remark("a.txt", "new", line, "why?"))
    after = site.service.deny(proposal.id, {str(hunk)}).proposal
    state.update([after])
    (remark,) = state.remarks[proposal.id]
    now = site.service.diffs(proposal.id)[0].new
    if new[line] in now:
        assert now[remark.line] == new[line]
