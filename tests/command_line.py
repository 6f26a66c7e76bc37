"""Runs commands of `signoff` in this process, which takes a tenth of the time of one of their own.

A command has its own streams, folder and environment, and ends with its exit code.
"""

import contextlib
import gc
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO
from unittest import mock

from app.cli.main import main
from app.doors.hook.hook_entry import DENIED_EXIT_CODE, run_hook
from tests.forking import Forking

IN_PROCESSES = {"completion", "mcp", "--wait", "--limit"}
"""Words of commands that count time from their start, end the process or change what is kept for the next command."""


def run_command(
    processes: Forking, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, as `subprocess.run` does; bytes that are no UTF-8 are surrogates."""
    if IN_PROCESSES.intersection(arguments):
        return processes.run(arguments, folder=folder, environment=environment, stdin=stdin)
    with contextlib.ExitStack() as files:
        given, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin.encode("utf-8", "surrogateescape"))
        given.seek(0)
        with (
            contextlib.chdir(folder),
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch.object(sys, "argv", ["signoff", *arguments]),
            _stream("stdin", given),
            _stream("stdout", out),
            _stream("stderr", err),
        ):
            threshold, on_end = gc.get_threshold(), signal.getsignal(signal.SIGTERM)
            try:
                code = _hook(arguments[1:], err) if arguments[:1] == ("hook",) else main(arguments)
            finally:
                signal.signal(signal.SIGTERM, on_end)
                gc.set_threshold(*threshold)
        texts = []
        for written in (out, err):
            written.seek(0)
            texts.append(written.read().decode("utf-8", "surrogateescape"))
    return subprocess.CompletedProcess(list(arguments), int(code), *texts)


@contextlib.contextmanager
def _stream(name: str, file: IO[bytes]) -> Iterator[None]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    with mock.patch.object(sys, name, text):
        yield
    text.flush()
    text.detach()


class _Agent:
    """Who has called the hook, with what `app.launcher.deadline` makes of its answers."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.code = DENIED_EXIT_CODE

    def allow_on_failure(self) -> None:
        self.code = 0

    def answer(self, text: bytes, *, denied: bool = False) -> None:
        sys.stdout.buffer.write(text)
        self.code = DENIED_EXIT_CODE if denied else 0


def _hook(arguments: Sequence[str], err: IO[bytes]) -> int:
    """Answer a call of another agent; what is wrong is written past `sys.stderr`."""
    agent, kept = _Agent(), os.dup(2)
    os.dup2(err.fileno(), 2)
    try:
        run_hook(arguments, agent)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    return agent.code
