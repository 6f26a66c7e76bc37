"""Programs for git: git itself and the user's diff program, how they are called, bounded and ended."""

import os
import pwd
import random
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from app.attestation.signed_statement import read_user_allowed_signers
from app.git import diff_program as module
from app.git.diff_program import ExternalDiffInput, ExternalDiffOutput, external_diff_command, run_external_diff
from app.git.run_git import GitFailed, read_git_author_identity, run_git
from app.sandbox.environment import absolute_search_path
from tests.unit.proposals.faults import in_child
from tests.unit.tools.processes import running
from tests.users import OTHER, can_become
from tests.waiting import until

TOOL = """\
import os, sys
path, old, _, old_mode, new, _, new_mode = sys.argv[1:]
print("\\x1b[1m%s\\x1b[0m %s %s" % (path, old_mode, new_mode))
print(os.path.basename(old), os.path.basename(new), os.environ["DFT_WIDTH"], os.environ.get("OPENAI_API_KEY"))
print(os.getcwd() == os.environ["LC_WORKSPACE"], sys.stdin.read())
for side in (old, new):
    print(open(side, encoding="utf-8").read())
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user with a home of their own and no configuration."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "OPENAI_API_KEY": "sk-secret",
        "LC_WORKSPACE": str(tmp_path),
    }


def tool(folder: Path, text: str = TOOL) -> str:
    """A diff program, as a line for the shell."""
    file = folder / "tool.py"
    file.write_text(text)
    return shlex.join([sys.executable, str(file)])


def test_programs_are_searched_outside_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "ws/bin")
    environment = {"PATH": f".:{tmp_path}/ws/bin:bin:{tmp_path}/link:/usr/bin"}
    assert absolute_search_path(environment, tmp_path / "ws") == "/usr/bin"
    assert absolute_search_path({"PATH": "/usr/bin:/bin"}, Path("/")) == "/usr/bin:/bin"


async def run(command: str, environment: dict[str, str], sides: ExternalDiffInput) -> ExternalDiffOutput:
    return await run_external_diff(command, sides, width=77, dark=True, environment=environment)


def test_the_users_configuration_chooses_in_its_order(tmp_path: Path, environment: dict[str, str]) -> None:
    assert external_diff_command("", environment) == ""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "difft").write_text("#!/bin/sh\n")
    (bin_folder / "difft").chmod(0o755)
    environment["PATH"] += f":{bin_folder}"
    assert external_diff_command("", environment) == "difft"
    (tmp_path / "home" / ".gitconfig").write_text("[diff]\n\texternal = mine --inline\n")
    assert external_diff_command("", environment) == "mine --inline"
    environment["GIT_EXTERNAL_DIFF"] = "of-environment"
    assert external_diff_command("", environment) == "of-environment"
    assert external_diff_command(" own ", environment) == "own"


def test_allowed_signers_of_an_included_file_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gitconfig").write_text("[include]\n\tpath = work\n")
    (tmp_path / "work").write_text('[gpg "ssh"]\n\tallowedSignersFile = ~/signers\n')
    (tmp_path / "signers").write_text("ann ssh-ed25519 AAAA\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_user_allowed_signers(os.environ) == b"ann ssh-ed25519 AAAA\n"


def test_a_repository_does_not_choose(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "hostile"
    subprocess.run(["git", "init", "-q", str(repository)], check=True, env=environment)
    with (repository / ".git" / "config").open("a") as config:
        config.write(f"[diff]\n\texternal = touch {tmp_path}/ran\n[include]\n\tpath = ../more\n")
    (repository / "more").write_text(f"[diff]\n\texternal = touch {tmp_path}/ran\n")
    (repository / "difft").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (repository / "difft").chmod(0o755)
    (tmp_path / "home" / ".gitconfig").write_text(f'[includeIf "gitdir:{repository}/"]\n\tpath = {repository}/more\n')
    monkeypatch.chdir(repository)
    environment["GIT_DIR"] = str(repository / ".git")
    environment["PATH"] = f".::{environment['PATH']}"
    assert external_diff_command("", environment) == ""


async def test_a_program_named_relatively_is_not_the_workspaces(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "evil").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    environment["PATH"] = f".:{environment['PATH']}"
    for command in ("evil", "./evil"):
        printed = await run(command, environment, ExternalDiffInput("evil", b"a", b"b"))
        assert "ended with 127" in printed.problem
    assert not (tmp_path / "ran").exists()


async def test_diff_program_is_called_like_by_git_without_secrets(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    sides = ExternalDiffInput("src/-a b.py", b"x = 1\n", b"x = '\x1b[8m'\n")
    printed = await run(tool(tmp_path), environment, sides)
    assert printed.problem == ""
    assert printed.output == (
        "\x1b[1msrc/-a b.py\x1b[0m 100644 100644\n-a b.py -a b.py 77 None\nFalse \nx = 1\n\nx = '␛[8m'\n\n"
    )
    assert not list(Path(os.environ.get("TMPDIR", "/tmp")).glob("signoff-diff-*/old/-a b.py"))


async def test_a_new_file_has_no_old_side(tmp_path: Path, environment: dict[str, str]) -> None:
    printed = await run("echo", environment, ExternalDiffInput("-n", None, b"b\n"))
    words = printed.output.split()
    assert words[:4] == ["./-n", "/dev/null", ".", "."]
    assert words[-1] == "100644"


async def test_a_git_process_that_hangs_is_killed_with_its_children(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS", 1.0)
    number = tmp_path / "number"
    printed = await run(
        f"echo begun; setsid sleep 600 & echo $! > {number}; wait;", environment, ExternalDiffInput("a", b"", b"")
    )
    assert printed.output == "begun\n"
    assert "was ended after 1 s" in printed.problem
    await until(lambda: not Path(f"/proc/{number.read_text().strip()}").exists(), "its end")


async def test_output_of_a_diff_program_is_bounded(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_DIFF_OUTPUT_BYTES", 2 << 20)
    printed = await run("head -c 4000000 /dev/zero | tr '\\0' x; :", environment, ExternalDiffInput("a", b"", b""))
    assert len(printed.output) == 2 << 20
    assert "more than 2 MB" in printed.problem


async def test_a_missing_temp_folder_is_named(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    printed = await run("cat", environment, ExternalDiffInput("a", None, b"a"))
    assert printed.output == "" and printed.problem.startswith("`cat` could not be run (")


def test_a_missing_git_is_reported_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\n")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(GitFailed, match="Git is not installed; install it, or stage a diff"):
        run_git(tmp_path, ["version"], {"PATH": "."})
    with pytest.raises(GitFailed, match=r"Git can't be run \(No such file or directory\)"):
        run_git(tmp_path / "gone", ["version"], os.environ)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
async def test_git_is_ended_at_its_limit_with_its_children(tmp_path: Path) -> None:
    mark = f"{random.randrange(10**6, 10**7)}.75"
    with pytest.raises(GitFailed, match="Git took longer than 0 s; nothing was done"):
        run_git(tmp_path, ["-c", f"alias.slow=!sleep {mark}", "slow"], os.environ, seconds=0.2)
    await until(lambda: not running(mark), "the end of all")


def test_git_runs_under_a_lower_file_size_limit() -> None:
    def ask() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        if can_become(OTHER):
            os.setuid(OTHER)
        assert run_git(Path("/"), ["version"], os.environ)

    assert in_child(ask) == 0


def test_a_user_without_a_name_is_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert read_git_author_identity(tmp_path) == f"uid {os.getuid()}"
