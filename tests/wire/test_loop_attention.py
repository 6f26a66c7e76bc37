"""What deserves eyes is fixed when a step is staged, and kept: also what the user's own words leave out."""

from pathlib import Path

import pytest

from app.proposals.values.attention_reason import ReasonKind
from tests.wire.bench import bench, edit
from tests.wire.endpoints import OBEYS
from tests.wire.replies import Call, Turn
from tests.wire.server import WireServer

RUNS = "import os\n\n\ndef say(text):\n    os.system(text)\n"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(("asked", "unasked"), [("Greet by greet.py", ["say.py"]), ("Greet less formally", [])])
async def test_the_request_tells_which_files_it_does_not_name(
    server: WireServer, tmp_path: Path, asked: str, unasked: list[str]
) -> None:
    server.behave(OBEYS)
    calls = (Call(*edit()), Call("write_file", {"path": "say.py", "content": RUNS}))
    server.model(lambda _: Turn("Done.", calls=calls))
    async with bench(server, tmp_path) as on:
        await on.say(asked)
        stored = on.runtime.proposals.proposal("P1")
        assert stored is not None
        assert [change.path for change in stored.files] == ["greet.py", "say.py"], "its files stay by path"
        assert stored.order == ("say.py", "greet.py")
        assert [each.path for each in stored.reasons if each.kind is ReasonKind.UNASKED] == unasked
        assert "adds os.system, which runs code" in [reason.words for reason in stored.reasons]
        diff = on.runtime.service.as_unified_diff("P1")
        assert diff.index("b/greet.py") < diff.index("b/say.py"), "a patch is by path"
        edited = on.runtime.service.replace_result("P1", "say.py", "def say(text):\n    print(text)\n")
        assert [reason.kind for reason in edited.reasons] == [ReasonKind.UNASKED] * len(unasked)
        assert edited.order == stored.order, "nothing moves under the eye"
