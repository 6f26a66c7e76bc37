"""JSON schemas of tool arguments, and parsing of the arguments that a model sends.

The schema is the plain core that every server and chat template takes: objects, arrays, scalars, descriptions; no
titles, references, unions with null or defaults. It is the same, byte for byte, in every process.
"""

import difflib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from app.tools.base.contract import ToolError

Model = TypeVar("Model", bound=BaseModel)

_DROPPED = {"title", "default", "$defs"}
_ORDER = ("type", "description", "items", "properties", "required", "additionalProperties")


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's arguments: always an object with `properties`, closed to other names."""
    schema = _schema(model)
    plain = _plain(schema, schema.get("$defs", {}))
    result: dict[str, Any] = {"type": "object", "properties": plain.get("properties", {})}
    if "required" in plain:
        result["required"] = plain["required"]
    result["additionalProperties"] = False
    return result


def _plain(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        own = {key: value for key, value in schema.items() if key != "$ref"}
        return _plain({**target, **own}, definitions)
    if "anyOf" in schema:
        kinds = [kind for kind in schema["anyOf"] if kind.get("type") != "null"]
        if len(kinds) == 1:
            own = {key: value for key, value in schema.items() if key != "anyOf"}
            return _plain({**kinds[0], **own}, definitions)
    result: dict[str, Any] = {}
    for key, value in sorted(schema.items(), key=lambda item: _rank(item[0])):
        if key in _DROPPED or (key == "description" and "properties" in schema):
            continue
        match key:
            case "properties":
                result[key] = {name: _plain(field, definitions) for name, field in value.items()}
            case "items":
                result[key] = _plain(value, definitions)
            case _:
                result[key] = value
    return result


def _rank(key: str) -> int:
    return _ORDER.index(key) if key in _ORDER else len(_ORDER)


def parse_arguments(tool: str, model: type[Model], arguments: Mapping[str, Any]) -> Model:
    """Check a call's arguments, forgiving what is harmless: null for "not given", numbers and lists as text.

    Raises:
        ToolError: Every problem on a line of its own, and what the tool takes.
    """
    schema = _schema(model)
    tidy = _tidied(schema, schema.get("$defs", {}), dict(arguments))
    try:
        return model.model_validate(tidy)
    except ValidationError as error:
        known = {name for part in (schema, *schema.get("$defs", {}).values()) for name in part.get("properties", ())}
        problems = [f"- {_problem(item, known)}" for item in error.errors(include_url=False)[:8]]
        takes = ", ".join(name if field.is_required() else f"{name}?" for name, field in model.model_fields.items())
        raise ToolError(
            f"Nothing ran: the arguments of {tool} are wrong.\n" + "\n".join(problems) + f"\n{tool} takes: {takes}."
        ) from error


@lru_cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _tidied(schema: dict[str, Any], definitions: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    required = schema.get("required", ())
    return {
        name: _tidied_value(schema.get("properties", {}).get(name, {}), definitions, value)
        for name, value in arguments.items()
        if value is not None or name in required
    }


def _tidied_value(field: dict[str, Any], definitions: Mapping[str, Any], value: Any) -> Any:
    kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
    kind = kinds[0] if kinds else {}
    if kind.get("type") in ("integer", "boolean") and isinstance(value, str):
        return value.strip()
    if kind.get("type") != "array":
        return value
    items = kind.get("items", {})
    if isinstance(value, str):
        value = _from_text(value, wraps_text=items.get("type") == "string")
    if isinstance(value, dict):
        value = [value]
    if "$ref" in items and isinstance(value, list):
        item_schema = definitions[items["$ref"].rpartition("/")[2]]
        return [_tidied(item_schema, definitions, item) if isinstance(item, dict) else item for item in value]
    return value


def _from_text(text: str, *, wraps_text: bool) -> Any:
    """A list that the model wrote as JSON text; a bare string counts as a list of one where strings are meant."""
    try:
        value = json.loads(text)
    except ValueError:
        return [text] if wraps_text else text
    if isinstance(value, list | dict):
        return value
    return [text] if wraps_text else text


def _problem(item: Any, known: set[str]) -> str:
    where = ".".join(str(step) for step in item["loc"])
    match item["type"]:
        case "missing":
            return f"{where} is missing"
        case "extra_forbidden":
            name = str(item["loc"][-1])
            if name in known:
                return f"{where} is not an argument here"
            parts = [part for part in re.split(r"[_-]|(?<=[a-z])(?=[A-Z])", name) if part in known]
            close = parts[:1] or difflib.get_close_matches(name.lower(), sorted(known), 1, 0.6)
            return f"{where} is not an argument" + (f"; did you mean {close[0]}?" if close else "")
        case _:
            if item["type"] == "value_error":
                return f"{where}: {item['ctx']['error']}"
            shown = repr(item.get("input"))
            message = item["msg"][:1].lower() + item["msg"][1:]
            return f"{where}: {message}, not {shown if len(shown) <= 80 else shown[:79] + '…'}"
