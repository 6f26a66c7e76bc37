"""Which commands of a shell count as decisions in signoff."""

import pytest

from app.doors.hook.deciding_commands import decides


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
    assert decides(line)


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
    assert not decides(line)


def test_what_stands_in_itself_ever_deeper_ends() -> None:
    line = "signoff show"
    for _ in range(40):
        line = f'sh -c "{line}"'
    assert not decides(line * 100)
