"""Run `signoff` in processes that are forked from a process that has imported the program.

Each child is like a process that a shell starts: it has separate streams, folder, environment and exit code, and with
a screen a separate session and terminal. A fork only skips the start of Python and the imports, which take nine
tenths of the time of a short command and two thirds of the app's start. Tests that depend on the start (a reader that
closes the pipe, signals, stream encodings, job control of a shell) start real processes.
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

UI_PACKAGES = ("app.ui", "app.cli.open_app", "widgets")
"""Packages that a command without a screen never imports."""
LATE_MODULES = ("openai", "httpcore2", "anyio._backends._asyncio", "watchfiles")
"""Modules that most commands import only while they run."""
TEXTUAL_ENVIRONMENT = {
    "TEXTUAL_ANIMATIONS": "none",
    # The terminal emulator needs more time to read a frame than signoff needs to paint it.
    "TEXTUAL_FPS": "8",
}
"""Variables that Textual reads when it is imported."""
INT_FORMAT = struct.Struct("i")


class ForkedProcess:
    """A running process with the interface of `subprocess.Popen`."""

    def __init__(self, report: int) -> None:
        self._report = report
        self.pid = self._read_int()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = self._read_int()
            os.close(self._report)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _read_int(self) -> int:
        """Read the next of the two numbers on the report pipe: the process id, then the exit code."""
        (number,) = INT_FORMAT.unpack(os.read(self._report, INT_FORMAT.size))
        return int(number)


class Forking:
    """A process that has imported the program; a request on its socket makes it fork and run the program."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._answers = control.makefile("r")
        self._lock = threading.Lock()

    def run(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], stdin: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command until it exits, like `subprocess.run`; bytes that are not UTF-8 become surrogates."""
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
            with self._lock:
                self._send_request([stream.fileno() for stream in streams], arguments, folder, environment)
                code = int(self._answers.readline())
            for stream in streams:
                stream.seek(0)
            out, err = (stream.read() for stream in streams[1:])
        return subprocess.CompletedProcess(list(arguments), code, out, err)

    def start(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], terminal: int
    ) -> ForkedProcess:
        """Run the app in a new terminal; return when it has started."""
        return self._start([terminal] * 3, arguments, folder, environment)

    def start_module(
        self, module: str, *arguments: str, folder: Path, environment: Mapping[str, str], talk: socket.socket
    ) -> ForkedProcess:
        """Run a test program like `python -m` does; return when it has started.

        `talk` is its standard input and output; this process closes it.
        """
        with talk:
            return self._start([talk.fileno(), talk.fileno(), 2], arguments, folder, environment, module)

    def _start(self, streams: Sequence[int], *request: Any) -> ForkedProcess:
        ours, theirs = os.pipe()
        with self._lock:
            self._send_request([*streams, theirs], *request)
        os.close(theirs)
        return ForkedProcess(ours)

    def _send_request(
        self,
        files: Sequence[int],
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        module: str = "signoff",
    ) -> None:
        request = {"arguments": arguments, "folder": str(folder), "environment": dict(environment), "module": module}
        socket.send_fds(self._control, [b"."], files)
        self._control.sendall(f"{json.dumps(request)}\n".encode())


@contextlib.contextmanager
def forking() -> Iterator[Forking]:
    """Start the parent process for forks."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        environment = {**os.environ, **TEXTUAL_ENVIRONMENT}
        files = [theirs.fileno()]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=files, env=environment):
            theirs.close()
            try:
                yield Forking(ours)
            finally:
                ours.shutdown(socket.SHUT_RDWR)


def serve(control: socket.socket) -> Callable[[], Any]:
    """Fork for each request; in each child, return the function to run there."""
    import_program("app")
    # The child must find the same modules as the program, therefore no package of the tests is imported.
    spec = importlib.util.spec_from_file_location("databases", Path(__file__).with_name("databases.py"))
    assert spec is not None and spec.loader is not None
    databases = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(databases)
    databases.copy_new_databases()
    # Each child finds the folder of temporary files by its own TMPDIR.
    tempfile.tempdir = None
    while True:
        start, files, _, _ = socket.recv_fds(control, 1, 4)
        if not start:
            return lambda: 0
        request = b""
        while not request.endswith(b"\n"):
            request += control.recv(65536)
        streams, report = files[:3], files[3:]
        if os.isatty(streams[0]):
            importlib.import_module("textual.drivers.linux_driver")
            import_program("app", "widgets", leaving_out=())
        child = os.fork()
        if not child:
            if report:
                detach_child(report[0], streams)
            return set_up_child(streams, **json.loads(request))
        for file in files:
            os.close(file)
        if report:
            # Reap the watchers of earlier children.
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        else:
            _, status = os.waitpid(child, 0)
            control.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def import_program(*packages: str, leaving_out: tuple[str, ...] = UI_PACKAGES) -> None:
    """Import everything that a command may need, and exclude it from garbage collection in each child."""
    for package in packages:
        program = importlib.import_module(package)
        for module in pkgutil.walk_packages(program.__path__, f"{package}."):
            if not module.name.startswith((*leaving_out, "app.launcher")):
                importlib.import_module(module.name)
    for name in LATE_MODULES:
        importlib.import_module(name)
    gc.freeze()


def detach_child(report: int, streams: Sequence[int]) -> None:
    """Fork again: the child continues in a new session with its terminal; the parent reports its exit code."""
    if child := os.fork():
        # A terminal reports end of file only after all other processes have closed it.
        for stream in streams:
            os.close(stream)
        os.write(report, INT_FORMAT.pack(child))
        _, status = os.waitpid(child, 0)
        os.write(report, INT_FORMAT.pack(os.waitstatus_to_exitcode(status)))
        os._exit(0)
    os.close(report)
    os.setsid()
    if os.isatty(streams[0]):
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)


def set_up_child(
    streams: Sequence[int], arguments: list[str], folder: str, environment: dict[str, str], module: str
) -> Callable[[], Any]:
    """Set up the streams, folder, environment and arguments of the child; return the function to run."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if os.isatty(0):
        # The present streams were opened on a file that is no terminal: they are seekable and fully buffered.
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            stream_object = open(number, "w" if number else "r", 1, closefd=False)  # noqa: SIM115
            setattr(sys, name, stream_object)
            setattr(sys, f"__{name}__", stream_object)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    if module == "signoff":
        main: Callable[[], Any] = importlib.import_module(module).main
        return main
    return lambda: runpy.run_module(module, run_name="__main__") and 0


class ImmediateExit:
    """Ends the process immediately after all other exit handlers.

    To unload the imported modules takes longer than a short command, and has no visible effect.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        # Registered before all imports, therefore called last.
        atexit.register(self._exit)

    def _exit(self) -> None:
        if self.code is not None:
            gc.collect()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


if __name__ == "__main__":
    immediate_exit = ImmediateExit()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        run = serve(connection)
    try:
        code = run()
    except SystemExit as exit_request:
        code = exit_request.code
    immediate_exit.code = code if isinstance(code, int) else None if code else 0
    raise SystemExit(code)
