"""The settings in force, and their effects on theme, keys, panes and session."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual.app import App

from app.ui.themes.first_theme import OWN_THEMES_FOLDER, STANDARD_THEME, built_in_theme, theme_for_colour_system

if TYPE_CHECKING:
    from app.config.settings import Settings
    from app.runtime.open_workspace import OpenWorkspace

_ENDPOINT = (
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
"""Settings that a connection is made from."""
_REVIEW_SHARE = "review_share"


class Preferences:
    """Current settings of the running app; changes are applied at once.

    Args:
        app: Has themes and keys.
        runtime: The open workspace, with its configuration.
        settings: The merged ones.
        on_change: Brings panes and session in line with settings.
    """

    def __init__(
        self, app: App[Any], runtime: "OpenWorkspace", settings: "Settings", on_change: "Callable[[Settings], None]"
    ) -> None:
        self._app = app
        self._runtime = runtime
        self._follow = on_change
        self.settings = settings

    @property
    def theme_names(self) -> list[str]:
        """Return the names of the themes that can be chosen."""
        return sorted(self._app.available_themes)

    def register_themes(self) -> list[str]:
        """Register all themes. Return a line for each that cannot be used."""
        app, shown = self._app, self._app.current_theme
        for path in OWN_THEMES_FOLDER.glob("*.toml"):
            app.register_theme(built_in_theme(path.stem))
        problems: list[str] = []
        if self._runtime.dirs.themes.is_dir():
            # Only what the user wrote has to be checked.
            from app.ui.themes.theme_files import load_themes

            loaded = load_themes((self._runtime.dirs.themes,))
            for theme in loaded.themes:
                app.register_theme(theme.to_textual_theme())
            problems += loaded.problems
        if self.settings.theme not in app.available_themes:
            problems.append(f"There is no theme {self.settings.theme!r}; /theme lists them.")
            self.settings = self.settings.model_copy(update={"theme": STANDARD_THEME})
        app.theme = theme_for_colour_system(self.settings.theme, app.console.color_system)
        if app.current_theme != shown and app.theme == shown.name:
            # The first picture took less from its file than there is: the style sheets are still those of then.
            app.refresh_css(animate=False)
        return problems

    def apply_keymap(self) -> list[str]:
        """Put the user's keys into force. Return why they cannot be used, if so."""
        from app.keys.keymap import KeymapError, user_added_bindings, validate_keymap

        try:
            keymap = validate_keymap(self.settings.keys)
        except KeymapError as error:
            self.settings = self.settings.model_copy(update={"keys": {}})
            return [f"{error} The standard keys are in force."]
        self._app.set_keymap(keymap)
        for action, keys in user_added_bindings(keymap):
            self._app.bind(keys, action.handler, description=action.title, show=False)
        return []

    def review_share(self) -> int | None:
        """Return the width of the review that the user chose last, in any workspace; raises StorageError."""
        kept = self._runtime.sessions.setting(_REVIEW_SHARE, shared=True)
        return int(kept) if kept is not None and kept.isdecimal() else None

    def save_review_share(self, share: int) -> None:
        """Store the share; raises StorageError."""
        self._runtime.sessions.set_setting(_REVIEW_SHARE, str(share), shared=True)

    def apply_for_this_run(self, **changes: Any) -> None:
        """Apply settings in this run only; nothing is redrawn if they are already in force."""
        changed = self.settings.model_copy(update=changes)
        if changed != self.settings:
            self.settings = changed
            self.apply_to_app()

    def save(self, **changes: Any) -> None:
        """Write settings to the user's configuration, secrets as text; None takes one out. Raises ConfigError."""
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
            model: of the model, or a pattern.
            setting_path: the key in its table, below those before it.
            value: of the kind that the file holds.

        Raises:
            ConfigError: it cannot be set, or the file cannot be written.
        """
        from app.config.settings import save_settings, set_nested_value, validate_setting

        tables = {
            of: table.model_dump(exclude_unset=True, exclude_none=True) for of, table in self.settings.models.items()
        }
        set_nested_value(tables, (model, *setting_path), value)
        models = validate_setting("models", tables)
        save_settings(self._runtime.dirs.config_file, {("models", model, *setting_path): value})
        self.apply_for_this_run(models=models)

    async def reload(self) -> bool:
        """Read all configuration again; return whether the endpoint has changed. Raises ConfigError."""
        configuration = await asyncio.to_thread(self._runtime.reload)
        before, self.settings = self.settings, configuration.settings
        self.apply_to_app()
        return any(getattr(before, key) != getattr(self.settings, key) for key in _ENDPOINT)

    def apply_to_app(self) -> None:
        """Bring theme, panes and session in line with the settings."""
        if self.settings.theme in self._app.available_themes:
            self._app.theme = theme_for_colour_system(self.settings.theme, self._app.console.color_system)
        self._follow(self.settings)
