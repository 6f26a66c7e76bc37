"""`python -m tests.ablation REPO --run "PYTHON -m pytest -q {tests}"`: evidence against planted mutants.

Statements of the project are taken out of its files, and proposed again: each is a hunk. Of each hunk the evidence is
collected as the app does it. Then a mutant is planted on the line, and all tests run: what is held should kill it,
and what nothing notices should let it live. Of hunks that nothing notices all tests run without them, too: no test
that was not chosen may notice. The project's files are changed and put back: give it a copy.
"""

import argparse
import ast
import asyncio
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.automation.evidence.proposal_evidence import ProposalEvidence
from app.config.settings import CheckTable
from app.proposals.values.decision_facts import EvidenceVerdict
from app.runtime.open_workspace import OpenWorkspace, open_workspace

APART = 4
"""Lines between two hunks, at least."""


@dataclass(frozen=True)
class Statement:
    """A statement on one line of a function."""

    line: int
    """From 0."""
    mutated: str
    """The line with a defect."""


class Defect(ast.NodeTransformer):
    """Turns the first thing that it can into something else."""

    def __init__(self) -> None:
        self.done = False

    def visit(self, node: ast.AST) -> ast.AST:
        return node if self.done else super().visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        swaps = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn}
        swaps |= {ast.NotIn: ast.In, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}
        node.ops[0] = swaps[type(node.ops[0])]()
        self.done = True
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        self.done = True
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        swaps = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Mod: ast.Add}
        if (swap := swaps.get(type(node.op))) is not None:
            node.op = swap()
            self.done = True
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        self.done = True
        match node.value:
            case bool():
                return ast.Constant(not node.value)
            case int() | float():
                return ast.Constant(node.value + 1)
            case str():
                return ast.Constant(f"{node.value}x")
            case None:
                return ast.Constant(1)
        self.done = False
        return node


def statements(text: str) -> Iterator[Statement]:
    """Yield the one-line statements in functions that can be taken out, each with a defect."""
    lines = text.split("\n")
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign | ast.AugAssign | ast.Return | ast.Expr):
                continue
            if node.lineno != node.end_lineno or isinstance(node.value, ast.Constant):
                continue
            line = lines[node.lineno - 1]
            if ";" in line or not line.startswith(" ") or line.strip() != ast.get_source_segment(text, node):
                continue
            defect = Defect()
            changed = defect.visit(ast.parse(line.strip().removeprefix("return ")).body[0])
            if not defect.done:
                continue
            indent = line[: len(line) - len(line.lstrip())]
            again = "return " if line.strip().startswith("return ") else ""
            yield Statement(node.lineno - 1, f"{indent}{again}{ast.unparse(changed)}")


def chosen(text: str, count: int, chance: random.Random) -> list[Statement]:
    """Return some statements that are far enough apart."""
    found: list[Statement] = []
    for one in chance.sample(all_of := list(statements(text)), len(all_of)):
        if all(abs(one.line - other.line) > APART for other in found):
            found.append(one)
        if len(found) == count:
            break
    return sorted(found, key=lambda one: one.line)


def with_lines(text: str, lines: dict[int, str]) -> str:
    return "\n".join(lines.get(number, line) for number, line in enumerate(text.split("\n")))


def taken_out(text: str, out: list[Statement]) -> str:
    lines = text.split("\n")
    return with_lines(text, {one.line: lines[one.line][: -len(lines[one.line].lstrip())] + "pass" for one in out})


class Trial:
    """The proposals of one project, and what came of each hunk."""

    def __init__(self, runtime: OpenWorkspace, options: argparse.Namespace) -> None:
        self.runtime = runtime
        self.root = runtime.workspace.root
        self.check = CheckTable(name="tests", run=options.run, seconds=300)
        self.whole = [*shlex.split(options.run.replace("{tests}", "")), "-x", *shlex.split(options.more)]
        self.counts: Counter[str] = Counter()
        self.only_unheld: bool = options.only_unheld
        self.seconds: list[float] = []

    def passes(self, path: str, text: str) -> bool:
        """Whether all tests of the project pass with a file as it is given."""
        original = (self.root / path).read_text()
        (self.root / path).write_text(text)
        try:
            return not subprocess.run(
                self.whole, cwd=self.root, capture_output=True, timeout=600, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return False
        finally:
            (self.root / path).write_text(original)

    def propose(self, path: str, out: list[Statement], budget: float) -> None:
        """Propose the statements of a file, and compare the evidence with mutants."""
        text = (self.root / path).read_text()
        base = taken_out(text, out)
        (self.root / path).write_text(base)
        try:
            draft = self.runtime.service.new_draft("")
            draft.write(path, text)
            proposal = self.runtime.service.stage(draft, "Put back")
            started = time.monotonic()
            found = asyncio.run(self.runtime.evidence.collect_evidence(proposal.id, None, self.check, budget))
            self.seconds.append(time.monotonic() - started)
            self.runtime.service.deny(proposal.id)
        finally:
            (self.root / path).write_text(text)
        reasons = {mark.description for mark in found.marks.values() if mark.verdict is EvidenceVerdict.NOT_RUN}
        print(f"{path}: {found.summary}; {self.seconds[-1]:.0f} s", *reasons, flush=True)
        by_line = {hunk.new_start: hunk.id for hunk in proposal.hunks}
        for one in out:
            self.compare(path, text, one, found, by_line[one.line])

    def compare(self, path: str, text: str, one: Statement, found: ProposalEvidence, hunk: str) -> None:
        verdict = found.marks[hunk].verdict if hunk in found.marks else None
        if self.only_unheld and verdict is not EvidenceVerdict.UNNOTICED:
            self.counts[f"{verdict or 'no mark'}, no mutant planted"] += 1
            return
        lives = self.passes(path, with_lines(text, {one.line: one.mutated}))
        self.counts[f"{verdict or 'no mark'}, mutant {'lives' if lives else 'dies'}"] += 1
        if verdict is EvidenceVerdict.UNNOTICED:
            true = self.passes(path, taken_out(text, [one]))
            self.counts[f"unnoticed, {'by all tests too' if true else 'but another test notices'}"] += 1
            print("" if true else f"  {one.line + 1}: another test notices", flush=True)
        print(
            f"  {one.line + 1}: {verdict}, mutant {'lives' if lives else 'dies'}: {one.mutated.strip()}", flush=True
        )


def main() -> None:
    """Measure one project."""
    parser = argparse.ArgumentParser(prog="python -m tests.ablation")
    parser.add_argument("repo", type=Path)
    parser.add_argument("--run", default=f"{sys.executable} -m pytest -q {{tests}}")
    parser.add_argument("--more", default="", help="further options where all tests run, such as --deselect")
    parser.add_argument("--source", default="src", help="the folder whose files are changed")
    parser.add_argument("--proposals", type=int, default=8)
    parser.add_argument("--hunks", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only-unheld", action="store_true", help="plant mutants only in what nothing notices")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as home:
        os.environ["SIGNOFF_HOME"] = home
        runtime = open_workspace(options.repo.resolve(), {}, {})
        trial = Trial(runtime, options)
        files = sorted((runtime.workspace.root / options.source).rglob("*.py"))
        able = [path for path in files if len(list(statements(path.read_text()))) >= 2 * options.hunks]
        for number in range(options.proposals):
            path = able[number % len(able)] if number < len(able) else chance.choice(able)
            out = chosen(path.read_text(), options.hunks, chance)
            trial.propose(path.relative_to(runtime.workspace.root).as_posix(), out, options.seconds)
        runtime.close()
    print("\n".join(f"{count:4} {what}" for what, count in sorted(trial.counts.items())))
    print("seconds a proposal:", " ".join(f"{each:.0f}" for each in sorted(trial.seconds)))


if __name__ == "__main__":
    main()
