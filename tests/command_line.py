"""Runs commands of `signoff` in this process, which takes a tenth of the time of one of their own.

A command has its own streams, folder and environment, and ends with its exit code.
"""

import contextlib
import gc
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO
from unittest import mock

from app.cli.main import main
from tests.forking import Forking

IN_PROCESSES = {"completion", "hook", "mcp"}
"""Commands that count time from their start, end the process or change what is kept for the next command."""


def run_command(
    processes: Forking, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, as `subprocess.run` does; bytes that are no UTF-8 are surrogates."""
    if arguments and arguments[0] in IN_PROCESSES:
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
            threshold = gc.get_threshold()
            try:
                code = main(arguments)
            finally:
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
