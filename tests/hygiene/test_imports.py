"""The arrows between the layers, and what may not be loaded before it is needed."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UI_FREE = (
    "app/agent",
    "app/conversation",
    "app/llm",
    "app/proposals",
    "app/tools",
    "app/workspace",
    "app/storage",
    "app/demo",
    "app/commands",
)
UI_FREE_FILES = (
    "app/config.py",
    "app/runtime/workspace.py",
    "app/runtime/connection.py",
    "app/runtime/open_session.py",
    "app/cli/main.py",
    "app/safe_text.py",
)


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Modules that a file imports, at any depth, outside of `if TYPE_CHECKING`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def top(module: str) -> str:
    return module.partition(".")[0]


def test_the_core_knows_neither_textual_nor_widgets() -> None:
    files = [*python_files(*UI_FREE), *(ROOT / name for name in UI_FREE_FILES)]
    forbidden = {"textual", "widgets", "rich"}
    offenders = [path for path in files if {top(module) for module in imported(path)} & forbidden]
    assert not offenders


def test_widgets_do_no_io_and_hold_no_agent_logic() -> None:
    outside = (
        "app.storage",
        "app.llm",
        "app.demo",
        "app.screens",
        "app.ui.app",
        "app.runtime.open_session",
        "app.agent",
    )
    offenders = [
        (path, module)
        for path in python_files("widgets")
        for module in imported(path)
        if module.startswith(outside) and not f"{module}.".startswith("app.agent.updates.") and module != "app.agent"
    ]
    assert not offenders


def package_arrows() -> dict[str, set[str]]:
    arrows: dict[str, set[str]] = {}
    for path in python_files("app"):
        parts = path.relative_to(ROOT).parts
        if len(parts) < 3 or parts[1] in ("launcher", "screens", "commands"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("app."):
                names = node.module.split(".")
                if len(names) > 2 and names[1] != parts[1]:
                    arrows.setdefault(parts[1], set()).add(names[1])
    return arrows


def test_packages_import_each_other_in_one_direction() -> None:
    arrows = package_arrows()

    def reaches(start: str, goal: str, seen: set[str]) -> bool:
        return any(
            step == goal or (step not in seen and reaches(step, goal, seen | {step}))
            for step in arrows.get(start, ())
        )

    circles = [package for package in arrows if reaches(package, package, {package})]
    assert not circles, {package: arrows[package] for package in circles}


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('\\n'.join(sys.modules))"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {top(name) for name in done.stdout.split()}


def test_the_version_needs_no_heavy_import() -> None:
    code = "from app.cli.main import main\ntry: main(['--version'])\nexcept SystemExit: pass"
    assert not modules_after(code) & {"textual", "pydantic", "openai", "rich", "sqlite3", "watchfiles"}


def test_that_nothing_waits_is_said_without_the_engine(tmp_path: Path) -> None:
    code = (
        f"import os; os.environ['SIGNOFF_HOME'] = {str(tmp_path / 'home')!r}\n"
        f"from app.cli.main import main\nassert main(['proposals', '--workspace', {str(tmp_path)!r}]) == 0"
    )
    assert not modules_after(code) & {"textual", "pydantic", "asyncio", "email", "logging", "watchfiles", "pathspec"}


def test_the_command_line_needs_no_textual() -> None:
    loaded = modules_after("import app.cli.run, app.cli.proposals, app.cli.sessions")
    assert not loaded & {"textual", "openai", "watchfiles", "httpx2"}


def test_nothing_heavy_is_loaded_before_the_first_paint() -> None:
    loaded = modules_after("import app.ui.app")
    assert not loaded & {"openai", "watchfiles", "httpx2", "tree_sitter", "tomlkit", "unidiff", "git"}


def test_no_private_name_of_textual_is_used() -> None:
    offenders = [
        f"{path}: {node.module}.{alias.name}"
        for path in python_files("app", "widgets")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and top(node.module) in ("textual", "rich")
        for alias in node.names
        if "._" in f".{node.module}.{alias.name}"
    ]
    assert not offenders


def test_files_are_named_for_what_they_do_and_stay_small() -> None:
    drawers = {"utils", "util", "helpers", "helper", "misc", "common", "manager"}
    files = python_files("app", "widgets")
    assert not [path for path in files if path.stem in drawers]
    assert not [path for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 500], "split them"
