"""`python -m tests.ablation REPO --run "PYTHON -m pytest -q {tests}"`: evidence against planted mutants.

Statements of the project are taken out of its files, and proposed again: each is a hunk. Of each hunk the evidence is
collected as the app does it. Then a mutant is planted on the line, and all tests run: what is held should kill it,
and what nothing notices should let it live. Of hunks that nothing notices all tests run without them, too: no test
that was not chosen may notice. The project's files are changed and put back: give it a copy, outside of `/tmp`.

JavaScript: `--run "npx jest {tests}" --suffix .js`. Go: `--run "go test {tests}" --suffix .go --source .`.
"""

import argparse
import asyncio
import os
import random
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from app.automation.check_runner import all_tests_argument
from app.automation.evidence.proposal_evidence import ProposalEvidence
from app.automation.evidence.relevant_tests import TestRunner, detect_test_runner
from app.config.settings import CheckTable
from app.proposals.risk.edited_file import is_test
from app.proposals.values.decision_facts import EvidenceVerdict
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from tests.ablation.planting import Statement, choose_statements, find_statements, replace_statements

_END_EARLY = {TestRunner.PYTEST: ["-x"], TestRunner.JEST: ["--bail"], TestRunner.VITEST: ["--run", "--bail=1"]}
_SKIPPED = {"node_modules", "vendor", "dist", "build"}


class Trial:
    """The proposals of one project, and what came of each hunk."""

    def __init__(self, runtime: OpenWorkspace, options: argparse.Namespace) -> None:
        self.runtime = runtime
        self.root = runtime.workspace.root
        self.check = CheckTable(name="tests", run=options.run, seconds=300)
        every = shlex.split(options.run.replace("{tests}", shlex.join(all_tests_argument(options.run))))
        runner = detect_test_runner(options.run)
        self.whole = [*every, *_END_EARLY.get(runner, []), *shlex.split(options.more)]
        self.counts: Counter[str] = Counter()
        self.only_unheld: bool = options.only_unheld
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []

    def fate(self, path: str, text: str) -> str:
        """Return `lives` if all tests pass with a file as it is given, else `dies` or `does not build`."""
        original = (self.root / path).read_text()
        (self.root / path).write_text(text)
        try:
            ended = subprocess.run(self.whole, cwd=self.root, capture_output=True, timeout=600, check=False)
        except subprocess.TimeoutExpired:
            return "dies"
        finally:
            (self.root / path).write_text(original)
        if not ended.returncode:
            return "lives"
        return "does not build" if b"[build failed]" in ended.stdout else "dies"

    def propose(self, path: str, out: list[Statement], budget: float) -> None:
        """Propose the statements of a file, and compare the evidence with mutants."""
        text = (self.root / path).read_text()
        (self.root / path).write_text(replace_statements(text, out, lambda one: (one.placeholder,)))
        try:
            draft = self.runtime.service.new_draft("")
            draft.write(path, text)
            proposal = self.runtime.service.stage(draft, "Put back")
            started, cpu = time.monotonic(), _cpu_seconds_of_children()
            found = asyncio.run(self.runtime.evidence.collect_evidence(proposal.id, None, self.check, budget))
            self.seconds.append(time.monotonic() - started)
            self.cpu_seconds.append(_cpu_seconds_of_children() - cpu)
            self.runtime.service.deny(proposal.id)
        finally:
            (self.root / path).write_text(text)
        reasons = {mark.description for mark in found.marks.values() if mark.verdict is EvidenceVerdict.NOT_RUN}
        took = (
            f"{self.seconds[-1]:.0f} s, {self.cpu_seconds[-1]:.0f} of the processors, load {os.getloadavg()[0]:.1f}"
        )
        print(f"{path}: {found.why_not or found.summary}; {took}", *reasons, flush=True)
        for one in out:
            hunk = next(
                hunk for hunk in proposal.hunks if hunk.new_start <= one.line < hunk.new_start + hunk.new_count
            )
            self.compare(path, text, one, found, hunk.id)

    def compare(self, path: str, text: str, one: Statement, found: ProposalEvidence, hunk: str) -> None:
        verdict = found.marks[hunk].verdict if hunk in found.marks else None
        if self.only_unheld and verdict is not EvidenceVerdict.UNNOTICED:
            self.counts[f"{verdict or 'no mark'}, no mutant planted"] += 1
            return
        fate = self.fate(path, replace_statements(text, [one], lambda one: one.mutated))
        self.counts[f"{verdict or 'no mark'}, mutant {fate}"] += 1
        if verdict is EvidenceVerdict.UNNOTICED:
            is_true = self.fate(path, replace_statements(text, [one], lambda one: (one.placeholder,))) == "lives"
            self.counts[f"unnoticed, {'by all tests too' if is_true else 'but another test notices'}"] += 1
            print("" if is_true else f"  {one.line + 1}: another test notices", flush=True)
        print(f"  {one.line + 1}: {verdict}, mutant {fate}: {one.defect}", flush=True)


def _cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure one project."""
    parser = argparse.ArgumentParser(prog="python -m tests.ablation")
    parser.add_argument("repo", type=Path)
    parser.add_argument("--run", default=f"{sys.executable} -m pytest -q {{tests}}")
    parser.add_argument("--more", default="", help="further options where all tests run, such as --deselect")
    parser.add_argument("--source", default="src", help="the folder whose files are changed")
    parser.add_argument("--suffix", default=".py", help="of the files that are changed: .py, .js, .ts or .go")
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
        root = runtime.workspace.root
        trial = Trial(runtime, options)
        able: list[Path] = []
        for path in sorted((root / options.source).rglob(f"*{options.suffix}")):
            inside = path.relative_to(root)
            if is_test(inside.as_posix()) or not _SKIPPED.isdisjoint(inside.parts):
                continue
            if len(find_statements(path.name, path.read_text())) >= 2 * options.hunks:
                able.append(path)
        for number in range(options.proposals):
            path = able[number % len(able)] if number < len(able) else chance.choice(able)
            found = find_statements(path.name, path.read_text())
            chosen = choose_statements(found, options.hunks, chance)
            trial.propose(path.relative_to(root).as_posix(), chosen, options.seconds)
        runtime.close()
    print("\n".join(f"{count:4} {what}" for what, count in sorted(trial.counts.items())))
    print("seconds a proposal:", " ".join(f"{each:.0f}" for each in sorted(trial.seconds)))
    print("processor seconds a proposal:", " ".join(f"{each:.0f}" for each in sorted(trial.cpu_seconds)))


if __name__ == "__main__":
    main()
