"""Adds the docstrings that a Python file lacks, worded from names and arguments."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_FunctionOrClass = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class DocstringStyle:
    """How to word them."""

    brief: bool = False
    """Leave the arguments out."""
    detailed: bool = False
    """Add what goes in and what comes out, by the annotations."""
    first_only: bool = False
    """Only the first one that is missing in each file."""

    def reasons(self) -> list[str]:
        """What sets this style apart, a sentence each."""
        told = [
            (self.brief, "They are brief."),
            (self.detailed, "They say what goes in and what comes out."),
            (self.first_only, "It is a single one, so that you can see the style first."),
        ]
        return [sentence for wanted, sentence in told if wanted]


def docstring_styles(feedback: Sequence[str]) -> Iterator[DocstringStyle]:
    """Styles, best first: what the feedback asks for, then variations of it."""
    asked = DocstringStyle()
    for words in feedback:
        lowered = words.lower()
        brief = bool(re.search(r"\b(?:short|brief|terse|concise)", lowered))
        detailed = bool(re.search(r"\b(?:argument|parameter|detail|long|more|return|type)", lowered))
        first_only = bool(re.search(r"\b(?:only|smaller|one|first)\b", lowered))
        asked = DocstringStyle(brief, (detailed or asked.detailed) and not brief, first_only)
    yield asked
    yield replace(asked, detailed=True, brief=False)
    yield replace(asked, brief=True, detailed=False)
    yield replace(asked, first_only=True)
    yield replace(asked, detailed=True, brief=False, first_only=True)


def documented(text: str, style: DocstringStyle) -> str:
    """`text` with a docstring in every top-level function and class that has none; SyntaxError if it isn't Python."""
    lines = text.splitlines(keepends=True)
    missing = [node for node in ast.parse(text).body if _lacks_docstring(node, lines)]
    if style.first_only:
        missing = missing[:1]
    for node in reversed(missing):
        assert isinstance(node, _FunctionOrClass)
        first = node.body[0]
        lines.insert(first.lineno - 1, _docstring(node, style, " " * first.col_offset))
    return "".join(lines)


def _lacks_docstring(node: ast.stmt, lines: list[str]) -> bool:
    if not isinstance(node, _FunctionOrClass) or ast.get_docstring(node) is not None:
        return False
    first = node.body[0]
    return not lines[first.lineno - 1][: first.col_offset].strip()


def _docstring(node: _FunctionOrClass, style: DocstringStyle, indent: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name).strip("_").lower().replace("_", " ")
    if isinstance(node, ast.ClassDef):
        return f'{indent}"""The {words}."""\n'
    arguments = [argument for argument in node.args.args if argument.arg not in ("self", "cls")]
    names = [f"`{argument.arg}`" for argument in arguments]
    if words.startswith("to ") and names:
        sentence = f"Return {names[0]} in {words.removeprefix('to ')}"
    else:
        sentence = f"Return the {words}" + (f" for {_listed(names)}" if names and not style.brief else "")
    facts = [f"{argument.arg}: {ast.unparse(argument.annotation)}" for argument in arguments if argument.annotation]
    gives = ast.unparse(node.returns) if node.returns else ""
    if not style.detailed or not (facts or gives):
        return f'{indent}"""{sentence}."""\n'
    lines = ["", "Takes " + ", ".join(facts) + "."] if facts else [""]
    lines += [f"Gives {gives}."] if gives else []
    body = "".join(f"{indent}{line}\n" if line else "\n" for line in lines)
    return f'{indent}"""{sentence}.\n{body}{indent}"""\n'


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
