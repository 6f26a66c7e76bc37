"""Fixtures and settings for all tests: they don't depend on the developer's environment."""

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
from hypothesis import HealthCheck, settings

from app.sandbox.confinement import CommandWriteMode
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace
from tests.databases import copy_new_databases
from tests.examples import STANDARD
from tests.forking import Forking, forking
from tests.pictures import paint_on_demand
from tests.pilots import wait_for_effects
from tests.stylesheets import cache_stylesheet_work

# Imports create almost no garbage; the collector is enabled after the tests are collected.
gc.disable()

os.environ.update(
    TERM="xterm-256color",
    COLORTERM="truecolor",
    # Use the `signoff` that is installed beside this Python, even if its environment is not activated.
    PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    # Ignore the developer's git configuration (autocrlf, gpgsign, hooks, colours).
    GIT_CONFIG_GLOBAL=os.devnull,
    GIT_CONFIG_NOSYSTEM="1",
    # Ignore the MCP servers that the developer has configured for other agents.
    CLAUDE_CONFIG_DIR="/nonexistent",
    GEMINI_CLI_HOME="/nonexistent",
    CODEX_HOME="/nonexistent",
)
REMOVED_VARIABLES: dict[str, str] = {}
"""Variables of the developer's environment that tests don't see. The live tests read API keys from here."""
for _name in (
    *("NO_COLOR", "FORCE_COLOR", "TEXTUAL_COLOR_SYSTEM", "TEXTUAL_THEME"),
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "SIGNOFF_API_KEY", "SIGNOFF_BASE_URL"),
    *("SIGNOFF_MODEL", "SIGNOFF_THEME", "SIGNOFF_GATE", "SIGNOFF_HOME"),
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF", "GIT_PAGER"),
    # Without bytecode, every child process of a test compiles the whole program again.
    *("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"),
):
    if _name in os.environ:
        REMOVED_VARIABLES[_name] = os.environ.pop(_name)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Child processes would also ignore SIGINT, because a shell starts background processes with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_MEMORY_FOLDER = Path("/dev/shm")
_MIN_FREE_BYTES = 2_000_000_000
if _MEMORY_FOLDER.is_dir() and shutil.disk_usage(_MEMORY_FOLDER).free > _MIN_FREE_BYTES:
    # Each test flushes a store to the disk; on a real disk, tests would spend most of their time in these flushes.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY_FOLDER))

textual.screen.UPDATE_PERIOD = 1 / int(os.environ.get("TEXTUAL_FPS", "20"))  # type: ignore[misc]
"""Seconds between two frames of a screen without a terminal: changes in between are painted together."""

cache_stylesheet_work()

copy_new_databases()

wait_for_effects()

paint_on_demand()

_SLOW = [HealthCheck.too_slow]
"""Not a defect: on a loaded machine, generating examples may be slow."""
settings.register_profile("quick", deadline=None, suppress_health_check=_SLOW, max_examples=STANDARD // 8)
settings.register_profile("signoff", deadline=None, suppress_health_check=_SLOW, max_examples=STANDARD // 4)
settings.register_profile("ci", deadline=None, suppress_health_check=_SLOW, max_examples=STANDARD)
settings.register_profile("soak", deadline=None, suppress_health_check=_SLOW, max_examples=3 * STANDARD)
settings.load_profile("signoff")


@pytest.fixture(scope="session")
def processes() -> Iterator[Forking]:
    """A process that has imported the program, which takes a second; all tests share it."""
    with forking() as started:
        yield started


_MAX_FILES_WITHOUT_WORKERS = 3
"""Up to this number of files, one process is faster, because workers take time to start."""
_MAX_ID_BYTES = 24
"""Maximum number of bytes that are shown in the ID of a parametrised test."""
_SINGLE_PROCESS_FOLDER = Path("tests", "live")
"""Tests that run in one process: they share a server, a summary and API keys that workers don't get."""
_WORKERS_PER_CORE = 2
"""Tests wait for a third of their time: for a screen, a child process or a server."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return 0 for a few files or live tests; otherwise enough workers to keep all cores busy."""
    files = [argument.partition("::")[0] for argument in config.args]
    if all(Path(file).is_relative_to(_SINGLE_PROCESS_FOLDER) for file in files):
        return 0
    few = len(files) <= _MAX_FILES_WITHOUT_WORKERS and all(Path(file).is_file() for file in files)
    return 0 if few else math.ceil(_WORKERS_PER_CORE * (os.cpu_count() or 1))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile a share of the program and import a share of the tests before this worker imports all of them.

    Otherwise, in a new checkout and after a change, each worker would do all of this work at the same time.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    share = slice(int(worker["workerid"].removeprefix("gw")), None, worker["workercount"])
    root = session.config.rootpath
    ignored_paths = [root / folder for folder in session.config.getoption("ignore") or []]
    for file in sorted(file for package in ("app", "widgets") for file in (root / package).rglob("*.py"))[share]:
        compileall.compile_file(file, quiet=2)
    files = {file for argument in session.config.args for file in (root / argument).rglob("test_*.py")}
    for file in sorted(file for file in files if not any(map(file.is_relative_to, ignored_paths)))[share]:
        # Collection reports a module that can't be imported.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need an overlay where the system doesn't allow one."""
    if item.get_closest_marker("layer") and (why := reason_without_layer()):
        pytest.skip(why)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Use the parameter name as ID of long bytes: packed data holds timestamps, and all workers need the same IDs."""
    return argname if isinstance(val, bytes) and len(val) > _MAX_ID_BYTES else None


def pytest_collection_finish() -> None:
    """Exclude the imported modules from garbage collection, which took a third of the time of a screen test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_sessionfinish() -> None:
    """Collect garbage once; pytest does it five times, over all imported objects."""
    gc.collect()
    gc.freeze()


@cache
def reason_without_layer() -> str:
    """Return why no overlay is possible; empty if one is."""
    with tempfile.TemporaryDirectory(prefix="signoff-tests-") as folder:
        workspace = Path(folder).resolve() / "ws"
        workspace.mkdir()
        probe = asyncio.run(Sandbox(Workspace(workspace), workspace.parent / "runs", own_folders=()).probe())
    return probe.why_not if probe.mode is CommandWriteMode.IN_PLACE else ""
