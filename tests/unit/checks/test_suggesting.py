"""Which checks are suggested for what a workspace has."""

from pathlib import Path

import pytest

from app.automation.check_suggestions import append_tables, missing_checks, parse_checks, suggest_checks
from app.config.settings import load_configuration
from app.workspace.paths import Workspace

FILES = {
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


@pytest.mark.parametrize("name", FILES)
def test_each_source_gives_its_checks_as_a_valid_table(tmp_path: Path, name: str) -> None:
    text, expected = FILES[name]
    (tmp_path / name).write_text(text)
    found = suggest_checks(Workspace(tmp_path))
    assert {each.check.name: each.check.run for each in found} == expected
    tables = append_tables(found, 'theme = "signoff-light"')
    assert parse_checks(tables) == [each.check for each in found]
    configuration = load_configuration(
        user_file=tmp_path / "none", project=tables.encode(), flags={}, environment={}, trusted=True
    )
    assert configuration.settings.check == tuple(each.check for each in found)
    assert missing_checks(found, configuration.settings.check) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", "[1]"),
        ("package.json", '{"scripts": 3}'),
        ("package.json", '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'),
        ("package.json", "[" * 100_000),
        ("pyproject.toml", "tool = 3"),
        ("pyproject.toml", "[["),
        ("Makefile", "\0" * 1000),
    ],
)
def test_nothing_comes_of_what_cannot_be_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert suggest_checks(Workspace(tmp_path)) == []


def test_untrusted_checks_are_not_in_force(tmp_path: Path) -> None:
    tables = '[[check]]\nname = "x"\nrun = "true"\n'
    found = load_configuration(user_file=tmp_path / "none", project=tables.encode(), flags={}, environment={})
    assert found.settings.check == ()
    assert found.untrusted == ("check",)
