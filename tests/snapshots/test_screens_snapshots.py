"""Pictures of the app before anything was said, and of every screen over it: each once large, few small and light."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pydantic import SecretStr
from textual.pilot import Pilot
from textual.screen import Screen

from app.conversation.events import AssistantMessage, Event, ProposalStaged, UserMessage
from app.llm.capabilities.model_list import ListedModel
from app.llm.endpoint_doctor import CHECKS, DetectedLocalServer, DoctorCheckResult, EndpointDiagnosis
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint, Payload
from app.llm.wires.wire_registry import RequestInputs
from app.proposals.decide.conflicts import ConflictMarkerLabels, ConflictRegion, FileConflict
from app.proposals.values.decision_facts import FileDiffStat
from app.runtime.open_workspace import open_workspace
from app.storage.session_store import SessionRecord
from app.ui.app import SignoffApp
from app.ui.screens.dialog import ConfirmScreen
from app.ui.screens.edit_screens import ConflictScreen, EditProposedFileScreen
from app.ui.screens.report_screens import EndpointDoctorScreen, LastRequestScreen
from app.ui.screens.sessions_screen import SessionPickerScreen
from app.ui.screens.settings_screen import SettingsScreen
from app.ui.screens.setup_screens import EndpointScreen, ModelPickerScreen, ModelSetupScreen
from app.ui.screens.trust_screen import ConfigTrustScreen, WorkspaceConfigToTrust
from app.ui.startup import WorkspaceWithOptions
from tests.pilots import wait_until_idle
from tests.ui.screen_text import screen_text
from tests.waiting import until

NOW = 1_800_000_000.0


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Makes an app in an empty workspace, with an endpoint that is never asked, at one moment in time."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "signoff"))
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    clock = SimpleNamespace(time=lambda: NOW, monotonic=lambda: NOW)
    for screen in ("sessions_screen", "setup_screens", "report_screens"):
        monkeypatch.setattr(f"app.ui.screens.{screen}.time", clock)
    monkeypatch.setattr("app.llm.endpoint_doctor.examine_endpoint", examined)
    # What this machine allows is not for pictures.
    monkeypatch.setattr(
        "app.ui.screens.report_screens.describe_how_commands_run", lambda means: "run on a layer over the workspace"
    )
    monkeypatch.setattr("app.ui.screens.report_screens.CommandWriteMode", SimpleNamespace(IN_PLACE=None))
    found = [DetectedLocalServer("ollama", "http://127.0.0.1:11434/v1", ("qwen3-coder:30b", "gpt-oss:20b"))]
    monkeypatch.setattr("app.llm.endpoint_doctor.find_local_servers", AsyncMock(return_value=found))
    root = tmp_path / "workspace"
    root.mkdir()

    def made(theme: str) -> SignoffApp:
        flags = {"base_url": "http://127.0.0.1:9/v1", "model": "a-model", "api_key": "key", "theme": theme}
        runtime = open_workspace(root, flags, {})

        async def opener() -> WorkspaceWithOptions:
            return WorkspaceWithOptions(runtime, runtime.settings)

        return SignoffApp(opener, runtime.dirs.log)

    return made


# What stands behind the screens: fakes at their ports.


class Sessions:
    """Three sessions of a workspace."""

    def all(self) -> list[SessionRecord]:
        ages = {"Fix the failing tests": 40.0, "Explain the lunar day": 7_300.0, "": 3 * 86_400.0}
        return [
            SessionRecord(
                f"{number}a8f", "tideline", title, "gpt-oss-120b", "0a8f" if number == 2 else "", 0.0, NOW - age
            )
            for number, (title, age) in enumerate(ages.items())
        ]

    def last_events(self, session_id: str, count: int) -> Sequence[Event]:
        return [
            UserMessage(text="fix the failing tests"),
            AssistantMessage(text="The tides keep the sun's time: `LUNAR_DAY` takes **24 h 50 min**."),
            ProposalStaged(
                proposal="P1",
                summary="Keep the moon's time",
                files=(FileDiffStat(path="tideline/moon.py", op="modify", added=1, removed=1),),
                calls=("c1.0",),
            ),
            AssistantMessage(text="**P1** waits for you. Have a look at the diff."),
        ]


async def examined(
    endpoint: Endpoint, profile: EndpointProfile, **_: Any
) -> AsyncIterator[DoctorCheckResult | EndpointDiagnosis]:
    """An endpoint that honours nearly everything."""
    details = {"reachable": endpoint.base_url, "key": "accepted", "model": endpoint.model, "streaming": "22 pieces"}
    unsure = {"tool_choice": "“none” is taken; whether it is honoured cannot be told"}
    checks = [
        DoctorCheckResult(name, None if name in unsure else True, unsure.get(name, details.get(name, "works")))
        for name in CHECKS
    ]
    for check in checks:
        yield check
    yield EndpointDiagnosis(tuple(checks), profile, True, "Works.")


SOURCE = '''\
"""How long the moon takes, as far as the sea cares."""

from datetime import datetime, timedelta

LUNAR_DAY = timedelta(hours=24, minutes=50)

NEW_MOON = datetime(2026, 1, 18, 19, 52)


def moon_age(moment: datetime) -> timedelta:
    """The time since the last new moon."""
    # The calendar of the harbour office begins here.
    return (moment - NEW_MOON) % SYNODIC_MONTH
'''
CONFIGURATION = (
    b'# How we work here.\ntheme = "signoff-light"\nmax_steps = 30\nbase_url = "https://models.example/v1"\n'
)
PAYLOAD = Payload(
    [
        {"role": "system", "content": "You are the coding assistant of signoff."},
        {"role": "user", "content": "fix the failing tests"},
        {"role": "assistant", "content": "Found it: the tides keep the sun's time."},
        {"role": "system", "content": "Your edits are staged as proposal P1. Hand control back to the user."},
    ],
    [{"type": "function", "function": {"name": "read_file", "description": "Read a file.", "parameters": {}}}],
    "none",
)

CONFLICT = FileConflict(
    proposal="P1",
    path="tideline/moon.py",
    reason="tideline/moon.py changed at line 5 and 1 more place, where the proposal changes it too",
    disk=None,
    disk_text=SOURCE,
    parts=(
        tuple(SOURCE.splitlines()[:4]),
        ConflictRegion(
            5,
            ("LUNAR_DAY = timedelta(hours=24)",),
            ("LUNAR_DAY = timedelta(hours=24, minutes=48)",),
            ("LUNAR_DAY = timedelta(hours=24, minutes=50)",),
        ),
        tuple(SOURCE.splitlines()[5:11]),
        ConflictRegion(12, (), ("    # Not for harbours.",), ("    # Since the calendar begins.", "")),
        tuple(SOURCE.splitlines()[12:]),
    ),
    final_newline=True,
    whole=False,
    labels=ConflictMarkerLabels("on disk now", "before", "proposed in P1"),
    others=1,
)


SCREENS: dict[str, Callable[[SignoffApp], Screen[Any]]] = {
    "sessions": lambda app: SessionPickerScreen(Sessions(), "0a8f", bool),  # type: ignore[arg-type]
    "models": lambda app: ModelPickerScreen(
        AsyncMock(
            return_value=[
                ListedModel(name) for name in ("gpt-oss-120b", "gpt-oss-20b", "qwen3-coder", "devstral-small")
            ]
        ),
        "https://models.example/v1",
        "gpt-oss-20b",
        lambda _: Screen(),
    ),
    "settings": lambda app: SettingsScreen(
        app.controllers.preferences,
        app.controllers.runtime,
        app.controllers.connector,
        AsyncMock(),
    ),
    "wire": lambda app: LastRequestScreen(RequestInputs("gpt-oss-120b", EndpointProfile(), PAYLOAD)),
    "doctor": lambda app: EndpointDoctorScreen(
        app.controllers.runtime, Endpoint("https://models.example/v1", "gpt-oss-120b", SecretStr("key")), {}
    ),
    "trust": lambda app: ConfigTrustScreen(
        WorkspaceConfigToTrust(
            app.controllers.runtime, CONFIGURATION, values=dict.fromkeys(("theme", "max_steps", "base_url"), 1)
        )
    ),
    "edit": lambda app: EditProposedFileScreen(
        "P1", "tideline/moon.py", SOURCE, AsyncMock(), app.controllers.external_editor
    ),
    "resolve": lambda app: ConflictScreen(
        CONFLICT, AsyncMock(), AsyncMock(return_value=CONFLICT), app.controllers.external_editor
    ),
    "ask": lambda app: ConfirmScreen(
        "Delete this session?", "“Fix the tests” is deleted for good.", "delete", "keep"
    ),
    "setup": lambda app: ModelSetupScreen("No model is named yet."),
    "endpoint": lambda app: EndpointScreen(app.settings, Path("/home/ada/.config/signoff/config.toml"), print),
}


async def opened(pilot: Pilot[Any]) -> SignoffApp:
    """Wait until the session is open; nothing has the focus, so no cursor blinks."""
    app = pilot.app
    assert isinstance(app, SignoffApp)
    await until(lambda: app.current_session is not None and "model may act" in screen_text(app), "the session")
    app.set_focus(None)
    await wait_until_idle(pilot)
    return app


LOADED = {
    "sessions": "Have a look at the diff.",
    "models": "devstral-small",
    "setup": "2 models on this machine",
    "doctor": "run on a layer over the workspace",
}
"""What stands on a screen once it has loaded what it shows."""


async def shown(pilot: Pilot[Any], name: str) -> None:
    """Wait until a screen is in front and has loaded what it shows."""
    app = pilot.app
    await until(lambda: app.screen is not app.screen_stack[0], "the screen")
    await until(lambda: LOADED.get(name, "") in screen_text(app), lambda: f"{name}:\n{screen_text(app)}")
    await wait_until_idle(pilot)
    app.set_focus(None)
    await wait_until_idle(pilot)


LARGE, SMALL = ("signoff-dark", (160, 45)), ("signoff-light", (80, 24))
DIALOGS = ("help", "gate", "theme")
LOOKS = [
    *((name, *LARGE) for name in ("empty", *DIALOGS, *SCREENS)),
    *((name, *SMALL) for name in ("empty", "help", "trust", "resolve")),
    ("settings", "ansi-dark", (120, 32)),
]


@pytest.mark.parametrize(
    ("name", "theme", "size"), LOOKS, ids=lambda value: value if isinstance(value, str) else f"{value[0]}x{value[1]}"
)
def test_screen(snap_compare: Any, make: Any, name: str, theme: str, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        app = await opened(pilot)
        if name in SCREENS:
            app.push_screen(SCREENS[name](app))
        elif name in DIALOGS:
            app.action_command(name)
        if name != "empty":
            await shown(pilot, name)

    assert snap_compare(make(theme), run_before=before, terminal_size=size)
