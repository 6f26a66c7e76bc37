"""Check README and docs against the program: configuration, keys, commands, links and names."""

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
from app.keys.keymap import key_display_name, validate_and_convert_keymap
from app.ui.context.slash_commands import COMMANDS
from app.ui.screens.edit_screens import ConflictScreen
from app.ui.themes.first_theme import OWN_THEMES_FOLDER

ROOT = Path(__file__).resolve().parents[2]
READMES = sorted(ROOT.glob("README*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


OTHER_AGENTS = read("docs/other-agents.md")


def test_example_configuration_is_valid_and_names_every_setting() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", read("docs/configuration.md"), re.DOTALL)
    values = tomllib.loads(block)
    settings = Settings.model_validate(values)
    assert validate_and_convert_keymap(settings.keys)
    assert set(Settings.model_fields) == set(values)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_settings_load(page: Path) -> None:
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        model = ReviewPolicy if page.name == "verify.md" else Settings
        assert model.model_validate(tomllib.loads(block))


def test_settings_for_other_agents_load_and_start_existing_commands() -> None:
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


def test_docs_list_all_slash_commands() -> None:
    (listed,) = re.findall(r"Slash commands: .*?(?=\n\n)", read("docs/reviewing.md"), re.DOTALL)
    assert set(re.findall(r"`/(\w+)`", listed)) == set(COMMANDS)


@pytest.mark.parametrize("page", [*READMES, ROOT / "docs/reviewing.md"], ids=lambda page: page.name)
def test_documented_keys_are_bound(page: Path) -> None:
    known = {key_display_name(key.strip()) for action in ACTIONS for key in action.keys.split(",") if key.strip()}
    known |= {"Escape", "Tab", "Shift+Tab", "Up", "Down", "PageUp", "PageDown", "@", "/"}
    known |= {key_display_name(binding.key) for binding in ConflictScreen.BINDINGS if isinstance(binding, Binding)}
    (table,) = re.findall(r"\|(?: where \|)? (?:key|按键) \|.*?(?=\n\n)", page.read_text(encoding="utf-8"), re.DOTALL)
    head, _, *rows = table.splitlines()
    column = [cell.strip() in ("key", "按键") for cell in head.split("|")].index(True)
    for row in rows:
        for key in row.split("|")[column].replace("`", " ").replace(", ", " ").split():
            assert key in known, key


def test_documented_themes_exist() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md"))
    named = set(re.findall(r"signoff-(?:dark|light|contrast|blue-orange)", text))
    assert named == {path.stem for path in OWN_THEMES_FOLDER.glob("*.toml")}


@pytest.mark.parametrize("readme", READMES, ids=lambda page: page.name)
def test_first_commands_work_with_externally_managed_python_and_without_uv_in_path(readme: Path) -> None:
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
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_link_targets_exist_and_are_in_the_source_distribution(page: Path) -> None:
    build = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["build"]
    included = [ROOT / name.lstrip("/") for name in build["targets"]["sdist"]["include"]]
    for link in re.findall(r"\]\((?!https?:)([^)]+)", page.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert any(target.is_relative_to(folder) for folder in included), link
        if anchor:
            headings = re.findall(r"(?m)^#+ (.*)$", target.read_text(encoding="utf-8"))
            assert anchor in map(slug, headings), link


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    config = tomllib.loads(read("zensical.toml"))["project"]
    assert set(re.findall(r"[\w-]+\.md", str(config["nav"]))) == {page.name for page in ROOT.glob("docs/*.md")}


def test_reference_tables_are_up_to_date() -> None:
    for path, text in runpy.run_path(str(ROOT / "docs/reference.py"))["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `uv run python docs/reference.py`"


def test_architecture_pictures_and_package_table_are_up_to_date() -> None:
    for path, text in runpy.run_path(str(ROOT / "docs/architecture.py"))["files"]().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `uv run python docs/architecture.py`"


def test_each_step_of_an_edit_is_defined_in_its_documented_file() -> None:
    for name, path in re.findall(r"`([\w.]+)`\s+\(`((?:app|widgets)/[\w/]+\.py)`\)", read("docs/edit.md")):
        nodes = ast.walk(ast.parse(read(path)))
        defined = {
            node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert {*name.split(".")} <= defined | {Path(path).stem}, f"{name} is not in {path}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_repository_files_named_in_pages_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return
    for path in re.findall(r"`((?:app|widgets|tests|docs|\.ci)/[\w./-]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path


def test_the_architecture_names_every_folder_of_tests() -> None:
    folders = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/*/__init__.py")}
    assert set(re.findall(r"(?m)^\| `(tests/\w+)` \|", read("docs/architecture.md"))) == folders


def test_first_demo_request_is_the_same_on_all_pages_and_is_recognised() -> None:
    pages = [*PAGES, *ROOT.glob("docs/*.py"), *ROOT.glob("app/**/*.py"), *ROOT.glob("app/**/*.toml")]
    requests = {
        request.lower()
        for page in pages
        for request in re.findall(r"(?i)\bfix the failing \w+", page.read_text(encoding="utf-8"))
    }
    assert [read_intent(request).kind for request in requests] == ["fix"]
