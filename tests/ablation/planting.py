"""Find statements that can be removed from a source file, each with a defect that can replace it."""

import ast
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

MIN_DISTANCE = 4
"""Minimum number of lines between two statements."""
_MAX_BLOCK_LINES = 6
"""Maximum number of lines of an `if` that is removed as a whole."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in a function."""

    line: int
    """Number of its first line, from 0."""
    count: int
    """Number of its lines."""
    mutated: tuple[str, ...]
    """The same lines with a defect."""
    placeholder: str
    """The line that replaces the statement while it is removed."""

    @property
    def defect(self) -> str:
        """Return the mutated lines as one line."""
        return " ".join(line.strip() for line in self.mutated)


def find_statements(name: str, text: str) -> list[Statement]:
    """Return the statements of a file that can be removed; the suffix of `name` selects the language."""
    return list(_python_statements(text) if name.endswith(".py") else _brace_statements(text, name.endswith(".go")))


def choose_statements(statements: Sequence[Statement], count: int, dice: random.Random) -> list[Statement]:
    """Return random statements that are far enough apart, in the order of the file."""
    chosen: list[Statement] = []
    for statement in dice.sample(statements, len(statements)):
        if all(
            statement.line - (other.line + other.count) >= MIN_DISTANCE
            or other.line - (statement.line + statement.count) >= MIN_DISTANCE
            for other in chosen
        ):
            chosen.append(statement)
        if len(chosen) == count:
            break
    return sorted(chosen, key=lambda statement: statement.line)


def replace_statements(
    text: str, statements: Sequence[Statement], lines_of: Callable[[Statement], Sequence[str]]
) -> str:
    """Return the text with other lines in place of the statements."""
    lines = text.split("\n")
    for statement in sorted(statements, key=lambda statement: statement.line, reverse=True):
        lines[statement.line : statement.line + statement.count] = lines_of(statement)
    return "\n".join(lines)


# Python


class _Defect(ast.NodeTransformer):
    """Replaces the first suitable expression with a wrong one."""

    def __init__(self) -> None:
        self.done = False

    def visit(self, node: ast.AST) -> ast.AST:
        return node if self.done else super().visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        swaps = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn}
        swaps |= {ast.NotIn: ast.In, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}
        node.ops[0] = swaps[type(node.ops[0])]()
        self.done = True
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        self.done = True
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        swaps = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Mod: ast.Add}
        if (swap := swaps.get(type(node.op))) is not None:
            node.op = swap()
            self.done = True
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        self.done = True
        match node.value:
            case bool():
                return ast.Constant(not node.value)
            case int() | float():
                return ast.Constant(node.value + 1)
            case str():
                return ast.Constant(f"{node.value}x")
            case None:
                return ast.Constant(1)
        self.done = False
        return node


def _python_statements(text: str) -> Iterator[Statement]:
    lines = text.split("\n")
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign | ast.AugAssign | ast.Return | ast.Expr):
                continue
            if node.lineno != node.end_lineno or isinstance(node.value, ast.Constant):
                continue
            line = lines[node.lineno - 1]
            if ";" in line or not line.startswith(" ") or line.strip() != ast.get_source_segment(text, node):
                continue
            defect = _Defect()
            changed = defect.visit(ast.parse(line.strip().removeprefix("return ")).body[0])
            if not defect.done:
                continue
            indent = _indent(line)
            prefix = "return " if line.strip().startswith("return ") else ""
            yield Statement(node.lineno - 1, 1, (f"{indent}{prefix}{ast.unparse(changed)}",), f"{indent}pass")


# JavaScript and Go, by their text

_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`")
_BLOCK_COMMENT = re.compile(r"^[ \t]*/\*.*?\*/", re.DOTALL | re.MULTILINE)
_SIMPLE = re.compile(r"return\b.*\S|[\w$.\[\]]+ [-+*/|&]?= .*\S|[\w$.]+\(.*\);?")
_CONTINUES = re.compile(r"(?:[-+*/,=(\[&|?:.<>]|=>|\belse)$|^(?:if|for|while)\b.*\)$")
"""End of a line whose statement continues on the next line."""
_CONTINUATION = re.compile(r"[-+*/.?:&|)\]]")
"""Beginning of a line that continues the statement above."""
_SWAPS = (
    (re.compile(r"==="), "!=="),
    (re.compile(r"!=="), "==="),
    (re.compile(r"(?<![=!<>])==(?!=)"), "!="),
    (re.compile(r"!=(?!=)"), "=="),
    (re.compile(r" && "), " || "),
    (re.compile(r" \|\| "), " && "),
    (re.compile(r" < "), " >= "),
    (re.compile(r" >= "), " < "),
    (re.compile(r" > "), " <= "),
    (re.compile(r" <= "), " > "),
    (re.compile(r"\btrue\b"), "false"),
    (re.compile(r"\bfalse\b"), "true"),
    (re.compile(r" \+ "), " - "),
    (re.compile(r" - "), " + "),
    (re.compile(r" \* "), " / "),
    (re.compile(r" \+= "), " -= "),
    (re.compile(r"\b0\b"), "1"),
    (re.compile(r"\b[1-9]\b"), "0"),
    (re.compile(r"(?<= )(?:\w+\.)?err$"), "nil"),
)
_CONDITION = re.compile(r"if \((?P<js>.+)\) \{|if (?P<go>[^;]+) \{")
_RETURN = re.compile(r"return (?P<value>[^;]+)")


def _brace_statements(text: str, is_go: bool) -> Iterator[Statement]:
    # Block comments become as many line comments, which hold no code.
    lines = _BLOCK_COMMENT.sub(lambda match: "//" + "\n//" * match[0].count("\n"), text).split("\n")
    for number, line in enumerate(lines[1:-1], 1):
        above, below = lines[number - 1].strip(), lines[number + 1].strip()
        if not line.startswith((" ", "\t")) or line.count("`") % 2 or _CONTINUES.search(above):
            continue
        code = line.strip()
        if code.startswith("if") and code.endswith("{"):
            count = _block_length(lines, number)
        else:
            is_whole = _is_balanced(code) and not _CONTINUES.search(code) and not _CONTINUATION.match(below)
            count = int(is_whole and _SIMPLE.fullmatch(code) is not None)
        block = lines[number : number + count]
        # Mutate the block before its condition: tests that never enter the block do notice an inverted condition.
        for index in (*range(1, count), *range(min(count, 1))):
            if (mutated := _mutated(block[index], is_go)) is not None:
                changed = (*block[:index], mutated, *block[index + 1 :])
                yield Statement(number, count, changed, f"{_indent(line)}// taken out")
                break


def _block_length(lines: Sequence[str], first: int) -> int:
    """Return the number of lines of an `if` without `else`; 0 for other statements and long blocks."""
    end = f"{_indent(lines[first])}}}"
    for number in range(first + 1, min(first + _MAX_BLOCK_LINES, len(lines))):
        if lines[number].startswith(end):
            return number - first + 1 if lines[number] == end else 0
    return 0


def _is_balanced(code: str) -> bool:
    bare = _STRING.sub("", code)
    return all(bare.count(a) == bare.count(b) for a, b in ("()", "[]", "{}"))


def _mutated(line: str, is_go: bool) -> str | None:
    """Return the line with a defect; None if nothing in it can be changed."""
    indent, code = _indent(line), line.strip()
    if code.startswith("//"):
        return None
    bare = _STRING.sub(lambda match: " " * len(match[0]), code)
    for pattern, other in _SWAPS:
        if match := pattern.search(bare):
            return f"{indent}{code[: match.start()]}{other}{code[match.end() :]}"
    if match := _CONDITION.fullmatch(code):
        return f"{indent}if !({match['go']}) {{" if is_go else f"{indent}if (!({match['js'] or match['go']})) {{"
    if not is_go and (match := _RETURN.fullmatch(code)):
        return f"{indent}return undefined"
    if match := _STRING.search(code):
        return f"{indent}{code[: match.end() - 1]}x{code[match.end() - 1 :]}"
    return None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
