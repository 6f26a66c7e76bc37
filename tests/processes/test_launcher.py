"""The installed `signoff` finds its packages in any folder, and a hook denies after any failure."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import app.launcher

Launch = Callable[..., "subprocess.CompletedProcess[str]"]

ENTRIES = {
    "app/__init__.py": "",
    "app/launcher/__main__.py": "",
    "app/cli/main.py": "def main():\n    return 7\n",
    "app/doors/hook/hook_entry.py": "def run_hook(arguments, agent):\n    agent.answer(b'%d' % len(arguments))\n",
}


@pytest.fixture
def run(tmp_path: Path) -> Launch:
    """Return a function that runs a copy of the launcher with packages in `where`, in a folder with another `app`."""
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


def test_launcher_finds_the_checkout_or_the_bundle_which_has_precedence(run: Launch) -> None:
    for where, code in (("checkout", 8), ("site/signoff/_bundle", 7)):
        assert run(where, files={"app/cli/main.py": f"def main():\n    return {code}\n"}).returncode == code
        done = run(where, "hook", "claude")
        assert (done.returncode, done.stdout) == (0, "1")


@pytest.mark.parametrize("failure", ["raise SystemExit(0)", "raise KeyboardInterrupt", "import nothing", "1 +"])
def test_hook_that_does_not_start_denies(run: Launch, failure: str) -> None:
    files = {"app/doors/hook/hook_entry.py": failure}
    done = run("checkout", "hook", "claude", files=files)
    assert done.returncode == 2
    assert done.stderr.startswith("Denied, and nothing was written: signoff does not start")
    if failure == "1 +":
        with Path("/dev/full").open("w") as full:
            assert run("checkout", "hook", "claude", files=files, stderr=full.fileno()).returncode == 2


PARTIAL_ANSWER = "import os, time\ndef run_hook(arguments, agent):\n    os.write(agent._answers, b'{')\n"
BLOCKED_HOOKS = {
    "while it is imported": "import time\ntime.sleep(600)",
    "with signals blocked": "import signal as s\ns.pthread_sigmask(s.SIG_BLOCK, s.valid_signals())\nwhile 1: pass",
    "in one long call into C": "sum(range(10**15))",
    "stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "half way": f"{PARTIAL_ANSWER}    time.sleep(600)",
}


@pytest.mark.parametrize("blocked_hook", BLOCKED_HOOKS.values(), ids=list(BLOCKED_HOOKS))
def test_blocked_hook_denies_within_its_limit(run: Launch, blocked_hook: str) -> None:
    done = run(
        "checkout", "hook", "claude", "--wait=1", "--limit", "0", files={"app/doors/hook/hook_entry.py": blocked_hook}
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Denied, and nothing was written: signoff had no answer within 1 s.")


@pytest.mark.parametrize("ending", ["os._exit(0)", "os._exit(1)", "os.kill(os.getpid(), 9)", "return 0"])
def test_hook_that_ends_with_a_partial_answer_denies(run: Launch, ending: str) -> None:
    done = run(
        "checkout", "hook", "claude", files={"app/doors/hook/hook_entry.py": f"{PARTIAL_ANSWER}    {ending}\n"}
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Denied, and nothing was written: signoff ended with")


@pytest.mark.parametrize(
    ("answer", "said", "code"),
    [
        ("agent.answer(b'no' * 99_999, denied=True)", "no" * 99_999, 2),
        ("agent.answer(b'no', denied=False)", "no", 0),
        ("agent.allow_on_failure()", "", 0),
    ],
    ids=["denied", "answered", "a prompt"],
)
def test_exit_code_shows_the_decision_if_the_child_never_ends(run: Launch, answer: str, said: str, code: int) -> None:
    entry = f"import time\ndef run_hook(arguments, agent):\n    {answer}\n    time.sleep(600)\n"
    done = run("checkout", "hook", "claude", "--limit=1", files={"app/doors/hook/hook_entry.py": entry})
    assert (done.returncode, done.stdout, done.stderr) == (code, said, "")


def test_hook_child_ends_with_its_parent_process(run: Launch, tmp_path: Path) -> None:
    """Otherwise an edit would be staged although no caller waits for the answer."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    entry = (
        f"import os, time\ndef run_hook(arguments, agent):\n    os.open({str(fifo)!r}, os.O_WRONLY)\n"
        "    os.kill(os.getppid(), 9)\n    time.sleep(600)\n"
    )
    with ThreadPoolExecutor(1) as pool:
        # Reading ends when the child has ended.
        end = pool.submit(fifo.read_bytes)
        assert run("checkout", "hook", "claude", files={"app/doors/hook/hook_entry.py": entry}).returncode == -9
        assert end.result(60) == b""


def test_ctrl_c_while_loading_shows_no_traceback(run: Launch) -> None:
    done = run("checkout", files={"app/cli/main.py": "raise KeyboardInterrupt"})
    assert (done.returncode, done.stderr) == (130, "")
