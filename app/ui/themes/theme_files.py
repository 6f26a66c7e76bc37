"""Theme files of signoff and the user, loaded as Textual themes."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.config.toml_files import describe_wrong_value, parse_toml
from app.workspace.reading import read_regular_file

if TYPE_CHECKING:
    from textual.theme import Theme


OWN_THEME_PREFIX = "signoff-"
"""Prefix of the names of signoff's own themes."""

Colour = Annotated[str, Field(pattern=r"^(#[0-9a-fA-F]{3}|#[0-9a-fA-F]{6}|ansi_[a-z_]+)$")]
"""`#rgb`, `#rrggbb`, or one of Textual's `ansi_…` names."""
_COLOUR_ADVICE = "write a colour as #rgb, #rrggbb or a name such as ansi_blue"

_MAX_THEME_FILE_BYTES = 1024 * 1024
_VARIABLE_NAME = re.compile(r"^[a-z][a-z0-9-]*$")


class ThemeFile(BaseModel):
    """A theme as defined in a file; Textual derives missing colours from others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=40)
    primary: Colour
    secondary: Colour | None = None
    accent: Colour | None = None
    success: Colour | None = None
    warning: Colour | None = None
    error: Colour | None = None
    foreground: Colour | None = None
    background: Colour | None = None
    surface: Colour | None = None
    panel: Colour | None = None
    boost: Colour | None = None
    dark: bool = True
    text_alpha: float = Field(default=0.95, ge=0, le=1)
    ansi: bool = False
    """Whether the colours are the terminal's sixteen ANSI colours."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Further style variables, such as `diff-added-background`."""

    def to_textual_theme(self) -> "Theme":
        """Return the Textual theme."""
        from textual.theme import Theme

        return Theme(**self.model_dump())


class LoadedThemes(Struct, frozen=True):
    """The loaded themes, and the problems with other files."""

    themes: tuple[ThemeFile, ...]
    problems: tuple[str, ...]
    """One line for each file that could not be used."""


def load_themes(folder: Path) -> LoadedThemes:
    """Read all `*.toml` files in a folder; if two themes have the same name, the later one wins."""
    themes_by_name: dict[str, ThemeFile] = {}
    problems: list[str] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            theme = ThemeFile.model_validate(
                parse_toml(read_regular_file(os.path.realpath(path), _MAX_THEME_FILE_BYTES)[0])
            )
            _check_variables(theme.variables)
        except ValidationError as error:
            first_error = error.errors(include_input=False, include_url=False)[0]
            field_path = ".".join(str(part) for part in first_error["loc"])
            is_colour = first_error["type"] == "string_pattern_mismatch" and field_path != "name"
            reason = _COLOUR_ADVICE if is_colour else describe_wrong_value(first_error["type"], first_error["msg"])
            problems.append(f"Theme {path.name}: {field_path}: {reason}.")
        except (OSError, ValueError) as error:
            problems.append(f"Theme {path.name}: {error}.")
        else:
            themes_by_name[theme.name] = theme
    return LoadedThemes(tuple(themes_by_name.values()), tuple(problems))


def _check_variables(variables: dict[str, str]) -> None:
    """Raise ValueError if a name or value could break out of its declaration in the style sheet."""
    for name, value in variables.items():
        if not _VARIABLE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a variable name")
        if not value or any(character in value for character in ";{}\n$"):
            raise ValueError(f"the value of {name!r} is not a plain style value")
