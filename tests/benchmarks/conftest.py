"""Fixtures for benchmarks."""

import pytest
import textual.constants
import textual.screen

from tests import stylesheets
from tests.pictures import paint_everything


@pytest.fixture(autouse=True)
def use_real_painting_and_styling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paint every frame and compute all styles: other tests skip most of this work, and benchmarks measure it."""
    monkeypatch.setattr(textual.screen, "UPDATE_PERIOD", 1 / textual.constants.MAX_FPS)
    paint_everything(monkeypatch)
    stylesheets.disable_stylesheet_cache(monkeypatch)
