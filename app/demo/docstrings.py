"""Adds the docstrings that a Python file lacks, worded from names and arguments."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_FunctionOrClass = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class DocstringStyle:
    """How to word them."""

    arguments: bool = False
    """Name the arguments in the sentence."""
    imperative: bool = False
    """`Return the bar.`, not `The bar.`"""
    first_only: bool = False
    """Only the first one that is missing."""

    def reasons(self) -> list[str]:
        """What sets this style apart, a sentence each."""
        told = [
            (self.arguments, "They name the arguments."),
            (self.imperative, "They say what the function does, in the imperative."),
            (self.first_only, "It is a single one, so that you can see the style first."),
        ]
        return [sentence for wanted, sentence in told if wanted]


def docstring_styles(feedback: Sequence[str]) -> Iterator[DocstringStyle]:
    """Styles, best first: what the feedback asks for, then variations of it."""
    asked = DocstringStyle()
    for words in feedback:
        lowered = words.lower()
        asked = DocstringStyle(
            arguments=asked.arguments or bool(re.search(r"\bargument|\bparameter|\bdetail|\blonger", lowered)),
            imperative=asked.imperative or bool(re.search(r"\bimperative|\breturns?\b|\bverb", lowered)),
            first_only=bool(re.search(r"\bonly|\bsmaller|\bone\b|\bfirst\b", lowered)),
        )
    yield asked
    yield replace(asked, imperative=not asked.imperative)
    yield replace(asked, arguments=not asked.arguments)
    yield replace(asked, arguments=not asked.arguments, imperative=not asked.imperative)
    yield replace(asked, first_only=True)


def documented(text: str, style: DocstringStyle) -> str:
    """`text` with a docstring in every top-level function and class that has none; SyntaxError if it isn't Python."""
    lines = text.splitlines(keepends=True)
    missing = [node for node in ast.parse(text).body if _lacks_docstring(node, lines)]
    if style.first_only:
        missing = missing[:1]
    for node in reversed(missing):
        assert isinstance(node, _FunctionOrClass)
        first = node.body[0]
        lines.insert(first.lineno - 1, f'{" " * first.col_offset}"""{_sentence(node, style)}"""\n')
    return "".join(lines)


def _lacks_docstring(node: ast.stmt, lines: list[str]) -> bool:
    if not isinstance(node, _FunctionOrClass) or ast.get_docstring(node) is not None:
        return False
    first = node.body[0]
    return not lines[first.lineno - 1][: first.col_offset].strip()


def _sentence(node: _FunctionOrClass, style: DocstringStyle) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name).strip("_").lower().replace("_", " ")
    if isinstance(node, ast.ClassDef):
        return f"The {words}."
    names = [f"`{argument.arg}`" for argument in node.args.args if argument.arg not in ("self", "cls")]
    of = (" of " + _listed(names)) if names and style.arguments else ""
    if words.startswith("to ") and names:
        sentence = f"{names[0].strip('`')} in {words.removeprefix('to ')}"
        of = f", from {_listed(names)}" if style.arguments else ""
    else:
        sentence = f"the {words}"
    if style.imperative:
        return f"Return {sentence}{of}."
    return f"{sentence[0].upper()}{sentence[1:]}{of}."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
