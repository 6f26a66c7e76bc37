"""What `signoff mcp` costs: hosts start it with every session, also with those in which nothing is proposed."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RATIO = 5.0
"""Of the processor time of a bare Python with JSON and SQLite. Measured: 2.5 to 3.5."""
ROUNDS = 7
GREETING = "".join(
    json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    for message in (
        {"id": 0, "method": "server/discover"},
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    )
)


def cpu(command: Sequence[str], folder: Path) -> float:
    """Seconds of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "SIGNOFF_HOME": str(folder / "home")}
    subprocess.run(command, input=GREETING, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_to_be_started_greeted_and_asked_for_the_tools(tmp_path: Path) -> None:
    signoff = shutil.which("signoff")
    assert signoff is not None
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(cpu([signoff, "mcp"], tmp_path))
        theirs.append(cpu([sys.executable, "-c", "import json, sqlite3"], tmp_path))
    ratio = min(ours) / min(theirs)
    print(f"\n{min(ours):.3f} s, python {min(theirs):.3f} s: {ratio:.1f}")
    assert ratio < RATIO
