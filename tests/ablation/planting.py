"""Finds statements that can be taken out of a source file, each with a defect that can be planted in its place."""

import ast
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

APART = 4
"""Lines between two statements, at least."""
_LONGEST_BLOCK = 6
"""Lines of an `if` that is taken out as a whole."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in a function."""

    line: int
    """Its first line, from 0."""
    count: int
    """How many lines it has."""
    mutated: tuple[str, ...]
    """The same lines with a defect."""
    placeholder: str
    """The line that stands there while the statement is taken out."""

    @property
    def defect(self) -> str:
        """Return the mutated lines as one."""
        return " ".join(line.strip() for line in self.mutated)


def find_statements(name: str, text: str) -> list[Statement]:
    """Return the statements of a file that can be taken out; `name` tells its language."""
    return list(_python_statements(text) if name.endswith(".py") else _brace_statements(text, name.endswith(".go")))


def choose_statements(found: Sequence[Statement], count: int, chance: random.Random) -> list[Statement]:
    """Return some statements that are far enough apart, in the order of the file."""
    chosen: list[Statement] = []
    for one in chance.sample(found, len(found)):
        if all(
            one.line - (other.line + other.count) >= APART or other.line - (one.line + one.count) >= APART
            for other in chosen
        ):
            chosen.append(one)
        if len(chosen) == count:
            break
    return sorted(chosen, key=lambda one: one.line)


def replace_statements(text: str, out: Sequence[Statement], lines_of: Callable[[Statement], Sequence[str]]) -> str:
    """Return the text with other lines where the statements are."""
    lines = text.split("\n")
    for one in sorted(out, key=lambda one: one.line, reverse=True):
        lines[one.line : one.line + one.count] = lines_of(one)
    return "\n".join(lines)


# Python


class _Defect(ast.NodeTransformer):
    """Turns the first thing that it can into something else."""

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
            again = "return " if line.strip().startswith("return ") else ""
            yield Statement(node.lineno - 1, 1, (f"{indent}{again}{ast.unparse(changed)}",), f"{indent}pass")


# JavaScript and Go, by their text

_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`")
_BLOCK_COMMENT = re.compile(r"^[ \t]*/\*.*?\*/", re.DOTALL | re.MULTILINE)
_SIMPLE = re.compile(r"return\b.*\S|[\w$.\[\]]+ [-+*/|&]?= .*\S|[\w$.]+\(.*\);?")
_BEGUN = re.compile(r"(?:[-+*/,=(\[&|?:.<>]|=>|\belse)$|^(?:if|for|while)\b.*\)$")
"""How a line ends after which a statement goes on."""
_GOES_ON = re.compile(r"[-+*/.?:&|)\]]")
"""How a line begins that continues the one above."""
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
    # Block comments have as many lines, none of which is code.
    lines = _BLOCK_COMMENT.sub(lambda match: "//" + "\n//" * match[0].count("\n"), text).split("\n")
    for number, line in enumerate(lines[1:-1], 1):
        above, below = lines[number - 1].strip(), lines[number + 1].strip()
        if not line.startswith((" ", "\t")) or line.count("`") % 2 or _BEGUN.search(above):
            continue
        code = line.strip()
        if code.startswith("if") and code.endswith("{"):
            count = _block_length(lines, number)
        else:
            is_whole = _is_balanced(code) and not _BEGUN.search(code) and not _GOES_ON.match(below)
            count = int(is_whole and _SIMPLE.fullmatch(code) is not None)
        block = lines[number : number + count]
        # The block before its condition: tests that never enter it do notice a condition that is turned around.
        for at in (*range(1, count), *range(min(count, 1))):
            if (mutated := _mutated(block[at], is_go)) is not None:
                changed = (*block[:at], mutated, *block[at + 1 :])
                yield Statement(number, count, changed, f"{_indent(line)}// taken out")
                break


def _block_length(lines: Sequence[str], first: int) -> int:
    """Return the lines of an `if` without an `else`; 0 if it is none."""
    end = f"{_indent(lines[first])}}}"
    for number in range(first + 1, min(first + _LONGEST_BLOCK, len(lines))):
        if lines[number].startswith(end):
            return number - first + 1 if lines[number] == end else 0
    return 0


def _is_balanced(code: str) -> bool:
    bare = _STRING.sub("", code)
    return all(bare.count(a) == bare.count(b) for a, b in ("()", "[]", "{}"))


def _mutated(line: str, is_go: bool) -> str | None:
    """Return the line with a defect; None if it has nothing that can be turned."""
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
