"""Name patterns as models write them: `*.py`, `src/**/*.{ts,tsx}`, `tests`."""

import re
from collections.abc import Callable

from app.tools.contract import ToolError
from app.workspace.path_rules import LONGEST_PATH
from app.workspace.wildmatch import expression, parse

_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST = 64
"""Patterns that one with braces may stand for."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """A test of paths, by the rules of gitignore patterns.

    A pattern without a slash is looked for in any folder; `**` crosses folders; a folder's name stands for all in it.

    Raises:
        ToolError: The pattern makes no sense.
    """
    expressions: list[str] = []
    for single in _without_braces(pattern.strip()):
        literal = "\\" + single if single.startswith(("!", "#")) else single
        rule = parse(literal.removeprefix("./"))
        translated = expression(rule) if rule and len(rule.text) <= LONGEST_PATH else None
        if rule is None or translated is None:
            raise ToolError(f"{pattern!r} is not a usable pattern; write one like *.py or src/**/*.ts.")
        anywhere = "" if rule.anchored else "(?:.*/)?"
        below = "/.+" if rule.folders_only else "(?:/.+)?"
        expressions.append(f"{anywhere}(?:{translated}){below}")
    compiled = re.compile("|".join(expressions), re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None


def _without_braces(pattern: str) -> list[str]:
    """The patterns that one with `{a,b}` stands for."""
    done: list[str] = []
    todo = [pattern]
    while todo and len(todo) + len(done) <= _MOST:
        single = todo.pop()
        if found := _BRACES.search(single):
            todo.extend(single[: found.start()] + choice + single[found.end() :] for choice in found[1].split(","))
        else:
            done.append(single)
    if todo:
        raise ToolError(f"{pattern!r} stands for too many patterns; write a simpler one.")
    return done
