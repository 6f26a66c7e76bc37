"""One command: what its file says of it, and the message that it makes of what was typed behind its name."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import get_args

from app.config.model_table import Effort
from app.text.front_matter import parse_front_matter
from app.text.safe_text import visible

LONGEST_MESSAGE = 500_000
"""Characters of a message: a placeholder can stand in a file many times."""
_LONGEST_LINE = 200
"""Characters of a description or a hint."""

_NAME = re.compile(r"[^\W\d_][\w-]*(?::[\w-]+)*")
_SHELL = re.compile(r"(?:^|(?<=\s))!`([^`\n]+)`|^```!", re.MULTILINE)
_PLACE = re.compile(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")


class CommandUnusable(Exception):
    """The command cannot be called, or not so; the message is one line that says why."""

    def __init__(self, message: str, *, untrusted: bool = False) -> None:
        """`untrusted`: for want of the user's trust."""
        super().__init__(message)
        self.untrusted = untrusted


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A command as its file has it."""

    name: str
    """`review`, or `git:review` for one in a folder; in lower case."""
    path: str
    """Its file, as the user knows it."""
    description: str = ""
    argument: str = ""
    """What it takes, for the user's eyes: `[file] [what to look for]`."""
    body: str = ""
    model: str = ""
    """The model for its message; empty for the one in use."""
    effort: str = ""
    """The reasoning effort for its message; empty for the one in use."""
    shell: int = 0
    """How many commands of a shell it wants to run; none of them is."""
    problem: str = ""
    """Why it cannot be called; empty if it can."""

    @property
    def told(self) -> str:
        """Its line in a list."""
        return " · ".join(part for part in (self.argument, self.description) if part)

    def message(self, argument: str) -> str:
        """What the model gets for what was typed behind the name; raises CommandUnusable."""
        if self.problem:
            raise CommandUnusable(f"/{self.name} cannot be used: {self.path}: {self.problem}.")
        text = expand(self.body, argument)
        if not text.strip():
            raise CommandUnusable(f"/{self.name} says nothing: {self.path} is empty.")
        return text


def name_of(path: str) -> str:
    """The name that a file below a folder of commands has; raises CommandUnusable if it can have none."""
    name = ":".join(PurePosixPath(path).with_suffix("").parts).lower()
    if not _NAME.fullmatch(name):
        raise CommandUnusable("a command's name is made of letters, digits, - and _, and begins with a letter")
    return name


def read_command(name: str, path: str, content: bytes, *, takes_model: bool = True) -> OwnCommand:
    """A command from its file.

    Args:
        name: what it is called by.
        path: its file, for the user's eyes.
        content: of the file.
        takes_model: whether a `model` in it is one of ours: other programs name models of their own endpoint.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return OwnCommand(name, path, problem="it is not UTF-8 text")
    if "\0" in text:
        return OwnCommand(name, path, problem="it is not text")
    markdown = parse_front_matter(text)
    values, body = markdown.values, markdown.body.strip()
    first = next((line.strip("# \t") for line in body.splitlines() if line.strip("# \t")), "")
    effort = values.get("effort", "").lower()
    problem = markdown.problem
    if effort and effort not in get_args(Effort):
        problem = problem or f"effort is one of {', '.join(get_args(Effort))}"
    return OwnCommand(
        name,
        path,
        _line(values.get("description", "") or first),
        _line(values.get("argument-hint", "")),
        body,
        _model(values) if takes_model else "",
        effort,
        len(_SHELL.findall(body)),
        problem,
    )


def expand(body: str, argument: str) -> str:
    """The body with `$ARGUMENTS` and `$1` to `$9` filled in; what has no place in it goes below it.

    What is filled in is not looked through again. Words are parted as a shell does, by quotes and spaces; where the
    quotes do not match, as in "don't", by spaces alone. Raises CommandUnusable if it becomes too long.
    """
    argument = argument.strip()
    words = _words(argument)
    parts: list[str] = []
    length = position = 0
    for place in _PLACE.finditer(body):
        if place[1]:
            number = int(place[1])
            filled = words[number - 1] if number <= len(words) else ""
        else:
            filled = argument
        parts += body[position : place.start()], filled
        position = place.end()
        length += len(filled)
        if length > LONGEST_MESSAGE:
            raise CommandUnusable(f"That makes a message of more than {LONGEST_MESSAGE:,} characters.")
    text = "".join([*parts, body[position:]])
    if argument and not parts:
        text = f"{text}\n\n{argument}"
    return text.strip()


def _words(argument: str) -> list[str]:
    try:
        return shlex.split(argument)
    except ValueError:
        return argument.split()


def _model(values: Mapping[str, str]) -> str:
    named = " ".join(values.get("model", "").split())
    return "" if named.lower() in ("inherit", "default") else named


def _line(text: str) -> str:
    line = visible(" ".join(text.split()), keep="")
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1].rstrip() + "…"
