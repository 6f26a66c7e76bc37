"""The sample workspace of the demo: a small tide table in Python, with a bug that spans two files.

Its files are kept under `sample_files/` with `.txt` appended, so that no tool takes them for this program's own.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from app.config.settings import CheckTable
from app.demo.demo_conversation import WORDS

SAMPLE_CHECK = CheckTable(name="tests", run=f"{shlex.quote(sys.executable)} -m unittest", files=("*.py",))
"""What is run on proposals for the sample: its tests, of which some fail until the bug is mended."""
_TEMPLATES = Path(__file__).parent / "sample_files"
_SUFFIX = ".txt"


def create_sample(parent: Path | None = None) -> Path:
    """Write the sample into a new folder `tideline` and return it.

    It goes under `parent`, else under a new temporary folder, which is the caller's to remove. Where git is
    installed the folder is a repository with three commits; where git is missing or fails, it is just a folder.
    Raises FileExistsError if `parent` already has a `tideline`, and OSError if it cannot be written.
    """
    folder = (parent or Path(tempfile.mkdtemp(prefix="signoff-demo-"))) / "tideline"
    folder.mkdir()
    for template in sorted(_TEMPLATES.rglob(f"*{_SUFFIX}")):
        target = folder / template.relative_to(_TEMPLATES).as_posix().removesuffix(_SUFFIX)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(template.read_bytes())
    _record_history(folder)
    return folder


def _record_history(folder: Path) -> None:
    """Make `folder` a repository with the sample's commits, or leave it a plain folder."""
    git = shutil.which("git")
    if git is None:
        return
    try:
        _git(git, folder, "", "init", "--quiet", "--initial-branch=main", "--template=")
        for commit in WORDS["commits"]:
            _git(git, folder, commit["date"], "add", "--", *commit["paths"])
            _git(git, folder, commit["date"], "commit", "--quiet", "--no-verify", f"--message={commit['message']}")
    except (subprocess.SubprocessError, OSError):
        shutil.rmtree(folder / ".git", ignore_errors=True)


def _git(git: str, folder: Path, date: str, *arguments: str) -> None:
    """Run git on `folder` alone, deaf to the user's own configuration, repository variables and hooks."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        facts = {"NAME": "Maren Tregenza", "EMAIL": "maren@tideline.example", "DATE": date}
        environment |= {f"GIT_{role}_{fact}": value for fact, value in facts.items()}
    settings = ("commit.gpgsign=false", "core.autocrlf=false", f"core.hooksPath={os.devnull}")
    options = [part for setting in settings for part in ("-c", setting)]
    null = subprocess.DEVNULL
    command = [git, *options, *arguments]
    subprocess.run(command, cwd=folder, env=environment, stdin=null, capture_output=True, timeout=20, check=True)
