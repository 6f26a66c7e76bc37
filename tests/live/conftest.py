"""The live tests run only if `SIGNOFF_LIVE` names endpoints from `tests/live/vendors.py`.

They run in one process: workers get no API keys.
"""

import os
import tempfile
import time
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import REMOVED_VARIABLES

if TYPE_CHECKING:
    from app.conversation.events import Event
    from tests.live.artefacts import Artefacts
    from tests.live.bench import LiveSession, Recorder
    from tests.live.vendors import Target

_REQUESTED_TARGETS = "" if "PYTEST_XDIST_WORKER" in os.environ else os.environ.get("SIGNOFF_LIVE", "")
if not _REQUESTED_TARGETS:
    collect_ignore_glob = ["test_*.py"]

_REPORT = pytest.StashKey[pytest.TestReport]()
_targets: "list[Target]" = []
_folders: list[Path] = []


def pytest_configure() -> None:
    """Find the targets; raise pytest.UsageError if a name or a key is missing."""
    if _REQUESTED_TARGETS:
        from tests.live.vendors import targets

        _targets[:] = targets(_REQUESTED_TARGETS, {**os.environ, **REMOVED_VARIABLES})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise each test with all targets."""
    if "target" in metafunc.fixturenames:
        names = [target.name for target in _targets]
        metafunc.parametrize("target", _targets, ids=names, indirect=True, scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the report of the test call for the summary."""
    report = yield
    if report.when == "call":
        item.stash[_REPORT] = report
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Print where the artefacts are, or how to start."""
    if _folders:
        terminalreporter.write_line(f"Live tests: the summary, requests and logs are in {_folders[0]}")
    elif exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not _REQUESTED_TARGETS:
        terminalreporter.write_line(
            "Live tests: SIGNOFF_LIVE=NAME,… selects endpoints; tests/live/vendors.py lists them."
        )


@pytest.fixture(scope="session")
def artefacts() -> "Artefacts":
    """The folder of this run; outside of pytest's folder, which pytest removes after success."""
    from tests.live.artefacts import Artefacts

    given = os.environ.get("SIGNOFF_LIVE_ARTEFACTS")
    folder = Path(given).absolute() if given else Path(tempfile.mkdtemp(prefix="signoff-live-"))
    _folders.append(folder)
    return Artefacts(folder)


@pytest.fixture(scope="session")
def proxies(artefacts: "Artefacts") -> "Iterator[dict[str, Target]]":
    """The targets of a running LiteLLM, by name."""
    from tests.live.litellm_proxy import litellm
    from tests.live.vendors import proxied

    with litellm(artefacts.folder / "litellm") as (base_url, key):
        yield {target.name: target for target in proxied(base_url, key)}


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest, artefacts: "Artefacts") -> "Target":
    """One of the targets that `SIGNOFF_LIVE` names."""
    selected: Target = request.param
    if selected.scripted:
        selected = request.getfixturevalue("proxies")[selected.name]
    if selected.key:
        artefacts.keys.add(selected.key)
    return selected


@pytest.fixture(scope="session")
def home(target: "Target", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `SIGNOFF_HOME` for all tests of a target: the learned profile is kept between tests."""
    return tmp_path_factory.mktemp("home")


@dataclass
class Check:
    recorder: "Recorder"
    events: "list[Event]" = field(default_factory=list)


@pytest.fixture
def check(
    request: pytest.FixtureRequest,
    target: "Target",
    home: Path,
    artefacts: "Artefacts",
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Check]:
    """Record the requests of the test, and write them with its result."""
    from tests.live.bench import Recorder, configure

    monkeypatch.setenv("SIGNOFF_HOME", str(home))
    if target.key:
        monkeypatch.setenv("SIGNOFF_API_KEY", target.key)
    configure(target)
    running = Check(Recorder())
    started = time.monotonic()
    with running.recorder.recording():
        yield running
    report = request.node.stash.get(_REPORT, None)
    outcome, detail = "failed", ""
    if report is not None:
        outcome = report.outcome
        detail = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    artefacts.add(
        target,
        request.node.originalname.removeprefix("test_"),
        running.recorder,
        running.events,
        outcome=outcome,
        detail=detail,
        seconds=time.monotonic() - started,
    )


@pytest.fixture
async def live(target: "Target", check: Check, tmp_path: Path) -> "AsyncIterator[LiveSession]":
    """A session with the target's model."""
    from tests.live.bench import live_session

    async with live_session(target, tmp_path, check.recorder) as session:
        yield session
        check.events = session.events
