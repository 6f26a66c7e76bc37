"""The theme of the first picture, read without the configuration proper, which takes longer to load than to paint.

What is read here is read again and checked as soon as the first picture is on the screen, so anything odd is simply
passed over.
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
from app.workspace.reading import read_file

OWN_THEMES_FOLDER = Path(__file__).resolve().parents[3] / "themes"
"""The folder of the themes that signoff brings."""
STANDARD_THEME = "signoff-dark"
"""The theme where none, or none that exists, is configured."""
_OF_16_COLOURS = "ansi-dark"
_LARGEST = 8 * 1024
"""Bytes of a workspace's file that is read before there is a picture; the theme of a longer one comes later."""
_LARGEST_OWN = 1024 * 1024


def load_first_theme(flag: str | None, environment: Mapping[str, str], workspace: Path, dirs: AppDirs) -> Theme:
    """Return the configured theme, or the standard one."""
    named = (
        flag,
        environment.get("SIGNOFF_THEME"),
        _toml(workspace / ".signoff.toml", foreign=True).get("theme"),
        _toml(dirs.config_file).get("theme"),
    )
    wanted = next((name for name in named if isinstance(name, str) and name), STANDARD_THEME)
    return _theme(wanted, dirs.themes) or BUILTIN_THEMES.get(wanted) or built_in_theme(STANDARD_THEME)


def theme_for_colour_system(theme: str, color_system: str | None) -> str:
    """Return the theme to show for a configured one; a terminal with few colours may need another.

    With 16 colours the standard theme loses its surfaces and greens to rounding; Textual's `ansi-dark` is made of the
    terminal's own colours. Any other theme is the user's choice.
    """
    return _OF_16_COLOURS if theme == STANDARD_THEME and color_system == "standard" else theme


def built_in_theme(name: str) -> Theme:
    """Return one of signoff's own themes."""
    return Theme(**_toml(OWN_THEMES_FOLDER / f"{name}.toml"))


def _theme(name: str, users: Path) -> Theme | None:
    if "/" in name:
        return None
    # Values of a wrong kind fail anywhere inside Textual's colours; the check of the file names them later.
    with suppress(AttributeError, TypeError, ValueError, ColorParseError):
        theme = Theme(**_toml(users / f"{name}.toml"))
        theme.to_color_system().generate()
        # A variable could hold anything, also what no style sheet takes.
        return Theme(**{**vars(theme), "variables": {}})
    return built_in_theme(name) if (OWN_THEMES_FOLDER / f"{name}.toml").is_file() else None


def _toml(path: Path, *, foreign: bool = False) -> dict[str, Any]:
    """Return the content of a theme file; a link is followed unless it came with a workspace."""
    try:
        content, _ = read_file(path, _LARGEST) if foreign else read_file(os.path.realpath(path), _LARGEST_OWN)
        return parse_toml(content)
    except (OSError, ValueError):
        return {}
