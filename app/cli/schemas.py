"""The JSON schema of what a command prints, or a hook is told, made of models and of what is said there.

Kept apart: nothing else reads the program's own source.
"""

import ast
import inspect
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter

from app.cli import documents

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(document: Any, module: ModuleType = documents) -> dict[str, Any]:
    """The schema of a document: one of a module's models, or a list of one, with the docstring of each field."""
    schema = TypeAdapter(document).json_schema(mode="serialization")
    told = _docstrings(module)
    for part in [schema, *schema.get("$defs", {}).values()]:
        for name, field in part.get("properties", {}).items():
            if words := told.get((part.get("title", ""), name)):
                field["description"] = words
    return {"$schema": _DIALECT, **schema}


def _docstrings(module: ModuleType) -> dict[tuple[str, str], str]:
    """By class and attribute, the string that stands below it. Pydantic would look for them at every start."""
    classes = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)]
    return {
        (cls.name, field.target.id): inspect.cleandoc(told.value.value)
        for cls in classes
        for field, told in zip(cls.body, cls.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(told, ast.Expr) and isinstance(told.value, ast.Constant) and isinstance(told.value.value, str)
    }
