"""Figures of the code: files, lines, names used twice, circles of imports, and what the tests cost.

`uv run python .ci/measure.py` counts; `--since REVISION` also prints what the figures were then. `--times` runs each
folder of tests by itself and prints its wall and processor time; `--times tests/ui` that one alone, `--times tests`
all of them as one run. Before and after, it prints how fast the machine is: some are twice as fast in one hour as in
the next.
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
    """Return what is counted in a checkout, by the name of the figure."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    found: dict[str, str] = {}
    for parts in (("app",), ("widgets",), ("app", "widgets"), ("tests",)):
        own = [text for path, text in texts.items() if path.relative_to(root).parts[0] in parts]
        total, code = sum(len(text.splitlines()) for text in own), sum(map(lines_of_code, own))
        found[" + ".join(parts)] = f"{len(own)} files, {total:,} lines, {code:,} of code"
    product = {path: text for path, text in texts.items() if path.relative_to(root).parts[0] in ("app", "widgets")}
    trees = {path: ast.parse(text) for path, text in product.items()}
    found["files over 300 lines"] = str(sum(len(text.splitlines()) > 300 for text in product.values()))
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    found["class names used twice"] = str(sum(count > 1 for count in classes.values()))
    files = Counter(path.name for path in product if not path.name.startswith("__"))
    found["file names used twice"] = str(sum(count > 1 for count in files.values()))
    modules = {_module(path.relative_to(root)): tree for path, tree in trees.items()}
    arrows = {name: _imported(tree) & modules.keys() - {name} for name, tree in modules.items()}
    found["imports between modules"] = str(sum(map(len, arrows.values())))
    found["modules in a circle"] = str(len(in_circles(arrows)))
    folders: dict[str, set[str]] = {}
    packages = {_module(path.relative_to(root)) for path in product if path.name == "__init__.py"}
    for name, targets in arrows.items():
        here = name if name in packages else name.rpartition(".")[0]
        there = {target if target in packages else target.rpartition(".")[0] for target in targets}
        folders.setdefault(here, set()).update(there - {here})
    found["folders in a circle"] = str(len(in_circles(folders)))
    count, place = longest_arguments(trees, root)
    found["most arguments of a constructor"] = f"{count}, {place}"
    return found


def in_circles(arrows: dict[str, set[str]]) -> set[str]:
    """Return the nodes of a directed graph from which a way leads back to them."""
    found = set()
    for start in arrows:
        seen: set[str] = set()
        ahead = list(arrows[start])
        while ahead:
            node = ahead.pop()
            if node not in seen:
                seen.add(node)
                ahead += arrows.get(node, ())
        if start in seen:
            found.add(start)
    return found


def longest_arguments(trees: dict[Path, ast.Module], root: Path) -> tuple[int, str]:
    """Return how many arguments the constructor with the most has, `self` left out, and where it is."""
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
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names | {node.module}
    return found


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
    """Print the figures of this checkout, with those before where there are any."""
    for name, value in own_figures().items():
        print(f"{name:34} {value}" + (f"  (was {before[name]})" if before else ""))


def times(folders: list[str]) -> None:
    """Run each folder of tests, and print what it cost."""
    tests = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")}
    print(f"a fixed piece of work takes {yardstick():.2f} s here")
    for folder in folders or [f"tests/{name}" for name in sorted(tests - {"benchmarks"})]:
        began, before = time.monotonic(), os.times()
        command = [sys.executable, "-m", "pytest", "-q", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        result = (done.stdout.strip() or done.stderr.strip()).rpartition("\n")[2]
        print(f"{folder:18} {time.monotonic() - began:6.0f} s {used:6.0f} s of processor  {result[:80]}", flush=True)
    print(f"a fixed piece of work takes {yardstick():.2f} s now")


def yardstick() -> float:
    """Seconds of the same work each time, on every core at once: times compare where these are alike."""
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
