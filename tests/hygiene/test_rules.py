"""Rules of the source: what opens files, names of widgets, texts of errors, and parameters that docstrings name."""

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import textual.widgets
from textual.css.model import SelectorType
from textual.css.parse import parse
from textual.css.tokenize import tokenize_values
from textual.dom import DOMNode
from textual.widget import Widget

import app
import widgets
from app.proposals.values import proposal_errors
from app.ui.app import SignoffApp
from app.ui.startup import WorkspaceWithOptions
from tests.hygiene.test_imports import parsed

ROOT = Path(__file__).resolve().parents[2]
ALLOWED_OPENS = {
    "app/attestation/signed_statement.py": "git's allowed signers, which the user names",
    "app/attestation/commit_verification.py": "the policy that the user names",
    "app/agent/trace.py": "the file of --debug",
    "app/cli/main.py": "the null device",
    "app/cli/mcp_and_demo_servers.py": "the null device",
    "app/cli/command_output.py": "the null device",
    "app/ui/controllers/app_commands.py": "the file that the user exports to",
    "app/cli/stage_show_push.py": "the patch that the user names",
    "app/config/toml_files.py": "the user's own configuration",
    "app/config/settings.py": "the user's own configuration, which lies below the door",
    "app/demo/demo_server.py": "signoff's own sample",
    "app/demo/demo_conversation.py": "signoff's own words",
    "app/ui/screens/output_screens.py": "its own search line",
    "app/runtime/user_editor.py": "a temporary file of its own",
    "app/cli/plain_chat.py": "a session",
    "app/ui/chat_controller.py": "a session",
    "app/ui/context/app_context.py": "the log",
    "app/ui/review_page.py": "its own style sheet",
    "app/proposals/files/filesystem.py": "writing, and folders",
    "app/proposals/stack/locked_proposals.py": "the lock",
    "app/storage/database.py": "the database",
    "app/storage/process_coordination.py": "the lock",
    "app/cli/approve_deny_undo.py": "/proc",
    "app/doors/mcp/door_server.py": "/proc",
    "app/launcher/deadline.py": "pipes to its own child process",
    "app/sandbox/run_folders.py": "its own marks, and the locks",
    "app/sandbox/outside_access.py": "/proc",
    "app/sandbox/enclosed_process.py": "what a helper process reports",
    "app/sandbox/sandbox_init.py": "/proc, and folders to mount",
    "app/sandbox/syscall_filter.py": "paths that a command asks for, as descriptors without contents",
    "app/sandbox/workspace_backup.py": "the lock, and its own index",
    "app/sandbox/overlay_layer.py": "/proc",
    "app/sandbox/process.py": "the output of a command, and /proc",
    "app/sandbox/sandbox.py": "a run",
    "app/sandbox/files_and_links.py": "a lease, which reads nothing",
    "app/sandbox/ignored_write_back.py": "folders",
    "app/automation/check_runner.py": "a run",
    "app/automation/evidence/command_reproducer.py": "a run",
    "app/mcp_client/token_store.py": "signoff's own file of tokens",
    "app/tools/command/run_command.py": "a run",
    "app/workspace/paths.py": "folders",
    "app/workspace/reading.py": "the door itself",
}
OPEN_FUNCTIONS = {"open", "fdopen", "read_text", "read_bytes"}


def is_open_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
    return name in OPEN_FUNCTIONS


def test_workspace_files_are_opened_in_one_place() -> None:
    opening_modules = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "app").rglob("*.py")
        if any(f"{name}(" in path.read_text(encoding="utf-8") for name in OPEN_FUNCTIONS)
        if any(is_open_call(node) for node in ast.walk(parsed(path)))
    }
    assert opening_modules <= set(ALLOWED_OPENS), (
        "read through app.workspace.reading, or add the reason to ALLOWED_OPENS"
    )


def class_and_subclasses(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    yield kind
    for derived in kind.__subclasses__():
        yield from class_and_subclasses(derived)


def import_product() -> None:
    for package in (app, widgets):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def test_every_type_selector_in_css_names_a_class() -> None:
    import_product()
    for name in textual.widgets.__all__:  # type: ignore[attr-defined]
        getattr(textual.widgets, name)
    kinds = list(class_and_subclasses(DOMNode))
    variables = tokenize_values(SignoffApp(_no_workspace, Path()).get_css_variables())
    sources = {
        f"{kind.__module__}.{kind.__name__}": css
        for kind in kinds
        if kind.__module__.split(".")[0] in ("app", "widgets")
        for css in (vars(kind).get("DEFAULT_CSS", ""), vars(kind).get("CSS", ""))
        if css
    }
    assert len(sources) > 50
    named = {
        (source, selector.name)
        for source, css in sources.items()
        for rule in parse("", css, (source, ""), variable_tokens=variables)
        for chain in rule.selector_set
        for selector in chain.selectors
        if selector.type is SelectorType.TYPE
    }
    known = {kind.__name__ for kind in kinds}
    assert {pair for pair in named if pair[1] not in known} == set()


async def _no_workspace() -> WorkspaceWithOptions:
    raise AssertionError("no workspace is opened")


def test_widget_names_are_unique() -> None:
    import_product()
    places: dict[str, set[str]] = defaultdict(set)
    for kind in class_and_subclasses(Widget):
        if kind.__module__.split(".")[0] in ("app", "widgets"):
            places[kind.__name__].add(kind.__module__)
    for name in textual.widgets.__all__:  # type: ignore[attr-defined]
        if name in places:
            places[name].add("textual.widgets")
    shared = {name: sorted(modules) for name, modules in places.items() if len(modules) > 1}
    assert not shared


ERROR_NAMES = {name for name, kind in vars(proposal_errors).items() if isinstance(kind, type)}
MODEL_INSTRUCTION = re.compile(r"\b(list_files|read_file|write_file|edit_file|Give|[Rr]ead (it|the file) again)\b")


def error_texts(tree: ast.AST) -> list[str]:
    """Return the constant text of the first argument of every proposal error that is raised."""
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    return [
        "".join(str(part.value) for part in ast.walk(call.args[0]) if isinstance(part, ast.Constant))
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in ERROR_NAMES and call.args
    ]


def test_proposal_errors_contain_no_instructions_for_a_model() -> None:
    texts_by_file = {path.name: error_texts(parsed(path)) for path in (ROOT / "app/proposals").rglob("*.py")}
    assert sum(map(len, texts_by_file.values())) > 30
    offenders = {
        name: bad
        for name, texts in texts_by_file.items()
        if (bad := [text for text in texts if MODEL_INSTRUCTION.search(text)])
    }
    assert not offenders


DOCUMENTED_PARAMETER = re.compile(r"^    \*{0,2}(\w+):", re.MULTILINE)


def unknown_documented_parameters(node: ast.AST) -> set[str]:
    """Return the entries of a docstring's `Args:` that the function, or the class's constructor, does not take."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return set()
    _, _, documented = (ast.get_docstring(node) or "").partition("\nArgs:\n")
    methods = (part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__")
    function = next(methods, None) if isinstance(node, ast.ClassDef) else node
    if function is None or not documented:
        return set()
    names = {part.arg for part in ast.walk(function.args) if isinstance(part, ast.arg)}
    return {*DOCUMENTED_PARAMETER.findall(documented.partition("\n\n")[0])} - names


def test_docstrings_name_only_parameters_that_exist() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}:{node.lineno}": sorted(names)  # type: ignore[attr-defined]
        for folder in ("app", "widgets")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(parsed(path))
        if (names := unknown_documented_parameters(node))
    }
    assert not wrong
