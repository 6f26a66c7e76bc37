"""Whether a request is what a vendor's SDK types say it may be: every field known, none missing, each of its type.

The types are `TypedDict`s, and what a type checker would say of a literal is said here of the request that a test
really sent. A type checker lets unknown fields of a union's other members pass; this does not.
"""

import importlib
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict


@cache
def request_type(module: str, name: str) -> Any:
    """A type of a vendor's SDK, loaded when the first request is looked at: it takes half a second."""
    return getattr(importlib.import_module(module), name)


def faults(value: Any, expected: Any, where: str = "request") -> list[str]:
    """What is wrong with a value, one line each; empty if it is of the expected type."""
    origin = get_origin(expected)
    if expected is Any or expected is object:
        return []
    if is_typeddict(expected):
        return _of_fields(value, expected, where)
    if origin in (Union, types.UnionType):
        return _of_union(value, get_args(expected), where)
    if origin is Literal:
        return [] if value in get_args(expected) else [f"{where}: {value!r} is none of {get_args(expected)}"]
    if getattr(origin or expected, "__name__", "") in _LISTS:
        return _of_elements(value, get_args(expected), where)
    if expected is None:
        expected = type(None)
    plain = (int, float) if expected is float else (dict if origin is Mapping else origin or expected)
    fits = isinstance(value, plain) and (expected is bool or not isinstance(value, bool))
    return [] if fits else [f"{where}: {type(value).__name__} instead of {expected}"]


_LISTS = frozenset({"list", "Iterable", "Sequence", "SequenceNotStr"})


def _of_elements(value: Any, inner: Sequence[Any], where: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{where}: no list"]
    return [fault for at, one in enumerate(value) for fault in faults(one, inner[0], f"{where}[{at}]")]


@cache
def _hints(expected: Any) -> Mapping[str, Any]:
    return get_type_hints(expected, include_extras=True)


def _of_fields(value: Any, expected: Any, where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where}: no object"]
    hints = _hints(expected)
    found = [f"{where}: unknown field {name!r} for {expected.__name__}" for name in value if name not in hints]
    for name, hint in hints.items():
        required = get_origin(hint) is Required
        inner = get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
        if name in value:
            found += faults(value[name], inner, f"{where}.{name}")
        elif required:
            found.append(f"{where}: {expected.__name__} without {name!r}")
    return found


def _of_union(value: Any, members: Sequence[Any], where: str) -> list[str]:
    """The complaints of the member that has the fewest."""
    best: list[str] | None = None
    for member in _named(value, members) or members:
        found = faults(value, member, where)
        if not found:
            return []
        if best is None or len(found) < len(best):
            best = found
    return best or []


def _named(value: Any, members: Sequence[Any]) -> list[Any]:
    """The members whose `type` is that of the value, and those that have none; empty if no member has it."""
    kind = value.get("type") if isinstance(value, dict) else None
    named = [member for member in members if kind is not None and kind in _kinds(member)]
    return named + [member for member in members if named and not is_typeddict(member)]


@cache
def _kinds(member: Any) -> tuple[Any, ...]:
    hint = _hints(member).get("type") if is_typeddict(member) else None
    inner = get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
    return get_args(inner) if get_origin(inner) is Literal else ()
