"""A command of the model over the whole session: live output, Escape, and what its environment does not hold."""

import random
import subprocess
from pathlib import Path

import pytest

from app.agent.updates import CommandOutputStreamed, PermissionRequested
from app.conversation.events import CallOutcome, ToolResult
from app.copies import replace
from app.proposals.text.document import MAX_BYTES
from app.proposals.text.file_warnings import describe_file_facts
from app.tools.base.contract import PermissionRequest
from tests.unit.tools.processes import running
from tests.waiting import until
from tests.wire.bench import FILE, Bench, bench, edit, of_role
from tests.wire.replies import Turn
from tests.wire.server import WireServer


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
async def test_escape_ends_everything_that_a_command_started(server: WireServer, on: Bench) -> None:
    on.allow_everything()
    shown: list[str] = []
    on.at(CommandOutputStreamed, lambda update: shown.append(update.text))
    mark = f"{random.randrange(10**6, 10**7)}.5"
    command = f"setsid sh -c 'trap \"\" TERM; echo 1; sleep {mark} & wait' & echo 2; sleep {mark}"
    server.turn(calls=[("run_command", {"command": command})])
    await on.session.send("Run it")
    await until(lambda: "".join(shown).count("\n") >= 2, "both lines")
    assert running(mark)
    on.session.interrupt()
    await on.session.wait_until_idle()
    assert not running(mark)
    assert on.stopped == "aborted"
    assert [event.outcome for event in on.events if isinstance(event, ToolResult)] == [CallOutcome.ABORTED]
    await on.say("Why?", last="Stopped.")


async def test_commands_get_no_api_key(server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("DEPLOY_TOKEN", "tok-very-secret")
    monkeypatch.setenv("LC_HARMLESS", "is-passed-on")
    async with bench(server, tmp_path) as on:
        on.allow_everything()
        await on.say("Show the environment", ("run_command", {"command": "env"}))
        told = of_role(server.last, "tool")[-1]
        assert "is-passed-on" in told and "very-secret" not in told


@pytest.mark.layer
async def test_changes_of_a_command_are_staged_and_close_the_gate(server: WireServer, on: Bench) -> None:
    on.allow_everything()
    command = "sed -i s/Hello/Hi/ greet.py && printf '\\0\\1' > data.bin && echo done"
    server.turn(calls=[edit("(name)", "(person)"), ("run_command", {"command": command})])
    server.always(Turn("Look at it."))
    await on.say("Be less formal")
    assert on.file == FILE and not (on.root / "data.bin").exists()
    assert on.stopped == "staged" and server.last.body["tool_choice"] == "none"
    told = of_role(server.last, "tool")[-1]
    assert told.startswith("[exit code 0; ") and "done" in told and '"applied": false' in told and "P1" in told
    [result] = [one for one in on.events if isinstance(one, ToolResult) and one.proposal and "exit" in one.summary]
    assert result.outcome is CallOutcome.STAGED and result.summary == "exit 0, 1 line, 2 files changed → P1"
    on.runtime.service.approve("P1")
    assert on.file == FILE.replace("(name)", "(person)").replace("Hello", "Hi")
    assert (on.root / "data.bin").read_bytes() == b"\0\1"
    on.runtime.service.undo("P1")
    assert on.file == FILE and not (on.root / "data.bin").exists()


async def test_a_command_sees_pending_edits_and_builds_on_them(server: WireServer, on: Bench) -> None:
    on.allow_everything()
    await on.say("Be less formal", edit())
    server.turn(calls=[("run_command", {"command": "cat greet.py; echo '# end' >> greet.py"})])
    await on.say("Show it, and add a line", last="Staged too.")
    assert "'Hi '" in of_role(server.last, "tool")[-1]
    on.runtime.service.approve("P1")
    on.runtime.service.approve("P2")
    assert on.file == FILE.replace("Hello", "Hi") + "# end\n"


@pytest.mark.layer
async def test_plan_mode_offers_the_same_tools_and_changes_no_file(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path, plan=True) as on:
        on.allow_everything()
        (on.root / ".gitignore").write_text("*.log\n")
        command = "echo x > new.txt; echo y > out.log; sed -i s/Hello/Hi/ greet.py; cat greet.py"
        await on.say("How would you do it?", [edit(), ("run_command", {"command": command})])
        refused, ran = of_role(server.last, "tool")[-2:]
        assert "plan mode" in refused and "'Hi '" in ran and "thrown away" in ran
        assert any("Plan mode is on" in text for text in of_role(server.requests[0], "system"))
        assert on.stopped == "answer" and not on.runtime.service.pending()
        assert on.file == FILE and {each.name for each in on.root.iterdir()} == {"greet.py", ".gitignore"}
        tools = server.requests[0].body["tools"]
        on.session.settings = replace(on.session.settings, plan=False)
        await on.say("Do it", edit())
        assert server.last.body["tools"] == tools and on.stopped == "staged"
        on.check()


async def test_very_many_changes_are_staged_if_the_user_agrees(on: Bench) -> None:
    """What a denial does is a test of the allowances."""
    asked: list[str] = []
    on.at(PermissionRequested, lambda update: asked.append(update.permission_request.title))
    on.allow_everything()
    await on.say("Make many", ("run_command", {"command": "for i in $(seq 501); do echo $i > f$i; done"}))
    assert len(asked) == 2 and "501 changed files" in asked[1]
    assert [len(each.files) for each in on.runtime.service.pending()] == [501]
    assert on.stopped == "staged"
    assert [each.name for each in on.root.iterdir()] == ["greet.py"]


async def test_a_large_file_changed_by_a_command_is_staged_and_undone(server: WireServer, on: Bench) -> None:
    size = MAX_BYTES + 1
    (on.root / "large.txt").write_bytes(b"x\n" * (size // 2 + 1))
    asked: list[PermissionRequest] = []
    on.at(PermissionRequested, lambda update: asked.append(update.permission_request))
    on.allow_everything()
    before = (on.root / "large.txt").read_bytes()
    command = f"printf 'two\\n' >> large.txt; head -c {size} /dev/zero > new.bin; rm greet.py"
    await on.say("Make it large", ("run_command", {"command": command}))
    assert "greet.py  deleted" in asked[1].detail and "new.bin  21.0 MB" in asked[1].detail
    (proposal,) = on.runtime.service.pending()
    facts = {each.path: " ".join(describe_file_facts(each)) for each in proposal.files}
    assert "Large file: 21.0 MB → 21.0 MB." in facts["large.txt"] and "nothing → 21.0 MB" in facts["new.bin"]
    assert [len(each.old) + len(each.new) for each in on.runtime.service.file_diffs(proposal.id)][1:] == [0, 0]
    await on.say("Read it", ("read_file", {"path": "large.txt"}))
    assert "larger than" in of_role(server.last, "tool")[-1]
    on.runtime.service.approve(proposal.id)
    assert (on.root / "large.txt").read_bytes() == before + b"two\n"
    assert (on.root / "new.bin").read_bytes() == bytes(size)
    on.runtime.service.undo(proposal.id)
    assert (on.root / "large.txt").read_bytes() == before
    assert sorted(each.name for each in on.root.iterdir()) == ["greet.py", "large.txt"]


@pytest.mark.layer
async def test_a_file_moved_by_a_command_is_one_rename(server: WireServer, on: Bench) -> None:
    on.allow_everything()
    command = "mkdir d; mv greet.py d/hello.py; echo '# end' >> d/hello.py"
    await on.say("Move it", ("run_command", {"command": command}))
    (result,) = [one for one in on.events if isinstance(one, ToolResult)]
    (proposal,) = on.runtime.service.pending()
    (change,) = proposal.files
    assert result.summary == "exit 0, 1 file changed → P1"
    told = '"files": [{"path": "d/hello.py", "op": "rename", "added": 1, "removed": 0}]'
    assert told in of_role(server.last, "tool")[-1]
    assert (change.old_path, change.added, change.removed) == ("greet.py", 1, 0)


@pytest.mark.layer
async def test_a_command_can_read_but_not_write_the_git_repository(server: WireServer, on: Bench) -> None:
    on.allow_everything()
    git = ["git", "-C", str(on.root), "-c", "user.name=n", "-c", "user.email=e@x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    command = "git log --oneline; echo x >> greet.py; git status --short; git commit -qam second; git mv greet.py b"
    await on.say("Commit", ("run_command", {"command": command}))
    told = of_role(server.last, "tool")[-1]
    assert "first" in told and " M greet.py" in told and "Read-only file system" in told
    assert "are the user's]" in told
    log = subprocess.run([*git, "log", "--oneline"], check=True, capture_output=True, text=True).stdout
    clean = subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True, text=True).stdout
    assert log.count("\n") == 1 and clean == ""
