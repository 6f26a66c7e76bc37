"""What the README promises is so: its configuration loads, its keys, commands and themes exist."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from textual.binding import Binding

from app.actions import ACTIONS
from app.cli.parser import command_parser
from app.config.settings import Settings
from app.demo.task import read_intent
from app.keymap import checked, key_name
from app.ui.screens.resolve import ResolveScreen
from app.ui.slash_commands import COMMANDS
from app.ui.themes.first import OWN_THEMES

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def test_its_configuration_is_taken_as_it_is_and_names_every_setting() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    values = tomllib.loads(block)
    settings = Settings.model_validate(values)
    assert checked(settings.keys)
    assert set(Settings.model_fields) == set(values)


def test_its_settings_for_other_agents_load_and_start_what_there_is() -> None:
    (section,) = re.findall(r"## Other agents\n(.*?)\n## ", README, re.DOTALL)
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", section, re.DOTALL)]
    blocks += [tomllib.loads(block) for block in re.findall(r"```text\n(.*?)```", section, re.DOTALL)]
    started = [words.split() for words in re.findall(r"claude mcp add signoff -- ([\w -]+)`", section)]
    for block in blocks:
        for servers in filter(None, map(block.get, ("mcp", "mcpServers", "mcp_servers"))):
            command = servers["signoff"]["command"]
            started.append(command if isinstance(command, list) else [command, *servers["signoff"]["args"]])
    assert started == [["signoff", "mcp"]] * 4
    for words in re.findall(r"`signoff (mcp[^`]*)`", section):
        command_parser().parse_args(words.replace("FOLDER", ".").split())


def test_its_slash_commands_are_all_there_are() -> None:
    (listed,) = re.findall(r"Slash commands.*?(?=\n\n)", README, re.DOTALL)
    assert set(re.findall(r"`/(\w+)`", listed)) == set(COMMANDS)


def test_its_keys_do_something_where_it_says() -> None:
    known = {key_name(key.strip()) for action in ACTIONS for key in action.keys.split(",") if key.strip()}
    known |= {"Escape", "Up", "Down", "PageUp", "PageDown", "@", "/"}
    known |= {key_name(binding.key) for binding in ResolveScreen.BINDINGS if isinstance(binding, Binding)}
    (table,) = re.findall(r"\| where \| key \|.*?(?=\n\n)", README, re.DOTALL)
    for row in table.splitlines()[2:]:
        for key in row.split("|")[2].replace("`", " ").replace(", ", " ").split():
            assert key in known, key


def test_its_themes_exist() -> None:
    named = set(re.findall(r"signoff-(?:dark|light|contrast|blue-orange)", README))
    assert named == {path.stem for path in OWN_THEMES.glob("*.toml")}


def test_its_first_commands_work_where_the_system_keeps_pip_out_and_path_lacks_uv() -> None:
    demo, tests = re.findall(r"```sh\n(.*?)\n```", README, re.DOTALL)[:2]
    uv = "PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install uv && python3 -m uv run "
    assert [demo, tests] == [f"{uv}signoff --demo", f"{uv}pytest"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere_that_the_source_distribution_holds(page: Path) -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    held = [ROOT / name.lstrip("/") for name in build["targets"]["sdist"]["include"]]
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        target = (page.parent / link).resolve()
        assert target.exists(), link
        assert any(target.is_relative_to(folder) for folder in held), link


def test_the_map_names_every_folder_of_the_code_and_no_other() -> None:
    (listing,) = re.findall(r"## The map.*?```\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)
    named, parents = set(), [ROOT]
    for line in listing.splitlines():
        if found := re.match(r"( *)([\w.]+)/(?: |$)", line):
            depth = len(found[1]) // 2
            parents[depth + 1 :] = [parents[depth] / found[2]]
            named.add(parents[-1])
    packages = {path.parent for top in ("app", "widgets") for path in (ROOT / top).rglob("__init__.py")}
    assert packages <= named
    assert all(folder.is_dir() for folder in named)


def test_what_to_try_first_is_the_same_everywhere_and_the_demo_model_knows_it() -> None:
    pages = [*PAGES, *ROOT.glob("docs/*.py"), *ROOT.glob("app/**/*.py"), *ROOT.glob("app/**/*.toml")]
    tried = {
        request.lower()
        for page in pages
        for request in re.findall(r"(?i)\bfix the failing \w+", page.read_text(encoding="utf-8"))
    }
    assert [read_intent(request).kind for request in tried] == ["fix"]
