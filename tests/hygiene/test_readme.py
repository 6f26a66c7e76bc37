"""What README and docs promise is so: the configuration loads, keys, commands, links and names exist."""

import ast
import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from textual.binding import Binding

from app.attestation.review_policy import ReviewPolicy
from app.cli.argument_parser import make_command_parser
from app.config.settings import Settings
from app.demo.demo_conversation import read_intent
from app.keys.actions import ACTIONS
from app.keys.keymap import key_name, validate_keymap
from app.ui.context.slash_commands import COMMANDS
from app.ui.screens.edit_screens import ConflictScreen
from app.ui.themes.first_theme import OWN_THEMES_FOLDER

ROOT = Path(__file__).resolve().parents[2]
READMES = sorted(ROOT.glob("README*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def read(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


OTHER_AGENTS = read("docs/other-agents.md")


def test_the_example_configuration_is_taken_as_it_is_and_names_every_setting() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", read("docs/configuration.md"), re.DOTALL)
    values = tomllib.loads(block)
    settings = Settings.model_validate(values)
    assert validate_keymap(settings.keys)
    assert set(Settings.model_fields) == set(values)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_settings_load(page: Path) -> None:
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        model = ReviewPolicy if page.name == "verify.md" else Settings
        assert model.model_validate(tomllib.loads(block))


def test_settings_for_other_agents_load_and_start_what_there_is() -> None:
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", OTHER_AGENTS, re.DOTALL)]
    blocks += [tomllib.loads(block) for block in re.findall(r"```text\n(.*?)```", OTHER_AGENTS, re.DOTALL)]
    started = [words.split() for words in re.findall(r"claude mcp add signoff -- ([\w -]+)`", OTHER_AGENTS)]
    for block in blocks:
        for servers in filter(None, map(block.get, ("mcp", "mcpServers", "mcp_servers"))):
            command = servers["signoff"]["command"]
            started.append(command if isinstance(command, list) else [command, *servers["signoff"]["args"]])
    assert started == [["signoff", "mcp"]] * 4
    for words in re.findall(r"`signoff (mcp[^`]*)`", OTHER_AGENTS):
        make_command_parser().parse_args(words.replace("FOLDER", ".").split())


def test_the_slash_commands_are_all_there_are() -> None:
    (listed,) = re.findall(r"Slash commands: .*?(?=\n\n)", read("docs/reviewing.md"), re.DOTALL)
    assert set(re.findall(r"`/(\w+)`", listed)) == set(COMMANDS)


@pytest.mark.parametrize("page", [*READMES, ROOT / "docs/reviewing.md"], ids=lambda page: page.name)
def test_keys_do_something_where_it_says(page: Path) -> None:
    known = {key_name(key.strip()) for action in ACTIONS for key in action.keys.split(",") if key.strip()}
    known |= {"Escape", "Up", "Down", "PageUp", "PageDown", "@", "/"}
    known |= {key_name(binding.key) for binding in ConflictScreen.BINDINGS if isinstance(binding, Binding)}
    (table,) = re.findall(r"\|(?: where \|)? (?:key|按键) \|.*?(?=\n\n)", page.read_text(encoding="utf-8"), re.DOTALL)
    head, _, *rows = table.splitlines()
    column = [cell.strip() in ("key", "按键") for cell in head.split("|")].index(True)
    for row in rows:
        for key in row.split("|")[column].replace("`", " ").replace(", ", " ").split():
            assert key in known, key


def test_the_themes_exist() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md"))
    named = set(re.findall(r"signoff-(?:dark|light|contrast|blue-orange)", text))
    assert named == {path.stem for path in OWN_THEMES_FOLDER.glob("*.toml")}


@pytest.mark.parametrize("readme", READMES, ids=lambda page: page.name)
def test_the_first_commands_work_where_the_system_keeps_pip_out_and_path_lacks_uv(readme: Path) -> None:
    demo, tests = re.findall(r"```sh\n(.*?)\n```", readme.read_text(encoding="utf-8"), re.DOTALL)[:2]
    uv = "PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install uv && python3 -m uv run "
    assert [demo, tests] == [f"{uv}--no-dev signoff --demo", f"{uv}pytest"]


def test_both_readmes_have_the_same_commands_links_and_tables() -> None:
    first, second = (readme.read_text(encoding="utf-8") for readme in READMES)

    def skeleton(text: str) -> list[list[str]]:
        lines = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines()
        code = [line.split("#")[0].strip() for line in lines]
        links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("README")]
        return [code, sorted(links), [str(text.count(mark)) for mark in ("\n## ", "\n| ", "\n- ")]]

    assert skeleton(first) == skeleton(second)


def slug(heading: str) -> str:
    """Return the anchor that a heading gets."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere_that_the_source_distribution_holds(page: Path) -> None:
    build = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["build"]
    held = [ROOT / name.lstrip("/") for name in build["targets"]["sdist"]["include"]]
    for link in re.findall(r"\]\((?!https?:)([^)]+)", page.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert any(target.is_relative_to(folder) for folder in held), link
        if anchor:
            headings = re.findall(r"(?m)^#+ (.*)$", target.read_text(encoding="utf-8"))
            assert anchor in map(slug, headings), link


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    config = tomllib.loads(read("zensical.toml"))["project"]
    assert set(re.findall(r"[\w-]+\.md", str(config["nav"]))) == {page.name for page in ROOT.glob("docs/*.md")}


def test_the_reference_tables_are_those_of_the_settings_and_the_parser() -> None:
    for path, text in runpy.run_path(str(ROOT / "docs/reference.py"))["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `uv run python docs/reference.py`"


def test_the_pictures_and_the_table_of_packages_are_up_to_date() -> None:
    for path, text in runpy.run_path(str(ROOT / "docs/architecture.py"))["files"]().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `uv run python docs/architecture.py`"


def test_each_station_of_an_edit_is_defined_in_the_file_that_is_named_with_it() -> None:
    for name, path in re.findall(r"`([\w.]+)`\s+\(`((?:app|widgets)/[\w/]+\.py)`\)", read("docs/edit.md")):
        nodes = ast.walk(ast.parse(read(path)))
        defined = {
            node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert {*name.split(".")} <= defined | {Path(path).stem}, f"{name} is not in {path}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_the_repository_that_a_page_names_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return
    for path in re.findall(r"`((?:app|widgets|tests|docs|\.ci)/[\w./-]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path


def test_the_architecture_names_every_folder_of_tests() -> None:
    folders = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/*/__init__.py")}
    assert set(re.findall(r"(?m)^\| `(tests/\w+)` \|", read("docs/architecture.md"))) == folders


def test_what_to_try_first_is_the_same_everywhere_and_the_demo_model_knows_it() -> None:
    pages = [*PAGES, *ROOT.glob("docs/*.py"), *ROOT.glob("app/**/*.py"), *ROOT.glob("app/**/*.toml")]
    tried = {
        request.lower()
        for page in pages
        for request in re.findall(r"(?i)\bfix the failing \w+", page.read_text(encoding="utf-8"))
    }
    assert [read_intent(request).kind for request in tried] == ["fix"]
