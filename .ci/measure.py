"""The numbers of the house: its files and lines, the largest, its circles, and what its tests cost.

`uv run python .ci/measure.py` counts; with `--times` it also runs each folder of tests by itself, and says what of
wall and processor time each took; `--times tests/ui` that one alone, `--times tests` all of them as one run. Before
and after, it says how fast the machine is: some are twice as fast in one hour as in the next.
"""

import ast
import io
import os
import subprocess
import sys
import time
import tokenize
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.hygiene.test_imports import imported, python_files, sources  # noqa: E402

BESIDE_THE_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def lines_of_code(text: str) -> int:
    """Lines that hold code: not blank, not a comment, not of a docstring."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {
        line
        for token in tokens
        if token.type not in BESIDE_THE_CODE and token.string
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), end_lineno=int(end)):
                lines -= set(range(node.lineno, end + 1))
    return len(lines)


def count() -> None:
    """Print files and lines of each part, and the largest files."""
    for parts in (("app",), ("widgets",), ("app", "widgets"), ("tests",)):
        texts = [path.read_text(encoding="utf-8") for path in python_files(*parts)]
        total, code = sum(len(text.splitlines()) for text in texts), sum(map(lines_of_code, texts))
        print(f"{' + '.join(parts):16} {len(texts):4} files {total:7,} lines {code:7,} of code")
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files("app", "widgets")}
    print(f"over 300 lines: {sum(size > 300 for size in sizes.values())} files; the largest:")
    for path in sorted(sizes, key=sizes.__getitem__, reverse=True)[:10]:
        print(f"{sizes[path]:6} {path.relative_to(ROOT)}")


def circles() -> None:
    """Print whether modules import each other in a circle."""
    known = sources()
    arrows = {module: (imported(path) & known.keys()) - {module} for module, path in known.items()}
    try:
        TopologicalSorter(arrows).prepare()
        print(f"{sum(map(len, arrows.values()))} imports between {len(known)} modules, in no circle")
    except CycleError as error:
        print("a circle:", " -> ".join(error.args[1]))


def times(folders: list[str]) -> None:
    """Run each folder of tests, and print what it cost."""
    tests = {path.relative_to(ROOT).parts[1] for path in python_files("tests") if path.name.startswith("test_")}
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
    count()
    circles()
    if "--times" in sys.argv:
        times(sys.argv[sys.argv.index("--times") + 1 :])
