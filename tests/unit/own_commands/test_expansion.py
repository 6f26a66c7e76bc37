"""The message that a command makes of what was typed behind its name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.prompts.custom_commands import LONGEST_MESSAGE, CommandUnusable, command_name, expand, read_command


@pytest.mark.parametrize(
    ("body", "argument", "message"),
    [
        ("Look at $ARGUMENTS.", "a b", "Look at a b."),
        ("$1 then $2, $1", "'one two' three", "one two then three, one two"),
        ("$1 and $2.", "only", "only and ."),
        ("Explain: $1", "don't panic", "Explain: don't"),
        ("It costs $100, ${1} and $ARGUMENTSX", "x", "It costs $100, ${1} and $ARGUMENTSX\n\nx"),
        ("Nothing to fill in", "see @src/app.py", "Nothing to fill in\n\nsee @src/app.py"),
        ("$ARGUMENTS", "$1 $ARGUMENTS", "$1 $ARGUMENTS"),
        ("Alone", "", "Alone"),
    ],
)
def test_arguments_are_filled_in_once(body: str, argument: str, message: str) -> None:
    assert expand(body, argument) == message


@given(st.text().filter(lambda text: "$" not in text), st.text())
def test_what_is_typed_is_in_the_message_and_not_looked_through(body: str, argument: str) -> None:
    assert expand(f"{body}<$ARGUMENTS>", argument) == f"{body}<{argument.strip()}>".strip()


def test_a_message_has_an_end() -> None:
    with pytest.raises(CommandUnusable, match="500,000"):
        expand("$ARGUMENTS" * 6, "x" * (LONGEST_MESSAGE // 5))


@pytest.mark.parametrize(
    ("path", "name"), [("Review.md", "review"), ("git/Sign-off.md", "git:sign-off"), ("über.md", "über")]
)
def test_a_file_is_called_by_its_path(path: str, name: str) -> None:
    assert command_name(path) == name


@pytest.mark.parametrize("path", ["a b.md", "1.md", "x\x1b[2J.md", "a/../b.md", "v1.2.md", ".md"])
def test_a_name_that_cannot_be_typed_is_none(path: str) -> None:
    with pytest.raises(CommandUnusable, match="letters"):
        command_name(path)


def test_front_matter_is_what_it_says() -> None:
    written = (
        b"---\ndescription: Do\x1b[31m it\nargument-hint: [file]\nmodel: big-one\neffort: High\n---\nGo. !`ls` !`pwd`"
    )
    command = read_command("go", "commands/go.md", written)
    assert (command.argument, command.model, command.effort, command.shell) == ("[file]", "big-one", "high", 2)
    assert command.description == "Do␛[31m it", "escapes are for no terminal"
    assert read_command("go", "x", written, takes_model=False).model == ""
    assert read_command("go", "x", b"# Title\n\ntext").description == "Title"


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"\xff", "UTF-8"), (b"a\0b", "not text"), (b"---\nx: y\n", "no end"), (b"---\neffort: huge\n---\nx", "effort")],
)
def test_a_broken_file_says_so_when_it_is_called(content: bytes, problem: str) -> None:
    with pytest.raises(CommandUnusable, match=problem):
        read_command("go", "commands/go.md", content).message("")
