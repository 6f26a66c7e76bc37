"""`python -m tests.ablation REPO --run "PYTHON -m pytest -q {tests}"`: compare evidence with planted mutants.

The program removes statements from the project's files and proposes them again: each is a hunk. It collects evidence
for each hunk as the app does. Then it plants a mutant on the line and runs all tests: the mutant of a held hunk
should be killed, and the mutant of an unnoticed hunk should survive. For unnoticed hunks, all tests also run without
the hunk: no other test may fail. The program changes the project's files and restores them: give it a copy outside of
`/tmp`.
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

from app.automation.check_runner import all_tests_placeholder_arguments
from app.automation.evidence.proposal_evidence import ProposalTestEvidence
from app.config.settings import CheckTable
from app.proposals.risk.edited_file import is_test_or_test_data
from app.proposals.values.decision_facts import HunkTestVerdict
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from tests.ablation.planting import Statement, choose_statements, find_statements, replace_statements


class Trial:
    """The proposals of one project, and the result of each hunk."""

    def __init__(self, runtime: OpenWorkspace, options: argparse.Namespace) -> None:
        self.runtime = runtime
        self.root = runtime.workspace.root
        self.check = CheckTable(name="tests", run=options.run, seconds=300)
        all_tests_command = shlex.split(
            options.run.replace("{tests}", shlex.join(all_tests_placeholder_arguments(options.run)))
        )
        self.full_command = [*all_tests_command, "-x", *shlex.split(options.more)]
        self.counts: Counter[str] = Counter()
        self.only_unnoticed: bool = options.only_unheld
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []

    def run_with_text(self, path: str, text: str) -> str:
        """Return `lives` if all tests pass with this text of the file, otherwise `dies`."""
        original = (self.root / path).read_text()
        (self.root / path).write_text(text)
        try:
            process = subprocess.run(self.full_command, cwd=self.root, capture_output=True, timeout=600, check=False)
        except subprocess.TimeoutExpired:
            return "dies"
        finally:
            (self.root / path).write_text(original)
        return "dies" if process.returncode else "lives"

    def propose(self, path: str, removed: list[Statement], budget: float) -> None:
        """Propose the removed statements of a file again, and compare the evidence with mutants."""
        text = (self.root / path).read_text()
        (self.root / path).write_text(replace_statements(text, removed, lambda statement: statement.placeholder))
        try:
            draft = self.runtime.service.new_draft("")
            draft.write(path, text)
            proposal = self.runtime.service.stage(draft, "Put back")
            started, cpu = time.monotonic(), _cpu_seconds_of_children()
            evidence = asyncio.run(self.runtime.evidence.collect_evidence(proposal.id, None, self.check, budget))
            self.seconds.append(time.monotonic() - started)
            self.cpu_seconds.append(_cpu_seconds_of_children() - cpu)
            self.runtime.service.deny(proposal.id)
        finally:
            (self.root / path).write_text(text)
        reasons = {mark.description for mark in evidence.marks.values() if mark.verdict is HunkTestVerdict.NOT_RUN}
        duration = (
            f"{self.seconds[-1]:.0f} s, {self.cpu_seconds[-1]:.0f} of the processors, load {os.getloadavg()[0]:.1f}"
        )
        print(f"{path}: {evidence.why_not or evidence.summary}; {duration}", *reasons, flush=True)
        for statement in removed:
            hunk = next(
                hunk for hunk in proposal.hunks if hunk.new_start <= statement.line < hunk.new_start + hunk.new_count
            )
            self.compare(path, text, statement, evidence, hunk.id)

    def compare(self, path: str, text: str, statement: Statement, evidence: ProposalTestEvidence, hunk: str) -> None:
        verdict = evidence.marks[hunk].verdict if hunk in evidence.marks else None
        if self.only_unnoticed and verdict is not HunkTestVerdict.UNNOTICED:
            self.counts[f"{verdict or 'no mark'}, no mutant planted"] += 1
            return
        result = self.run_with_text(path, replace_statements(text, [statement], lambda removed: removed.mutated))
        self.counts[f"{verdict or 'no mark'}, mutant {result}"] += 1
        if verdict is HunkTestVerdict.UNNOTICED:
            without = replace_statements(text, [statement], lambda removed: removed.placeholder)
            is_true = self.run_with_text(path, without) == "lives"
            self.counts[f"unnoticed, {'by all tests too' if is_true else 'but another test notices'}"] += 1
            print("" if is_true else f"  {statement.line + 1}: another test notices", flush=True)
        print(f"  {statement.line + 1}: {verdict}, mutant {result}: {statement.mutated.strip()}", flush=True)


def _cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.ablation")
    parser.add_argument("repo", type=Path)
    parser.add_argument("--run", default=f"{sys.executable} -m pytest -q {{tests}}")
    parser.add_argument("--more", default="", help="more options for runs of all tests, for example --deselect")
    parser.add_argument("--source", default="src", help="the folder whose files are changed")
    parser.add_argument("--proposals", type=int, default=8)
    parser.add_argument("--hunks", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only-unheld", action="store_true", help="plant mutants only in hunks that no test notices")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as home:
        os.environ["SIGNOFF_HOME"] = home
        runtime = open_workspace(options.repo.resolve(), {}, {})
        root = runtime.workspace.root
        trial = Trial(runtime, options)
        candidates: list[Path] = []
        for path in sorted((root / options.source).rglob("*.py")):
            is_test = is_test_or_test_data(path.relative_to(root).as_posix())
            if not is_test and len([*find_statements(path.read_text())]) >= 2 * options.hunks:
                candidates.append(path)
        for number in range(options.proposals):
            path = candidates[number % len(candidates)] if number < len(candidates) else dice.choice(candidates)
            chosen = choose_statements([*find_statements(path.read_text())], options.hunks, dice)
            trial.propose(path.relative_to(root).as_posix(), chosen, options.seconds)
        runtime.close()
    print("\n".join(f"{count:4} {what}" for what, count in sorted(trial.counts.items())))
    print("seconds a proposal:", " ".join(f"{seconds:.0f}" for seconds in sorted(trial.seconds)))
    print("processor seconds a proposal:", " ".join(f"{seconds:.0f}" for seconds in sorted(trial.cpu_seconds)))


if __name__ == "__main__":
    main()
