"""A painted strip is freed when nothing shows it any more, and is divided as Textual divides it."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.strip import Strip

from app.ui.terminal.fitted_app import FittedApp, divide, textuals_divide
from app.ui.themes.first_theme import STANDARD, own_theme

TEXTS = st.lists(st.text("ab\N{CJK UNIFIED IDEOGRAPH-4E2D}", max_size=4), max_size=4)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage, and nothing that collects it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@given(TEXTS, st.lists(st.integers(1, 20), max_size=4, unique=True).map(sorted))
def test_the_parts_are_those_of_textual(texts: list[str], cuts: list[int]) -> None:
    segments = [Segment(text) for text in texts]
    for _ in range(2):
        assert list(divide(Strip(segments), cuts)) == list(textuals_divide(Strip(segments), cuts))


def test_a_strip_that_nothing_divides_is_freed_without_the_collector(uncollected: None) -> None:
    assert divide(Strip([Segment("text")]), [4, 9])
    assert gc.collect() == 0


def test_textual_still_keeps_such_a_strip_in_itself(uncollected: None) -> None:
    """Once this fails, `divide` in `app/ui/terminal/fitted_app.py` is not needed any more."""
    assert textuals_divide(Strip([Segment("text")]), [4])
    assert gc.collect() > 0


def test_all_strips_of_an_app_are_freed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Strip, "divide", textuals_divide)
    FittedApp(own_theme(STANDARD))
    gc.collect()
    gc.disable()
    try:
        assert Strip([Segment("text")]).divide([4])
        assert not any(isinstance(one, Strip) and one.text == "text" for one in gc.get_objects())
    finally:
        gc.enable()
