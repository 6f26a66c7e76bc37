"""Suggests `[[check]]` tables from the tools that a workspace uses: pre-commit, just, make, npm, tox, nox and others.

No command is run. The suggestions are staged as a proposal, so that the user decides which commands are added.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from app.config.settings import CheckTable
from app.config.toml_files import parse_toml
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace

_MAX_FILE_BYTES = 256 * 1024
_QUICK_TARGETS = ("lint", "typecheck", "type-check", "types", "check", "vet")
"""Names of targets that check code without running it."""
_TEST_TARGETS = ("test", "tests")
_TARGET_LINE = re.compile(r"^@?(?P<name>[A-Za-z_][\w-]{0,40})(?:[ \t]+[^:=\n]{0,200})?:(?!=)", re.MULTILINE)
_HEAD_COMMENT = "# Run on each proposal before it is written; in force once you trust this file (/trust).\n"

ReadText = Callable[[str], str]
"""Returns the text of a file; empty if it does not exist."""


class SuggestedCheck(Struct, frozen=True):
    """A suggested check and the file that suggests it."""

    check: CheckTable
    source: str


def suggest_checks(workspace: Workspace) -> list[SuggestedCheck]:
    """Return checks for the workspace, one for each name, automatic ones first."""

    def read(path: str) -> str:
        try:
            return workspace.read(path, _MAX_FILE_BYTES).decode("utf-8", "replace")
        except (OSError, WorkspaceError):
            return ""

    found: dict[str, SuggestedCheck] = {}
    for source in (_suggest_just_and_make, _suggest_npm, _suggest_python, _suggest_by_file):
        for each in source(read):
            found.setdefault(each.check.name, each)
    return sorted(found.values(), key=lambda each: each.check.when != "staged")


def append_check_tables(suggested: Sequence[SuggestedCheck], config_text: str) -> str:
    """Return the text of the workspace's configuration file with these tables appended."""
    tables = "\n".join(_render_table(suggestion) for suggestion in suggested)
    return f"{config_text.rstrip()}\n\n{_HEAD_COMMENT}{tables}".lstrip()


def unconfigured_suggestions(
    suggested: Sequence[SuggestedCheck], configured: Sequence[CheckTable]
) -> list[SuggestedCheck]:
    """Return the suggestions whose name and command are not configured yet."""
    names, commands = {check.name for check in configured}, {check.run for check in configured}
    return [
        suggestion
        for suggestion in suggested
        if suggestion.check.name not in names and suggestion.check.run not in commands
    ]


def parse_check_configuration(text: str) -> list[CheckTable]:
    """Return the checks of a configuration text. Raises ValueError."""
    return [CheckTable.model_validate(table) for table in parse_toml(text.encode()).get("check", ())]


def _render_table(each: SuggestedCheck) -> str:
    check = each.check
    lines = [
        f"[[check]]  # from {each.source}",
        f"name = {_quote_toml(check.name)}",
        f"run = {_quote_toml(check.run)}",
    ]
    lines.append(f"when = {_quote_toml(check.when)}")
    if check.files:
        lines.append(f"files = {_quote_toml(check.files[0])}")
    return "\n".join([*lines, f"seconds = {check.seconds:.0f}", ""])


def _quote_toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _automatic(source: str, name: str, run: str, files: str = "", seconds: float = 60) -> SuggestedCheck:
    return SuggestedCheck(
        CheckTable(name=name, run=run, when="staged", files=(files,) if files else (), seconds=seconds), source
    )


def _manual(source: str, name: str, run: str) -> SuggestedCheck:
    return SuggestedCheck(CheckTable(name=name, run=run, when="asked", seconds=600), source)


def _suggest_targets(source: str, names: Sequence[str], tool: str) -> Iterator[SuggestedCheck]:
    """Suggest checks for the targets of a task runner, by their names."""
    for name in names:
        if name in _QUICK_TARGETS:
            yield _automatic(source, name, f"{tool} {name}", seconds=120)
        elif name in _TEST_TARGETS:
            yield _manual(source, "tests", f"{tool} {name}")


def _suggest_just_and_make(read: ReadText) -> Iterator[SuggestedCheck]:
    for tool, names in (
        ("just", ("justfile", "Justfile", ".justfile")),
        ("make", ("GNUmakefile", "makefile", "Makefile")),
    ):
        for name in names:
            yield from _suggest_targets(name, _TARGET_LINE.findall(read(name)), tool)


def _suggest_npm(read: ReadText) -> Iterator[SuggestedCheck]:
    try:
        scripts = json.loads(read("package.json")).get("scripts", {})
        names = [name for name, script in scripts.items() if "no test specified" not in str(script)]
    except (ValueError, AttributeError, RecursionError):
        return
    managers = (("pnpm-lock.yaml", "pnpm run"), ("yarn.lock", "yarn run"), ("bun.lock", "bun run"))
    tool = next((run for lock, run in managers if read(lock)), "npm run --silent")
    yield from _suggest_targets("package.json", names, tool)


def _suggest_python(read: ReadText) -> Iterator[SuggestedCheck]:
    try:
        project = parse_toml(read("pyproject.toml").encode())
    except ValueError:
        return
    tools: Any = project.get("tool", {})
    start = "uv run --no-sync " if read("uv.lock") else ""
    if not isinstance(tools, dict):
        return
    if "ruff" in tools:
        yield _automatic("pyproject.toml", "ruff", f"{start}ruff check --output-format concise {{files}}", "*.py")
    if "mypy" in tools:
        yield _manual("pyproject.toml", "mypy", f"{start}mypy {{files}}")
    if "pytest" in tools or read("pytest.ini"):
        yield _manual("pyproject.toml", "tests", f"{start}pytest -q")


_SUGGESTED_BY_FILE = (
    _automatic(".pre-commit-config.yaml", "pre-commit", "pre-commit run --files {files}", seconds=120),
    _manual("tox.ini", "tests", "tox -q"),
    _manual("noxfile.py", "tests", "nox"),
    _automatic("Cargo.toml", "cargo", "cargo check --message-format short", "*.rs", 300),
    _manual("Cargo.toml", "tests", "cargo test --quiet"),
    _automatic("go.mod", "vet", "go vet ./...", "*.go", 120),
    _manual("go.mod", "tests", "go test ./..."),
)


def _suggest_by_file(read: ReadText) -> Iterator[SuggestedCheck]:
    return (each for each in _SUGGESTED_BY_FILE if read(each.source))
