"""Find statements that can be removed from a Python file, each with a defect that can replace it."""

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

MIN_DISTANCE = 4
"""Minimum number of lines between two statements."""


@dataclass(frozen=True, slots=True)
class Statement:
    line: int
    """Number of its line, from 0."""
    mutated: str
    """The line with a defect."""
    placeholder: str
    """The line that replaces the statement while it is removed."""


def choose_statements(statements: Sequence[Statement], count: int, dice: random.Random) -> list[Statement]:
    """Return random statements that are far enough apart, in the order of the file."""
    chosen: list[Statement] = []
    for statement in dice.sample(statements, len(statements)):
        if all(abs(statement.line - other.line) > MIN_DISTANCE for other in chosen):
            chosen.append(statement)
        if len(chosen) == count:
            break
    return sorted(chosen, key=lambda statement: statement.line)


def replace_statements(text: str, statements: Sequence[Statement], line_of: Callable[[Statement], str]) -> str:
    lines = text.split("\n")
    for statement in statements:
        lines[statement.line] = line_of(statement)
    return "\n".join(lines)


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


def find_statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a Python file that can be removed."""
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
            indent = line[: len(line) - len(line.lstrip())]
            prefix = "return " if line.strip().startswith("return ") else ""
            yield Statement(node.lineno - 1, f"{indent}{prefix}{ast.unparse(changed)}", f"{indent}pass")
