"""The contents that are kept in memory, and those that are nowhere any more."""

from collections.abc import Callable

import pytest

from app.proposals.overlay.overlay import Contents
from app.proposals.values.models import FileVersion
from app.proposals.values.proposal_errors import MissingContent
from tests.unit.proposals.bench import Bench


def test_what_is_remembered_again_counts_once_and_as_the_latest(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.proposals.overlay.overlay.CACHE_BYTES", 10)
    contents = Contents(bench().store)
    first, second, third = (letter * 64 for letter in "abc")
    for _ in range(2):
        contents.remember(first, b"12345")
    contents.remember(second, b"1234")
    assert (contents.find(first), contents.find(second)) == (b"12345", b"1234")
    contents.remember(first, b"12345")
    contents.remember(third, b"12")
    assert (contents.find(first), contents.find(second), contents.find(third)) == (b"12345", None, b"12")


def test_content_that_is_gone_is_said_in_words_for_its_user(bench: Callable[..., Bench]) -> None:
    with pytest.raises(MissingContent, match="The stored content 000000000000 is missing or damaged"):
        Contents(bench().store).get(FileVersion(sha256="0" * 64, size=1))
