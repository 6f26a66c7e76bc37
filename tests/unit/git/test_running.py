"""Git as a process: found, bounded, ended with all that it started, and without it."""

import os
import pwd
import random
import resource
from pathlib import Path

import pytest

from app.git.run_git import GitFailed, git_identity, run_git
from tests.unit.proposals.faults import in_child
from tests.unit.tools.processes import running
from tests.users import OTHER, can_be
from tests.waiting import until


def test_without_git_it_says_what_else_there_is(tmp_path: Path) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\n")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(GitFailed, match="Git is not installed; install it, or stage a diff"):
        run_git(tmp_path, ["version"], {"PATH": "."})


def test_where_it_can_not_be_started_it_says_why(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match=r"Git can't be run \(No such file or directory\)"):
        run_git(tmp_path / "gone", ["version"], os.environ)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
async def test_it_is_ended_at_its_limit_with_all_that_it_started(tmp_path: Path) -> None:
    mark = f"{random.randrange(10**6, 10**7)}.75"
    with pytest.raises(GitFailed, match="Git took longer than 0 s; nothing was done"):
        run_git(tmp_path, ["-c", f"alias.slow=!sleep {mark}", "slow"], os.environ, seconds=0.2)
    await until(lambda: not running(mark), "the end of all")


def test_it_runs_where_files_are_limited_to_less_already() -> None:
    def ask() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        if can_be(OTHER):
            os.setuid(OTHER)
        assert run_git(Path("/"), ["version"], os.environ)

    assert in_child(ask) == 0


def test_whoever_has_no_name_is_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert git_identity(tmp_path) == f"uid {os.getuid()}"
