"""Which tests run for a hunk: those that ran it before, or that import its module, or all."""

import sqlite3
from pathlib import Path

import pytest

from app.automation.evidence.relevant_tests import TestSelector, build_import_graph, choose_evidence_check
from app.config.settings import CheckTable
from app.workspace.paths import Workspace

FILES = {
    "src/shop/__init__.py": "from .price import total\n",
    "src/shop/price.py": "from shop import tax as t\n",
    "src/shop/tax.py": "",
    "src/shop/other.py": "",
    "tests/test_price.py": "from shop.price import (\n    total,\n)\n",
    "tests/test_tax.py": "import shop.tax\n",
    "tests/test_none.py": "import os, json\n",
    "tests/deep/conftest.py": "from shop import other\n",
    "tests/deep/test_deep.py": "",
}


def check(run: str, **more: object) -> CheckTable:
    return CheckTable.model_validate({"name": "tests", "run": run, **more})


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Workspace(tmp_path)


def selector(workspace: Workspace, run: str, **texts: str | None) -> TestSelector:
    return TestSelector(workspace, check(run), texts)


def test_the_import_graph_finds_tests_through_modules_and_packages() -> None:
    graph = build_import_graph(FILES, FILES.__getitem__)
    assert graph.tests_that_import(["src/shop/tax.py"]) == (
        "tests/deep/test_deep.py",
        "tests/test_price.py",
        "tests/test_tax.py",
    ), "the package imports price, which imports tax; and whoever imports from the package runs it"
    assert graph.tests_that_import(["src/shop/other.py"]) == ("tests/deep/test_deep.py",), "by the conftest beside it"
    assert graph.tests_that_import(["tests/test_none.py"]) == ("tests/test_none.py",)


def test_only_files_in_pytests_test_folders_run(workspace: Workspace) -> None:
    (workspace.root / "bench").mkdir()
    (workspace.root / "bench/test_speed.py").write_text("import shop.tax\n")
    found = selector(workspace, "pytest {tests}").select(["src/shop/tax.py"], {})
    assert found.names is not None and "bench/test_speed.py" in found.names
    for name, text in (
        ("pyproject.toml", "[tool.pytest.ini_options]\ntestpaths = ['./tests/']\n"),
        ("pyproject.toml", "[tool.pytest]\ntestpaths = ['tests', 'docs']\n"),
        ("pytest.ini", "[pytest]\ntestpaths =\n    tests\n    docs\n"),
        ("setup.cfg", "[tool:pytest]\ntestpaths = test*\n"),
    ):
        (workspace.root / name).write_text(text)
        found = selector(workspace, "pytest {tests}").select(["src/shop/tax.py"], {})
        assert found.names == ("tests/deep/test_deep.py", "tests/test_price.py", "tests/test_tax.py"), text
        assert found.words == "3 of 4 test files, by imports"
        (workspace.root / name).unlink()


def test_the_tests_of_the_import_closure_run_whatever_unreadable_settings_exclude(workspace: Workspace) -> None:
    (workspace.root / "setup.cfg").write_text("testpaths = none\n")
    for text in ("", "[tool", "tool = 1", "[tool.pytest]\nini_options = 1", "[tool.pytest]\ntestpaths = 1"):
        (workspace.root / "pyproject.toml").write_text(text)
        found = selector(workspace, "pytest {tests}").select(["src/shop/other.py"], {})
        assert found.names == ("tests/deep/test_deep.py",), text
        assert found.words == "1 of 4 test files, by imports", text


def test_a_proposed_test_counts_as_it_will_be(workspace: Workspace) -> None:
    new = {"tests/test_new.py": "import shop.other\n", "tests/deep/test_deep.py": None}
    found = selector(workspace, "pytest {tests}", **new).select(["src/shop/other.py"], {})
    assert found.names == ("tests/test_new.py",)


def test_all_tests_run_when_none_can_be_chosen(workspace: Workspace) -> None:
    for path in ("data.json", "src/shop/unreached.py"):
        assert selector(workspace, "pytest {tests}").select([path], {}).names is None
    assert selector(workspace, "pytest").select(["src/shop/tax.py"], {}).names is None


def test_runners_with_related_tests_get_the_changed_file(workspace: Workspace) -> None:
    for run, names in (
        ("npx jest {tests}", ("--findRelatedTests", "a.js")),
        ("npx vitest {tests}", ("related", "--run", "a.js")),
        ("go test {tests}", ("./...",)),
    ):
        assert selector(workspace, run).select(["a.js"], {}).names == names


def test_recorded_contexts_choose_single_tests_by_line(workspace: Workspace) -> None:
    price = "src/shop/price.py"
    ran = {"tests/test_price.py::test_a|run": [1, 9], "tests/test_price.py::test_b[x|y]|run": [20]}
    # As coverage.py records them, with its dynamic contexts.
    database = sqlite3.connect(workspace.root / ".coverage")
    database.executescript(
        "CREATE TABLE file (id INTEGER PRIMARY KEY, path TEXT);"
        "CREATE TABLE context (id INTEGER PRIMARY KEY, context TEXT);"
        "CREATE TABLE line_bits (file_id INTEGER, context_id INTEGER, numbits BLOB);"
        "CREATE TABLE arc (file_id INTEGER, context_id INTEGER, fromno INTEGER, tono INTEGER);"
    )
    database.execute("INSERT INTO file VALUES (1, ?)", (str(workspace.root / price),))
    for number, (context, lines) in enumerate({**ran, "tests/test_gone.py::test_c|run": [9], "": [1]}.items()):
        bits = sum(1 << line for line in lines).to_bytes(3, "little")
        database.execute("INSERT INTO context VALUES (?, ?)", (number, context))
        database.execute("INSERT INTO line_bits VALUES (1, ?, ?)", (number, bits))
    database.commit()
    database.close()
    found = selector(workspace, "pytest {tests}").select([price], {price: {9}})
    assert found.names == ("tests/test_price.py::test_a",), "not those of a file that is gone"
    assert found.words == "1 test that ran it before, by .coverage"
    moved = selector(workspace, "pytest {tests}").select([price], {price: {400}})
    assert moved.names == ("tests/test_price.py::test_a", "tests/test_price.py::test_b[x|y]"), "lines may have moved"


def test_a_locked_coverage_database_is_ignored(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    database = sqlite3.connect(workspace.root / ".coverage")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, '' AS"
    database.executescript(f"CREATE VIEW context AS {endless} context FROM n; CREATE TABLE file (id, path);")
    database.close()
    monkeypatch.setattr("app.automation.evidence.relevant_tests._MAX_READ_SECONDS", 0.1)
    found = selector(workspace, "pytest {tests}").select(["src/shop/other.py"], {"src/shop/other.py": {1}})
    assert found.words.endswith("by imports")


def test_the_marked_check_collects_evidence_or_else_a_test_check() -> None:
    lint, plain, chosen = check("ruff check"), check("npm run test"), check("pytest {tests}")
    says_so = check("make all", evidence=True)
    assert choose_evidence_check([lint, plain, chosen, says_so]) is says_so
    assert choose_evidence_check([lint, plain, chosen]) is chosen
    assert choose_evidence_check([lint, plain]) is plain
    assert choose_evidence_check([lint]) is None
