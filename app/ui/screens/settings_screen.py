"""The settings in force and their origin; a change is saved and takes effect at once."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from msgspec import Struct
from textual import on, work
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from app.config.config_tables import Effort
from app.config.settings import ConfigError, validate_setting
from app.llm.values.endpoint import split_base_url_and_secrets
from app.storage import StorageError
from app.storage.database import AllowedCommandStore
from app.text.quantities import format_duration
from app.text.safe_text import escape_unsafe
from app.tools.base.command_forms import AllowableMcpTool, load_permission_form
from app.ui.screens.dialog import Dialog, DialogKey, SettingsListDialog
from widgets.common.search_list import ListChoice, SearchList

if TYPE_CHECKING:
    from app.config.settings import Settings
    from app.runtime.open_workspace import OpenWorkspace
    from app.ui.context.preferences import LiveSettings


_NO_COMMANDS = "Every command here asks first. When one asks, you can allow it always, with others of its form."


class AllowedCommandsScreen(Dialog[None]):
    """A searchable list of the allowed commands; entries can be removed."""

    HEADING = "Commands allowed in this project"
    KEYS = (
        DialogKey("", "type to search"),
        DialogKey("up,down", "choose"),
        DialogKey("ctrl+d", "revoke", "revoke", priority=True),
        DialogKey("escape", "close"),
    )
    DEFAULT_CSS = "AllowedCommandsScreen > #dialog { height: 20; }"

    def __init__(self, store: AllowedCommandStore) -> None:
        super().__init__()
        self._store = store

    def compose_body(self) -> Iterable[Widget]:
        yield SearchList("Search the commands", empty_text=_NO_COMMANDS)

    def on_mount(self) -> None:
        self._load_commands()

    @work(group="list", exclusive=True, exit_on_error=False, description="list allowed commands")
    async def _load_commands(self) -> None:
        try:
            texts = await asyncio.to_thread(self._store.forms)
        except StorageError as error:
            self.show_status(str(error))
            return
        self.query_one(SearchList).set_choices([_command_choice(text) for text in texts])
        self.show_status(f"{len(texts)} allowed" if texts else "")

    def action_revoke(self) -> None:
        """Remove the highlighted command: it needs permission again, in every window."""
        if (choice := self.query_one(SearchList).highlighted) is not None:
            self._revoke_command(choice.key)

    @work(group="revoke", exclusive=True, exit_on_error=False, description="revoke an allowed command")
    async def _revoke_command(self, form: str) -> None:
        try:
            await asyncio.to_thread(self._store.remove, form)
        except StorageError as error:
            self.show_status(str(error))
            return
        self._load_commands()


def _command_choice(text: str) -> ListChoice:
    form = load_permission_form(text)
    form_text = escape_unsafe(str(form), keep="")
    if isinstance(form, AllowableMcpTool):
        further_words = "any arguments"
    else:
        further_words = "and any further words" if form.open else "exactly this"
    return ListChoice(text, Content.assemble(form_text, (f"   {further_words}", "$foreground 65%")), form_text)


class ModelSwitcher(Protocol):
    """Lets the user pick a model, and switches the session to it."""

    def reconnect(self, settings: "Settings") -> None:
        """Use these settings from the next turn on, if a session is open."""

    async def pick_model(self, settings: "Settings") -> str | None:
        """Let the user choose one of the endpoint's models; return None if they cancel."""


class SettingRow(Struct, frozen=True):
    """A row of the settings screen: title, help, kind and choices of one setting."""

    key: str
    title: str
    help: str
    kind: Literal["choice", "switch", "number", "dollars", "time", "text", "theme", "model", "commands"]
    choices: tuple[str, ...] = ()


SETTING_GROUPS: tuple[tuple[str, tuple[SettingRow, ...]], ...] = (
    (
        "Appearance",
        (
            SettingRow("theme", "Theme", "signoff's, Textual's or your own", "theme"),
            SettingRow("layout", "Diff layout", "auto: by the width", "choice", ("auto", "unified", "split")),
            SettingRow("wrap", "Wrap long lines", "in the diff", "switch"),
            SettingRow("white_space", "Show white space", "changes in white space that have no effect", "switch"),
            SettingRow("show_interventions", "Show interventions", "what signoff tells the model", "switch"),
        ),
    ),
    (
        "The gate",
        (
            SettingRow("gate", "Policy", "when the model must hand control back", "choice", ("every-edit", "chain")),
            SettingRow("chain_steps", "Chain", "staging steps until the gate closes", "number"),
            SettingRow("continue_after_approval", "Auto-continue", "after approval, if nothing else waits", "switch"),
            SettingRow("max_steps", "Steps in a turn", "after that the model is told to stop", "number"),
            SettingRow("max_cost", "Cost of a session", "US dollars; turns end before that", "dollars"),
            SettingRow("max_time", "Time of a session", "10m or 1h30m; turns end before that", "time"),
            SettingRow(
                "ignored", "Ignored files", "what commands write to files ignored by git", "choice", ("write", "hold")
            ),
            SettingRow("", "Allowed commands", "what runs here without asking", "commands"),
        ),
    ),
    (
        "The model",
        (
            SettingRow("model", "Model", "from the endpoint's list, or any name", "model"),
            SettingRow("reasoning_effort", "Reasoning effort", "off: the server chooses", "choice", get_args(Effort)),
            SettingRow("base_url", "Base URL", "the address of the endpoint, up to /v1", "text"),
            SettingRow("context_window", "Context window", "in tokens, if the endpoint does not say", "number"),
        ),
    ),
    (
        "General",
        (
            SettingRow("notify", "Notify", "when it is your turn", "choice", ("bell", "desktop", "off")),
            SettingRow("vim", "Vim keys", "in the composer and in edits", "switch"),
            SettingRow("editor", "Editor", "command; $VISUAL or $EDITOR if empty", "text"),
            SettingRow("commit", "Commit", "one git commit for each approved proposal", "switch"),
        ),
    ),
)


class SettingsScreen(SettingsListDialog):
    """A list of settings; Enter changes one or opens it in the field."""

    HEADING = "Settings"

    def __init__(
        self,
        preferences: "LiveSettings",
        runtime: "OpenWorkspace",
        connector: ModelSwitcher,
        pick_theme: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(preferences, runtime)
        self._connector = connector
        self._choose_theme = pick_theme
        self._rows: list[SettingRow | None] = []
        self._edited_row: SettingRow
        """The setting that the field edits; set when the field is opened."""

    def draw_list(self) -> None:
        """Draw the list again; the cursor stays on its row."""
        options = self.query_one(OptionList)
        highlighted = options.highlighted
        self._rows = []
        lines: list[Option] = []
        for title, rows in SETTING_GROUPS:
            if lines:
                lines.append(Option("", disabled=True))
                self._rows.append(None)
            lines.append(Option(Content.styled(title, "bold $text-primary"), disabled=True))
            self._rows.append(None)
            for row in rows:
                lines.append(Option(self._row_content(row)))
                self._rows.append(row)
        options.clear_options()
        options.add_options(lines)
        options.highlighted = 1 if highlighted is None else highlighted

    def _row_content(self, row: SettingRow) -> Content:
        is_command_list = row.kind == "commands"
        origin = "" if is_command_list else self._runtime.setting_origin(row.key)
        value = "list …" if is_command_list else _display_value(row, getattr(self._preferences.settings, row.key))
        return Content.assemble(
            f"  {row.title:<20}",
            (f"{value:<25}", "bold $text-accent" if origin else ""),
            (f"from {origin}", "$text-warning")
            if origin not in ("", "config.toml")
            else ("" if self.is_narrow else row.help, "$foreground 65%"),
        ).rstrip()

    @on(OptionList.OptionHighlighted)
    def show_explanation(self, event: OptionList.OptionHighlighted) -> None:
        """Explain the highlighted setting below the list if the terminal is narrow."""
        event.stop()
        row = self._current_row
        if self.is_narrow and row is not None and not self.is_field_open and self.query_one(OptionList).has_focus:
            self.show_message(f"{row.title}: {row.help}")

    @property
    def _current_row(self) -> SettingRow | None:
        highlighted = self.query_one(OptionList).highlighted
        return self._rows[highlighted] if highlighted is not None and highlighted < len(self._rows) else None

    @on(OptionList.OptionSelected)
    def open_setting(self, event: OptionList.OptionSelected) -> None:
        """Change the setting under the cursor."""
        event.stop()
        row = self._current_row
        match row:
            case None:
                return
            case SettingRow(kind="text" | "number" | "dollars" | "time"):
                self._open_row_field(row)
            case SettingRow(kind="theme"):
                self._pick_theme()
            case SettingRow(kind="model") if not self._preferences.settings.has_endpoint:
                self.show_message("No endpoint is set: enter the base URL first, or close this and type /model.")
            case SettingRow(kind="model"):
                self._pick_model()
            case SettingRow(kind="commands"):
                self.app.push_screen(AllowedCommandsScreen(self._runtime.allowed_commands))
            case _:
                self.action_turn(1)

    def action_turn(self, step: int) -> None:
        """Change the setting to its next value, or to the previous one if `step` is -1."""
        row = self._current_row
        if row is None or row.kind == "commands" or self.is_field_open:
            return
        value = getattr(self._preferences.settings, row.key)
        if row.kind == "switch":
            self._save_and_apply(row, not value)
        elif row.kind == "choice":
            self._save_and_apply(row, row.choices[(row.choices.index(value) + step) % len(row.choices)])
        elif row.kind == "number" and value is not None:
            self._save_and_apply(row, value + step)

    def _open_row_field(self, row: SettingRow) -> None:
        self._edited_row = row
        value = getattr(self._preferences.settings, row.key)
        keys = "Enter saves · Esc cancels · empty restores the default"
        self.open_field(_format_value(row, value), f"{row.title}: {row.help}", keys)

    @on(Input.Submitted, "#setting-field")
    def save_value(self, event: Input.Submitted) -> None:
        """Save the entered value."""
        event.stop()
        row, text = self._edited_row, event.value.strip()
        value: Any = text or None
        if row.kind == "number" and text:
            if not (text.isascii() and text.isdigit()):
                self.show_message(f"{row.title} takes a number.", problem=True)
                return
            value = int(text)
        elif row.kind == "dollars" and text:
            if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
                self.show_message(f"{row.title} takes an amount: 2 or 2.50.", problem=True)
                return
            value = float(text)
        if self._save_and_apply(row, value):
            self.close_field()

    def _save_and_apply(self, row: SettingRow, value: Any) -> bool:
        try:
            validated = validate_setting(row.key, value)
            self._preferences.save(**{row.key: value})
            self._preferences.apply_for_this_run(**{row.key: validated})
        except ConfigError as error:
            self.show_message(str(error), problem=True)
            return False
        self.draw_list()
        origin = self._runtime.setting_origin(row.key)
        if origin not in ("", "config.toml"):
            self.show_message(f"Saved and in use now; at the next start {origin} overrides it again.")
        elif getattr(self._preferences.settings.with_model_tables, row.key) != validated:
            self.show_message("Saved; the model in use has its own value: Ctrl+E in /model shows it.")
        else:
            self.show_message(f"{row.title}: {_display_value(row, validated)}. Saved.")
        if row.key in ("base_url", "reasoning_effort"):
            self._connector.reconnect(self._preferences.settings)
        return True

    @work(group="pick", exclusive=True, exit_on_error=False, description="pick a theme")
    async def _pick_theme(self) -> None:
        await self._choose_theme()
        self.draw_list()

    @work(group="pick", exclusive=True, exit_on_error=False, description="pick a model")
    async def _pick_model(self) -> None:
        name = await self._connector.pick_model(self._preferences.settings)
        row = self._current_row
        if name and row is not None and self._save_and_apply(row, name):
            self._connector.reconnect(self._preferences.settings)


def _format_value(row: SettingRow, value: Any) -> str:
    """Return a value in the format that the user enters; empty for None."""
    if value is None:
        return ""
    match row.kind:
        case "time":
            return format_duration(value)
        case "dollars":
            return f"{value:.2f}" if round(value, 2) == value else str(value)
    return str(value)


def _display_value(row: SettingRow, value: Any) -> str:
    if row.kind == "switch":
        return "on" if value else "off"
    if row.key == "base_url":
        # Without user name and password, which others could read on the screen.
        value = split_base_url_and_secrets(str(value or "")).url
    text = escape_unsafe(_format_value(row, value), keep="") if value not in (None, "") else "–"
    return text if len(text) <= 23 else text[:22] + "…"
