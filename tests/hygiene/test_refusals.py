"""What a refusal says to whoever reads it is apart from what only a model can act on."""

import ast
import re
from pathlib import Path

from app.proposals.values import proposal_errors

ROOT = Path(__file__).resolve().parents[2] / "app" / "proposals"
KINDS = {name for name, kind in vars(proposal_errors).items() if isinstance(kind, type)}
FOR_A_MODEL = re.compile(r"\b(list_files|read_file|write_file|edit_file|Give|[Rr]ead (it|the file) again)\b")


def facts(tree: ast.AST) -> list[str]:
    """The constant text of the first argument of every refusal that is raised."""
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    return [
        "".join(str(part.value) for part in ast.walk(call.args[0]) if isinstance(part, ast.Constant))
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in KINDS and call.args
    ]


def test_no_fact_tells_a_person_what_a_model_should_do() -> None:
    found = {path.name: facts(ast.parse(path.read_text(encoding="utf-8"))) for path in ROOT.rglob("*.py")}
    assert sum(map(len, found.values())) > 30
    offenders = {
        name: bad for name, all_ in found.items() if (bad := [one for one in all_ if FOR_A_MODEL.search(one)])
    }
    assert not offenders
