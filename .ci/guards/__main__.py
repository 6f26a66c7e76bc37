"""Disable guards of the program one at a time, and report the guards whose absence no test notices.

A guard is a condition after which a block ends (`if …: return`, `raise`, `continue`, `break`), or an exception that
is caught. By hand, before a release: `uv run python .ci/guards PLACE` copies the committed files to PLACE with a
separate environment. It runs the tests once to record which tests reach which guard (ten minutes on an idle machine;
PLACE keeps the result). Then it runs those tests for a random sample of a hundred guards, each time with one guard
disabled. If no test notices, add a test, or remove the guard if it has no effect.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXCLUDED = ("app/launcher/", "app/sandbox/sandbox_init.py", "app/tools/search/regex_worker.py")
"""Files that are copied elsewhere, or run by a Python without this environment."""
EXCLUDED_CONDITIONS = ("TYPE_CHECKING", "__name__", "sys.platform", "sys.version")


@dataclass(frozen=True)
class Guard:
    """A guard, and the range of bytes in the file that the switch replaces."""

    number: int
    file: str
    line: int
    start: int
    end: int
    source: str
    switch: str
    """Name of the function that is called with the number and, for caught exceptions, with their types."""

    def switched(self, text: bytes) -> bytes:
        """Return the replacement for these bytes."""
        if self.switch == "__guard__":
            return b"(%b) and __guard__(%d)" % (text, self.number)
        return b"%s%b(%d, %b)" % (b"*" * (self.switch == "__suppressed__"), self.switch.encode(), self.number, text)


def main() -> None:
    """Choose guards, disable each, and print how many the tests noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path)
    parser.add_argument("folders", nargs="*", default=["app", "widgets"], help="only guards in these folders")
    parser.add_argument("--count", type=int, default=100, help="number of guards; 0 for all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random sample (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=60, help="maximum duration of the tests of one guard (default: %(default)s)"
    )
    options = parser.parse_intermixed_args()
    place = options.place.resolve()
    guards = prepare(place)
    reached_file = place / "reached.json"
    if not reached_file.exists():
        print("Running the tests to record which guards they reach…", flush=True)
        pytest(place, "-q", GUARDS_KEEP=str(reached_file))
    reached = json.loads(reached_file.read_text(encoding="utf-8"))
    chosen = [guard for guard in guards if guard.file.startswith(tuple(options.folders))]
    random.Random(options.seed).shuffle(chosen)
    chosen = chosen[: options.count or None]
    results, todo = place / "results.jsonl", place / "todo.json"
    results.unlink(missing_ok=True)
    todo.write_text(
        json.dumps({**reached, "guards": list(map(asdict, chosen)), "most": options.seconds, "results": str(results)})
    )
    pytest(place, "-q", "-s", GUARDS_OUT=str(todo))
    outcomes = list(map(json.loads, results.read_text(encoding="utf-8").splitlines()))
    noticed = sum(bool(outcome["noticed"]) for outcome in outcomes)
    print(f"{noticed} of {len(outcomes)} disabled guards are noticed: {noticed / len(outcomes):.0%}")


def prepare(place: Path) -> list[Guard]:
    """Copy the committed files with an environment and a switch at each guard, unless the copy exists; return the
    guards.
    """
    commit = run(ROOT, "git", "rev-parse", "HEAD").strip()
    tree, listed = place / "tree", place / "guards.json"
    if listed.exists():
        stored = json.loads(listed.read_text(encoding="utf-8"))
        if stored["commit"] == commit:
            return [Guard(**fields) for fields in stored["guards"]]
        sys.exit(f"{place} holds another commit: name another folder or remove this one.")
    place.mkdir(parents=True, exist_ok=True)
    run(ROOT, "git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(tree))
    run(tree, "git", "checkout", "--quiet", commit)
    run(tree, "uv", "sync", "--quiet")
    packages = next((tree / ".venv" / "lib").glob("python*/site-packages"))
    for module in ("guard_switches", "guard_plugin"):
        shutil.copy(Path(__file__).with_name(f"{module}.py"), packages)
    (packages / "guard_switches").mkdir()
    (packages / "guard_switches" / "reached").touch()
    # A test may run as another user for a while.
    (packages / "guard_switches" / "reached").chmod(0o666)
    (packages / "guard_switches.pth").write_text("import guard_switches\n")
    guards: list[Guard] = []
    for path in sorted([*tree.glob("app/**/*.py"), *tree.glob("widgets/**/*.py")]):
        file = path.relative_to(tree).as_posix()
        if not file.startswith(EXCLUDED):
            text = path.read_bytes()
            new = list(guards_of(file, text, len(guards) + 1))
            for guard in sorted(new, key=lambda guard: guard.start, reverse=True):
                text = text[: guard.start] + guard.switched(text[guard.start : guard.end]) + text[guard.end :]
            path.write_bytes(text)
            guards += new
    listed.write_text(json.dumps({"commit": commit, "guards": list(map(asdict, guards))}))
    return guards


def guards_of(file: str, text: bytes, number: int) -> Iterator[Guard]:
    """Yield the guards of a file, numbered from `number`."""
    starts = [0]
    for line in text.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.If(test=first, body=[*_, ast.Return() | ast.Raise() | ast.Continue() | ast.Break()], orelse=[]):
                last, switch = first, "__guard__"
            case ast.ExceptHandler(type=ast.expr() as first):
                last, switch = first, "__caught__"
            case ast.Call(func=ast.Attribute(attr="suppress") | ast.Name(id="suppress"), args=[first, *more]):
                last, switch = more[-1] if more else first, "__suppressed__"
            case _:
                continue
        start = starts[first.lineno - 1] + first.col_offset
        end = starts[(last.end_lineno or 1) - 1] + (last.end_col_offset or 0)
        source = text[start:end].decode()
        if not any(word in source for word in EXCLUDED_CONDITIONS):
            yield Guard(number, file, first.lineno, start, end, source, switch)
            number += 1


def pytest(place: Path, *options: str, **environment: str) -> None:
    """Run the tests of the copy, in one process."""
    python = place / "tree" / ".venv" / "bin" / "python"
    command = [python, "-m", "pytest", "-p", "guard_plugin", "-p", "no:cacheprovider", "-n0", *options]
    left_out = ["--ignore=tests/hygiene", "--ignore=tests/benchmarks"]
    subprocess.run([*command, *left_out], cwd=place / "tree", env={**os.environ, **environment}, check=False)


def run(folder: Path, *command: str) -> str:
    """Return the standard output of a command."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
