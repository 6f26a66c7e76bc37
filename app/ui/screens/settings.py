"""Settings: what is in force and where it comes from; a change takes effect at once and goes into config.toml."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from textual import on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from app.config.model_table import Effort
from app.config.settings import ConfigError, checked_value
from app.llm.address import take_apart
from app.text.safe_text import visible
from app.ui.screens.allowed_commands import AllowedCommandsScreen
from app.ui.screens.dialog import shown_path
from app.ui.screens.values import ValuesDialog
from widgets.common.key_hints import KeyHint

if TYPE_CHECKING:
    from app.runtime.workspace import Runtime
    from app.ui.connector import Connector
    from app.ui.means import Work
    from app.ui.preferences import Preferences


@dataclass(frozen=True, slots=True)
class Row:
    """One setting on the screen."""

    key: str
    title: str
    help: str
    kind: Literal["choice", "switch", "number", "text", "theme", "model", "commands"]
    choices: tuple[str, ...] = ()


ROWS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    (
        "Looks",
        (
            Row("theme", "Theme", "own, Textual's, or of the themes folder", "theme"),
            Row("layout", "Diff layout", "auto goes by the width", "choice", ("auto", "unified", "split")),
            Row("wrap", "Wrap long lines", "in the diff", "switch"),
            Row("white_space", "Show white space", "changes in it that say nothing", "switch"),
            Row("show_interventions", "Show signoff's words", "what signoff tells the model", "switch"),
        ),
    ),
    (
        "The gate",
        (
            Row("gate", "Policy", "when the model must hand control back", "choice", ("every-edit", "chain")),
            Row("chain_steps", "Chain", "staging steps until the gate closes", "number"),
            Row("continue_after_approval", "Go on after approval", "once nothing waits any more", "switch"),
            Row("max_steps", "Steps in a turn", "after that the model is told to stop", "number"),
            Row("ignored", "Ignored files", "what commands write where git looks away", "choice", ("write", "hold")),
            Row("", "Allowed commands", "what runs here without a question", "commands"),
        ),
    ),
    (
        "The model",
        (
            Row("model", "Model", "of the endpoint's list, or any name", "model"),
            Row("reasoning_effort", "Reasoning effort", "off: the server chooses", "choice", get_args(Effort)),
            Row("base_url", "Base URL", "an OpenAI-compatible endpoint, up to /v1", "text"),
            Row("context_window", "Context window", "in tokens, if the endpoint does not say", "number"),
        ),
    ),
    (
        "Around",
        (
            Row("notify", "Call for attention", "when control is back", "choice", ("bell", "desktop", "off")),
            Row("vim", "Vim keys", "in the composer and in edits", "switch"),
            Row("editor", "Editor", "command; $VISUAL or $EDITOR if empty", "text"),
            Row("commit", "Commit", "a git commit of each approved proposal", "switch"),
        ),
    ),
)


class SettingsScreen(ValuesDialog):
    """A list of settings; Enter turns one over, or opens it for writing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,right,l", "turn(1)", "Next value", show=False),
        Binding("left,h", "turn(-1)", "Value before", show=False),
    ]
    HEADING = "Settings"
    KEYS = (
        KeyHint("up,down", "choose"),
        KeyHint("enter", "change"),
        KeyHint("left,right", "value before, next"),
        KeyHint("escape", "close"),
    )

    def __init__(
        self,
        preferences: "Preferences",
        runtime: "Runtime",
        connector: "Connector",
        work: "Work",
        pick_theme: Callable[[], Awaitable[None]],
    ) -> None:
        """Show the settings in force.

        Args:
            preferences: they.
            runtime: says where each comes from.
            connector: connects with another endpoint or model.
            work: runs that.
            pick_theme: lets the user choose a theme.
        """
        super().__init__()
        self._preferences = preferences
        self._runtime = runtime
        self._connector = connector
        self._work = work
        self._choose_theme = pick_theme
        self._rows: list[Row | None] = []
        self._writing: Row
        """Whose value the field is for, once it has been open."""

    def on_mount(self) -> None:
        """All settings."""
        self._draw()
        self.query_one(OptionList).focus()
        self.say("saved at once")
        self.tell(f"Kept in {shown_path(self._runtime.places.config_file)}")

    def _draw(self) -> None:
        options = self.query_one(OptionList)
        at = options.highlighted
        self._rows = []
        lines: list[Option] = []
        for title, rows in ROWS:
            if lines:
                lines.append(Option("", disabled=True))
                self._rows.append(None)
            lines.append(Option(Content.styled(title, "bold $text-primary"), disabled=True))
            self._rows.append(None)
            for row in rows:
                lines.append(Option(self._line(row)))
                self._rows.append(row)
        options.clear_options()
        options.add_options(lines)
        options.highlighted = 1 if at is None else at

    def _line(self, row: Row) -> Content:
        if row.kind == "commands":
            help_beside = "" if self.narrow else row.help
            return Content.assemble(f"  {row.title:<23}", f"{'list …':<25}", (help_beside, "$foreground 65%"))
        value = getattr(self._preferences.settings, row.key)
        origin = self._runtime.origin_of(row.key)
        elsewhere = origin not in ("", "config.toml")
        return Content.assemble(
            f"  {row.title:<23}",
            (f"{_shown(row, value):<25}", "bold $text-accent" if origin else ""),
            (f"from {origin}", "$text-warning")
            if elsewhere
            else ("" if self.narrow else row.help, "$foreground 65%"),
        )

    @on(OptionList.OptionHighlighted)
    def explain(self, event: OptionList.OptionHighlighted) -> None:
        """Say what the setting under the cursor means, where the list has no room for it."""
        event.stop()
        row = self._row
        if self.narrow and row is not None and not self.writing and self.query_one(OptionList).has_focus:
            self.tell(f"{row.title}: {row.help}")

    def on_resize(self) -> None:
        """The columns follow the width."""
        self._draw()

    @property
    def _row(self) -> Row | None:
        at = self.query_one(OptionList).highlighted
        return self._rows[at] if at is not None and at < len(self._rows) else None

    @on(OptionList.OptionSelected)
    def open(self, event: OptionList.OptionSelected) -> None:
        """Change the setting under the cursor."""
        event.stop()
        row = self._row
        match row:
            case None:
                return
            case Row(kind="text" | "number"):
                self._write(row)
            case Row(kind="theme"):
                self._pick_theme()
            case Row(kind="model"):
                self._pick_model()
            case Row(kind="commands"):
                self.app.push_screen(AllowedCommandsScreen(self._runtime.allowed_commands))
            case _:
                self.action_turn(1)

    def action_turn(self, step: int) -> None:
        """The next value, or the one before."""
        row = self._row
        if row is None or row.kind == "commands" or self.writing:
            return
        value = getattr(self._preferences.settings, row.key)
        if row.kind == "switch":
            self._change(row, not value)
        elif row.kind == "choice":
            self._change(row, row.choices[(row.choices.index(value) + step) % len(row.choices)])
        elif row.kind == "number" and value is not None:
            self._change(row, value + step)

    def _write(self, row: Row) -> None:
        self._writing = row
        value = getattr(self._preferences.settings, row.key)
        keys = "Enter saves · Esc leaves it as it was · empty goes back to the default"
        self.open_field("" if value is None else str(value), f"{row.title}: {row.help}", keys)

    @on(Input.Submitted, "#setting-field")
    def take(self, event: Input.Submitted) -> None:
        """Save what was written."""
        event.stop()
        row, text = self._writing, event.value.strip()
        value: Any = text or None
        if row.kind == "number" and text:
            if not (text.isascii() and text.isdigit()):
                self.tell(f"{row.title} takes a number.", problem=True)
                return
            value = int(text)
        if self._change(row, value):
            self.close_field()

    def _change(self, row: Row, value: Any) -> bool:
        try:
            checked = checked_value(row.key, value)
            self._preferences.save(**{row.key: value})
            self._preferences.change(**{row.key: checked})
        except ConfigError as error:
            self.tell(str(error), problem=True)
            return False
        self._draw()
        overridden = self._runtime.origin_of(row.key)
        if overridden not in ("", "config.toml"):
            self.tell(f"Saved, and in force now; at the next start {overridden} wins again.")
        elif getattr(self._preferences.settings.of_its_model, row.key) != checked:
            self.tell("Saved; for the model in use another value is set: Ctrl+E in /model shows it.")
        else:
            self.tell(f"{row.title}: {_shown(row, checked)}. Saved.")
        if row.key in ("base_url", "reasoning_effort"):
            self._work(partial(self._connector.use, self._preferences.settings))
        return True

    @work(group="pick", exclusive=True, exit_on_error=False, description="pick a theme")
    async def _pick_theme(self) -> None:
        await self._choose_theme()
        self._draw()

    @work(group="pick", exclusive=True, exit_on_error=False, description="pick a model")
    async def _pick_model(self) -> None:
        name = await self._connector.pick_model(self._preferences.settings)
        row = self._row
        if name and row is not None and self._change(row, name):
            self._work(partial(self._connector.use, self._preferences.settings))


def _shown(row: Row, value: Any) -> str:
    if row.kind == "switch":
        return "on" if value else "off"
    if row.key == "base_url":
        # A password in it is nobody's who looks over the shoulder.
        value = take_apart(str(value or "")).url
    text = visible(str(value), keep="") if value not in (None, "") else "–"
    return text if len(text) <= 23 else text[:22] + "…"
