"""Runs `signoff` in processes that are forked from one that has imported the program.

Each is a process like one that a shell starts, with its own streams, folder, environment and exit, and where it has a
screen, its own session and terminal. It is only spared what takes nine tenths of the time of a short command, and two
thirds of the app's start: to start Python and to import. What depends on the start itself (a reader that leaves,
signals, how the streams are encoded, a shell's job control) is tested with processes that are started.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib.util
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

WITH_A_SCREEN = ("app.ui", "app.cli.open_app", "widgets")
"""What a command without a screen never imports."""
WHEN_NEEDED = ("openai", "httpcore2", "anyio._backends._asyncio", "watchfiles")
"""What most commands import only in the course of their work."""
READ_AT_IMPORT = {
    "TEXTUAL_ANIMATIONS": "none",
    # The emulator takes longer to read a picture than signoff to paint it.
    "TEXTUAL_FPS": "8",
}
"""What Textual reads of the environment when it is imported."""
NUMBER = struct.Struct("i")


class Forked:
    """A process that goes on, as `subprocess.Popen` has it."""

    def __init__(self, report: int) -> None:
        self._report = report
        self.pid = self._next()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        """The exit code, once there is one."""
        if self.returncode is None:
            self.returncode = self._next()
            os.close(self._report)
        return self.returncode

    def kill(self) -> None:
        """Have it end at once, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _next(self) -> int:
        """The next of the two numbers that are told of it."""
        (number,) = NUMBER.unpack(os.read(self._report, NUMBER.size))
        return int(number)


class Forking:
    """A process that has imported the program, asked through a socket to fork and run it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._answers = control.makefile("r")
        self._one_at_a_time = threading.Lock()

    def run(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], stdin: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command to its end, as `subprocess.run` does; bytes that are no UTF-8 are surrogates."""
        with contextlib.ExitStack() as files:
            streams = [
                files.enter_context(
                    tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape", newline="")
                )
                for _ in range(3)
            ]
            streams[0].write(stdin)
            for stream in streams:
                stream.seek(0)
            with self._one_at_a_time:
                self._order([stream.fileno() for stream in streams], arguments, folder, environment)
                code = int(self._answers.readline())
            for stream in streams:
                stream.seek(0)
            out, err = (stream.read() for stream in streams[1:])
        return subprocess.CompletedProcess(list(arguments), code, out, err)

    def start(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], terminal: int
    ) -> Forked:
        """Run the app in a terminal of its own; returns once it runs."""
        return self._started([terminal] * 3, arguments, folder, environment)

    def start_module(
        self, module: str, *arguments: str, folder: Path, environment: Mapping[str, str], talk: socket.socket
    ) -> Forked:
        """Run a program of the tests as `python -m` does; returns once it runs.

        `talk` is its standard input and output, and closed here.
        """
        with talk:
            return self._started([talk.fileno(), talk.fileno(), 2], arguments, folder, environment, module)

    def _started(self, streams: Sequence[int], *order: Any) -> Forked:
        ours, theirs = os.pipe()
        with self._one_at_a_time:
            self._order([*streams, theirs], *order)
        os.close(theirs)
        return Forked(ours)

    def _order(
        self,
        files: Sequence[int],
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        module: str = "signoff",
    ) -> None:
        order = {"arguments": arguments, "folder": str(folder), "environment": dict(environment), "module": module}
        socket.send_fds(self._control, [b"."], files)
        self._control.sendall(f"{json.dumps(order)}\n".encode())


@contextlib.contextmanager
def forking() -> Iterator[Forking]:
    """Start the process that is forked from."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        environment = {**os.environ, **READ_AT_IMPORT}
        files = [theirs.fileno()]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=files, env=environment):
            theirs.close()
            try:
                yield Forking(ours)
            finally:
                ours.shutdown(socket.SHUT_RDWR)


def serve(control: socket.socket) -> Callable[[], Any]:
    """Fork as often as asked; in each child, return what is to be run there."""
    import_program("app")
    # Of the tests nothing else is there: the child is to find what the program finds.
    spec = importlib.util.spec_from_file_location("databases", Path(__file__).with_name("databases.py"))
    assert spec is not None and spec.loader is not None
    databases = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(databases)
    databases.copy_new_databases()
    while True:
        start, files, _, _ = socket.recv_fds(control, 1, 4)
        if not start:
            return lambda: 0
        order = b""
        while not order.endswith(b"\n"):
            order += control.recv(65536)
        streams, report = files[:3], files[3:]
        if os.isatty(streams[0]):
            importlib.import_module("textual.drivers.linux_driver")
            import_program("app", "widgets", leaving_out=())
        child = os.fork()
        if not child:
            if report:
                become_its_child(report[0], streams)
            return become(streams, **json.loads(order))
        for file in files:
            os.close(file)
        if report:
            # Who watched over an earlier one may have ended.
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        else:
            _, status = os.waitpid(child, 0)
            control.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def import_program(*packages: str, leaving_out: tuple[str, ...] = WITH_A_SCREEN) -> None:
    """Import what any command may need, and keep it out of the sight of each child's garbage collector."""
    for package in packages:
        program = importlib.import_module(package)
        for module in pkgutil.walk_packages(program.__path__, f"{package}."):
            if not module.name.startswith((*leaving_out, "app.launcher")):
                importlib.import_module(module.name)
    for name in WHEN_NEEDED:
        importlib.import_module(name)
    gc.freeze()


def become_its_child(report: int, streams: Sequence[int]) -> None:
    """Fork once more: the child goes on, in a session of its own, and its terminal; the parent tells how it ended."""
    if child := os.fork():
        # The end of a terminal is seen once nobody else has it open.
        for stream in streams:
            os.close(stream)
        os.write(report, NUMBER.pack(child))
        _, status = os.waitpid(child, 0)
        os.write(report, NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os._exit(0)
    os.close(report)
    os.setsid()
    if os.isatty(streams[0]):
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)


def become(
    streams: Sequence[int], arguments: list[str], folder: str, environment: dict[str, str], module: str
) -> Callable[[], Any]:
    """Be the process that was asked for; what it has to run."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if os.isatty(0):
        # What they were opened on was no terminal: it could be sought in, and was written to in blocks.
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            anew = open(number, "w" if number else "r", 1, closefd=False)  # noqa: SIM115
            setattr(sys, name, anew)
            setattr(sys, f"__{name}__", anew)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    if module == "signoff":
        main: Callable[[], Any] = importlib.import_module(module).main
        return main
    return lambda: runpy.run_module(module, run_name="__main__") and 0


class Ending:
    """How a process ends: when all was done that is done at an exit, at once.

    Taking down what was imported, module by module, takes longer than a short command; nobody would see it.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        # Registered before anything is imported, so the last to be called.
        atexit.register(self._at_once)

    def _at_once(self) -> None:
        if self.code is not None:
            gc.collect()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


if __name__ == "__main__":
    ending = Ending()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        run = serve(connection)
    try:
        code = run()
    except SystemExit as left:
        code = left.code
    ending.code = code if isinstance(code, int) else None if code else 0
    raise SystemExit(code)
