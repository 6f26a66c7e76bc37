"""Runs `signoff` in processes that are forked from one that has imported the program.

Each is a process like one that a shell starts, with its own streams, folder, environment and exit. It is only spared
what takes nine tenths of the time of a short command: to start Python and to import. What depends on the start itself
(a reader that leaves, signals, how the streams are encoded) is tested with processes that are started.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

WITH_A_SCREEN = ("app.ui", "app.launcher", "app.cli.open_app")
"""What a command without a screen never imports."""


class Forking:
    """A process that has imported the program, asked through a socket to fork and run it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._answers = control.makefile("r")

    def run(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], stdin: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command to its end, as `subprocess.run` does."""
        order = json.dumps({"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)})
        with contextlib.ExitStack() as files:
            streams = [files.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(3)]
            streams[0].write(stdin)
            for stream in streams:
                stream.seek(0)
            socket.send_fds(self._control, [b"."], [stream.fileno() for stream in streams])
            self._control.sendall(f"{order}\n".encode())
            code = int(self._answers.readline())
            for stream in streams:
                stream.seek(0)
            out, err = (stream.read() for stream in streams[1:])
        return subprocess.CompletedProcess(list(arguments), code, out, err)


@contextlib.contextmanager
def forking() -> Iterator[Forking]:
    """Start the process that is forked from."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]):
            theirs.close()
            yield Forking(ours)
            ours.shutdown(socket.SHUT_RDWR)


def serve(control: socket.socket) -> Any:
    """Fork as often as asked; in each child, return what is to be run there."""
    import_program()
    while True:
        start, streams, _, _ = socket.recv_fds(control, 1, 3)
        if not start:
            return lambda: 0
        order = b""
        while not order.endswith(b"\n"):
            order += control.recv(65536)
        child = os.fork()
        if not child:
            return become(streams, **json.loads(order))
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        control.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def import_program() -> None:
    """Import what any command may need, and keep it out of the sight of each child's garbage collector."""
    program = importlib.import_module("app")
    for module in pkgutil.walk_packages(program.__path__, "app."):
        if not module.name.startswith(WITH_A_SCREEN):
            importlib.import_module(module.name)
    importlib.import_module("openai")
    gc.freeze()


def become(streams: Sequence[int], arguments: list[str], folder: str, environment: dict[str, str]) -> Any:
    """Be the process that was asked for; what it has to run."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["signoff", *arguments]
    return importlib.import_module("signoff").main


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
