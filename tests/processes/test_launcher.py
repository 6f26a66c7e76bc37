"""What is installed as `signoff`: finds its packages whatever lies around, and whatever fails, a hook denies."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import app.launcher

Run = Callable[..., "subprocess.CompletedProcess[str]"]

ENTRIES = {
    "app/__init__.py": "",
    "app/launcher/__main__.py": "",
    "app/cli/main.py": "def main():\n    return 7\n",
    "app/doors/hook/hook_entry.py": "def run_hook(arguments, agent):\n    agent.answer(b'%d' % len(arguments))\n",
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
def test_launcher_finds_the_bundle_or_else_the_checkout(run: Run, where: str) -> None:
    assert run(where).returncode == 7
    done = run(where, "hook", "claude")
    assert (done.returncode, done.stdout) == (0, "1")


def test_bundle_goes_before_a_checkout(run: Run) -> None:
    run("checkout", files={"app/cli/main.py": "def main():\n    return 8\n"})
    assert run("site/signoff/_bundle").returncode == 7


@pytest.mark.parametrize("failure", ["raise SystemExit(0)", "raise KeyboardInterrupt", "import nothing", "1 +"])
def test_a_hook_that_does_not_start_denies(run: Run, failure: str) -> None:
    done = run("checkout", "hook", "claude", files={"app/doors/hook/hook_entry.py": failure})
    assert done.returncode == 2
    assert done.stderr.startswith("Denied, and nothing was written: signoff does not start")


def test_hook_denies_although_stderr_is_full(run: Run) -> None:
    with Path("/dev/full").open("w") as full:
        done = run("checkout", "hook", "claude", files={"app/doors/hook/hook_entry.py": "1 +"}, stderr=full.fileno())
    assert done.returncode == 2


HALF = "import os, time\ndef run_hook(arguments, agent):\n    os.write(agent._answers, b'{')\n"
HELD_UP = {
    "while it is imported": "import time\ntime.sleep(600)",
    "with signals blocked": "import signal as s\ns.pthread_sigmask(s.SIG_BLOCK, s.valid_signals())\nwhile 1: pass",
    "in one long call into C": "sum(range(10**15))",
    "stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "half way": f"{HALF}    time.sleep(600)",
}


@pytest.mark.parametrize("held_up", HELD_UP.values(), ids=list(HELD_UP))
def test_a_hook_that_is_held_up_denies_in_time_whatever_it_does(run: Run, held_up: str) -> None:
    done = run(
        "checkout", "hook", "claude", "--wait=1", "--limit", "1", files={"app/doors/hook/hook_entry.py": held_up}
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Denied, and nothing was written: signoff had no answer within 1 seconds.")


@pytest.mark.parametrize("ends", ["os._exit(0)", "os._exit(1)", "os.kill(os.getpid(), 9)", "return 0"])
def test_a_hook_that_ends_without_a_whole_answer_denies(run: Run, ends: str) -> None:
    done = run("checkout", "hook", "claude", files={"app/doors/hook/hook_entry.py": f"{HALF}    {ends}\n"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Denied, and nothing was written: signoff ended with")


@pytest.mark.parametrize("denied", [True, False])
def test_the_exit_code_says_too_what_is_denied_though_the_child_never_ends(run: Run, denied: bool) -> None:
    body = f"agent.answer(b'no', denied={denied})\n    time.sleep(600)\n"
    entry = f"import time\ndef run_hook(arguments, agent):\n    {body}"
    done = run("checkout", "hook", "claude", "--limit=1", files={"app/doors/hook/hook_entry.py": entry})
    assert (done.returncode, done.stdout, done.stderr) == (2 if denied else 0, "no", "")


def test_a_limit_of_no_seconds_is_a_limit(run: Run) -> None:
    held_up = {"app/doors/hook/hook_entry.py": "import time\ntime.sleep(600)"}
    assert run("checkout", "hook", "claude", "--limit=0", files=held_up).returncode == 2


def test_an_answer_that_is_given_stands_though_what_comes_after_is_held_up(run: Run) -> None:
    entry = "import time\ndef run_hook(arguments, agent):\n    agent.answer(b'no' * 99_999)\n    time.sleep(600)\n"
    done = run("checkout", "hook", "claude", "--limit=1", files={"app/doors/hook/hook_entry.py": entry})
    assert (done.returncode, done.stdout, done.stderr) == (0, "no" * 99_999, "")


def test_before_a_prompt_no_failure_takes_the_words_of_the_user_away(run: Run) -> None:
    entry = "import time\ndef run_hook(arguments, agent):\n    agent.allow_on_failure()\n    time.sleep(600)\n"
    done = run("checkout", "hook", "claude", "--limit=1", files={"app/doors/hook/hook_entry.py": entry})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_hook_child_ends_with_its_parent_process(run: Run, tmp_path: Path) -> None:
    """What nobody waits for any more is not staged behind the agent's back."""
    told = tmp_path / "told"
    os.mkfifo(told)
    entry = (
        f"import os, time\ndef run_hook(arguments, agent):\n    os.open({str(told)!r}, os.O_WRONLY)\n"
        "    os.kill(os.getppid(), 9)\n    time.sleep(600)\n"
    )
    with ThreadPoolExecutor(1) as pool:
        # Read to its end, which comes when the child has ended.
        end = pool.submit(told.read_bytes)
        assert run("checkout", "hook", "claude", files={"app/doors/hook/hook_entry.py": entry}).returncode == -9
        assert end.result(60) == b""


def test_ctrl_c_while_loading_shows_no_traceback(run: Run) -> None:
    done = run("checkout", files={"app/cli/main.py": "raise KeyboardInterrupt"})
    assert (done.returncode, done.stderr) == (130, "")
