"""The theme of the first paint, read without the full configuration, which takes longer to load than to paint.

The configuration is read again and checked after the first paint, so this module silently ignores invalid values.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from textual.color import ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

from app.config.toml_files import parse_toml
from app.storage.app_dirs import AppDirs
from app.workspace.reading import read_regular_file

OWN_THEMES_FOLDER = Path(__file__).resolve().parents[3] / "themes"
"""The folder of signoff's own themes."""
STANDARD_THEME = "signoff-dark"
"""The theme if none is configured, or the configured one does not exist."""
_THEME_FOR_16_COLOURS = "ansi-dark"
_MAX_WORKSPACE_FILE_BYTES = 8 * 1024
"""Largest size in bytes of a workspace file that is read before the first paint; larger ones are read later."""
_MAX_USER_FILE_BYTES = 1024 * 1024


def load_configured_theme(flag: str | None, environment: Mapping[str, str], workspace: Path, dirs: AppDirs) -> Theme:
    """Return the configured theme, or the standard one."""
    candidates = (
        flag,
        environment.get("SIGNOFF_THEME"),
        _load_toml(workspace / ".signoff.toml", is_in_workspace=True).get("theme"),
        _load_toml(dirs.config_file).get("theme"),
    )
    theme_name = next((name for name in candidates if isinstance(name, str) and name), STANDARD_THEME)
    return (
        _load_theme(theme_name, dirs.themes) or BUILTIN_THEMES.get(theme_name) or load_signoff_theme(STANDARD_THEME)
    )


def theme_for_colour_system(theme: str, color_system: str | None) -> str:
    """Return the theme to show for a configured one; a terminal with few colours may need another.

    With 16 colours the standard theme loses its surfaces and greens to rounding; Textual's `ansi-dark` is made of the
    terminal's own colours. Any other theme is the user's choice.
    """
    return _THEME_FOR_16_COLOURS if theme == STANDARD_THEME and color_system == "standard" else theme


def load_signoff_theme(name: str) -> Theme:
    """Return one of signoff's own themes."""
    return Theme(**_load_toml(OWN_THEMES_FOLDER / f"{name}.toml"))


def _load_theme(name: str, folder: Path) -> Theme | None:
    if "/" in name:
        return None
    # Invalid values may fail anywhere in Textual's colours; the later check of the file reports them.
    with suppress(AttributeError, TypeError, ValueError, ColorParseError):
        theme = Theme(**_load_toml(folder / f"{name}.toml"))
        theme.to_color_system().generate()
        # Leave out variables: their values are not checked yet, and may break the style sheets.
        return Theme(**{**vars(theme), "variables": {}})
    return load_signoff_theme(name) if (OWN_THEMES_FOLDER / f"{name}.toml").is_file() else None


def _load_toml(path: Path, *, is_in_workspace: bool = False) -> dict[str, Any]:
    """Return the content of a TOML file, {} if it cannot be read; links are not followed in a workspace
    (`is_in_workspace`)."""
    try:
        content, _ = (
            read_regular_file(path, _MAX_WORKSPACE_FILE_BYTES)
            if is_in_workspace
            else read_regular_file(os.path.realpath(path), _MAX_USER_FILE_BYTES)
        )
        return parse_toml(content)
    except (OSError, ValueError):
        return {}
