"""Texts of the demo model, from `words.toml`, and the shape of a reply."""

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
    """Markdown text and the calls after it."""

    text: str
    calls: Sequence[NewCall] = ()


def fenced_code(text: str, *, language: str = "") -> str:
    """Return the last lines of a text as a fenced code block that its content cannot close."""
    shown = "\n".join(text.strip("\n").splitlines()[-MOST_LINES:])
    longest = max((len(run) for run in re.findall(r"`{3,}", shown)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def code_list(names: Sequence[object]) -> str:
    """Return names as code in a sentence: "`a`, `b` and `c`"."""
    return sentence_list([f"`{name}`" for name in names])


def sentence_list(names: Sequence[str]) -> str:
    """Return names in a sentence: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
