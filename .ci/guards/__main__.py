"""Takes guards out of the program, one at a time, and says of which no test notices.

A guard is a condition after which a block is left (`if …: return`, `raise`, `continue`, `break`), or an exception
that is caught. By hand, before a release: `uv run python .ci/guards PLACE` copies what is committed to PLACE, with an
environment of its own, runs the tests once to see which of them get behind which guard (ten minutes on an idle
machine; PLACE keeps it for the next time), and then, for a hundred guards drawn by lot, those tests without it. One
that stays unnoticed gets a test, or goes, if nothing is different without it.
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
LEFT_OUT = ("app/launcher/", "app/sandbox/sandbox_init.py", "app/tools/search/regex_worker.py")
"""What is copied, or run by a Python that knows nothing of the environment."""
NOT_THE_PROGRAMS = ("TYPE_CHECKING", "__name__", "sys.platform", "sys.version")


@dataclass(frozen=True)
class Guard:
    """A guard, and the bytes of the file from which on it is switched."""

    number: int
    file: str
    line: int
    start: int
    end: int
    source: str
    switch: str
    """What is called with its number and, where it catches something, with what that is."""

    def switched(self, text: bytes) -> bytes:
        """What stands in place of these bytes."""
        if self.switch == "__guard__":
            return b"(%b) and __guard__(%d)" % (text, self.number)
        return b"%s%b(%d, %b)" % (b"*" * (self.switch == "__suppressed__"), self.switch.encode(), self.number, text)


def main() -> None:
    """Draw the guards, and say how many were noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path)
    parser.add_argument("folders", nargs="*", default=["app", "widgets"], help="only what is below these")
    parser.add_argument("--count", type=int, default=100, help="how many; 0 for all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another lot draws others (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=60, help="what the tests of one may take together (default: %(default)s)"
    )
    asked = parser.parse_intermixed_args()
    place = asked.place.resolve()
    guards = prepare(place)
    kept = place / "reached.json"
    if not kept.exists():
        print("Running the tests, to see which guards they reach…", flush=True)
        pytest(place, "-q", GUARDS_KEEP=str(kept))
    reached = json.loads(kept.read_text(encoding="utf-8"))
    chosen = [guard for guard in guards if guard.file.startswith(tuple(asked.folders))]
    random.Random(asked.seed).shuffle(chosen)
    chosen = chosen[: asked.count or None]
    results, todo = place / "results.jsonl", place / "todo.json"
    results.unlink(missing_ok=True)
    todo.write_text(
        json.dumps({**reached, "guards": list(map(asdict, chosen)), "most": asked.seconds, "results": str(results)})
    )
    pytest(place, "-q", "-s", GUARDS_OUT=str(todo))
    found = list(map(json.loads, results.read_text(encoding="utf-8").splitlines()))
    noticed = sum(bool(one["noticed"]) for one in found)
    print(f"{noticed} of {len(found)} guards are noticed when they are out: {noticed / len(found):.0%}")


def prepare(place: Path) -> list[Guard]:
    """Copy what is committed, with its environment and a switch at each guard, unless it is there; the guards."""
    commit = run(ROOT, "git", "rev-parse", "HEAD").strip()
    tree, listed = place / "tree", place / "guards.json"
    if listed.exists():
        of = json.loads(listed.read_text(encoding="utf-8"))
        if of["commit"] == commit:
            return [Guard(**each) for each in of["guards"]]
        sys.exit(f"{place} is of another commit: name another folder, or take this one away.")
    place.mkdir(parents=True, exist_ok=True)
    run(ROOT, "git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(tree))
    run(tree, "git", "checkout", "--quiet", commit)
    run(tree, "uv", "sync", "--quiet")
    packages = next((tree / ".venv" / "lib").glob("python*/site-packages"))
    for module in ("guard_switches", "guard_plugin"):
        shutil.copy(Path(__file__).with_name(f"{module}.py"), packages)
    (packages / "guard_switches").mkdir()
    (packages / "guard_switches" / "reached").touch()
    # A test may be somebody else than root for a while.
    (packages / "guard_switches" / "reached").chmod(0o666)
    (packages / "guard_switches.pth").write_text("import guard_switches\n")
    guards: list[Guard] = []
    for path in sorted([*tree.glob("app/**/*.py"), *tree.glob("widgets/**/*.py")]):
        file = path.relative_to(tree).as_posix()
        if not file.startswith(LEFT_OUT):
            text = path.read_bytes()
            new = list(guards_of(file, text, len(guards) + 1))
            for guard in sorted(new, key=lambda guard: guard.start, reverse=True):
                text = text[: guard.start] + guard.switched(text[guard.start : guard.end]) + text[guard.end :]
            path.write_bytes(text)
            guards += new
    listed.write_text(json.dumps({"commit": commit, "guards": list(map(asdict, guards))}))
    return guards


def guards_of(file: str, text: bytes, number: int) -> Iterator[Guard]:
    """The guards of a file, numbered from `number` on."""
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
        if not any(word in source for word in NOT_THE_PROGRAMS):
            yield Guard(number, file, first.lineno, start, end, source, switch)
            number += 1


def pytest(place: Path, *options: str, **environment: str) -> None:
    """Run the tests of the copy, in one process."""
    python = place / "tree" / ".venv" / "bin" / "python"
    command = [python, "-m", "pytest", "-p", "guard_plugin", "-p", "no:cacheprovider", "-n0", *options]
    left_out = ["--ignore=tests/hygiene", "--ignore=tests/benchmarks"]
    subprocess.run([*command, *left_out], cwd=place / "tree", env={**os.environ, **environment}, check=False)


def run(folder: Path, *command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
