"""What is read as one simple command is, to the byte, what a real shell passes on; everything else is not read."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.base.command_forms import NotSimpleCommand, parse_simple_command

SHELLS = [shell for shell in ("bash", "dash", "sh") if shutil.which(shell)]
TOKENS = st.sampled_from(
    [
        *("git", "diff", "-x", "a b", "--name=x", "ä", "#", "a#b", "=", "%1", "!", "^", "@", "time", "if", "0"),
        *("'", '"', "'a b'", '"a b"', '"\\$x"', '"\\a"', "\\", "\\ ", "\\\\", "\\'", "''", '""', "'\n'", ":"),
        *(";", "&", "&&", "|", "<", ">", "$", "$x", "$(id)", "`id`", "(", ")", "{", "}", "{a,b}", "*", "?", "[a]"),
        *("/a/b", "~", "\n", "\\\n", "\t", "\x1b", "\u00a0", "\u3000", "\r"),
    ]
)
TEXTS = st.lists(st.tuples(TOKENS, st.sampled_from(["", " "])), max_size=8).map(
    lambda parts: "".join(token + blank for token, blank in parts)
)


def passed_on(shell: str, text: str, folder: str) -> list[str]:
    """The words that a shell makes of a text behind the name of a program."""
    done = subprocess.run(
        # A line break ahead of a command is nothing to a shell, but would end the command that is put before it here.
        [shell, "-c", "printf '%s\\0' " + text.lstrip(" \t\n")],
        capture_output=True,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode == 0
    assert not done.stderr
    return done.stdout.decode().split("\0")[:-1]


@given(text=TEXTS)
def test_parsed_words_equal_those_of_a_real_shell(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        words = parse_simple_command(text)
    except NotSimpleCommand:
        return
    if not all(word.literal for word in words):
        return
    folder = tmp_path_factory.getbasetemp()
    for shell in SHELLS:
        assert passed_on(shell, text, str(folder)) == [word.text for word in words]


def test_quotes_are_taken_off_and_patterns_are_marked() -> None:
    words = parse_simple_command(""" ls  -l 'a b'"c"\\ d *.py "*" ~/x """)
    assert [word.text for word in words] == ["ls", "-l", "a bc d", "*.py", "*", "~/x"]
    assert [word.text for word in words if not word.literal] == ["*.py", "~/x"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "a; b", "a && b", "a & b", "a | b", "a > f", "a < f", "a 2>&1", "(a)", "{ a; }", "a {b,c}"),
        *("a $x", "a ${x}", "a $(b)", "a `b`", 'a "$x"', 'a "$(b)"', 'a "`b`"', "a $'b'", 'a $"b"'),
        *("A=1 a", "PATH=. a", "time a", "! a", "if a", "function f", "*", "a # b", "a\nb", "a \\\n b", 'a "b\\\nc"'),
        *("a 'b", 'a "b', "a \\", "a\x1bb", "a\u00a0b", "'a\x1b'", "%1"),
    ],
)
def test_what_could_do_more_is_not_read(text: str) -> None:
    with pytest.raises(NotSimpleCommand):
        parse_simple_command(text)
