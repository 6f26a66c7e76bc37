"""Theme files: signoff's own, the user's, and bad ones."""

from pathlib import Path

import pytest
from textual.color import Color

from app.first_theme import OWN_THEMES, STANDARD, first_theme
from app.storage.places import Places
from app.theme_files import OWN_THEME_PREFIX, load_themes
from widgets.diff.colours import diff_variable_defaults

OWN = load_themes((OWN_THEMES,))


def contrast(first: str, second: str) -> float:
    """WCAG 2.1 contrast ratio."""

    def luminance(colour: Color) -> float:
        parts = [part / 255 for part in colour.rgb]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(Color.parse(first)), luminance(Color.parse(second))))
    return (lighter + 0.05) / (darker + 0.05)


def test_signoffs_own_themes_are_whole() -> None:
    assert OWN.problems == ()
    names = {theme.name for theme in OWN.themes}
    assert {"signoff-dark", "signoff-light", "signoff-contrast", "signoff-blue-orange"} <= names
    assert all(name.startswith(OWN_THEME_PREFIX) for name in names)


@pytest.mark.parametrize("theme", OWN.themes, ids=lambda theme: theme.name)
def test_text_can_be_read_on_every_background(theme) -> None:  # type: ignore[no-untyped-def]
    made = theme.as_theme()
    variables = {**diff_variable_defaults(made), **made.variables}
    least = 7.0 if theme.name == "signoff-contrast" else 4.5
    assert made.foreground and made.background
    for name in ("diff-added-background", "diff-removed-background"):
        assert contrast(made.foreground, variables[name]) >= least, name
    assert contrast(made.foreground, made.background) >= 7.0
    assert contrast(variables["diff-added-color"], variables["diff-added-background"]) >= 4.5
    assert contrast(variables["diff-removed-color"], variables["diff-removed-background"]) >= 4.5


@pytest.mark.parametrize(
    "text",
    [
        'name = "x"\nprimary = "red; }"',
        'name = "Bad Name"\nprimary = "#fff"',
        'name = "x"\nprimary = "#fff"\n[variables]\n"a" = "$primary"',
        'name = "x"\nprimary = "#fff"\n[variables]\n"a b" = "red"',
        'name = "x"\nprimary = "#fff"\ncolour = "#fff"',
        "not toml [",
        'name = "x"',
    ],
)
def test_a_bad_file_is_reported_and_harms_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "a-bad.toml").write_text(text)
    (tmp_path / "good.toml").write_text('name = "good"\nprimary = "#123456"\n')
    loaded = load_themes((tmp_path,))
    assert [theme.name for theme in loaded.themes] == ["good"]
    assert len(loaded.problems) == 1 and "a-bad.toml" in loaded.problems[0]


def places(folder: Path) -> Places:
    return Places(config=folder / "config", state=folder / "state")


def test_the_first_picture_has_the_configured_theme(tmp_path: Path) -> None:
    where = places(tmp_path)
    where.config.mkdir()
    assert first_theme(None, {}, tmp_path, where).name == STANDARD
    where.config_file.write_text('theme = "signoff-light"\n')
    assert first_theme(None, {}, tmp_path, where).name == "signoff-light"
    (tmp_path / ".signoff.toml").write_text('theme = "nord"\n')
    assert first_theme(None, {}, tmp_path, where).name == "nord"
    assert first_theme(None, {"SIGNOFF_THEME": "gruvbox"}, tmp_path, where).name == "gruvbox"
    assert first_theme("signoff-contrast", {"SIGNOFF_THEME": "gruvbox"}, tmp_path, where).name == "signoff-contrast"


@pytest.mark.parametrize("text", ["theme = 3", "theme = [", 'theme = "../../etc/passwd"', 'theme = "none"', ""])
def test_whatever_the_files_say_there_is_a_first_theme(tmp_path: Path, text: str) -> None:
    where = places(tmp_path)
    where.themes.mkdir(parents=True)
    where.config_file.write_text(text)
    assert first_theme(None, {}, tmp_path, where).name == STANDARD


@pytest.mark.parametrize("text", ['name = "mine"\nprimary = "no colour"', 'name = "mine"', "[", "primary = 3"])
def test_a_bad_theme_of_the_user_does_not_keep_the_first_picture_away(tmp_path: Path, text: str) -> None:
    where = places(tmp_path)
    where.themes.mkdir(parents=True)
    (where.themes / "mine.toml").write_text(text)
    assert first_theme("mine", {}, tmp_path, where).name == STANDARD
