"""Name patterns as models write them: `*.py`, `src/**/*.{ts,tsx}`, `tests`."""

import re
from collections.abc import Callable

from app.tools.contract import ToolError

_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST = 64
"""Patterns that one with braces may stand for."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """A test of paths, by the rules of gitignore patterns.

    A pattern without a slash is looked for in any folder; `**` crosses folders; a folder's name stands for all in it.

    Raises:
        ToolError: The pattern makes no sense.
    """
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    expressions: list[str] = []
    for single in _without_braces(pattern.strip()):
        literal = "\\" + single if single.startswith(("!", "#")) else single
        try:
            translated, _ = GitIgnoreSpecPattern.pattern_to_regex(literal.removeprefix("./"))
        except ValueError:
            translated = None
        if not translated:
            raise ToolError(f"{pattern!r} is not a usable pattern; write one like *.py or src/**/*.ts.")
        translated = re.sub(r"\(\?P<\w+>", "(?:", translated)
        expressions.append(translated if translated.startswith("^") else f"^.*{translated}")
    expression = re.compile("|".join(expressions), re.DOTALL)
    return lambda path: expression.match(path) is not None


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
