"""Rules for imports: the layers, and modules that must not be loaded before they are needed."""

import ast
import functools
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

from app.cli.app_arguments import AppArguments
from app.cli.argument_parser import make_app_parser

ROOT = Path(__file__).resolve().parents[2]
LAYERS: tuple[tuple[str, ...], ...] = (
    ("app.text", "app.concurrency", "app.conversation.todos", "app.keys", "app.mcp_client.json_rpc"),
    ("app.config",),
    ("app.workspace",),
    ("app.sandbox", "app.prompts", "app.images"),
    ("app.proposals", "app.llm"),
    ("app.conversation", "app.tools", "app.git"),
    ("app.storage", "app.agent", "app.automation", "app.attestation"),
    ("app.demo", "app.mcp_client", "app.review"),
    ("app.runtime",),
    ("app.doors",),
    ("widgets.common",),
    ("widgets.vim",),
    ("widgets.diff", "widgets.chat"),
    ("widgets.review",),
    ("app.ui",),
    ("app.cli",),
)
"""From the bottom up: a package imports only from lower layers, and not from packages of its layer."""
_USES_RICH = ("app.keys",)
UI_FREE = {"app.cli", *(package for layer in LAYERS[:10] for package in layer)} - set(_USES_RICH)


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nested statements; expressions are skipped, because they are most of a file and import nothing."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, ()):
            yield inner
            yield from statements(inner)


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Return the imports of a file, at any place in it; cached for all tests."""
    found: set[str] = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def top(module: str) -> str:
    return module.partition(".")[0]


def layer_package(module: str) -> str:
    """Return the package of `LAYERS` that contains a module; empty for a foreign module."""
    packages = (package for layer in LAYERS for package in layer)
    return next((package for package in packages if f"{module}.".startswith(f"{package}.")), "")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def sources() -> dict[str, Path]:
    """Return every module by name, without the launcher, which is independent."""
    paths = [path for path in python_files("app", "widgets") if "launcher" not in path.parts]
    return {module_of(path): path for path in paths}


def test_every_module_belongs_to_a_layer() -> None:
    assert [module for module in sources() if not layer_package(module) and module not in ("app", "widgets")] == []


def test_packages_import_only_from_those_below_them() -> None:
    """Also for imports inside functions and for type checking."""
    height = {package: number for number, layer in enumerate(LAYERS) for package in layer}
    upward = {
        f"{module} -> {target}"
        for module, path in sources().items()
        for target in imported(path)
        if (here := layer_package(module)) and (there := layer_package(target)) and here != there
        if height[there] >= height[here]
    }
    assert not upward


def test_modules_have_no_import_cycle() -> None:
    """For imports inside functions and for type checking; `from app.agent import turn` imports `app.agent.turn`."""
    known = sources()
    arrows = {
        module: {target for target in imported(path) if target in known and target != module}
        for module, path in known.items()
    }
    TopologicalSorter(arrows).prepare()


def test_folders_of_a_package_have_no_import_cycle() -> None:
    """Then each package has levels: an author of a folder knows which folders depend on it."""
    arrows: dict[str, set[str]] = {}
    known = sources()
    for module, path in known.items():
        folder = path.parent.relative_to(ROOT).as_posix()
        for target in imported(path) & known.keys():
            other = known[target].parent.relative_to(ROOT).as_posix()
            if folder != other and layer_package(module) == layer_package(target):
                arrows.setdefault(folder, set()).add(other)
    TopologicalSorter(arrows).prepare()


def test_public_class_names_are_unique() -> None:
    places: dict[str, list[str]] = {}
    for path in python_files("app", "widgets"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_file_names_are_unique() -> None:
    paths = python_files("app", "widgets")
    names = [path.name for path in paths if path.name not in ("__init__.py", "__main__.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_core_imports_neither_textual_nor_widgets() -> None:
    forbidden = {"textual", "widgets", "rich"}
    free = [path for module, path in sources().items() if layer_package(module) in UI_FREE]
    assert not [path for path in free if {top(module) for module in imported(path)} & forbidden]


def test_widgets_do_no_io_and_hold_no_agent_logic() -> None:
    outside = ("app.storage", "app.llm", "app.demo", "app.ui", "app.runtime", "app.cli", "app.agent")
    offenders = [
        (path, module)
        for path in python_files("widgets")
        for module in imported(path)
        if module.startswith(outside) and not f"{module}.".startswith("app.agent.updates.") and module != "app.agent"
    ]
    assert not offenders


def modules_after(code: str) -> set[str]:
    return {top(name) for name in all_modules_after(code)}


def all_modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('\\n'.join(sys.modules))"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_every_imported_distribution_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.split(r"[<>=]", dependency)[0] for dependency in project["dependencies"]}
    holders = packages_distributions()
    for path in python_files("app", "widgets"):
        for name in {top(module) for module in imported(path)} - sys.stdlib_module_names - {"app", "widgets"}:
            named = {holder.lower().replace("_", "-") for holder in holders.get(name, ())}
            assert declared & named, f"{path}: {name}"


def test_version_option_imports_no_heavy_module() -> None:
    code = "from app.cli.main import main\ntry: main(['--version'])\nexcept SystemExit: pass"
    assert not modules_after(code) & {"textual", "pydantic", "openai", "rich", "sqlite3", "watchfiles"}


def test_mcp_client_is_not_loaded_without_configured_servers() -> None:
    loaded = "import app.runtime.session_host, app.cli.headless_run, app.ui.controllers.app_commands, sys"
    client = {name for name in all_modules_after(loaded) if name.startswith("app.mcp_client.")}
    assert client <= {"app.mcp_client.json_rpc"}


def test_command_line_imports_no_textual() -> None:
    loaded = modules_after("import app.cli.headless_run, app.cli.stage_show_push, app.cli.sessions_search_export")
    assert not loaded & {"textual", "openai", "watchfiles", "httpx2"}


def test_only_required_modules_are_loaded_before_first_paint() -> None:
    """Each of these modules takes at least a hundredth of the time to the first paint."""
    loaded = all_modules_after("import app.cli.main, app.cli.open_app, app.ui.app, app.runtime.shutdown")
    heavy = {"openai", "watchfiles", "httpx2", "tree_sitter", "tomlkit", "unidiff", "git", "pydantic", "sqlite3"}
    assert not {top(name) for name in loaded} & (heavy | {"argparse", "shlex"})
    ours = {name for name in loaded if top(name) in ("app", "widgets")}
    later = (
        "app.text.deceiving_text",
        "app.text.deceiving_text",
        "app.config.settings",
        "app.ui.controllers.app_commands",
        "app.ui.terminal.external_editor",
        "widgets.common.splitter",
    )
    assert not ours & set(later)
    assert len(ours) <= MODULES_BEFORE_THE_FIRST_PAINT, sorted(ours)


MODULES_BEFORE_THE_FIRST_PAINT = 75
"""Maximum number of our modules. One more takes a third of a millisecond, and several without bytecode."""


def test_default_arguments_equal_parsed_empty_arguments() -> None:
    assert AppArguments(**vars(make_app_parser().parse_args([]))) == AppArguments()


def test_session_without_proposals_loads_no_review_and_no_staging() -> None:
    loaded = all_modules_after(
        "from app.ui.startup import import_chat_modules, import_session_modules\n"
        "import_chat_modules(); import_session_modules()\n"
        "import app.mcp_client.configured_servers, app.review.review_stores"
    )
    later = ("widgets.diff", "widgets.review", "app.proposals.locate.", "app.proposals.patch.")
    assert not {name for name in loaded if name.startswith(later)}
    assert not loaded & {
        "app.proposals.stack.draft",
        "app.proposals.stack.proposal_staging",
        "app.proposals.risk.risk_reasons",
        "app.proposals.stack.rebase",
        "app.proposals.text.line_edits",
        "app.automation.check_results",
        "app.sandbox.sandbox",
    }


def test_stores_load_no_record_and_no_search_modules() -> None:
    loaded = all_modules_after(
        "import app.storage.sqlite_proposal_store, app.storage.session_store, app.storage.captured_edit_store"
    )
    later = {
        "app.proposals.values.record_entries",
        "app.storage.record_store",
        "app.storage.record_chain",
        "app.storage.pruning",
        "app.storage.session_search",
    }
    assert not loaded & later and not {name for name in loaded if layer_package(name) == "app.git"}


def test_sandbox_is_not_loaded_before_a_command_runs() -> None:
    loaded = all_modules_after(
        "from app.ui.startup import import_session_modules\nimport_session_modules()\n"
        "from app.tools.tool_registry import make_standard_tools\n"
        "assert make_standard_tools(lambda: None).get_tool('run_command')"
    )
    needed = {"app.sandbox", "app.sandbox.captured_changes", "app.sandbox.process", "app.sandbox.confinement"}
    assert {name for name in loaded if layer_package(name) == "app.sandbox"} <= needed


def test_file_watching_loads_no_other_event_loop(tmp_path: Path) -> None:
    code = (
        "import asyncio\nfrom pathlib import Path\nfrom app.workspace.file_watching import watch_changes\n"
        f"async def watch():\n    changes = watch_changes([Path({str(tmp_path)!r})], quiet_ms=1)\n"
        "    await anext(changes)\n"
        f"    Path({str(tmp_path / 'a.txt')!r}).touch()\n    assert await anext(changes)\n"
        "    await changes.aclose()\n"
        "asyncio.run(watch())"
    )
    assert not {name for name in all_modules_after(code) if name.startswith("anyio._backends")}


def test_event_loop_imports_nothing_after_first_frame(tmp_path: Path) -> None:
    """An import would delay a key that the user types meanwhile. The first key loads what a turn needs."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hygiene.imports_on_the_loop", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "SIGNOFF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) <= {"concurrent.futures.thread"}, "by asyncio, for its first thread"


def test_unused_pydantic_models_are_not_built() -> None:
    """pydantic takes a quarter of a millisecond for each; settings models are part of `Settings`."""
    code = (
        "from app.config import config_tables, settings\n"
        "from app.tools.tool_registry import make_standard_tools\n"
        "parts = [config_tables.HookTable, config_tables.ModelTable, config_tables.PriceTable]\n"
        "parts += [config_tables.McpServerTable]\n"
        "parts += [settings.CheckTable, *(tool.Arguments for tool in make_standard_tools(lambda: None))]\n"
        "settings.Settings()\n"
        "built = [part.__name__ for part in parts if part.__pydantic_complete__]\nassert not built, built"
    )
    assert "pydantic" in modules_after(code)


def test_session_modules_tokenize_no_source_code() -> None:
    """pydantic would tokenize source code for `Field(default_factory=list)`: the signature of `list` takes 20 ms."""
    code = (
        "import tokenize\n"
        "def refuse(*_): raise AssertionError\n"
        "tokenize.tokenize = tokenize.generate_tokens = refuse\n"
        "from app.ui.startup import import_chat_modules, import_session_modules\n"
        "import_chat_modules(); import_session_modules()"
    )
    assert "app" in modules_after(code)


def test_no_private_name_of_textual_is_used() -> None:
    offenders = [
        f"{path}: {module}"
        for path in python_files("app", "widgets")
        for module in imported(path)
        if top(module) in ("textual", "rich") and "._" in f".{module}"
    ]
    assert not offenders


def test_file_names_are_specific() -> None:
    vague_names = {"utils", "util", "helpers", "helper", "misc", "common", "manager"}
    assert not [path for path in python_files("app", "widgets") if path.stem in vague_names]


def test_hook_before_tool_calls_loads_few_modules(tmp_path: Path) -> None:
    call = {
        "session_id": "s",
        "cwd": str(tmp_path),
        "hook_event_name": "PreToolUse",
        "prompt_id": "p",
        "tool_name": "Write",
        "tool_input": {"file_path": "a.txt", "content": "x"},
    }
    code = (
        f"import io, os, sys; os.environ['SIGNOFF_HOME'] = {str(tmp_path / 'home')!r}\n"
        "os.environ.pop('CLAUDE_PROJECT_DIR', None)\n"
        f"sys.stdin = io.TextIOWrapper(io.BytesIO({json.dumps(call).encode()!r}))\n"
        "from app.doors.hook.hook_entry import run_hook\nfrom tests.commands.agent_calls import Caller\n"
        "assert run_hook(['claude'], Caller()) == 0"
    )
    heavy = {"textual", "pydantic", "asyncio", "email", "logging", "watchfiles", "subprocess", "openai"}
    assert not modules_after(code) & heavy
    assert (tmp_path / "home").is_dir()


def test_pydantic_plugins_are_not_searched(tmp_path: Path) -> None:
    """pydantic would read the metadata of every installed package."""
    code = (
        "import importlib.metadata\n"
        "def refuse(*_, **__): raise AssertionError\n"
        "importlib.metadata.distributions = importlib.metadata.entry_points = refuse\n"
        f"from app.cli.main import main\nassert main(['proposals', '--workspace', {str(tmp_path)!r}]) == 0\n"
        "from app.config.settings import Settings\nassert Settings.__pydantic_complete__"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "SIGNOFF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
