"""Rules for imports: the layers, and modules that must not be loaded before they are needed."""

import ast
import functools
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

from app.cli.app_arguments import AppArguments
from app.cli.argument_parser import make_app_parser

ROOT = Path(__file__).resolve().parents[2]
LAYERS: tuple[tuple[str, ...], ...] = (
    ("app.text", "app.concurrency", "app.copies", "app.conversation.todos", "app.keys", "app.mcp_client.json_rpc"),
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
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file; cached for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Return the imports of a file, at any place in it; cached for all tests."""
    found: set[str] = set()
    for node in statements(parsed(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def top(module: str) -> str:
    return module.partition(".")[0]


def loaded_by_name(loaded: Collection[str], *names: str) -> set[str]:
    """Return the loaded modules that are one of these modules or lie in one of these packages."""
    return {name for name in loaded if f"{name}.".startswith(tuple(f"{each}." for each in names))}


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


def test_packages_import_only_from_those_below_them() -> None:
    """Also for imports inside functions and for type checking."""
    height = {package: number for number, layer in enumerate(LAYERS) for package in layer}
    assert [module for module in sources() if not layer_package(module) and module not in ("app", "widgets")] == []
    upward = {
        f"{module} -> {target}"
        for module, path in sources().items()
        for target in imported(path)
        if (here := layer_package(module)) and (there := layer_package(target)) and here != there
        if height[there] >= height[here]
    }
    assert not upward


def test_neither_modules_nor_folders_have_an_import_cycle() -> None:
    """For imports inside functions and for type checking; `from app.agent import turn` imports `app.agent.turn`.

    Without cycles of folders a package has levels: an author of a folder knows which folders depend on it.
    """
    known = sources()
    arrows = {
        module: {target for target in imported(path) if target in known and target != module}
        for module, path in known.items()
    }
    TopologicalSorter(arrows).prepare()
    folders: dict[str, set[str]] = {}
    for module, targets in arrows.items():
        for target in targets:
            folder, other = (known[name].parent.relative_to(ROOT).as_posix() for name in (module, target))
            if folder != other and layer_package(module) == layer_package(target):
                folders.setdefault(folder, set()).add(other)
    TopologicalSorter(folders).prepare()


def test_names_of_public_classes_and_files_are_unique_and_specific() -> None:
    paths = python_files("app", "widgets")
    classes = [
        node.name
        for path in paths
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    files = [path.name for path in paths if path.name not in ("__init__.py", "__main__.py")]
    for names in (classes, files):
        assert {name: count for name, count in Counter(names).items() if count > 1} == {}
    vague_names = {"utils", "util", "helpers", "helper", "misc", "common", "manager"}
    assert not [path for path in paths if path.stem in vague_names]


def test_forbidden_modules_are_not_imported() -> None:
    """The core imports no widgets; widgets do no I/O and hold no agent logic; no private name of Textual is used."""
    forbidden = {"textual", "widgets", "rich"}
    free = [path for module, path in sources().items() if layer_package(module) in UI_FREE]
    assert not [path for path in free if {top(module) for module in imported(path)} & forbidden]
    outside = ("app.storage", "app.llm", "app.demo", "app.ui", "app.runtime", "app.cli", "app.agent")
    offenders = [
        (path, module)
        for path in python_files("widgets")
        for module in imported(path)
        if module.startswith(outside) and not f"{module}.".startswith("app.agent.updates.") and module != "app.agent"
    ]
    offenders += [
        (path, module)
        for path in python_files("app", "widgets")
        for module in imported(path)
        if top(module) in ("textual", "rich") and "._" in f".{module}"
    ]
    assert not offenders


def modules_after(code: str) -> set[str]:
    return {top(name) for name in all_modules_after(code)}


def all_modules_after(code: str, **environment: str) -> set[str]:
    return modules_after_each([code], **environment)[0]


def modules_after_each(steps: Sequence[str], **environment: str) -> list[set[str]]:
    """Return the modules that a process has loaded after each of these steps."""
    program = "\n".join(f"{step}\nimport sys; print('loaded:', *sys.modules)" for step in steps)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [set(line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("loaded:")]


def test_every_imported_distribution_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.split(r"[<>=]", dependency)[0] for dependency in project["dependencies"]}
    holders = packages_distributions()
    for path in python_files("app", "widgets"):
        for name in {top(module) for module in imported(path)} - sys.stdlib_module_names - {"app", "widgets"}:
            named = {holder.lower().replace("_", "-") for holder in holders.get(name, ())}
            assert declared & named, f"{path}: {name}"


def test_commands_load_few_modules() -> None:
    version, commands, app_commands = modules_after_each(
        [
            "from app.cli.main import main\ntry: main(['--version'])\nexcept SystemExit: pass",
            "import app.cli.headless_run, app.cli.stage_show_push, app.cli.sessions_search_export",
            "import app.runtime.session_host, app.ui.controllers.app_commands",
        ]
    )
    heavy = ("textual", "openai", "watchfiles")
    assert not loaded_by_name(version, *heavy, "pydantic", "rich", "sqlite3")
    assert not loaded_by_name(commands, *heavy, "httpx2")
    client = loaded_by_name(app_commands, "app.mcp_client")
    assert client <= {"app.mcp_client", "app.mcp_client.json_rpc"}, "no server is configured"


def test_only_required_modules_are_loaded_before_first_paint() -> None:
    """Each of these modules takes at least a hundredth of the time to the first paint."""
    loaded = all_modules_after("import app.cli.main, app.cli.open_app, app.ui.app, app.runtime.shutdown")
    heavy = ("openai", "watchfiles", "httpx2", "tree_sitter", "tomlkit", "unidiff", "git", "pydantic", "sqlite3")
    later = (
        "app.text.deceiving_text",
        "app.config.settings",
        "app.ui.controllers.app_commands",
        "app.ui.terminal.external_editor",
        "widgets.common.splitter",
    )
    assert not loaded_by_name(loaded, *heavy, *later, "argparse", "shlex")
    ours = loaded_by_name(loaded, "app", "widgets")
    assert len(ours) <= MODULES_BEFORE_THE_FIRST_PAINT, sorted(ours)


MODULES_BEFORE_THE_FIRST_PAINT = 75
"""Maximum number of our modules. One more takes a third of a millisecond, and several without bytecode."""


def test_default_arguments_equal_parsed_empty_arguments() -> None:
    assert AppArguments(**vars(make_app_parser().parse_args([]))) == AppArguments()


def test_modules_of_a_session_are_loaded_when_they_are_needed() -> None:
    """pydantic would tokenize source code for `Field(default_factory=list)`: the signature of `list` takes 20 ms."""
    stores, session, tools = modules_after_each(
        [
            "import tokenize\ndef refuse(*_): raise AssertionError\n"
            "tokenize.tokenize = tokenize.generate_tokens = refuse\n"
            "import app.storage.sqlite_proposal_store, app.storage.session_store, app.storage.captured_edit_store",
            "from app.ui.startup import import_chat_modules, import_session_modules\n"
            "import_chat_modules(); import_session_modules()\n"
            "import app.mcp_client.configured_servers, app.review.review_stores",
            "from app.tools.tool_registry import make_standard_tools\n"
            "assert make_standard_tools(lambda: None).get_tool('run_command')",
        ]
    )
    no_record = ("app.proposals.values.record_entries", "app.storage.record_store", "app.storage.record_chain")
    assert not loaded_by_name(stores, *no_record, "app.storage.pruning", "app.storage.session_search", "app.git")
    no_review = ("widgets.diff", "widgets.review", "app.proposals.locate", "app.proposals.patch")
    no_staging = ("draft", "proposal_staging", "rebase")
    assert not loaded_by_name(
        session,
        *no_review,
        *(f"app.proposals.stack.{name}" for name in no_staging),
        "app.proposals.risk.risk_reasons",
        "app.proposals.text.line_edits",
        "app.automation.check_results",
        "app.sandbox.sandbox",
    )
    names = ("captured_changes", "process", "confinement", "environment")
    needed = {f"app.sandbox.{name}" for name in names}
    assert loaded_by_name(tools, "app.sandbox") <= {"app.sandbox", *needed}, "no command has run"


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


def test_pydantic_searches_no_plugins_and_builds_only_used_models(tmp_path: Path) -> None:
    """It would read the metadata of every installed package, and take a quarter of a millisecond for each model.

    Settings models are part of `Settings`.
    """
    code = (
        "import importlib.metadata\n"
        "def refuse(*_, **__): raise AssertionError\n"
        "importlib.metadata.distributions = importlib.metadata.entry_points = refuse\n"
        f"from app.cli.main import main\nassert main(['proposals', '--workspace', {str(tmp_path)!r}]) == 0\n"
        "from app.config import config_tables, settings\nassert settings.Settings.__pydantic_complete__\n"
        "from app.tools.tool_registry import make_standard_tools\n"
        "parts = [config_tables.EventHookTable, config_tables.ModelOverridesTable, config_tables.PriceTable]\n"
        "parts += [config_tables.McpServerTable]\n"
        "parts += [settings.CheckTable, *(tool.Arguments for tool in make_standard_tools(lambda: None))]\n"
        "settings.Settings()\n"
        "built = [part.__name__ for part in parts if part.__pydantic_complete__]\nassert not built, built"
    )
    assert "pydantic" in all_modules_after(code, SIGNOFF_HOME=str(tmp_path / "home"))


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
