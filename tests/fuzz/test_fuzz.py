"""A few trials of the fuzzer, to test that it works."""

import pytest

from tests.fuzz.__main__ import trials
from tests.fuzz.trial import Verdict


@pytest.mark.parametrize("number", range(4))
def test_mutated_diff_neither_fails_nor_leaves_changes_after_undo(number: int) -> None:
    results = [(verdict, reason, patch) for patch, verdict, reason in trials(number)]
    assert not [result for result in results if result[0] in (Verdict.TOUCHED, Verdict.BROKEN)]
