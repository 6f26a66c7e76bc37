"""What the demo model says and is asked: the tables of `words.toml`, and the shape of a reply."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORDS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
MODEL_ID = "signoff-demo"
PATH = re.compile(r"(?<![\w/])(?:[\w@.-]+/)*[\w@.-]*\w\.[A-Za-z]\w{0,9}\b|(?<![\w/])(?:[\w@.-]+/)+[\w@.-]+")
"""Something that looks like a file: a dot and a suffix, or a slash."""
MOST_LINES = 14
"""Lines of a quotation."""


@dataclass(frozen=True, slots=True)
class NewCall:
    """A tool call to make."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DemoReply:
    """Text, Markdown, and the calls that follow it."""

    text: str
    calls: Sequence[NewCall] = ()


def quoted(text: str, *, language: str = "") -> str:
    """The last lines of `text` as a fenced code block that nothing in it can close."""
    shown = "\n".join(text.strip("\n").splitlines()[-MOST_LINES:])
    longest = max((len(run) for run in re.findall(r"`{3,}", shown)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def ticked(names: Sequence[object]) -> str:
    """A list of names, each as code: "`a`, `b` and `c`"."""
    return listed([f"`{name}`" for name in names])


def listed(names: Sequence[str]) -> str:
    """A list in a sentence: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
