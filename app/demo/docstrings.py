"""Adds the docstrings that a Python file lacks, worded from names and arguments."""

import ast
import re

from app.demo.words import ticked

_FunctionOrClass = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def documented(text: str, first_only: bool) -> str:
    """`text` with a docstring in every top-level function and class that has none, or just in the first.

    Raises SyntaxError or ValueError if it isn't Python.
    """
    lines = text.splitlines(keepends=True)
    nodes = [node for node in ast.parse(text).body if isinstance(node, _FunctionOrClass)]
    missing = [node for node in nodes if ast.get_docstring(node) is None and _has_own_lines(node, lines)]
    for node in reversed(missing[:1] if first_only else missing):
        first = node.body[0]
        lines.insert(first.lineno - 1, _docstring(node, " " * first.col_offset))
    return "".join(lines)


def _has_own_lines(node: _FunctionOrClass, lines: list[str]) -> bool:
    """Whether the body begins below the line of the name."""
    return not lines[node.body[0].lineno - 1][: node.body[0].col_offset].strip()


def _docstring(node: _FunctionOrClass, indent: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name).strip("_").lower().replace("_", " ")
    if isinstance(node, ast.ClassDef):
        return f'{indent}"""The {words}."""\n'
    arguments = [argument for argument in node.args.args if argument.arg not in ("self", "cls")]
    names = ticked([argument.arg for argument in arguments])
    sentence = f"Return the {words}" + (f" for {names}" if names else "")
    if words.startswith("to ") and arguments:
        sentence = f"Return `{arguments[0].arg}` in {words.removeprefix('to ')}"
    return f'{indent}"""{sentence}."""\n'
