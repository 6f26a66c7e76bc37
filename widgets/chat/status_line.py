"""A line that shows what the session is doing, and the key that stops it."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from textual import events
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from app.agent.updates import Phase
from app.text.safe_text import escape_unsafe
from widgets.chat.entries.tool_entries import VERBS
from widgets.chat.markdown.styled_lines import seconds, shorten, width_of
from widgets.common.key_hints import MAIN_BUTTON

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_INTERVAL = 0.125
"""Seconds between two looks of the spinner; there is no timer while the session is idle."""
_CHARACTERS_PER_TOKEN = 4
_COUNTED = 60.0
"""Seconds up to which a wait is counted down; a longer one is told by the time of day, too."""

_INTERRUPT = Content.assemble(("Esc", "$text-accent bold"), " interrupts")
_PERMISSION = Content.assemble(("! ", "$text-warning bold"), "Needs your permission")

_MOVING = (Phase.WAITING, Phase.REQUESTING, Phase.STREAMING, Phase.RUNNING, Phase.RETRYING, Phase.COMPACTING)


class StatusLine(Widget):
    """Phase, figures and the key to stop; empty when idle.

    Args:
        clock: The clock of `PhaseChanged.until`.
        now: The wall clock.
    """

    DEFAULT_CSS = """
    StatusLine {
        height: 1;
        padding: 0 1 0 0;
        color: $text-muted;
        background: $background;
    }
    """

    class NewestWanted(Message):
        """The user wants to see the end of the transcript."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
        *,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._now = now
        self._phase = Phase.IDLE
        self._detail = ""
        self._until = 0.0
        self._since = 0.0
        self._turn_since = 0.0
        self._characters = 0
        self._ended = ""
        self._continues = ""
        self._unseen: int | None = None
        self._permissions = 0
        self._asked = 0.0
        self._timer: Timer | None = None

    @property
    def is_ticking(self) -> bool:
        """Whether a timer runs."""
        return self._timer is not None

    def show_phase(self, phase: Phase, detail: str = "", until: float = 0.0) -> None:
        """The session does something else now; `until` as in `PhaseChanged`."""
        now = self._clock()
        if self._phase not in _MOVING and phase in _MOVING:
            self._turn_since = now
        if phase in _MOVING:
            self._ended = ""
        # Of hundreds of calls in a second each would be a picture; the next tick shows which one runs.
        ticks = phase is self._phase and self.is_ticking
        self._phase, self._detail, self._until, self._since = phase, detail, until, now
        self._characters = 0
        self._set_ticking(phase in _MOVING)
        if not ticks:
            self.refresh()

    def add_characters(self, characters: int) -> None:
        """Count streamed characters."""
        self._characters += characters

    def show_end(self, text: str, continues: str = "") -> None:
        """Show how the last turn ended and what /continue does, until something changes."""
        self._ended, self._continues = text, continues
        self.refresh()

    def show_permissions(self, waiting: int) -> None:
        """Show how many tools wait for a permission."""
        now = self._clock()
        if waiting and not self._permissions:
            self._asked = now
        elif self._permissions and not waiting:
            # The time shown is the model's and the tools', not the user's.
            self._turn_since += now - self._asked
        self._permissions = waiting
        self.refresh()

    def show_following(self, following: bool, unseen: int) -> None:
        """Whether the transcript follows its end, and how much came since it stopped."""
        self._unseen = None if following else unseen
        self.refresh()

    def _set_ticking(self, wanted: bool) -> None:
        if wanted and self._timer is None and self.is_mounted:
            self._timer = self.set_interval(_INTERVAL, self.refresh)
        elif not wanted and self._timer is not None:
            self._timer.stop()
            self._timer = None

    def render(self) -> Content:
        """Return the activity at the left, the key at the right."""
        left = self._activity()
        right = self._way_out()
        width = self.content_size.width
        gap = width - width_of(left.plain) - width_of(right.plain)
        if gap < 1:
            return left.truncate(max(0, width - width_of(right.plain) - 1), ellipsis=True) + Content(" ") + right
        return left + Content(" " * gap) + right

    def _activity(self) -> Content:
        elapsed = self._clock() - self._since
        match self._phase:
            case Phase.WAITING:
                words = f"Waiting for {self._detail}"
            case Phase.REQUESTING:
                words = self._detail or "Waiting for the model"
            case Phase.STREAMING:
                tokens = self._characters // _CHARACTERS_PER_TOKEN
                rate = tokens / elapsed if elapsed > 0.5 else 0.0
                words = self._detail or "Writing"
                words += f" · {rate:,.0f} tokens/s" if rate >= 1 else ""
            case Phase.RUNNING if self._permissions:
                return _PERMISSION
            case Phase.RUNNING:
                words = _running(self._detail)
            case Phase.RETRYING:
                words = self._countdown()
                words += f" · {self._detail}" if self._detail else ""
            case Phase.COMPACTING:
                words = "Making room: older messages are being summarised"
            case Phase.ASKING:
                return Content.styled("? ", "$text-accent bold") + Content("The model asks you")
            case _:
                # Where the end of the transcript is in view, it says so itself.
                ended = self._ended if self._unseen is not None else ""
                return Content.styled(f"  {escape_unsafe(ended)}", "$text-warning") if ended else Content("")
        total = seconds(max(0.0, self._clock() - self._turn_since))
        spinner = (
            "·" if self.app.animation_level == "none" else _SPINNER[int(self._clock() / _INTERVAL) % len(_SPINNER)]
        )
        text = shorten(escape_unsafe(words), 200) + (f" · {total}" if total else "")
        return Content.styled(f"{spinner} ", "$text-accent") + Content(text)

    def _countdown(self) -> str:
        if not self._until:
            return "Retrying"
        left = max(0.0, self._until - self._clock())
        if left <= _COUNTED:
            return f"Retrying in {left:.0f} s"
        return f"Retrying at {self._now() + timedelta(seconds=left):%H:%M}, in {left // 60:.0f}:{left % 60:02.0f}"

    def _way_out(self) -> Content:
        parts: list[Content] = []
        if self._phase is Phase.RETRYING:
            parts.append(Content.assemble(("/continue", "$text-accent bold"), " tries now"))
        if self._unseen is not None:
            what = f"{self._unseen} new" if self._unseen else "to the newest"
            parts.append(Content.assemble(("↓ ", "$text-accent bold"), what))
        if self._phase in _MOVING:
            parts.append(_INTERRUPT)
        elif self._ended and self._unseen is not None and self._continues and self._phase is not Phase.ASKING:
            parts.append(Content.assemble(("/continue", "$text-accent bold"), f" {self._continues}"))
        return Content("   ").join(parts)

    def on_click(self, event: events.Click) -> None:
        """Interrupt, or go to the newest."""
        offset = event.get_content_offset(self)
        if offset is None or event.button != MAIN_BUTTON:
            return
        if self._phase in _MOVING and offset.x >= self.content_size.width - _INTERRUPT.cell_length:
            self.app.simulate_key("escape")
        elif self._unseen is not None:
            self.post_message(self.NewestWanted())


def _running(tool: str) -> str:
    """In words of the transcript: it does not call a tool by its name on the wire, unless it has no other."""
    if tool == "run_command":
        return "Running a command"
    return f"Running {tool}" if tool and tool not in VERBS else "Running tools"
