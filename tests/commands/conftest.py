"""Fixtures of the command line: a workspace, and the command in it."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.command_line import run_command
from tests.forking import Forking
from tests.wire.server import WireServer


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\ntwo\nthree\n")
    return folder


@pytest.fixture
def signoff(tmp_path: Path, workspace: Path, processes: Forking) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs the command in the workspace, with a home of its own."""

    def run(*arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "SIGNOFF_"))}
        own = {**clean, "SIGNOFF_HOME": str(tmp_path / "home"), **environment}
        return run_command(processes, arguments, folder=workspace, environment=own, stdin=stdin)

    return run


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running
