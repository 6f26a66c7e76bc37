"""Print figures of the code: files, lines, duplicate names, import cycles, and the time of the tests.

`uv run python .ci/measure.py` counts; `--since REVISION` also prints the figures of that revision. `--times` runs
each folder of tests and prints its wall and CPU time; `--times tests/ui` runs one folder, `--times tests` runs all of
them together. Before and after, it prints how fast the machine is, because the speed of some machines varies by a
factor of two.
"""

import ast
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def lines_of_code(text: str) -> int:
    """Return the number of lines that hold code: not blank, not a comment, not part of a docstring."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {
        line
        for token in tokens
        if token.type not in NO_CODE and token.string
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), end_lineno=int(end)):
                lines -= set(range(node.lineno, end + 1))
    return len(lines)


def figures(root: Path) -> dict[str, str]:
    """Return the figures of a checkout, by name."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    result: dict[str, str] = {}
    for parts in (("app",), ("widgets",), ("app", "widgets"), ("tests",)):
        own = [text for path, text in texts.items() if path.relative_to(root).parts[0] in parts]
        total, code = sum(len(text.splitlines()) for text in own), sum(map(lines_of_code, own))
        result[" + ".join(parts)] = f"{len(own)} files, {total:,} lines, {code:,} of code"
    product = {path: text for path, text in texts.items() if path.relative_to(root).parts[0] in ("app", "widgets")}
    trees = {path: ast.parse(text) for path, text in product.items()}
    result["files over 300 lines"] = str(sum(len(text.splitlines()) > 300 for text in product.values()))
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    result["class names used twice"] = str(sum(count > 1 for count in classes.values()))
    files = Counter(path.name for path in product if not path.name.startswith("__"))
    result["file names used twice"] = str(sum(count > 1 for count in files.values()))
    modules = {_module(path.relative_to(root)): tree for path, tree in trees.items()}
    arrows = {name: _imported(tree) & modules.keys() - {name} for name, tree in modules.items()}
    result["imports between modules"] = str(sum(map(len, arrows.values())))
    result["modules in a circle"] = str(len(nodes_in_cycles(arrows)))
    folders: dict[str, set[str]] = {}
    packages = {_module(path.relative_to(root)) for path in product if path.name == "__init__.py"}
    for name, targets in arrows.items():
        here = name if name in packages else name.rpartition(".")[0]
        there = {target if target in packages else target.rpartition(".")[0] for target in targets}
        folders.setdefault(here, set()).update(there - {here})
    result["folders in a circle"] = str(len(nodes_in_cycles(folders)))
    count, place = longest_arguments(trees, root)
    result["most arguments of a constructor"] = f"{count}, {place}"
    return result


def nodes_in_cycles(arrows: dict[str, set[str]]) -> set[str]:
    """Return the nodes of a directed graph that are part of a cycle."""
    cycle_nodes = set()
    for start in arrows:
        seen: set[str] = set()
        queue = list(arrows[start])
        while queue:
            node = queue.pop()
            if node not in seen:
                seen.add(node)
                queue += arrows.get(node, ())
        if start in seen:
            cycle_nodes.add(start)
    return cycle_nodes


def longest_arguments(trees: dict[Path, ast.Module], root: Path) -> tuple[int, str]:
    """Return the maximum number of constructor arguments, without `self`, and where it is."""
    return max(
        (
            len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) - 1,
            f"{kind.name} in {path.relative_to(root)}",
        )
        for path, tree in trees.items()
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names


def figures_at(revision: str) -> dict[str, str]:
    """Return the figures of a revision, from a copy of it in a temporary folder."""
    command = ["git", "-C", str(ROOT), "archive", revision, "app", "widgets", "tests"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        return figures(Path(folder))


def own_figures() -> dict[str, str]:
    """Return the figures of this checkout, its environment and caches left out."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("app", "widgets", "tests"):
            shutil.copytree(ROOT / name, Path(folder, name))
        return figures(Path(folder))


def print_figures(before: dict[str, str]) -> None:
    """Print the figures of this checkout and, if given, the earlier ones."""
    for name, value in own_figures().items():
        print(f"{name:34} {value}" + (f"  (was {before[name]})" if before else ""))


def times(folders: list[str]) -> None:
    """Run each folder of tests and print its time."""
    tests = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")}
    print(f"reference work takes {yardstick():.2f} s before the tests")
    for folder in folders or [f"tests/{name}" for name in sorted(tests - {"benchmarks"})]:
        began, before = time.monotonic(), os.times()
        command = [sys.executable, "-m", "pytest", "-q", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        result = (done.stdout.strip() or done.stderr.strip()).rpartition("\n")[2]
        print(f"{folder:18} {time.monotonic() - began:6.0f} s {used:6.0f} s of processor  {result[:80]}", flush=True)
    print(f"reference work takes {yardstick():.2f} s after the tests")


def yardstick() -> float:
    """Return the seconds of a fixed amount of work on every core; compare times only if these are similar."""
    work = "sum(number * number for number in range(5_000_000))"
    began = time.monotonic()
    for process in [subprocess.Popen([sys.executable, "-c", work]) for _ in range(os.cpu_count() or 1)]:
        process.wait()
    return time.monotonic() - began


if __name__ == "__main__":
    since = sys.argv[sys.argv.index("--since") + 1] if "--since" in sys.argv else ""
    print_figures(figures_at(since) if since else {})
    if "--times" in sys.argv:
        times(sys.argv[sys.argv.index("--times") + 1 :])
