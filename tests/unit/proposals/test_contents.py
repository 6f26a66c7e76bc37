"""The contents that are kept in memory, and those that are nowhere any more."""

from collections.abc import Callable

import pytest

from app.proposals.files.filesystem import file_version
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


def test_what_the_store_has_is_let_go_once_it_is_old(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench().store
    contents = Contents(store)
    read = file_version(b"read and nowhere else", 0o644)
    contents.remember(read.sha256, b"read and nowhere else")
    old = [contents.add(b"%d" % number * 100_000, 0o644) for number in range(9)]
    contents.save()
    asked: list[str] = []
    blob = store.blob
    monkeypatch.setattr(store, "blob", lambda sha256: asked.append(sha256) or blob(sha256))
    assert [contents.get(version) for version in old] == [b"%d" % number * 100_000 for number in range(9)]
    assert not asked
    monkeypatch.setattr("app.proposals.overlay.overlay.OLD_SECONDS", -1.0)
    contents.add(b"new", 0o644)
    contents.save()
    assert [contents.get(version) for version in (old[8], old[7])] == [b"8" * 100_000, b"7" * 100_000]
    assert not asked
    assert contents.get(old[0]) == b"0" * 100_000
    assert asked == [old[0].sha256]
    assert contents.get(read) == b"read and nowhere else"
