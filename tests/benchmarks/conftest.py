"""What holds for benchmarks alone."""

import pytest
import textual.constants
import textual.screen


@pytest.fixture(autouse=True)
def pictures_as_often_as_in_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests are painted seldom; here, how long somebody waits for a picture is what is measured."""
    monkeypatch.setattr(textual.screen, "UPDATE_PERIOD", 1 / textual.constants.MAX_FPS)
