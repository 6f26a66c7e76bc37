"""What holds for benchmarks alone."""

import pytest
import textual.constants
import textual.screen

from tests import stylesheets
from tests.pictures import paint_everything


@pytest.fixture(autouse=True)
def all_that_the_app_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests paint seldom and work out styles once; here it counts what that takes, and how long one waits."""
    monkeypatch.setattr(textual.screen, "UPDATE_PERIOD", 1 / textual.constants.MAX_FPS)
    paint_everything(monkeypatch)
    stylesheets.disable_stylesheet_cache(monkeypatch)
