"""Attacks of commands in place, under the kernels that docs/SECURITY.md's table distinguishes.

Older ones are played: what they don't have is not asked of this one.
"""

import os
import random
import resource
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.sandbox import confinement
from app.sandbox import sandbox as choosing
from app.sandbox.confinement import CommandWriteMode, ConfiguredCommandAccess
from app.sandbox.enclosed_process import process_limits
from app.sandbox.process import PLATFORM
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace
from tests.unit.sandbox.test_both_modes import printed
from tests.unit.tools.processes import running
from tests.users import OTHER, requires_two_users

pytestmark = pytest.mark.skipif(PLATFORM != "linux", reason="Landlock and seccomp are Linux's")


@dataclass(frozen=True)
class Kernel:
    landlock: int
    filters: bool

    def __str__(self) -> str:
        return f"landlock {self.landlock}{'' if self.filters else ', no filter'}"


KERNELS = [Kernel(landlock, filters) for filters in (True, False) for landlock in (6, 5, 2, 0)]


def where(
    *, landlock: bool = False, filters: bool = False, newest: bool = False, extreme: bool = False
) -> pytest.MarkDecorator:
    """The kernels that have Landlock; that filter; that filter or have its sixth version; that have it or not."""
    kernels = [
        each
        for each in KERNELS
        if (each.landlock or not landlock)
        and (each.filters or not filters)
        and (each.filters or each.landlock > 5 or not newest)
        and (each.landlock in (0, 6) or not extreme)
    ]
    return pytest.mark.parametrize("kernel", kernels, ids=str, indirect=True)


@pytest.fixture
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """As if the kernel had no more than that."""
    played: Kernel = request.param
    no_filter = played.filters and not confinement.can_filter_syscalls()
    if confinement.landlock_version() < played.landlock or no_filter:
        pytest.skip("this kernel has less")
    for module in (confinement, choosing):
        monkeypatch.setattr(module, "landlock_version", lambda: played.landlock)
        monkeypatch.setattr(module, "can_filter_syscalls", lambda: played.filters)
        # Root is refused without a filter; the attacks start few processes.
        monkeypatch.setattr(module, "process_limit_problem", lambda: "")
    return played


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user's with a file in it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/theirs").write_text("theirs\n")
    return tmp_path / "outside"


def in_place(root: Path, *, sockets: tuple[str, ...] = (), processes: int = 2000) -> Sandbox:
    own = root.parent / "own"
    own.mkdir(exist_ok=True)
    (own / "config.toml").write_text("the key\n")
    return Sandbox(
        Workspace(root),
        root.parent / "runs",
        own_folders=(own,),
        permissions=ConfiguredCommandAccess(sockets=sockets),
        modes=[CommandWriteMode.IN_PLACE],
        limits=process_limits(processes=processes),
    )


def python(program: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}"


@where(landlock=True)
async def test_a_command_in_place_writes_nothing_outside_and_reads_no_file_of_signoffs(
    kernel: Kernel, root: Path, outside: Path
) -> None:
    attacks = (
        f"echo x >> {outside}/theirs; echo x > {outside}/new; mkdir {outside}/d; rm {outside}/theirs; "
        f"mv {outside}/theirs {outside}/moved; ln {outside}/theirs hard && echo x >> hard; mknod {outside}/p p; "
        f"ln -s {outside}/theirs soft && echo x >> soft; mv {outside} . ; touch new && mv new {outside}/new"
    )
    if kernel.landlock > 2:
        cut = f"import os; os.truncate({str(outside / 'theirs')!r}, 0)"
        attacks += f"; {python(cut)}"
    async with in_place(root).open_run({}) as run:
        assert await printed(run, f"({attacks}) 2>/dev/null; echo done") == "done\n"
        text = await printed(run, "echo z > $TMPDIR/own && cat $TMPDIR/own; mkdir -p a/b && mv a/b c && echo moved")
        assert text == "z\nmoved\n", "it can do so in its own folders"
        key = "../own/config.toml"
        text = await printed(
            run, f"rm -f soft; cat {key}; ln {key} hard; cp {key} copy; ln -s {key} soft; cat hard copy soft"
        )
        assert "the key" not in text and "Permission denied" in text
    assert [(each.name, each.read_text()) for each in outside.iterdir()] == [("theirs", "theirs\n")]


CHANGES = """
import ctypes, os, sys
from contextlib import suppress
outside = sys.argv[1]
file, past = f"{outside}/theirs", (10**18, 10**18)
os.symlink(file, "link")
folder = os.open(outside, os.O_RDONLY)
places = [file, "link", outside, os.open(file, os.O_RDONLY), f"/proc/self/fd/{os.open(file, os.O_PATH)}"]
changes = [(os.chmod, 0o777), (os.chown, 1, 1), (lambda at, **more: os.utime(at, ns=past, **more),)]
for change, *to in changes:
    for at in places:
        with suppress(OSError):
            change(at, *to)
    with suppress(OSError):
        change("theirs", *to, dir_fd=folder)
with suppress(OSError):
    os.setxattr(file, "user.theirs", b"x")
if os.uname().machine == "x86_64":
    libc, times = ctypes.CDLL(None), (ctypes.c_int64 * 4)(1, 1, 1, 1)
    for number, *at in ((132,), (235,), (261, -100)):
        libc.syscall(number, *at, file.encode(), times)
"""


def facts(path: Path) -> tuple[int, int, int, int]:
    found = path.stat()
    return found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns


@where(landlock=True, filters=True)
async def test_command_in_place_changes_no_metadata_outside(kernel: Kernel, root: Path, outside: Path) -> None:
    before = [facts(path) for path in (outside, outside / "theirs")]
    async with in_place(root).open_run({}) as run:
        await printed(run, f"{python(CHANGES)} {outside}")
        inside = (
            "import os; open('f', 'w'); os.chmod('f', 0o640); os.utime('f', ns=(1, 2_000_000_003)); "
            "os.symlink('f', 'l'); os.utime('l', (5, 6), follow_symlinks=False); found = os.stat('f'); "
            "print(oct(found.st_mode), found.st_atime_ns, found.st_mtime_ns, os.lstat('l').st_mtime); "
            "os.utime('f'); print(os.stat('f').st_mtime > 2)"
        )
        assert await printed(run, python(inside)) == "0o100640 1 2000000003 6.0\nTrue\n"
        if os.uname().machine == "x86_64":
            # utime, utimes, futimesat
            old = (
                "import ctypes, os; libc = ctypes.CDLL(None); open('g', 'w'); "
                "libc.syscall(132, b'g', (ctypes.c_int64 * 2)(1, 2)); print(os.stat('g').st_mtime_ns); "
                "libc.syscall(235, b'g', (ctypes.c_int64 * 4)(1, 2, 3, 4)); print(os.stat('g').st_mtime_ns); "
                "libc.syscall(261, -100, b'g', (ctypes.c_int64 * 4)(1, 2, 5, 6)); print(os.stat('g').st_mtime_ns)"
            )
            assert await printed(run, python(old)) == "2000000000\n3000004000\n5000006000\n"
    assert [facts(path) for path in (outside, outside / "theirs")] == before
    assert os.listxattr(outside / "theirs") == []


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A program of the user's with two threads; it prints the numbers of both."""
    threads = "import os, threading; print(*os.listdir('/proc/self/task'), flush=True); threading.Event().wait()"
    code = f"import threading; threading.Thread(target=lambda: exec({threads!r})).start()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as started:
        yield started
        started.kill()


@where(newest=True)
async def test_a_command_in_place_signals_neither_a_program_of_the_user_nor_its_watcher(
    kernel: Kernel, root: Path, program: subprocess.Popen[str]
) -> None:
    assert program.stdout is not None
    mark = f"{random.randrange(10**6, 10**7)}.25"
    threads = program.stdout.readline().split()
    assert len(threads) == 2
    attack = f"for each in {' '.join(threads)} -{program.pid}; do kill -9 -- $each; echo $?; done"
    if kernel.filters:
        owner = (
            f"import fcntl, os; r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC); "
            f"fcntl.fcntl(r, fcntl.F_SETOWN, {program.pid})"
        )
        limit = f"import resource; resource.prlimit({program.pid}, resource.RLIMIT_CPU, (1, 1))"
        attack += f"; {python(owner)}; echo $?; {python(limit)}; echo $?"
    async with in_place(root).open_run({}) as run:
        codes = [line for line in (await printed(run, attack)).splitlines() if line.isdigit()]
        assert codes == ["1"] * (5 if kernel.filters else 3)
        own = "sleep 1000 & kill -9 $!; wait $!; echo $?; setsid sleep 1000 & sleep 0.1; kill -9 -- -$!; kill -0 $$"
        assert "137\n" in await printed(run, own), "its own it can end"
        script = (
            f"(env -i setsid sh -c 'sleep {mark}; echo x > late') >/dev/null 2>&1 & "
            f"for each in $PPID $(ls /proc/{os.getpid()}/task); do kill -9 $each; echo $?; done"
        )
        codes = [line for line in (await printed(run, script)).splitlines() if line.isdigit()]
        assert set(codes) == {"1"}, "what watches it"
        assert not running(mark)
    assert program.poll() is None
    assert resource.prlimit(program.pid, resource.RLIMIT_CPU)[0] == resource.RLIM_INFINITY


@where(newest=True)
async def test_sockets_need_the_users_setting(kernel: Kernel, root: Path) -> None:
    name = f"signoff-test-{random.randrange(10**9)}"
    with socket.socket(socket.AF_UNIX) as by_path, socket.socket(socket.AF_UNIX) as by_name:
        by_path.bind(str(root.parent / "s"))
        by_name.bind(f"\0{name}")
        for each in (by_path, by_name):
            each.listen()
        connect = python(
            "import socket, sys\nfor each in sys.argv[1], chr(0) + sys.argv[2]:\n"
            "  print(socket.socket(socket.AF_UNIX).connect_ex(each) == 0)"
        )
        for opened in ((), ("ssh-agent",)):
            async with in_place(root, sockets=opened).open_run({}) as run:
                reached = (await printed(run, f"{connect} {root.parent}/s {name}")).splitlines()[-2:]
            # Without a filter the newest Landlock keeps it from a name, whatever the user opens.
            wanted = [bool(opened) or not kernel.filters, bool(opened) and kernel.filters]
            assert [each == "True" for each in reached] == wanted


BOMBS = {
    "one has many": "while True:\n  left -= 1\n  if not os.fork() or not left: break",
    "each has two": "for _ in range(8): os.fork()",
    "orphans": (
        "while left:\n  left -= 1\n  if not os.fork():\n"
        "    if os.fork(): os._exit(0)\n    os.setsid(); break\n  os.wait()"
    ),
    "threads": "while left:\n  left -= 1\n  threading.Thread(target=mark, daemon=True).start()",
}
"""Each ends by itself at 300, or at the first that is refused."""


@where(filters=True, extreme=True)
async def test_processes_are_bounded_also_those_of_root(kernel: Kernel, root: Path) -> None:
    (root / ".gitignore").write_text("marks\n")
    for bomb in BOMBS.values() if kernel.landlock else [BOMBS["orphans"]]:
        program = (
            "import os, threading, time\nleft = 300\n"
            "def mark():\n  os.write(os.open('marks', os.O_WRONLY | os.O_APPEND), b'x'); time.sleep(20)\n"
            f"try:\n  exec({bomb!r})\nexcept (OSError, RuntimeError): pass\nmark()"
        )
        (root / "marks").write_text("")
        async with in_place(root, processes=60).open_run({}) as run:
            words = [sys.executable, "-c", program]
            ended = await run.execute(words, folder=".", seconds=30, output=lambda _: None)
        assert ended.limit == "it had 60 processes and threads, command_processes in config.toml", bomb
        # The kernel lets an ordinary user have 50 more than is set.
        assert (root / "marks").stat().st_size <= 120, bomb
    loop = "i=0; while [ $i -lt 100 ]; do echo a | cat >/dev/null; true & i=$((i+1)); done; wait; echo all"
    async with in_place(root).open_run({}) as run:
        assert await printed(run, f"/bin/sh -c '{loop}'") == "all\n", "a shell forks while children end"


@requires_two_users
def test_supervisor_runs_a_command_of_an_ordinary_user() -> None:
    """Root's tests go through it here: of this process, all in /proc is root's, as it is of what signoff starts."""
    script = (
        "import _socket, encodings.ascii, encodings.latin_1, os, resource, select, sys\nfrom pathlib import Path\n"
        "from app.sandbox import confinement, sandbox_init\n"
        "steps = confinement.confinement_steps([Path('/tmp')], [], [], allow_unix_sockets=False)\n"
        f"os.chdir('/'); os.setgroups([]); os.setgid({OTHER}); os.setuid({OTHER})\n"
        "limits = ['limits', str(1 << 40), '500']\n"
        "sys.exit(sandbox_init.main([str(os.dup(1)), str(os.getppid()), *limits, *steps, '--', '/bin/echo', 'ran']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "ran\nexit 0 0 none 0\n", done


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has a limit of the kernel's")
async def test_root_needs_bounded_processes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (confinement, choosing):
        monkeypatch.setattr(module, "can_filter_syscalls", lambda: False)
    sandbox = in_place(root)
    assert "another user" in (await sandbox.probe()).refusal
    with pytest.raises(OSError, match="without end"):
        async with sandbox.open_run({}) as run:
            await printed(run, "touch ran")
    assert not (root / "ran").exists()


@pytest.mark.parametrize("mode", list(CommandWriteMode))
async def test_command_cannot_lift_limits_or_change_kernel_settings(root: Path, mode: CommandWriteMode) -> None:
    """Also as root, who may do so elsewhere."""
    sandbox = Sandbox(Workspace(root), root.parent / "runs", own_folders=(), modes=[mode])
    if (await sandbox.probe()).mode is not mode or not (await sandbox.probe()).is_confined:
        pytest.skip("not here")
    opened = "import os; os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY); print('lifted')"
    lift = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (r.RLIM_INFINITY,) * 2); print('lifted')"
    async with sandbox.open_run({}) as run:
        assert "lifted" not in await printed(run, f"{python(opened)}; {python(lift)}")
        status = (await printed(run, "cat /proc/self/status")).split()
    kept = int(status[status.index("CapBnd:") + 1], 16)
    # Of root's privileges over files of the workspace, in place.
    assert os.geteuid() or kept & ~0b11011 == 0


async def test_a_command_gets_no_file_of_signoffs_whatever_its_number(root: Path) -> None:
    before = [os.dup(2) for _ in range(300)]
    try:
        async with in_place(root).open_run({}) as run:
            # What lists them has one more, for the folder.
            assert (await printed(run, "ls /proc/self/fd")).split() == ["0", "1", "2", "3"]
    finally:
        for each in before:
            os.close(each)


async def test_written_ignored_files_are_named_and_bytecode_is_put_back(root: Path) -> None:
    (root / ".gitignore").write_text("build/\n__pycache__/\n*.log\n.env\nold/\n")
    for path in ("build/a", "build/deep/b", "pkg/__pycache__/m.pyc", "pkg/m.py", ".env", "old/x", "same.log"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("before\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    async with in_place(root).open_run({}) as run:
        await printed(
            run,
            "echo x > build/a; echo x > build/deep/new; echo x > new.log; echo x > .env; rm -r old; "
            "mkdir -p made/build; echo x > made/build/out; "
            "mkdir __pycache__; echo evil > __pycache__/o.pyc; cd pkg/__pycache__; "
            "for each in m n; do echo evil > $each.pyc; done",
        )
        found = await run.find_changes()
        assert (found.touched, found.unsupported) == ((), ())
        assert (await run.write_back(found.ignored_paths, dry_run=True)).written == ()
        written = (await run.write_back(found.ignored_paths)).written
        summaries = [".env", "build/, 2 files", "made/build/, 1 file", "new.log", "old, 1 removed"]
        assert [each.summary for each in written] == summaries
    assert [path.name for path in (root / "pkg/__pycache__").iterdir()] == ["m.pyc"]
    assert (root / "pkg/__pycache__/m.pyc").read_text() == "before\n" and not (root / "__pycache__").exists()
    assert (root / "new.log").is_file() and (root / "made/build/out").is_file() and not (root / "old").exists()
