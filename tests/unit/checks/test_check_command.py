"""The commands of checks: suggested for what a workspace has, and given every file name as it is."""

import shlex
import subprocess
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.automation.check_suggestions import (
    append_check_tables,
    parse_check_configuration,
    suggest_checks,
    unconfigured_suggestions,
)
from app.config.config_tables import FILES, require_unquoted_placeholders
from app.config.settings import ConfigError, load_configuration, validate_setting
from app.workspace.paths import Workspace

NAMES = [
    "a b.py",
    "it's.py",
    '"; touch hacked; ".py',
    "$(touch hacked).py",
    "`touch hacked`.py",
    "'; touch hacked; '",
]
PIECES = ["echo ", "cat ", '"', "'", "$(", "(", ")", "`", "\\", FILES, FILES]
PIECES += [" ", "\n", "<<E\n", "<<-'E' ", "E\n", "# ", ";"]


def run(command: str, folder: Path) -> list[str]:
    """The lines that a shell prints."""
    done = subprocess.run(
        ["/bin/sh", "-c", command.replace(FILES, shlex.join(NAMES))],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def test_a_quoted_files_placeholder_is_refused_with_a_correction() -> None:
    for command in (
        'sh -c "lint {files}"',
        "sh -c 'lint {files}'",
        'found="$(lint "x {files}")"',
        "echo `lint {files}`",
        "lint \\{files}",
        "cat <<E\n{files}\nE",
        "cat <<-'E' > x\n\t{files}\n\tE",
    ):
        with pytest.raises(
            ConfigError, match=r"item 1 of check\.run: \{files\} is quoted already.*sh -c 'lint \"\$@\"' sh"
        ):
            validate_setting("check", [{"name": "lint", "run": command}])


def test_elsewhere_each_name_is_one_argument(tmp_path: Path) -> None:
    for command in (
        "printf '%s\\n' {files}",
        'sh -c \'printf "%s\\n" "$@"\' sh {files}',
        'x="$(printf \'%s\\n\' {files})"; echo "$x"',
        "# don't\nprintf '%s\\n' {files}",
        "cat <<E > x; cat <<-'F' > x\n'\nE\n\"\n\tF\nprintf '%s\\n' {files}",
        'f() { (for each in "$@"; do echo "$each"; done); }; f {files}',
        "echo \"$(pwd)\" '`' \\\" > x; printf '%s\\n' {files}",
    ):
        assert run(require_unquoted_placeholders(command), tmp_path) == NAMES


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join).filter(lambda text: FILES in text))
def test_no_name_is_run(tmp_path: Path, command: str) -> None:
    try:
        require_unquoted_placeholders(command)
    except ValueError:
        return
    run(command, tmp_path)
    assert not (tmp_path / "hacked").exists()


PROJECT_FILES = {
    ".pre-commit-config.yaml": ("repos: []", {"pre-commit": "pre-commit run --files {files}"}),
    "justfile": ("x := 'y'\nset shell\ntest *args:\n  a\n@lint:\n  b\n", {"lint": "just lint", "tests": "just test"}),
    "Makefile": ("A := 1\ntest: a b\n\tx\ncheck:\n\ty\nlint = 3\n", {"check": "make check", "tests": "make test"}),
    "package.json": (
        '{"scripts": {"test": "jest", "lint": "eslint", "build": "x"}}',
        {"lint": "npm run --silent lint", "tests": "npm run --silent test"},
    ),
    "pyproject.toml": (
        "[tool.ruff]\n[tool.pytest.ini_options]\n",
        {"ruff": "ruff check --output-format concise {files}", "tests": "pytest -q"},
    ),
    "tox.ini": ("[tox]", {"tests": "tox -q"}),
    "noxfile.py": ("import nox", {"tests": "nox"}),
    "Cargo.toml": ("[package]", {"cargo": "cargo check --message-format short", "tests": "cargo test --quiet"}),
    "go.mod": ("module x", {"vet": "go vet ./...", "tests": "go test ./..."}),
}


@pytest.mark.parametrize("name", PROJECT_FILES)
def test_each_source_gives_its_checks_as_a_valid_table(tmp_path: Path, name: str) -> None:
    text, expected = PROJECT_FILES[name]
    (tmp_path / name).write_text(text)
    found = suggest_checks(Workspace(tmp_path))
    assert {each.check.name: each.check.run for each in found} == expected
    tables = append_check_tables(found, 'theme = "signoff-light"')
    assert parse_check_configuration(tables) == [each.check for each in found]
    load = partial(
        load_configuration,
        user_file=tmp_path / "none",
        workspace_file_content=tables.encode(),
        flags={},
        environment={},
    )
    configuration, untrusted = load(trusted=True), load(trusted=False)
    assert configuration.settings.check == tuple(each.check for each in found)
    assert (untrusted.settings.check, untrusted.untrusted) == ((), ("check",))
    assert unconfigured_suggestions(found, configuration.settings.check) == []


def test_an_unreadable_project_file_suggests_no_check(tmp_path: Path) -> None:
    for name, text in (
        ("package.json", "[1]"),
        ("package.json", '{"scripts": 3}'),
        ("package.json", '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'),
        ("package.json", "[" * 100_000),
        ("pyproject.toml", "tool = 3"),
        ("pyproject.toml", "[["),
        ("Makefile", "\0" * 1000),
    ):
        (tmp_path / name).write_text(text)
        assert suggest_checks(Workspace(tmp_path)) == [], name
