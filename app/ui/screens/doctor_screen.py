"""Examines the endpoint and shows each finding as it comes."""

import asyncio
import time
from collections.abc import Iterable
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.llm.capabilities.profiles import resolve_profile, store_diagnosis
from app.llm.endpoint_doctor import CHECKS, Diagnosis, EndpointCheck, examine, learned_check
from app.llm.values.types import Endpoint
from app.runtime.model_connection import LearnedProfiles
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.prompt_sources import check_prompt_sources
from app.sandbox.sandbox_mode import SandboxMode
from app.text.safe_text import escape_unsafe
from app.tools.command.sandbox_wording import describe_sandbox
from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint

_MARKS = {True: ("✓", "bold $text-success"), False: ("✗", "bold $text-error"), None: ("?", "bold $text-warning")}
_COMMANDS, _LEARNED = "commands", "learned"
_TITLES = {
    "reachable": "Reachable",
    "key": "Key",
    "model": "Model",
    "wire": "Wire",
    "streaming": "Streaming",
    "usage": "Token counts",
    "tools": "Tools",
    "tool_choice": "Closing the gate",
    "mid_system": "System messages",
    _LEARNED: "Learned",
    _COMMANDS: "Commands",
    "own_commands": "Your commands",
    "skills": "Skills",
    "hooks": "Hooks",
}


class DoctorScreen(Dialog[bool]):
    """Findings about the endpoint; the result is True if the next request should use something learned.

    Args:
        endpoint: Examined; what is learned of it goes into the runtime's store.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "again", "Again")]
    HEADING = "Doctor"
    KEYS = (KeyHint("r", "examine again"), KeyHint("escape", "close"))

    DEFAULT_CSS = """
    DoctorScreen {
        & > #dialog { width: 92; }
        VerticalScroll { height: auto; }
        &.-short > #dialog { height: 100%; }
        &.-short VerticalScroll { height: 1fr; }
        #doctor-summary { min-height: 1; }
    }
    """

    def __init__(self, runtime: OpenWorkspace, endpoint: Endpoint) -> None:
        super().__init__(classes="-small")
        self._runtime = runtime
        self._endpoint = endpoint
        self._found: dict[str, EndpointCheck] = {}
        self._learned = False

    def body(self) -> Iterable[Widget]:
        """Yield address, findings and consequences."""
        address = escape_unsafe(f"{self._endpoint.base_url} · {self._endpoint.model}", keep="")
        with VerticalScroll():
            yield Static(Content(address), id="doctor-address", classes="text quiet")
            yield Static(id="doctor-checks", classes="text gap")
            yield Static(id="doctor-summary", classes="text gap")

    def on_mount(self) -> None:
        """Begin."""
        self.action_again()

    def action_again(self) -> None:
        """Examine from the start."""
        self._found = {}
        self.query_one("#doctor-summary", Static).update("")
        self._draw(busy=True)
        self._examine()

    @work(group="examine", exclusive=True, exit_on_error=False, description="examine the endpoint")
    async def _examine(self) -> None:
        begun = time.monotonic()
        summary = self.query_one("#doctor-summary", Static)
        cache = LearnedProfiles(self._runtime.sessions)
        try:
            profile = await asyncio.to_thread(
                resolve_profile, self._endpoint.base_url, self._endpoint.model, cache=cache, overrides=None
            )
            probe = await self._runtime.sandbox.probe()
            for check in await asyncio.to_thread(lambda: list(check_prompt_sources(self._runtime))):
                self._found[check.name] = check
            self._found[_COMMANDS] = EndpointCheck(
                _COMMANDS, probe.mode is not SandboxMode.IN_PLACE, describe_sandbox(probe)
            )
            async for finding in examine(self._endpoint, profile):
                match finding:
                    case EndpointCheck():
                        self._found[finding.name] = finding
                        self._draw(busy=True)
                    case Diagnosis():
                        await asyncio.to_thread(store_diagnosis, cache, self._endpoint, finding.profile)
                        self._found[_LEARNED] = await asyncio.to_thread(learned_check, cache, self._endpoint)
                        self._learned = True
                        summary.update(describe_diagnosis(finding))
        except Exception as error:
            summary.update(
                Content.styled(escape_unsafe(f"The examination ended early: {error}", keep=""), "$text-error")
            )
        self._draw(busy=False)
        self.say(f"{time.monotonic() - begun:.1f} s")

    def _draw(self, *, busy: bool) -> None:
        rows: list[Content] = []
        waiting = busy
        own = [name for name in self._found if name not in (*CHECKS, _LEARNED, _COMMANDS)]
        for name in (*CHECKS, _LEARNED, _COMMANDS, *own):
            title = _TITLES.get(name, name).ljust(18)
            check = self._found.get(name)
            if check is not None:
                mark, style = _MARKS[check.ok]
                rows.append(
                    Content.assemble((f"{mark} ", style), (title, "bold"), escape_unsafe(check.detail, keep=""))
                )
            elif waiting:
                rows.append(
                    Content.assemble(("… ", "$text-accent"), (title, "bold"), ("examining", "$foreground 65%"))
                )
                waiting = False
            else:
                rows.append(Content.styled(f"  {title}", "$foreground 65%"))
        self.query_one("#doctor-checks", Static).update(Content("\n").join(rows))

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(self._learned)


def describe_diagnosis(diagnosis: Diagnosis) -> Content:
    """Return the conclusion of the findings, in the words of the list."""
    if not diagnosis.usable:
        return Content.styled(escape_unsafe(diagnosis.summary, keep=""), "bold $text-error")
    unsure = [_TITLES.get(check.name, check.name) for check in diagnosis.checks if not check.ok]
    if not unsure:
        return Content.styled("All is well.", "bold $text-success")
    return Content.assemble(
        ("signoff works with this endpoint. ", "bold $text-success"),
        (f"It makes up for what is missing or uncertain: {', '.join(unsure)}.", "$foreground 65%"),
    )
