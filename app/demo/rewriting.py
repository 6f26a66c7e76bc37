"""What the demo model makes of files that it has read: a word renamed, missing docstrings added."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from app.demo.proposing import Variant
from app.demo.words import ticked

_PROSE = (".md", ".rst", ".txt", ".toml")
_NEW_NAME = re.compile(r"`([A-Za-z_]\w*)`|\b(?:call|name)(?:d|ed)? it\s+[\"']?([A-Za-z_]\w*)", re.IGNORECASE)
_LEAVE = re.compile(r"\b(?:not|leave|without|except|skip|don't touch)\b[^.\n]*", re.IGNORECASE)
_ONLY = re.compile(r"\bonly\b", re.IGNORECASE)


def renamings(old: str, new: str, sources: Mapping[str, str], feedback: Sequence[str]) -> Iterator[Variant]:
    """Ways to rename a word in `sources`, best first: what the feedback asks for, then without what is prose."""
    leave: set[str] = set()
    for words in feedback:
        names = [name for groups in _NEW_NAME.findall(words) for name in groups if name not in ("", old)]
        new = names[0] if names else new
        named = {path for path in sources if PurePosixPath(path).name in words}
        if _ONLY.search(words):
            leave |= set(sources) - named if named else set()
        elif found := _LEAVE.search(words):
            leave |= named | {path for path in sources if "test" in path and "test" in found[0]}
    word = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)")
    after = {path: word.sub(lambda _: new, text) for path, text in sources.items()}
    for left in (leave, leave | {path for path in sources if path.endswith(_PROSE)}):
        told = f" It leaves out {ticked(sorted(left))}." if left else ""
        taken = {path: text for path, text in after.items() if path not in left}
        yield Variant(f"`{old}` becomes `{new}`.{told}", taken, f"Rename {old} to {new}")


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
