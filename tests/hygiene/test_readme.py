"""What the README promises is so: its configuration loads, its keys, commands and themes exist."""

import re
import tomllib
from pathlib import Path

from app.actions import ACTIONS
from app.config import Settings
from app.keymap import checked, key_name
from app.ui.slash_commands import COMMANDS
from app.ui.themes.first import OWN_THEMES

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def test_its_configuration_is_taken_as_it_is_and_names_every_setting() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    values = tomllib.loads(block)
    settings = Settings.model_validate(values)
    assert checked(settings.keys)
    assert set(Settings.model_fields) == set(values)


def test_its_slash_commands_are_all_there_are() -> None:
    (listed,) = re.findall(r"Slash commands.*?(?=\n\n)", README, re.DOTALL)
    assert set(re.findall(r"`/(\w+)`", listed)) == set(COMMANDS)


def test_its_keys_do_something_where_it_says() -> None:
    known = {key_name(key.strip()) for action in ACTIONS for key in action.keys.split(",") if key.strip()}
    known |= {"Escape", "Up", "Down", "PageUp", "PageDown", "@", "/"}
    (table,) = re.findall(r"\| where \| key \|.*?(?=\n\n)", README, re.DOTALL)
    for row in table.splitlines()[2:]:
        for key in row.split("|")[2].replace("`", " ").replace(", ", " ").split():
            assert key in known, key


def test_its_themes_exist() -> None:
    named = set(re.findall(r"signoff-(?:dark|light|contrast|blue-orange)", README))
    assert named == {path.stem for path in OWN_THEMES.glob("*.toml")}
