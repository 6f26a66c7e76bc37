"""A few trials of the fuzzer, so that it keeps working."""

import pytest

from tests.fuzz.__main__ import trials
from tests.fuzz.trial import Verdict


@pytest.mark.parametrize("number", range(4))
def test_a_mutated_diff_ends_in_an_answer_and_is_undone_byte_for_byte(number: int) -> None:
    found = [(verdict, why, patch) for patch, verdict, why in trials(number)]
    assert not [each for each in found if each[0] in (Verdict.TOUCHED, Verdict.BROKEN)]
