"""Run `signoff` commands in this process, which takes a tenth of the time of a new process.

Each command has separate streams, a separate folder and environment, and returns an exit code.
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

FORKED_COMMANDS = {"completion", "mcp", "--wait", "--limit"}
"""Words of commands that measure time from their start, end the process or change global state; they are forked."""


def run_command(
    processes: Forking, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run a command until it exits, like `subprocess.run`; bytes that are not UTF-8 become surrogates."""
    if FORKED_COMMANDS.intersection(arguments):
        return processes.run(arguments, folder=folder, environment=environment, stdin=stdin)
    with contextlib.ExitStack() as files:
        input_file, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        input_file.write(stdin.encode("utf-8", "surrogateescape"))
        input_file.seek(0)
        with (
            contextlib.chdir(folder),
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch.object(sys, "argv", ["signoff", *arguments]),
            _stream("stdin", input_file),
            _stream("stdout", out),
            _stream("stderr", err),
        ):
            threshold, sigterm_handler = gc.get_threshold(), signal.getsignal(signal.SIGTERM)
            try:
                code = _run_hook(arguments[1:], err) if arguments[:1] == ("hook",) else main(arguments)
            finally:
                signal.signal(signal.SIGTERM, sigterm_handler)
                gc.set_threshold(*threshold)
        texts = []
        for output_file in (out, err):
            output_file.seek(0)
            texts.append(output_file.read().decode("utf-8", "surrogateescape"))
    return subprocess.CompletedProcess(list(arguments), int(code), *texts)


@contextlib.contextmanager
def _stream(name: str, file: IO[bytes]) -> Iterator[None]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    with mock.patch.object(sys, name, text):
        yield
    text.flush()
    text.detach()


class _HookAgent:
    """The caller of the hook; it derives the exit code from the answers like `app.launcher.deadline`."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.code = DENIED_EXIT_CODE

    def allow_on_failure(self) -> None:
        self.code = 0

    def answer(self, text: bytes, *, denied: bool = False) -> None:
        sys.stdout.buffer.write(text)
        self.code = DENIED_EXIT_CODE if denied else 0


def _run_hook(arguments: Sequence[str], err: IO[bytes]) -> int:
    """Answer a call of another agent; redirect file descriptor 2, because the hook reports errors there."""
    agent, saved_stderr = _HookAgent(), os.dup(2)
    os.dup2(err.fileno(), 2)
    try:
        run_hook(arguments, agent)
    finally:
        os.dup2(saved_stderr, 2)
        os.close(saved_stderr)
    return agent.code
