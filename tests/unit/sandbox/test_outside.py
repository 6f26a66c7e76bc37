"""Attacks of a command on what lies outside the workspace: caches, sockets, folders above it, links on the way."""

import asyncio
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from platformdirs import user_config_path, user_state_path

from app.runtime.open_workspace import open_workspace
from app.sandbox import run_folders as caches_module
from app.sandbox.confinement import CommandWriteMode, ConfiguredCommandAccess, can_block_abstract_sockets
from app.sandbox.outside_access import find_outside_access
from app.sandbox.run_folders import CACHE_FOLDER, prune_kept_cache_overlays
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace
from tests.unit.sandbox.test_both_modes import printed
from tests.unit.sandbox.test_confinement import outside

pytestmark = pytest.mark.layer


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that lies in no temporary folder, with a workspace, caches and signoff's state in it."""
    with tempfile.TemporaryDirectory(dir=outside(), prefix=".signoff-test-") as folder:
        home = Path(folder).resolve()
        (home / "ws").mkdir()
        (home / ".cache/uv").mkdir(parents=True)
        monkeypatch.setenv("HOME", str(home))
        for name in ("XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "CARGO_HOME", "UV_CACHE_DIR", "GOPATH"):
            monkeypatch.delenv(name, raising=False)
        yield home


def sandbox_in(home: Path, permissions: ConfiguredCommandAccess | None = None, root: Path | None = None) -> Sandbox:
    state = home / ".local/state/signoff"
    state.mkdir(parents=True, exist_ok=True)
    return Sandbox(
        Workspace(root or home / "ws"),
        state / "runs",
        own_folders=(state,),
        permissions=permissions or ConfiguredCommandAccess(),
    )


async def test_a_program_hard_linked_from_a_cache_is_not_changed(home: Path) -> None:
    """As `uv tool install` links an installed program from its cache, so that both are one file."""
    cached, installed = home / ".cache/uv/main.py", home / "tool.py"
    cached.write_text("print('as released')\n")
    os.link(cached, installed)
    sandbox = sandbox_in(home)
    attack = f"echo 'import os' >> {cached}; echo x > {home}/.cache/new; cat {cached}; cat {home}/.cache/new"
    async with sandbox.open_run({}, keep_files=True) as run:
        assert await printed(run, attack) == "print('as released')\nimport os\nx\n", "the command sees what it wrote"
    async with sandbox.open_run({}) as check:
        text = await printed(check, f"cat {cached}; ({attack}) >/dev/null")
        assert text == "print('as released')\n", "a check sees the user's caches, not what commands wrote"
    assert installed.read_text() == "print('as released')\n" and not (home / ".cache/new").exists()
    async with sandbox.open_run({}, keep_files=True) as run:
        assert await printed(run, f"cat {home}/.cache/new") == "x\n", "a later command sees what an earlier one wrote"
        async with sandbox.open_run({}, keep_files=True) as beside:
            assert "No such file" in await printed(beside, f"cat {home}/.cache/new"), "one at a time"


async def test_kept_caches_are_emptied_when_old_or_on_request(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = sandbox_in(home)
    kept = home / ".local/state/signoff/runs" / CACHE_FOLDER

    async def has(command: str) -> str:
        async with sandbox.open_run({}, keep_files=True) as run:
            return await printed(run, f"{command}; cat ~/.cache/new 2>/dev/null || echo none")

    assert await has("echo x > ~/.cache/new") == "x\n"
    assert prune_kept_cache_overlays(kept, everything=False) == 0 and await has(":") == "x\n"
    assert prune_kept_cache_overlays(kept, everything=True) > 0 and await has(":") == "none\n"
    assert await has("echo x > ~/.cache/new") == "x\n"
    with monkeypatch.context() as older:
        older.setattr(caches_module, "MAX_LAYER_BYTES", 0)
        older.setattr(caches_module, "_MEASURING_SECONDS", 0.0)
        assert await has(":") == "none\n", "too large"
    assert await has("echo x > ~/.cache/new") == "x\n"
    monkeypatch.setattr(caches_module, "_boot_id", lambda: "another start of the machine")
    assert await has(":") == "none\n", "what was not flushed may be torn"


async def test_caches_that_a_running_command_uses_are_not_pruned(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each layer is spent at once here, whoever looks: two windows of one workspace, and `sessions --prune`."""
    shared = home / "shared"
    shared.mkdir()
    for name in ("ready", "go"):
        os.mkfifo(shared / name)
    permissions = ConfiguredCommandAccess((str(shared),))
    kept = home / ".local/state/signoff/runs" / CACHE_FOLDER
    monkeypatch.setattr(caches_module, "MAX_LAYER_BYTES", 0)
    monkeypatch.setattr(caches_module, "MAX_LAYER_DAYS", -1)
    monkeypatch.setattr(caches_module, "_MEASURING_SECONDS", 0.0)
    program = "echo 1 > ~/.cache/uv/a; echo > SHARED/ready; cat SHARED/go; echo 2 >> ~/.cache/uv/a; cat ~/.cache/uv/a"
    async with sandbox_in(home, permissions).open_run({}, keep_files=True) as run:
        running = asyncio.create_task(printed(run, program.replace("SHARED", str(shared))))
        await asyncio.to_thread((shared / "ready").read_bytes)
        second = sandbox_in(home, permissions)
        await second.probe()
        assert prune_kept_cache_overlays(kept, everything=True) == 0
        async with second.open_run({}, keep_files=True) as beside:
            assert "No such file" in await printed(beside, "cat ~/.cache/uv/a; echo 3 > ~/.cache/uv/a")
        await asyncio.to_thread((shared / "go").write_bytes, b"\n")
        assert (await running).split() == ["1", "2"]
        assert await printed(run, "cat ~/.cache/uv/a") == "1\n2\n"
    assert prune_kept_cache_overlays(kept, everything=False) > 0, "nobody uses it any more"
    assert not list((home / ".cache/uv").iterdir())


@pytest.mark.usefixtures("ordinary_user")
def test_an_inaccessible_folder_on_the_path_is_skipped(home: Path) -> None:
    """As it is for another user to whom root's PATH was left."""
    locked = home / "locked"
    locked.mkdir(mode=0)
    environment = {"PATH": f"{locked}/bin", "CARGO_HOME": f"{locked}/cargo"}
    found = find_outside_access(ConfiguredCommandAccess((f"{locked}/in",)), (), environment=environment)
    assert found.writable == () and found.caches == (home / ".cache",)


async def test_without_a_cache_layer_a_folder_is_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = sandbox_in(home)
    sandbox._layered = False
    (home / ".cache/x").write_text("theirs\n")
    command = "echo $(dirname $UV_CACHE_DIR); mkdir -p $UV_CACHE_DIR && echo y > $UV_CACHE_DIR/y; echo z > ~/.cache/x"
    async with sandbox.open_run({}, keep_files=True) as run:
        text = await printed(run, command)
        assert text.startswith("/tmp/") and "Read-only file system" in text
    async with sandbox.open_run({}, keep_files=True) as run:
        assert await printed(run, "cat $UV_CACHE_DIR/y ~/.cache/x") == "y\ntheirs\n"
    assert (home / ".cache/x").read_text() == "theirs\n"


async def test_user_sockets_are_out_of_reach(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connects_to(place: Path | str) -> str:
        code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({str(place)!r}); print('reached')"
        return f"{sys.executable} -c {shlex.quote(code)} 2>&1 | tail -1"

    runtime = home / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(runtime / "agent"))
    # One of another user's, as after `su`; a name that is too long fails in the same way for root, too.
    monkeypatch.setenv("PATH", f"/{'x' * 300}/bin:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary, ExitStack() as after:
        display, abstract = Path(temporary, "display"), f"\0signoff-test-{os.getpid()}"
        unknown, group = home / "unknown.sock", home / "group.sock"
        places: list[Path | str] = [unknown, runtime / "agent", runtime / "bus", display, group, abstract]
        for place in places:
            listening = after.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(str(place))
            listening.listen()
        if os.getuid() == 0:
            # As docker's, of another user, but open to a group.
            os.chown(group, 65534, 0)
            group.chmod(0o660)
        if not can_block_abstract_sockets():
            places.pop()
        async with sandbox_in(home).open_run({}) as run:
            for place in places:
                assert "reached" not in await printed(run, connects_to(place)), place
            assert await printed(run, "echo $SSH_AUTH_SOCK") == "\n"
        opened = ConfiguredCommandAccess(sockets=("ssh-agent", str(display)))
        async with sandbox_in(home, opened).open_run({}) as run:
            reached = [await printed(run, connects_to(place)) for place in places[:4]]
            assert [each == "reached\n" for each in reached] == [False, True, False, True]
            assert await printed(run, "echo $SSH_AUTH_SOCK") == f"{runtime}/agent\n"


async def test_a_folder_above_the_workspace_cannot_be_moved_away(home: Path) -> None:
    """Neither in a temporary folder nor in one that the user lets commands write."""
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        for above, writable in ((Path(temporary), ()), (home / "work", (str(home / "work"),))):
            root = above / "a/proj"
            root.mkdir(parents=True)
            (root / "file").write_text("mine\n")
            sandbox = sandbox_in(home, ConfiguredCommandAccess(writable), root)
            attack = f"mv {above}/a {above}/b; mkdir -p {root}; echo theirs > {root}/file; echo x > {above}/new"
            async with sandbox.open_run({}) as run:
                await printed(run, attack)
            assert (root / "file").read_text() == "mine\n" and not (above / "b").exists()
            assert (above / "new").exists() is bool(writable), "what the user lets it write is written in place"


async def test_git_folders_elsewhere_or_renamed_are_not_written(home: Path) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x"]
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        main = Path(temporary, "main")
        subprocess.run([*git, "init", "-q", str(main)], check=True)
        subprocess.run([*git, "-C", str(main), "commit", "-qm", "first", "--allow-empty"], check=True)
        worktree = home / "linked"
        subprocess.run([*git, "-C", str(main), "worktree", "add", "-q", str(worktree)], check=True)
        bare = home / "bare"
        subprocess.run([*git, "clone", "-q", "--bare", str(main), str(bare / ".bare")], check=True)
        (bare / ".git").write_text("gitdir: ./.bare\n")
        for root, hooks in ((worktree, main / ".git/hooks"), (bare, bare / ".bare/hooks")):
            write = f"mkdir -p {hooks}; echo evil > {hooks}/post-checkout; git config core.fsmonitor evil"
            async with sandbox_in(home, root=root).open_run({}) as run:
                text = await printed(run, f"{write}; git log --format=%s")
                assert text.endswith("first\n") and "Read-only file system" in text, text
                found = await run.find_changes()
                await run.write_back(found.ignored_paths)
            assert not (hooks / "post-checkout").exists()


async def test_neither_signoff_home_nor_a_link_opens_a_configuration_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SIGNOFF_HOME", str(home / "another"))
    linked, link = home / "dotfiles/config.toml", home / "another/config/config.toml"
    files = [user_config_path("signoff") / "config.toml", user_state_path("signoff") / "signoff.db", linked]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("# the key")
    link.parent.mkdir(parents=True)
    link.symlink_to(linked)
    with closing(open_workspace(home)) as runtime:
        for file in files:
            assert runtime.workspace.is_off_limits(file.relative_to(home).as_posix()), file
    with closing(open_workspace(home / "ws")) as runtime:
        async with runtime.sandbox.open_run({}) as run:
            assert "the key" not in await printed(run, f"cat {shlex.join(map(str, files))}")


async def test_a_linked_home_keeps_the_layer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "var/home/ws").mkdir(parents=True)
    (home / "var/home/.cache").mkdir()
    (home / "var/state").mkdir()
    for name in ("home", "state"):
        (home / name).symlink_to(home / "var" / name)
    for used_home, used_state in (
        (home / "home", home / "home/state"),
        (home / "var/home", home / "state"),
        (home / "home", home / "state"),
    ):
        monkeypatch.setenv("HOME", str(used_home))
        used_state.mkdir(exist_ok=True)
        (used_state / "key").write_text("the key")
        sandbox = Sandbox(Workspace(used_home / "ws"), used_state / "runs", own_folders=(used_state,))
        assert (await sandbox.probe()).mode is CommandWriteMode.OVERLAY, await sandbox.probe()
        async with sandbox.open_run({}, keep_files=True) as run:
            text = await printed(run, f"echo x > file; echo y > ~/.cache/y; cat {used_state}/key; cat file")
            assert text.endswith("x\n") and "the key" not in text
            assert [each.path for each in (await run.find_changes()).touched] == ["file"]
        assert not (home / "var/home/.cache/y").exists()


async def test_the_temporary_folder_is_kept_between_commands(home: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        root = Path(temporary, "deep/ws")
        root.mkdir(parents=True)
        sandbox = sandbox_in(home, root=root)
        (home / "secret").mkdir()
        async with sandbox.open_run({}, keep_files=True) as run:
            move = f"mv {temporary}/deep /tmp/away; ln -s {home}/secret {temporary}/deep"
            await printed(run, f"echo 1 > /tmp/one; {move}")
        async with sandbox.open_run({}, keep_files=True) as run:
            assert await printed(run, "cat /tmp/one; pwd; echo x > file; ls") == f"1\n{root}\nfile\n"
        async with sandbox.open_run({}) as check:
            assert "No such file" in await printed(check, "cat /tmp/one")
        assert list((home / "secret").iterdir()) == []
    sandbox.close()
    assert not list((home / ".local/state/signoff/runs").glob("run-*"))
