"""Theme files: signoff's own, the user's, and bad ones."""

import os
from pathlib import Path

import pytest
from textual.color import Color

from app.storage.app_dirs import AppDirs
from app.ui.themes.first_theme import (
    OWN_THEMES_FOLDER,
    STANDARD_THEME,
    load_configured_theme,
    theme_for_colour_system,
)
from app.ui.themes.theme_files import OWN_THEME_PREFIX, ThemeFile, load_themes
from widgets.diff.diff_colours import make_diff_variable_defaults

OWN = load_themes(OWN_THEMES_FOLDER)


def contrast(first: str, second: str) -> float:
    """WCAG 2.1 contrast ratio."""

    def luminance(colour: Color) -> float:
        parts = [part / 255 for part in colour.rgb]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(Color.parse(first)), luminance(Color.parse(second))))
    return (lighter + 0.05) / (darker + 0.05)


def test_signoffs_own_themes_are_complete() -> None:
    assert OWN.problems == ()
    names = {theme.name for theme in OWN.themes}
    assert {"signoff-dark", "signoff-light", "signoff-contrast", "signoff-blue-orange"} <= names
    assert all(name.startswith(OWN_THEME_PREFIX) for name in names)


QUIET = 0.65
"""The share of the foreground in words that only accompany others."""
LARGE = 3.0
"""What decoration needs, as against text."""


@pytest.mark.parametrize("theme", OWN.themes, ids=lambda theme: theme.name)
def test_text_and_diffs_can_be_read_in_every_theme(theme: ThemeFile) -> None:
    made = theme.to_textual_theme()
    colours = {**made.to_color_system().generate(), **make_diff_variable_defaults(made), **made.variables}
    least = 7.0 if theme.name == "signoff-contrast" else 4.5
    plain = colours["foreground"]
    assert contrast(plain, colours["background"]) >= 7.0
    for ground in ("background", "surface", "panel"):
        assert contrast(plain, colours[ground]) >= least, ground
        for word in ("accent", "primary", "secondary", "success", "warning", "error"):
            assert contrast(colours[f"text-{word}"], colours[ground]) >= 4.5, (word, ground)
        quiet = Color.parse(colours[ground]).blend(Color.parse(plain), QUIET, alpha=1.0).hex
        assert contrast(quiet, colours[ground]) >= 4.5, (ground, "quiet")
    for kind in ("added", "removed"):
        line, word = colours[f"diff-{kind}-background"], colours[f"diff-{kind}-word-background"]
        assert contrast(plain, line) >= least, kind
        assert contrast(plain, word) >= 4.5, kind
        assert contrast(colours[f"diff-{kind}-color"], line) >= 4.5, kind
        for name in ("accent", "primary", "secondary", "success", "warning"):
            assert contrast(colours[f"text-{name}"], line) >= 4.5, (kind, name)
            assert contrast(colours[f"text-{name}"], word) >= LARGE, (kind, name)
    for focus in ("", "-blurred"):
        row = colours[f"block-cursor{focus}-background"]
        assert contrast(colours[f"block-cursor{focus}-foreground"], row) >= 4.5, focus
        assert contrast(row, colours["surface"]) >= 1.15, "the row stands out"
    for part in ("description", "key"):
        assert contrast(colours[f"footer-{part}-foreground"], colours["background"]) >= 4.5, part


def test_a_bad_file_is_reported_and_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text('name = "good"\nprimary = "#123456"\n')
    for text, words in (
        ('name = "x"\nprimary = "red; }"', "primary: write a colour as #rgb, #rrggbb"),
        ('name = "Bad Name"\nprimary = "#fff"', "name: such a name can't be used"),
        ('name = "x"\nprimary = "#fff"\n[variables]\n"a" = "$primary"', "not a plain style value"),
        ('name = "x"\nprimary = "#fff"\n[variables]\n"a b" = "red"', "not a variable name"),
        ('name = "x"\nprimary = "#fff"\ncolour = "#fff"', "colour: there is no such setting."),
        ("not toml [", ""),
        ('name = "x"', "primary: this is missing."),
        ('primary = "#fff"\ndark = "dim"', "name: this is missing."),
    ):
        (tmp_path / "a-bad.toml").write_text(text)
        loaded = load_themes(tmp_path)
        assert [theme.name for theme in loaded.themes] == ["good"], text
        (problem,) = loaded.problems
        assert "a-bad.toml" in problem and "\n" not in problem and words in problem


def test_a_theme_may_be_a_link_to_a_regular_file_only(tmp_path: Path) -> None:
    folder = tmp_path / "themes"
    folder.mkdir()
    (tmp_path / "linked").write_text('name = "good"\nprimary = "#123456"\n')
    (folder / "a-link.toml").symlink_to(tmp_path / "linked")
    (folder / "device.toml").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.toml")
    loaded = load_themes(folder)
    assert [theme.name for theme in loaded.themes] == ["good"]
    assert ["not a regular file" in problem for problem in loaded.problems] == [True, True]


@pytest.fixture
def where(tmp_path: Path) -> AppDirs:
    (tmp_path / "config").mkdir()
    return AppDirs(config=tmp_path / "config", state=tmp_path / "state")


def test_the_first_picture_has_the_configured_theme(tmp_path: Path, where: AppDirs) -> None:
    def first(flag: str | None = None, **environment: str) -> str:
        return load_configured_theme(flag, environment, tmp_path, where).name

    assert first() == STANDARD_THEME
    where.config_file.write_text('theme = "signoff-light"\n')
    assert first() == "signoff-light"
    (tmp_path / ".signoff.toml").write_text('theme = "nord"\n')
    assert first() == "nord"
    assert first(SIGNOFF_THEME="gruvbox") == "gruvbox"
    assert first("signoff-contrast", SIGNOFF_THEME="gruvbox") == "signoff-contrast"


def test_the_first_theme_is_found_whatever_the_files_contain(tmp_path: Path, where: AppDirs) -> None:
    where.themes.mkdir()
    (where.themes.parent / "elsewhere.toml").write_text('name = "elsewhere"\nprimary = "#ff00ff"\n')
    for text in ("theme = 3", "theme = [", 'theme = "../elsewhere"', 'theme = "none"', ""):
        where.config_file.write_text(text)
        assert load_configured_theme(None, {}, tmp_path, where).name == STANDARD_THEME, text
    for text in ('name = "mine"\nprimary = "no colour"', 'name = "mine"', "[", "primary = 3"):
        (where.themes / "mine.toml").write_text(text)
        assert load_configured_theme("mine", {}, tmp_path, where).name == STANDARD_THEME, text


def test_in_16_colours_the_terminals_colours_are_the_default() -> None:
    assert theme_for_colour_system(STANDARD_THEME, "standard") == "ansi-dark"
    assert theme_for_colour_system("signoff-light", "standard") == "signoff-light"
    assert {theme_for_colour_system(STANDARD_THEME, each) for each in ("256", "truecolor")} == {STANDARD_THEME}


def test_no_configuration_can_keep_the_first_picture_waiting(tmp_path: Path, where: AppDirs) -> None:
    def first() -> str:
        return load_configured_theme(None, {}, tmp_path, where).name

    os.mkfifo(where.config_file)
    assert first() == STANDARD_THEME
    where.config_file.unlink()
    (tmp_path / "linked").write_text(f'theme = "signoff-light"\n# {"x" * 10_000}\n')
    where.config_file.symlink_to(tmp_path / "linked")
    assert first() == "signoff-light"
    where.config_file.unlink()
    file = tmp_path / ".signoff.toml"
    file.symlink_to("/dev/zero")
    assert first() == STANDARD_THEME
    file.unlink()
    os.mkfifo(file)
    assert first() == STANDARD_THEME
    file.unlink()
    file.write_text(f'theme = "nord"\n# {"x" * 10_000}\n')
    assert first() == STANDARD_THEME, "too long to be read before there is a picture"
