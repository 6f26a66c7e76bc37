"""What git makes of reviewed commits, on the latest commits of this repository."""

import subprocess
from pathlib import Path

import pytest

from tests import verify_trials

ROOT = Path(__file__).resolve().parents[2]
COMMITS = 12


@pytest.mark.soak
def test_reviewed_commits_of_this_repository_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", "none")
    counted = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    if int(counted.stdout or 0) <= COMMITS:
        pytest.skip("this is no clone with a history")
    trials = verify_trials.run(ROOT, COMMITS)
    assert not trials.refused
    assert sum(counts["accepted"] for counts in trials.counts.values()) > 4 * COMMITS
