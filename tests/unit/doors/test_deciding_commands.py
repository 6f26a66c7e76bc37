"""Which commands of a shell count as decisions in signoff."""

import pytest

from app.doors.hook.hook_entry import is_deciding_command, starts_shell


@pytest.mark.parametrize(
    "line",
    [
        "signoff approve P1",
        "env A=1 /usr/bin/signoff deny P1 -m no",
        "sh -c 'signoff approve P1'",
        """bash -lc "sh -c 'signoff approve P1'\"""",
        "python3 -P -m signoff undo P1",
        "python -msignoff redo P1",
        "cd x && git diff | signoff stage -",
        "echo P1|xargs signoff approve",
        "sig''noff app\"\"rove P1",
        "x=$(signoff approve P1)",
        "`signoff approve P1`",
        "(signoff approve P1)&",
        "{ signoff review; }",
        "uvx signoff@latest approve P1",
        "uv run --with signoff==0.2 signoff approve P1",
        "signoff \\\n  approve P1",
        "bash <<EOF\nsignoff approve P1\nEOF",
        "true # signoff\nsignoff approve P1",
        "signoff approve 'P1",
    ],
)
def test_what_decides_is_recognised(line: str) -> None:
    assert is_deciding_command(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ls",
        "signoff proposals",
        "signoff show P1",
        "echo signoff",
        "git commit --signoff -m approve",
        "signoff log",
    ],
)
def test_what_does_not_goes_through(line: str) -> None:
    assert not is_deciding_command(line)


@pytest.mark.parametrize(
    "line",
    [
        "bash",
        "/bin/sh -i",
        "exec zsh --login",
        "cd x && env A=1 bash",
        "(bash -s)",
        "bash -lc 'exec sh'",
        "sh -c \"bash -c 'fish'\"",
    ],
)
def test_a_shell_that_is_to_be_written_to_is_recognised(line: str) -> None:
    assert starts_shell(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "which bash",
        "apt-get install -y zsh",
        "bash script.sh",
        "bash -lc ls",
        "bash --version",
        "cat install.sh | sh",
        "bash < script.sh",
        "bash <<EOF\nls\nEOF",
        "sh -c 'cat x | bash'",
        "ls -c bash",
        "echo 'bash'",
    ],
)
def test_a_shell_with_a_script_is_not(line: str) -> None:
    assert not starts_shell(line)


def test_what_stands_in_itself_ever_deeper_ends() -> None:
    line = "signoff show"
    for _ in range(40):
        line = f'sh -c "{line}"'
    assert not is_deciding_command(line * 100)
