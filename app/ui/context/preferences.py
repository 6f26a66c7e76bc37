"""The settings in force, and their effects on theme, keys, panes and session."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual.app import App

from app.ui.themes.first_theme import OWN_THEMES_FOLDER, STANDARD_THEME, load_signoff_theme, theme_for_colour_system

if TYPE_CHECKING:
    from app.config.settings import Settings
    from app.runtime.open_workspace import OpenWorkspace

_ENDPOINT_SETTINGS = (
    "base_url",
    "model",
    "anthropic_api_key",
    "api_key",
    "headers",
    "wire",
    "reasoning_effort",
    "request",
    "price",
    "profile",
    "context_window",
    "models",
)
"""Settings that require a new connection when they change."""
_REVIEW_SHARE_KEY = "review_share"


class LiveSettings:
    """The settings in force in the running app; applies changes at once and can save them."""

    def __init__(
        self, app: App[Any], runtime: "OpenWorkspace", settings: "Settings", on_change: "Callable[[Settings], None]"
    ) -> None:
        self._app = app
        self._runtime = runtime
        self._apply_settings = on_change
        self.settings = settings

    @property
    def theme_names(self) -> list[str]:
        """Return the names of the available themes."""
        return sorted(self._app.available_themes)

    def register_themes(self) -> list[str]:
        """Register all themes, and switch to the configured one; return a line for each that cannot be used."""
        app, first_theme = self._app, self._app.current_theme
        for path in OWN_THEMES_FOLDER.glob("*.toml"):
            app.register_theme(load_signoff_theme(path.stem))
        problems: list[str] = []
        if self._runtime.dirs.themes.is_dir():
            # Only themes of the user need validation.
            from app.ui.themes.theme_files import load_themes

            loaded = load_themes(self._runtime.dirs.themes)
            for theme in loaded.themes:
                app.register_theme(theme.to_textual_theme())
            problems += loaded.problems
        if self.settings.theme not in app.available_themes:
            problems.append(f"There is no theme {self.settings.theme!r}; /theme lists them.")
            self.settings = self.settings.model_copy(update={"theme": STANDARD_THEME})
        app.theme = theme_for_colour_system(self.settings.theme, app.console.color_system)
        if app.current_theme != first_theme and app.theme == first_theme.name:
            # The first paint used only part of the theme file: refresh the style sheets.
            app.refresh_css(animate=False)
        return problems

    def apply_keymap(self) -> list[str]:
        """Apply the user's keys; return the reason if they are invalid."""
        from app.keys.keymap import KeymapError, actions_bound_only_by_user, validate_and_convert_keymap

        try:
            keymap = validate_and_convert_keymap(self.settings.keys)
        except KeymapError as error:
            self.settings = self.settings.model_copy(update={"keys": {}})
            return [f"{error} The standard keys are in force."]
        self._app.set_keymap(keymap)
        for action, keys in actions_bound_only_by_user(keymap):
            self._app.bind(keys, action.handler, description=action.title, show=False)
        return []

    def review_share(self) -> int | None:
        """Return the review width in percent that the user chose last, in any workspace. Raises StorageError."""
        stored_share = self._runtime.sessions.setting(_REVIEW_SHARE_KEY, shared=True)
        return int(stored_share) if stored_share is not None and stored_share.isdecimal() else None

    def save_review_share(self, share: int) -> None:
        """Store the share. Raises StorageError."""
        self._runtime.sessions.set_setting(_REVIEW_SHARE_KEY, str(share), shared=True)

    def apply_for_this_run(self, **changes: Any) -> None:
        """Apply settings for this run only; do nothing if they are already in force."""
        changed = self.settings.model_copy(update=changes)
        if changed != self.settings:
            self.settings = changed
            self.apply_to_app()

    def save(self, **changes: Any) -> None:
        """Write settings to the user's configuration file; None removes a setting. Raises ConfigError."""
        from pydantic import SecretStr

        from app.config.settings import save_settings

        save_settings(
            self._runtime.dirs.config_file,
            {
                (key,): value.get_secret_value() if isinstance(value, SecretStr) else value
                for key, value in changes.items()
            },
        )

    def save_for_model(self, model: str, setting_path: Sequence[str], value: Any) -> None:
        """Save a setting for one model and apply it; None removes it.

        Args:
            model: Name of the model, or a pattern.
            setting_path: Keys below the table of the model.
            value: Value for the configuration file.

        Raises:
            ConfigError: the value is invalid, or the file cannot be written.
        """
        from app.config.settings import save_settings, set_or_remove_nested_value, validate_setting

        tables = {
            name: table.model_dump(exclude_unset=True, exclude_none=True)
            for name, table in self.settings.models.items()
        }
        set_or_remove_nested_value(tables, (model, *setting_path), value)
        models = validate_setting("models", tables)
        save_settings(self._runtime.dirs.config_file, {("models", model, *setting_path): value})
        self.apply_for_this_run(models=models)

    async def reload(self) -> bool:
        """Read the configuration files again; return whether the endpoint has changed. Raises ConfigError."""
        configuration = await asyncio.to_thread(self._runtime.reload)
        before, self.settings = self.settings, configuration.settings
        self.apply_to_app()
        return any(getattr(before, key) != getattr(self.settings, key) for key in _ENDPOINT_SETTINGS)

    def apply_to_app(self) -> None:
        """Apply the settings to theme, panes and session."""
        if self.settings.theme in self._app.available_themes:
            self._app.theme = theme_for_colour_system(self.settings.theme, self._app.console.color_system)
        self._apply_settings(self.settings)
