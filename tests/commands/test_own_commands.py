"""What users bring along, on the command line: `signoff run "/name …"`, hooks, and what the doctor says of them."""

import functools
import json
from pathlib import Path

import pytest

from app.prompts.custom_commands import find_workspace_commands
from app.runtime.open_workspace import open_workspace
from app.workspace import trust
from tests.commands.test_commands import Run
from tests.wire.bench import of_role
from tests.wire.replies import Turn
from tests.wire.server import WireServer


@pytest.fixture(autouse=True)
def friendly(server: WireServer) -> None:
    server.always(Turn("Hello."))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace/.claude/commands"
    folder.mkdir(parents=True)
    (folder / "ship.md").write_text("Ship $1 now.")
    own = tmp_path / "home/config/commands"
    own.mkdir(parents=True)
    (own / "hello.md").write_text("---\nmodel: other-model\n---\nSay hello to $ARGUMENTS, see !`date`.")
    return tmp_path / "workspace"


@pytest.fixture
def signoff(tmp_path: Path, signoff: Run, server: WireServer) -> Run:
    own = {"HOME": str(tmp_path), "OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.base_url}
    return functools.partial(signoff, **own, SIGNOFF_MODEL="test-model")


def test_a_custom_command_is_expanded_and_sent_to_its_model(signoff: Run, server: WireServer, tmp_path: Path) -> None:
    done = signoff("run", "/hello the 'whole world'", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stopped"] == "answer"
    assert "1 command in !`…`: not run" in done.stderr
    assert of_role(server.requests[0], "user") == ["Say hello to the 'whole world', see !`date`."]
    assert server.requests[0].body["model"] == "other-model"
    plain = tmp_path / "home/config/commands/plain.md"
    plain.write_text("Say it plainly.")
    assert "has 0 commands" not in signoff("run", "/plain").stderr


def test_an_unknown_command_is_refused_but_text_with_a_slash_is_sent(signoff: Run, server: WireServer) -> None:
    for prompt, code, said in (
        ("/ship it", 3, "not trusted"),
        ("/nothing", 2, "A space before it"),
        ("/help", 2, "for the app"),
    ):
        done = signoff("run", prompt)
        assert done.returncode == code and said in done.stderr and len(done.stderr.splitlines()) == 1
    assert server.requests == []
    for prompt in (" /nothing at all", "/etc/hosts is what?"):
        assert signoff("run", prompt).returncode == 0
        assert of_role(server.last, "user") == [prompt]


def test_a_trusted_workspace_command_runs_and_the_doctor_names_unusable_ones(
    signoff: Run, server: WireServer, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home/config/commands/help.md").write_text("Mine.")
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    lines = {one["name"]: one["detail"] for one in json.loads(signoff("doctor", "--json").stdout)["checks"]}
    assert lines["own_commands"] == (
        "1 usable; 1 of this workspace await /trust; commands/help.md: /help is signoff's own command"
    )
    runtime = open_workspace(workspace, {}, {})
    trust.store_trust(find_workspace_commands(runtime.workspace).content, runtime.sessions, trust.COMMAND_FILES)
    runtime.close()
    assert signoff("run", "/ship it").returncode == 0
    assert of_role(server.requests[-1], "user") == ["Ship it now."]


def test_hooks_of_a_decision_run_before_the_command_ends(signoff: Run, workspace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    config = tmp_path / "home/config/config.toml"
    config.write_text(f"[[hook]]\non = 'decided'\nrun = 'sleep 0.2; cat >>{out}; exit 4'\n")
    (workspace / "a.txt").write_text("one\n")
    assert signoff("stage", stdin="--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n").returncode == 0
    done = signoff("approve", "P1", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["state"] == "applied"
    assert "The hook on decided" in done.stderr and "exit 4" in done.stderr
    assert json.loads(out.read_text())["proposal"] == "P1"
    checks = json.loads(signoff("doctor", "--json").stdout)["checks"]
    assert next(one["detail"] for one in checks if one["name"] == "hooks").startswith("on decided: sleep 0.2")
    schema = json.loads(signoff("doctor", "--hook-schema").stdout)
    assert set(json.loads(out.read_text())) == set(schema["properties"])
    assert schema["properties"]["feedback"]["description"]
