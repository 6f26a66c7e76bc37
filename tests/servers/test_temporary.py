"""A server sees only the files of a temporary folder that its command line names, and can only read them."""

import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from app.sandbox.confinement import ConfiguredCommandAccess
from app.sandbox.outside_access import files_in_command, find_outside_access
from tests.servers.stage import PLAYER, open_server_session
from tests.wire.server import WireServer

pytestmark = pytest.mark.layer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert Path(tmp_path).is_relative_to("/dev/shm") or Path(tmp_path).is_relative_to("/tmp")
    server_folder = tmp_path / "theirs"
    server_folder.mkdir()
    shutil.copy(PLAYER, server_folder / "server.py")
    return server_folder


def python(*arguments: object, **more: Any) -> dict[str, dict[str, Any]]:
    return {"play": {"command": sys.executable, "args": [str(each) for each in arguments], **more}}


async def test_named_files_are_readable_only(folder: Path, wire: WireServer, tmp_path: Path) -> None:
    for name in ("named.txt", "option.txt", "other.txt"):
        (folder / name).write_text(name)
    (folder / "link.txt").symlink_to("linked.txt")
    (folder / "linked.txt").write_text("linked")
    (folder / "folder").mkdir()
    (folder / "folder/in.txt").touch()
    words = (
        folder / "named.txt",
        f"--option={folder}/option.txt",
        folder / "link.txt",
        folder / "folder",
        "a\tb",
        "-x",
    )
    code = f"""
found["said"] = sorted(str(each.relative_to({str(folder)!r})) for each in Path({str(folder)!r}).rglob("*"))
found["said"].append(Path({str(folder)!r}, "link.txt").read_text())
try:
    Path({str(folder)!r}, "named.txt").write_text("changed")
except OSError as error:
    found["said"].append(error.strerror)
"""
    async with open_server_session(wire, tmp_path, python(folder / "server.py", *words)) as on:
        answer = await on.run_turn(("play__run", {"code": code}))
    seen = ["link.txt", "linked.txt", "named.txt", "option.txt", "server.py"]
    assert answer == str([*seen, "linked", "Read-only file system"])
    assert (folder / "named.txt").read_text() == "named.txt"


async def test_named_sockets_and_state_files_are_hidden(folder: Path, wire: WireServer, tmp_path: Path) -> None:
    database = tmp_path / "home/state/signoff.db"
    agent = folder / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        # The full path would be too long for a socket.
        (short := Path("/dev/shm") / f"srv-{os.getpid()}").symlink_to(folder)
        try:
            listening.bind(f"{short}/agent.sock")
        finally:
            short.unlink()
        listening.listen()
        code = f"""
import socket
found["said"] = []
try:
    found["said"].append(len(Path({str(database)!r}).read_bytes()))
except OSError as error:
    found["said"].append(error.strerror)
os.chdir({str(folder)!r})
try:
    socket.socket(socket.AF_UNIX).connect("agent.sock")
except OSError as error:
    found["said"].append(error.strerror)
"""
        async with open_server_session(wire, tmp_path, python(folder / "server.py", database, agent)) as on:
            assert database.exists()
            answer = await on.run_turn(("play__run", {"code": code}))
    assert answer == str(["No such file or directory"] * 2)


async def test_script_in_the_workspace_is_part_of_the_overlay(wire: WireServer, tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    shutil.copy(PLAYER, root / "server.py")
    before = (root / "server.py").read_bytes()
    async with open_server_session(wire, tmp_path, python("server.py")) as on:
        await on.run_turn(("play__write", {"path": str(root / "server.py"), "text": "changed\n"}), last="")
        (proposal,) = on.host.runtime.proposals.recent_proposals()
        assert [change.path for change in proposal.files] == ["server.py"]
    assert (root / "server.py").read_bytes() == before


async def test_virtual_environment_is_visible_completely(folder: Path, wire: WireServer, tmp_path: Path) -> None:
    venv = folder / "venv"
    for name in ("bin", "lib"):
        (venv / name).mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    (venv / "lib/library.txt").write_text("library")
    program = venv / "bin/play"
    program.write_text(f"#!{sys.executable}\n{PLAYER.read_text()}")
    program.chmod(0o755)
    async with open_server_session(wire, tmp_path, {"play": {"command": str(program)}}) as on:
        assert await on.run_turn(("play__read", {"path": str(venv / "lib/library.txt")})) == "library"


def test_pyvenv_cfg_does_not_expose_the_temporary_folder(tmp_path: Path) -> None:
    """For example with `/tmp/pyvenv.cfg` beside `/tmp/bin/program`, made by another user."""
    (tmp_path / "pyvenv.cfg").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/program").touch()
    files = list(files_in_command([str(tmp_path / "bin/program")], tmp_path))
    assert files == [tmp_path]
    environment = {"TMPDIR": str(tmp_path)}
    access = find_outside_access(
        ConfiguredCommandAccess(), (), environment=environment, files=[Path("/tmp"), Path("/dev/shm")]
    )
    assert not {*access.shown} & {*access.temporary}
