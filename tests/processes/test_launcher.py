"""What is installed as `signoff`: finds its packages whatever lies around, and whatever fails, a hook denies."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import app.launcher

Run = Callable[..., "subprocess.CompletedProcess[str]"]

ENTRIES = {
    "app/__init__.py": "",
    "app/launcher/__main__.py": "",
    "app/cli/main.py": "def main():\n    return 7\n",
    "app/doors/hook/entry.py": "def hook(arguments):\n    return 10 + len(arguments)\n",
}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a copy of the launcher, beside the packages in `where`, from a folder that has an `app` of its own."""
    shutil.copytree(Path(app.launcher.__file__).parent, tmp_path / "site" / "signoff")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "app.py").write_text("raise SystemExit('not ours')")

    def call(
        where: str, *arguments: str, files: dict[str, str] | None = None, stderr: int = subprocess.PIPE
    ) -> "subprocess.CompletedProcess[str]":
        for name, text in {**ENTRIES, **(files or {})}.items():
            path = tmp_path / where / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return subprocess.run(
            [sys.executable, "-S", "-m", "signoff", *arguments],
            cwd=tmp_path / "project",
            env={"PYTHONPATH": f"{tmp_path / 'site'}:{tmp_path / 'checkout'}"},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            check=False,
            timeout=60,
        )

    return call


@pytest.mark.parametrize("where", ["site/signoff/_bundle", "checkout"])
def test_it_finds_what_is_bundled_or_else_the_checkout(run: Run, where: str) -> None:
    assert run(where).returncode == 7
    assert run(where, "hook", "claude").returncode == 11


def test_what_is_bundled_goes_before_a_checkout(run: Run) -> None:
    run("checkout", files={"app/cli/main.py": "def main():\n    return 8\n"})
    assert run("site/signoff/_bundle").returncode == 7


@pytest.mark.parametrize("failure", ["raise SystemExit(0)", "raise KeyboardInterrupt", "import nothing", "1 +"])
def test_a_hook_that_does_not_start_denies(run: Run, failure: str) -> None:
    done = run("checkout", "hook", "claude", files={"app/doors/hook/entry.py": failure})
    assert done.returncode == 2
    assert done.stderr.startswith("Denied, and nothing was written: signoff does not start")


def test_it_denies_though_nobody_can_hear_why(run: Run) -> None:
    with Path("/dev/full").open("w") as full:
        done = run("checkout", "hook", "claude", files={"app/doors/hook/entry.py": "1 +"}, stderr=full.fileno())
    assert done.returncode == 2


def test_who_interrupts_it_while_it_loads_sees_no_traceback(run: Run) -> None:
    done = run("checkout", files={"app/cli/main.py": "raise KeyboardInterrupt"})
    assert (done.returncode, done.stderr) == (130, "")
