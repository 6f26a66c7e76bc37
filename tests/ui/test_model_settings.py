"""What is set for models alone, in the running app: over the wire, and on its screen."""

from pathlib import Path

import pytest

from tests.ui.running_app import running
from tests.wire.replies import Turn
from tests.wire.server import WireServer


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "config" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


async def test_each_model_gets_what_is_set_for_it_and_effort_goes_over_it(
    tmp_path: Path, server: WireServer, file: Path
) -> None:
    file.write_text(
        'reasoning_effort = "low"\n[request]\ntop_p = 0.5\n'
        '[models."test-*"]\nreasoning_effort = "high"\nrequest = { seed = 7 }\n'
        "[models.other]\nrequest = { top_p = 0.9 }\ncontext_window = 16000\n"
    )
    server.always(Turn("Hello."))
    async with running(tmp_path, server) as run:
        await run.say("one")
        await run.command("model other")
        await run.see("From the next request on: other.")
        await run.say("two")
        assert run.app.session().ports.model.profile.context_window == 16000
        await run.command("effort minimal")
        await run.see("minimal")
        await run.say("three")
        await run.command("model test-model")
        await run.see("From the next request on: test-model.")
        await run.say("four")
        fields = ("model", "reasoning_effort", "top_p", "seed")
        assert [tuple(map(request.body.get, fields)) for request in server.requests] == [
            ("test-model", "high", 0.5, 7),
            ("other", "low", 0.9, None),
            ("other", "minimal", 0.9, None),
            ("test-model", "minimal", 0.5, 7),
        ]
