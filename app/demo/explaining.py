"""Explains files from what is in them: what they say of themselves, what they define, how they begin."""

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from app.demo.words import MOST_LINES, WORDS, quoted, ticked

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def explain_project(texts: Mapping[str, str], file_count: int) -> str:
    """What a workspace holds, from the files that were read and the number of all."""
    readme = next((text for path, text in texts.items() if PurePosixPath(path).stem.lower() == "readme"), "")
    opening = _first_paragraph(readme)
    rows = [f"`{path}` | {len(text.splitlines())} | {_purpose(path, text)}" for path, text in texts.items()]
    parts = [f"**{opening}**" if opening else "There is no README, so this is from the files themselves."]
    parts.append(f"The workspace has {file_count} files; I read {len(texts)} of them.")
    parts.append(_table("file | lines | what it is", rows))
    return "\n\n".join([*parts, "Ask me to explain one of them and I go into it."])


def explain_file(path: str, text: str) -> str:
    """What `path` holds, in Markdown."""
    parts = [f"**`{path}`**, {len(text.splitlines())} lines. {_purpose(path, text)}".strip()]
    tree = _parsed(path, text) or ast.Module([], [])
    nodes = [node for node in tree.body if isinstance(node, _Definition)]
    if nodes:
        rows = [f"`{_signature(node)}` | {node.lineno} | {_docstring(node) or '—'}" for node in nodes]
        parts.append(_table("what | line | what it says of itself", rows))
    opening, suffix = "\n".join(text.splitlines()[:MOST_LINES]), PurePosixPath(path).suffix[1:]
    parts.append(f"It begins like this:\n\n{quoted(opening, language=WORDS['languages'].get(suffix, ''))}")
    if silent := ticked([node.name for node in nodes if not _docstring(node)]):
        parts.append(f"No docstring: {silent}. Ask me to *add docstrings to {path}* and I propose some.")
    return "\n\n".join(parts)


def _table(head: str, rows: Sequence[str]) -> str:
    return "\n".join(f"| {row} |" for row in (head, "--- | ---: | ---", *rows))


def _signature(node: _Definition) -> str:
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    return f"{node.name}({', '.join(argument.arg for argument in node.args.args)})"


def _purpose(path: str, text: str) -> str:
    """One line about a file, safe in a table cell."""
    if path.endswith(".py"):
        tree = _parsed(path, text)
        return "This is no valid Python." if tree is None else _docstring(tree)
    found = re.search(r'^description\s*=\s*"(.+)"$', text, re.MULTILINE)
    prose = _first_paragraph(text) if path.endswith((".md", ".rst", ".txt")) else ""
    return _cell(found[1] if found else prose)


def _parsed(path: str, text: str) -> ast.Module | None:
    """The syntax tree of Python; None if it isn't."""
    try:
        return ast.parse(text) if path.endswith(".py") else None
    except (SyntaxError, ValueError):
        return None


def _docstring(node: _Definition | ast.Module) -> str:
    """Its first line, safe in a table cell."""
    return _cell((ast.get_docstring(node) or "").strip().partition("\n")[0])


def _first_paragraph(text: str) -> str:
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return next((paragraph for paragraph in paragraphs if paragraph and paragraph[0] not in "#`"), "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")[:110]
