"""Settings of one model: the values in force with their origin, and the user's values."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct
from pydantic import BaseModel
from textual import on
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from app.config.config_tables import ChosenWire, Effort, PriceTable, is_wildcard_pattern, matching_model_patterns
from app.config.settings import WORKSPACE_FILE, ConfigError, Settings, read_configuration
from app.config.toml_files import parse_toml
from app.llm.capabilities.model_list import ListedModel, find_price
from app.llm.capabilities.profiles import LearnedField, find_default_profile, read_learned_fields
from app.llm.values.endpoint import split_base_url_and_secrets
from app.runtime.model_connection import LearnedProfileStore, find_base_url
from app.runtime.open_workspace import OpenWorkspace
from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import DialogKey, SettingsListDialog

if TYPE_CHECKING:
    from app.ui.context.preferences import LiveSettings


IMAGES_SETTING_PATH = ("profile", "images_supported")


class ModelSetting(Struct, frozen=True):
    """One setting of a model: its value in force, and where that is from."""

    value: Any
    """The value in force; None if unknown."""
    origin: str
    """Where the value is from, for the screen."""
    own_value: Any = None
    """The value in the user's configuration file for this model; None if not set."""


def current_model_settings(
    runtime: OpenWorkspace, settings: Settings, model: ListedModel
) -> dict[tuple[str, ...], ModelSetting]:
    """Return the settings in force for a model, by their path in the model's table."""
    settings = settings.model_copy(update={"model": model.id})
    origins = _ConfiguredOrigins(runtime, settings)
    unconfigured = _UnconfiguredValues(runtime, settings, model)
    effective = settings.with_model_tables
    for_all_models = {
        ("reasoning_effort",): settings.reasoning_effort if settings.reasoning_effort != "off" else None,
        ("context_window",): settings.context_window,
        ("wire",): settings.wire if settings.wire != "auto" else None,
        ("price",): find_price(model.id, settings.price),
        ("request",): settings.request or None,
        IMAGES_SETTING_PATH: settings.profile.get(IMAGES_SETTING_PATH[-1]),
    }
    in_force = {
        ("reasoning_effort",): effective.reasoning_effort,
        ("context_window",): effective.context_window,
        ("wire",): effective.wire,
        ("price",): find_price(model.id, effective.price),
        ("request",): effective.request,
        IMAGES_SETTING_PATH: effective.profile.get(IMAGES_SETTING_PATH[-1]),
    }
    settings_by_path: dict[tuple[str, ...], ModelSetting] = {}
    for path, value in in_force.items():
        own_value = _get_nested(origins.file, ("models", model.id, *path))
        if table_origin := origins.of_table(path):
            settings_by_path[path] = ModelSetting(value, table_origin, own_value)
        elif for_all_models[path] is not None:
            settings_by_path[path] = ModelSetting(value, origins.of_general(path, value), own_value)
        else:
            settings_by_path[path] = ModelSetting(*unconfigured.of(path), own_value)
    return settings_by_path


class _ConfiguredOrigins:
    """Finds where the user or the workspace configures a setting."""

    def __init__(self, runtime: OpenWorkspace, settings: Settings) -> None:
        self._runtime = runtime
        self._settings = settings
        try:
            self.file = read_configuration(runtime.dirs.config_file)
        except ConfigError:
            self.file = {}

    def of_table(self, path: Sequence[str]) -> str:
        """Return the file in which a table for this model has the setting; empty if none does."""
        tables = {name: table.model_dump(exclude_unset=True) for name, table in self._settings.models.items()}
        for name in matching_model_patterns(self._settings.model, tables):
            if _get_nested(tables[name], path) is None:
                continue
            owner = "yours" if _get_nested(self.file, ("models", name, *path)) is not None else WORKSPACE_FILE
            return f"{owner}, for {'this model' if name == self._settings.model else name}"
        return ""

    def of_general(self, path: Sequence[str], value: Any) -> str:
        """Return the origin of a setting that applies to all models."""
        origin = self._runtime.setting_origin(path[0])
        is_in_user_file = _get_nested(self.file, path) == value or path[0] in ("price", "request")
        if origin == self._runtime.dirs.config_file.name:
            return "yours, for all models" if is_in_user_file else "yours, in this session"
        return f"from {origin}" if origin else "yours, in this session"


class _UnconfiguredValues:
    """Values of settings that are not configured: learned, listed by the server, or built in."""

    def __init__(self, runtime: OpenWorkspace, settings: Settings, model: ListedModel) -> None:
        address = split_base_url_and_secrets(find_base_url(settings)).url
        self._built_in_profile = find_default_profile(address, model.id, settings.wire)
        self._learned_fields: dict[str, LearnedField] = {
            learned.field: learned
            for learned in read_learned_fields(LearnedProfileStore(runtime.sessions), address, model.id)
        }
        self._listed_values = {
            "context_window": model.context_window,
            "price": model.price,
            "images_supported": model.takes_images,
        }

    def of(self, path: Sequence[str]) -> tuple[Any, str]:
        """Return the value and its origin; (None, "") if unknown."""
        field = path[-1]
        listed = self._listed_values.get(field)
        if (learned := self._learned_fields.get(field)) is not None:
            value = PriceTable.model_validate(learned.value) if field == "price" and learned.value else learned.value
            return value, "the server's list" if value == listed else "learned of the server"
        if listed is not None:
            return listed, "the server's list"
        value = "off" if field == "reasoning_effort" else getattr(self._built_in_profile, field, None)
        return value, "built in" if value is not None else ""


def _get_nested(table: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of nested tables; None if it is missing."""
    for key in path:
        table = table.get(key) if isinstance(table, dict) else None
    return table


class ModelSettingRow(Struct, frozen=True):
    """A row of the model settings screen: title, help, kind and choices of one setting."""

    path: tuple[str, ...]
    """Path of the setting in the model's table."""
    title: str
    help: str
    kind: Literal["choice", "number", "table"]
    choices: tuple[Any, ...] = ()


MODEL_SETTING_ROWS = (
    ModelSettingRow(("reasoning_effort",), "Reasoning effort", "off: the server chooses", "choice", get_args(Effort)),
    ModelSettingRow(("context_window",), "Context window", "in tokens", "number"),
    ModelSettingRow(
        ("price",), "Price", "$ per million tokens: input = 5, output = 25, cached = 0.5, cache_write = 6", "table"
    ),
    ModelSettingRow(("wire",), "Protocol", "auto: the one that fits the address", "choice", get_args(ChosenWire)),
    ModelSettingRow(IMAGES_SETTING_PATH, "Takes images", "whether they are sent", "choice", (True, False)),
    ModelSettingRow(("request",), "Request fields", "as in TOML: temperature = 0.2, top_p = 0.9", "table"),
)
_TITLE_WIDTH, _ORIGIN_WIDTH, _FRAME_WIDTH = 18, 22, 6
"""Columns that a row needs beside the value."""


class ModelSettingsScreen(SettingsListDialog):
    """A list of a model's settings; Enter changes one or opens it in the field."""

    KEYS = (
        *SettingsListDialog.KEYS[:-1],
        DialogKey("delete", "unset", "take_back"),
        DialogKey("backspace", "", "take_back"),
        SettingsListDialog.KEYS[-1],
    )
    DEFAULT_CSS = "ModelSettingsScreen > #dialog { height: 18; }"

    def __init__(
        self,
        model: "ListedModel",
        *,
        preferences: "LiveSettings",
        runtime: "OpenWorkspace",
        reconnect: "Callable[[Settings], None]",
    ) -> None:
        super().__init__(preferences, runtime)
        self._model = model
        self._reconnect = reconnect
        self._values_by_path: Mapping[tuple[str, ...], ModelSetting] = {}
        self._explained_row = MODEL_SETTING_ROWS[0]

    def frame_title(self) -> str:
        return f"Settings of {self._model.id}"

    def draw_list(self) -> None:
        """Draw the list again; the cursor stays on its row."""
        self._values_by_path = current_model_settings(self._runtime, self._preferences.settings, self._model)
        options = self.query_one(OptionList)
        highlighted = options.highlighted
        options.clear_options()
        options.add_options(
            [Option(self._row_content(row, self._values_by_path[row.path])) for row in MODEL_SETTING_ROWS]
        )
        options.highlighted = highlighted or 0

    def _row_content(self, row: ModelSettingRow, setting: ModelSetting) -> Content:
        width = max(12, min(self.app.size.width, 84) - _FRAME_WIDTH - _TITLE_WIDTH - _ORIGIN_WIDTH)
        value = escape_unsafe(_format_value(setting.value), keep="")
        value = value if len(value) < width else value[: width - 2] + "…"
        return Content.assemble(
            f"{row.title:<{_TITLE_WIDTH}}",
            (f"{value:<{width}}", "bold $text-accent" if setting.own_value is not None else ""),
            (escape_unsafe(setting.origin, keep=""), "$foreground 65%"),
        )

    @property
    def _current_row(self) -> ModelSettingRow:
        return MODEL_SETTING_ROWS[self.query_one(OptionList).highlighted or 0]

    @on(OptionList.OptionHighlighted)
    def show_explanation(self, event: OptionList.OptionHighlighted) -> None:
        """Explain the setting under the cursor."""
        event.stop()
        row = self._current_row
        # Redrawing the list highlights the same row again: keep the message about the change then.
        if row is not self._explained_row and self.query_one(OptionList).has_focus:
            self._explained_row = row
            self.show_message(f"{row.title}: {row.help}")

    @on(OptionList.OptionSelected)
    def open_setting(self, event: OptionList.OptionSelected) -> None:
        """Change the setting under the cursor."""
        event.stop()
        row, setting = self._current_row, self._values_by_path[self._current_row.path]
        if row.kind == "choice":
            self.action_turn(1)
            return
        # For request fields, show only the model's own: those for all models are not changed here.
        start_value = setting.own_value if row.path == ("request",) else setting.value
        text = "" if start_value is None else _format_value(start_value)
        keys = "Enter saves · Esc cancels · empty unsets it for this model"
        self.open_field(text, f"{row.title}: {row.help}", keys)

    def action_turn(self, step: int) -> None:
        """Change the setting to its next value, or to the previous one if `step` is -1."""
        row = self._current_row
        if self.is_field_open or row.kind != "choice":
            return
        value = self._values_by_path[row.path].value
        index = row.choices.index(value) + step if value in row.choices else (0 if step > 0 else -1)
        self._save_and_apply(row, row.choices[index % len(row.choices)])

    def action_take_back(self) -> None:
        """Remove the model's own setting."""
        if self.is_field_open:
            return
        row, setting = self._current_row, self._values_by_path[self._current_row.path]
        if setting.own_value is None:
            self.show_message(f"{row.title}: not set for this model.", problem=True)
        else:
            self._save_and_apply(row, None)

    @on(Input.Submitted, "#setting-field")
    def save_value(self, event: Input.Submitted) -> None:
        """Save the entered value."""
        event.stop()
        row, text = self._current_row, event.value.strip()
        try:
            value = _parse_value(row, text) if text else None
        except ValueError as error:
            self.show_message(str(error), problem=True)
            return
        if self._save_and_apply(row, value):
            self.close_field()

    def _save_and_apply(self, row: ModelSettingRow, value: Any) -> bool:
        if is_wildcard_pattern(self._model.id):
            self.show_message(
                "The name of this model contains * or ?, which match other names: set it for all models.",
                problem=True,
            )
            return False
        try:
            self._preferences.save_for_model(self._model.id, row.path, value)
        except ConfigError as error:
            self.show_message(str(error), problem=True)
            return False
        self.draw_list()
        settings = self._preferences.settings
        if settings.model == self._model.id:
            self._reconnect(settings)
        setting = self._values_by_path[row.path]
        if value is None:
            self.show_message(f"{row.title}: no longer set for this model. Saved.")
        else:
            self.show_message(f"{row.title}: {_format_value(setting.value)}. Saved.")
        return True


def _parse_value(row: ModelSettingRow, text: str) -> Any:
    """Return the value of an entered text. Raises ValueError with a message that shows the format."""
    if row.kind == "number":
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"{row.title} takes a number.")
        return int(text)
    try:
        (table,) = parse_toml(f"value = {{ {text} }}".encode()).values()
    except ValueError:
        table = None
    if not isinstance(table, dict) or not table:
        raise ValueError(f"Write {row.title} like this: {row.help.rpartition(': ')[2]}.")
    return table


def _format_value(value: Any) -> str:
    """Return a value as in the configuration file, a table without its braces."""
    if value in (None, {}):
        return "–"
    match value:
        case bool():
            return "yes" if value else "no"
        case BaseModel():
            return ", ".join(f"{key} = {number:g}" for key, number in value if number is not None)
        case dict():
            import tomlkit

            inline = tomlkit.inline_table()
            inline.update(value)
            return inline.as_string()[1:-1].strip()
    return str(value)
