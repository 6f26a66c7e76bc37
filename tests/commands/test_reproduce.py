"""A proposal that one command made is made again on a layer of its own, and compared byte for byte."""

import json
from pathlib import Path

import pytest

from tests.commands.test_commands import Run, document, endpoint
from tests.wire.server import WireServer

pytestmark = pytest.mark.layer
UPPER = "for f in a b c; do tr a-z A-Z < $f.txt > $f.new && mv $f.new $f.txt; done"
FOLDER = {"a.txt": "one\n", "b.txt": "two\n", "c.txt": "three\n"}


def stage_command(signoff: Run, workspace: Path, server: WireServer, *commands: str) -> str:
    """Have the model run commands that change files; return the id of its proposal."""
    for name, text in FOLDER.items():
        (workspace / name).write_text(text)
    server.turn(calls=[("run_command", {"command": command}) for command in commands])
    server.say("Done.")
    words = (*endpoint(server), "--commands", "allow")
    (name,) = document(signoff("run", "run it", "--json", *words))["proposals"]
    return str(name)


def test_an_identical_reproduction_is_reported_and_recorded(
    signoff: Run, workspace: Path, server: WireServer
) -> None:
    name = stage_command(signoff, workspace, server, UPPER)
    done = signoff("reproduce", name)
    assert (done.returncode, done.stdout) == (0, f"{name}: same 3 files, byte for byte\n")
    assert (workspace / "a.txt").read_text() == "one\n", "nothing is written by it"
    assert signoff("approve", name).returncode == 0
    assert (workspace / "c.txt").read_text() == "THREE\n"
    (decision,) = document(signoff("log", "--json"))
    assert decision["recipe"]["command"] == UPPER and decision["recipe"]["reproduced"] == 1
    assert len(decision["recipe"]["tree"]) in (40, 64)
    assert f"(command {UPPER} on tree {decision['recipe']['tree'][:12]}, reproduced)" in signoff("log").stdout
    assert signoff("log", "--verify").returncode == 0


def test_a_different_reproduction_names_its_files(signoff: Run, workspace: Path, server: WireServer) -> None:
    name = stage_command(signoff, workspace, server, "echo fixed > a.txt; head -c 9 /dev/urandom | base64 > b.txt")
    done = signoff("reproduce", name, "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["outcome"], told["files"], told["differing"]) == (1, "differs", 2, ["b.txt"])
    assert signoff("approve", name).returncode == 0
    (decision,) = document(signoff("log", "--json"))
    assert decision["recipe"]["reproduced"] == 0
    assert ", not reproduced" in signoff("log").stdout


def test_a_reproduction_on_changed_files_replaces_the_merge(
    signoff: Run, workspace: Path, server: WireServer
) -> None:
    name = stage_command(signoff, workspace, server, "tr a-z A-Z < a.txt > a.new && mv a.new a.txt")
    (workspace / "a.txt").write_text("one more\n")
    (before,) = json.loads(signoff("proposals", "--json").stdout)
    assert before["state"] == "stale"
    told = json.loads(signoff("reproduce", name, "--json").stdout)
    assert (told["outcome"], told["differing"], told["revision"]) == ("replaced", ["a.txt"], 2)
    assert "+ONE MORE\n" in signoff("show", name).stdout
    done = signoff("reproduce", name)
    assert (done.returncode, done.stdout) == (0, f"{name}: same 1 file, byte for byte\n")
    assert signoff("approve", name).returncode == 0
    assert (workspace / "a.txt").read_text() == "ONE MORE\n"


def test_files_changed_after_a_reproduction_invalidate_it(signoff: Run, workspace: Path, server: WireServer) -> None:
    (workspace / "long.txt").write_text("".join(f"line {number}\n" for number in range(40)))
    name = stage_command(signoff, workspace, server, "sed -i 's/line 3$/LINE 3/' long.txt")
    assert signoff("reproduce", name).returncode == 0
    (workspace / "long.txt").write_text((workspace / "long.txt").read_text() + "mine\n")
    assert signoff("show", name).returncode == 0
    assert signoff("approve", name).returncode == 0
    (decision,) = document(signoff("log", "--json"))
    assert decision["recipe"]["reproduced"] == 0, "what was approved is a merge that no run gave"


def test_a_reproduction_compares_all_that_one_command_made(signoff: Run, workspace: Path, server: WireServer) -> None:
    command = "chmod 755 a.txt; ln -s a.txt link; rm b.txt; mv c.txt d.txt; mkdir sub; printf '\\0\\1' > sub/e.bin"
    name = stage_command(signoff, workspace, server, command)
    assert signoff("reproduce", name).stdout == f"{name}: same 6 files, byte for byte\n"
    signoff("deny", name)
    name = stage_command(signoff, workspace, server, "echo a > a.txt", "echo b > b.txt")
    done = signoff("reproduce", name)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"signoff: Nothing was compared: {name} was not made by one command alone.\n"
