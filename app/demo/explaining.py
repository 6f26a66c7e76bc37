"""Explains files from what is in them: the outline of Python by its syntax tree, of other text by its look."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from app.demo.reply import quoted

_LANGUAGES = {
    ".c": "c", ".css": "css", ".go": "go", ".html": "html", ".js": "javascript", ".json": "json",
    ".md": "markdown", ".py": "python", ".rs": "rust", ".sh": "bash", ".toml": "toml", ".ts": "typescript",
    ".yaml": "yaml", ".yml": "yaml",
}  # fmt: skip
_DEFINITION = re.compile(
    r"^\s*(?:export\s+|pub\s+|public\s+|static\s+|async\s+)*"
    r"(?:def|fn|func|function|class|struct|enum|trait|interface|impl|type|module)\s+(\w+)",
    re.MULTILINE,
)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_LONGEST_EXCERPT = 14
"""Lines of code shown."""


@dataclass(frozen=True, slots=True)
class _Definition:
    """A function or class."""

    name: str
    signature: str
    line: int
    length: int
    """Lines."""
    says: str
    """First line of its docstring."""


def language_of(path: str) -> str:
    """The name by which a fenced code block knows the language of `path`; empty if unknown."""
    return _LANGUAGES.get(PurePosixPath(path).suffix, "")


def line_count(text: str) -> int:
    """Lines in `text`."""
    return len(text.splitlines())


def explain_file(path: str, text: str) -> str:
    """What `path` holds, in Markdown."""
    if path.endswith(".py"):
        try:
            return _explain_python(path, text, ast.parse(text))
        except (SyntaxError, ValueError) as error:
            return f"`{path}` is {line_count(text)} lines that Python can't parse: {error}."
    return _explain_text(path, text)


def explain_project(texts: Mapping[str, str], paths: list[str]) -> str:
    """What a workspace holds, from the files that were read and the list of all."""
    readme = next((text for path, text in texts.items() if PurePosixPath(path).stem.lower() == "readme"), "")
    rows = [f"| `{path}` | {line_count(text)} | {_purpose(path, text)} |" for path, text in texts.items()]
    opening = _first_paragraph(readme)
    parts = [f"**{opening}**" if opening else "There is no README, so this is from the files themselves."]
    parts.append(f"The workspace has {len(paths)} files; I read {len(texts)} of them.")
    parts.append("\n".join(["| file | lines | what it is |", "| --- | ---: | --- |", *rows]))
    parts.append("Ask me to explain one of them and I go into it.")
    return "\n\n".join(parts)


def _explain_python(path: str, text: str, tree: ast.Module) -> str:
    definitions = _definitions(tree)
    parts = [f"**`{path}`**, {line_count(text)} lines of Python. {_first_line(ast.get_docstring(tree))}".strip()]
    if imported := _imported(tree):
        parts.append("It builds on " + ", ".join(f"`{name}`" for name in imported) + ".")
    if constants := _constants(tree, text):
        parts.append("\n".join(["It fixes these values:", "", *(f"- `{constant}`" for constant in constants)]))
    if definitions:
        rows = [f"| `{item.signature}` | {item.line} | {_cell(item.says) or '—'} |" for item in definitions]
        parts.append("\n".join(["| what | line | what it says of itself |", "| --- | ---: | --- |", *rows]))
        parts.append(_excerpt(text, max(definitions, key=lambda item: min(item.length, _LONGEST_EXCERPT))))
    if silent := [item.name for item in definitions if not item.says]:
        names = ", ".join(f"`{name}`" for name in silent)
        parts.append(f"No docstring: {names}. Ask me to *add docstrings to {path}* and I propose some.")
    return "\n\n".join(parts)


def _excerpt(text: str, item: _Definition) -> str:
    lines = text.splitlines()[item.line - 1 : item.line - 1 + min(item.length, _LONGEST_EXCERPT)]
    code = "\n".join(lines)
    return f"The heart of it is `{item.name}`:\n\n{quoted(code, language='python')}"


def _definitions(tree: ast.Module) -> list[_Definition]:
    found: list[_Definition] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            signature = f"{node.name}({', '.join(argument.arg for argument in node.args.args)})"
        elif isinstance(node, ast.ClassDef):
            signature = f"class {node.name}"
        else:
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        says = _first_line(ast.get_docstring(node))
        found.append(_Definition(node.name, signature, node.lineno, length, says))
    return found


def _imported(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    return list(dict.fromkeys(names))


def _constants(tree: ast.Module, text: str) -> list[str]:
    assignments = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    sources = [ast.get_source_segment(text, node) or "" for node in assignments]
    return [source for source in sources if source and "\n" not in source and "`" not in source]


def _explain_text(path: str, text: str) -> str:
    parts = [f"**`{path}`**, {line_count(text)} lines. {_purpose(path, text)}".strip()]
    if path.endswith((".md", ".rst")) and (headings := _HEADING.findall(text)):
        parts.append("\n".join(["Its sections:", "", *(f"- {heading}" for heading in headings)]))
    elif names := list(dict.fromkeys(_DEFINITION.findall(text))):
        parts.append("It defines " + ", ".join(f"`{name}`" for name in names[:20]) + ".")
    opening = "\n".join(text.splitlines()[:_LONGEST_EXCERPT])
    parts.append(f"It begins like this:\n\n{quoted(opening, language=language_of(path))}")
    return "\n\n".join(parts)


def _purpose(path: str, text: str) -> str:
    """One line about a file, safe in a table cell."""
    if path.endswith(".py"):
        try:
            return _cell(_first_line(ast.get_docstring(ast.parse(text))))
        except (SyntaxError, ValueError):
            return "not valid Python"
    if found := re.search(r'^description\s*=\s*"(.+)"$', text, re.MULTILINE):
        return _cell(found[1])
    return _cell(_first_paragraph(text)) if path.endswith((".md", ".rst", ".txt")) else ""


def _first_paragraph(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text)
    prose = (" ".join(paragraph.split()) for paragraph in paragraphs if not paragraph.lstrip().startswith(("#", "`")))
    return next((paragraph for paragraph in prose if paragraph), "")


def _first_line(docstring: str | None) -> str:
    return docstring.strip().split("\n")[0] if docstring else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")[:110]
