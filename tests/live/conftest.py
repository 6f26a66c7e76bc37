"""The live tests are there only if `SIGNOFF_LIVE` names endpoints, as `tests/live/vendors.py` has them.

They run in one process: workers get no keys.
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
    from tests.live.bench import Live, Recorder
    from tests.live.vendors import Target

_WANTED = "" if "PYTEST_XDIST_WORKER" in os.environ else os.environ.get("SIGNOFF_LIVE", "")
if not _WANTED:
    collect_ignore_glob = ["test_*.py"]

_REPORT = pytest.StashKey[pytest.TestReport]()
_targets: "list[Target]" = []
_folders: list[Path] = []


def pytest_configure() -> None:
    """Find the targets; raises pytest.UsageError where a name or a key is missing."""
    if _WANTED:
        from tests.live.vendors import targets

        _targets[:] = targets(_WANTED, {**os.environ, **REMOVED_VARIABLES})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make each test once for each target."""
    if "target" in metafunc.fixturenames:
        names = [each.name for each in _targets]
        metafunc.parametrize("target", _targets, ids=names, indirect=True, scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what came of the test itself, for the summary."""
    report = yield
    if report.when == "call":
        item.stash[_REPORT] = report
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Say where the artefacts are, or how to begin."""
    if _folders:
        terminalreporter.write_line(f"Live tests: the summary, requests and logs are in {_folders[0]}")
    elif exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not _WANTED:
        terminalreporter.write_line(
            "Live tests: SIGNOFF_LIVE=NAME,… says where; tests/live/vendors.py has the names."
        )


@pytest.fixture(scope="session")
def artefacts() -> "Artefacts":
    """The folder of this run; not below pytest's own, which it removes when all went well."""
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
    """One of those that `SIGNOFF_LIVE` names."""
    found: Target = request.param
    if found.scripted:
        found = request.getfixturevalue("proxies")[found.name]
    if found.key:
        artefacts.keys.add(found.key)
    return found


@pytest.fixture(scope="session")
def home(target: "Target", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `SIGNOFF_HOME` for all tests of a target: what one has learned, the next knows."""
    return tmp_path_factory.mktemp("home")


@dataclass
class Check:
    """One test of one target while it runs."""

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
    """Record what the test sends, and write it down with what came of it."""
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
async def live(target: "Target", check: Check, tmp_path: Path) -> "AsyncIterator[Live]":
    """A session with the target's model."""
    from tests.live.bench import live_session

    async with live_session(target, tmp_path, check.recorder) as session:
        yield session
        check.events = session.events
