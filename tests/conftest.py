"""What holds for all tests: an environment of their own, whatever they are really run from."""

import asyncio
import compileall
import contextlib
import gc
import importlib
import math
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import textual.screen
from hypothesis import settings

from app.sandbox.confinement import SandboxMode
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace
from tests.databases import copy_new_databases
from tests.examples import STANDARD
from tests.forking import Forking, forking
from tests.pictures import paint_what_is_looked_at
from tests.pilots import wait_for_what_was_done
from tests.stylesheets import work_once

# Of what is imported next to nothing is garbage; it is looked for again once the tests are collected.
gc.disable()

os.environ.update(
    TERM="xterm-256color",
    COLORTERM="truecolor",
    # `signoff` is the one that is installed beside this Python, also where nobody has activated its environment.
    PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    # The developer's own git configuration (autocrlf, gpgsign, hooks, colours) is not what is tested.
    GIT_CONFIG_GLOBAL=os.devnull,
    GIT_CONFIG_NOSYSTEM="1",
    # Nor are the servers that the developer has written down for other agents.
    CLAUDE_CONFIG_DIR="/nonexistent",
    GEMINI_CLI_HOME="/nonexistent",
    CODEX_HOME="/nonexistent",
)
REMOVED_VARIABLES: dict[str, str] = {}
"""Of the developer's environment, what no test may see; for those that are there to spend the developer's money."""
for _name in (
    *("NO_COLOR", "FORCE_COLOR", "TEXTUAL_COLOR_SYSTEM", "TEXTUAL_THEME"),
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "SIGNOFF_API_KEY", "SIGNOFF_BASE_URL"),
    *("SIGNOFF_MODEL", "SIGNOFF_THEME", "SIGNOFF_GATE", "SIGNOFF_HOME"),
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF", "GIT_PAGER"),
    # Without bytecode every child process that a test starts compiles the whole program anew.
    *("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"),
):
    if _name in os.environ:
        REMOVED_VARIABLES[_name] = os.environ.pop(_name)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Child processes would ignore it too, as whatever a shell runs in the background does.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_MEMORY = Path("/dev/shm")
_ROOM = 2_000_000_000
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
    # Each test has a store of its own that is flushed to the disk; on a real one, tests mostly wait for that.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

textual.screen.UPDATE_PERIOD = 1 / int(os.environ.get("TEXTUAL_FPS", "20"))  # type: ignore[misc]
"""Seconds between two pictures of a screen that nobody looks at: what changed meanwhile is painted once."""

work_once()

copy_new_databases()

wait_for_what_was_done()

paint_what_is_looked_at()

settings.register_profile("quick", deadline=None, max_examples=STANDARD // 8)
settings.register_profile("signoff", deadline=None, max_examples=STANDARD // 4)
settings.register_profile("ci", deadline=None, max_examples=STANDARD)
settings.register_profile("soak", deadline=None, max_examples=3 * STANDARD)
settings.load_profile("signoff")


@pytest.fixture(scope="session")
def processes() -> Iterator[Forking]:
    """A process that has imported the program, which takes a second: one for all tests."""
    with forking() as started:
        yield started


_FEW = 3
"""Files that are run sooner in one process than with workers, which first have to start."""
_LONG_NAME = 24
"""Bytes that may be read in the name of a test."""
_ALONE = Path("tests", "live")
"""Tests that run in one process: they share a server, a summary, and keys that no worker gets."""
_WORKERS_PER_CORE = 2
"""A third of the time of a test is spent waiting: for a screen, a child process, a server."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers for a few files, or with keys; else enough of them to keep the cores busy."""
    files = [argument.partition("::")[0] for argument in config.args]
    if all(Path(file).is_relative_to(_ALONE) for file in files):
        return 0
    few = len(files) <= _FEW and all(Path(file).is_file() for file in files)
    return 0 if few else math.ceil(_WORKERS_PER_CORE * (os.cpu_count() or 1))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile this worker's share of the program and import its share of the tests, before it imports all of them.

    In a new checkout, and after a change, each worker would otherwise do the whole of this work, at the same time.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    share = slice(int(worker["workerid"].removeprefix("gw")), None, worker["workercount"])
    root = session.config.rootpath
    left_out = [root / folder for folder in session.config.getoption("ignore") or []]
    for file in sorted(file for package in ("app", "widgets") for file in (root / package).rglob("*.py"))[share]:
        compileall.compile_file(file, quiet=2)
    files = {file for argument in session.config.args for file in (root / argument).rglob("test_*.py")}
    for file in sorted(file for file in files if not any(map(file.is_relative_to, left_out)))[share]:
        # What can't be imported says so when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what needs a layer where the system lets none be made."""
    if item.get_closest_marker("layer") and (why := why_no_layer()):
        pytest.skip(why)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long bytes by their parameter: what is packed holds the time, and all workers have to agree."""
    return argname if isinstance(val, bytes) and len(val) > _LONG_NAME else None


def pytest_collection_finish() -> None:
    """Keep the garbage collector off what was imported: it took a third of the time of a test of the screen."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_sessionfinish() -> None:
    """Look for garbage once, not the five times that pytest does over all that was imported."""
    gc.collect()
    gc.freeze()


@cache
def why_no_layer() -> str:
    """Why there is none; empty if there can be one."""
    with tempfile.TemporaryDirectory(prefix="signoff-tests-") as folder:
        workspace = Path(folder).resolve() / "ws"
        workspace.mkdir()
        probe = asyncio.run(Sandbox(Workspace(workspace), workspace.parent / "runs", own_folders=()).probe())
    return probe.why_not if probe.mode is SandboxMode.IN_PLACE else ""
