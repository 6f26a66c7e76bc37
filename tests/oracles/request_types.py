"""Check a request against the types of a vendor's SDK: known fields, no missing fields, correct types.

The types are `TypedDict`s. A type checker checks literals; this module checks the requests that a test really sends.
A type checker accepts unknown fields that belong to another member of a union; this module does not.
"""

import importlib
import importlib.util
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

_lock = threading.Lock()


@cache
def request_type(module: str, name: str) -> Any:
    """Return a type of a vendor's SDK; it is loaded on first use, without the rest of the SDK.

    The packages of the type would import the whole SDK, which takes seconds.
    """
    parts = module.split(".")
    packages = [".".join(parts[:end]) for end in range(1, len(parts))]
    # A test and its server check requests on different threads.
    with _lock:
        empty = [package for package in packages if package not in sys.modules]
        for package in empty:
            spec = importlib.util.find_spec(package)
            assert spec is not None
            sys.modules[package] = importlib.util.module_from_spec(spec)
        try:
            return getattr(importlib.import_module(module), name)
        finally:
            for package in empty:
                del sys.modules[package]


def faults(value: Any, expected: Any, where: str = "request") -> list[str]:
    """Return the errors of a value, one line each; empty if it has the expected type."""
    return [where + fault for fault in _check(expected)(value)]


_Check = Callable[[Any], list[str]]
"""Returns the errors of a value, each with its place in the value."""
_LIST_TYPES = frozenset({"list", "Iterable", "Sequence", "SequenceNotStr"})


@cache
def _check(expected: Any) -> _Check:
    """Return the check of a type; cached, because building it takes much longer than checking a request."""
    origin = get_origin(expected)
    if expected is Any or expected is object:
        return lambda value: []
    if is_typeddict(expected):
        return _check_fields(expected)
    if origin in (Union, types.UnionType):
        return _check_union(get_args(expected))
    if origin is Literal:
        allowed = get_args(expected)
        return lambda value: [] if value in allowed else [f": {value!r} is none of {allowed}"]
    if getattr(origin or expected, "__name__", "") in _LIST_TYPES:
        return _check_elements(_check(get_args(expected)[0]))
    if expected is None:
        expected = type(None)
    plain = (int, float) if expected is float else (dict if origin is Mapping else origin or expected)

    def check(value: Any) -> list[str]:
        has_type = isinstance(value, plain) and (expected is bool or not isinstance(value, bool))
        return [] if has_type else [f": {type(value).__name__} instead of {expected}"]

    return check


def _check_elements(inner: _Check) -> _Check:
    def check(value: Any) -> list[str]:
        if not isinstance(value, list):
            return [": no list"]
        return [f"[{index}]{fault}" for index, item in enumerate(value) for fault in inner(item)]

    return check


@cache
def _hints(expected: Any) -> Mapping[str, Any]:
    return get_type_hints(expected, include_extras=True)


def _check_fields(expected: Any) -> _Check:
    @cache
    def fields() -> tuple[dict[str, _Check], list[str]]:
        """Return the check of each field, and the required fields.

        It runs on the first value, because types are recursive. The result is complete on every thread: a test and
        its server check requests on different threads.
        """
        hints = _hints(expected)
        inner = {
            name: get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
            for name, hint in hints.items()
        }
        required = [name for name, hint in hints.items() if get_origin(hint) is Required]
        return {name: _check(hint) for name, hint in inner.items()}, required

    def check(value: Any) -> list[str]:
        if not isinstance(value, dict):
            return [": no object"]
        checks, required = fields()
        errors = [f": unknown field {name!r} for {expected.__name__}" for name in value if name not in checks]
        errors += [f".{name}{fault}" for name in checks if name in value for fault in checks[name](value[name])]
        return errors + [f": {expected.__name__} without {name!r}" for name in required if name not in value]

    return check


def _check_union(members: Sequence[Any]) -> _Check:
    """Check the members with the `type` of the value and those without a `type`; otherwise all members."""
    all_checks = [_check(member) for member in members]
    others = [_check(member) for member in members if not is_typeddict(member)]
    kinds = {kind for member in members for kind in _kinds(member)}
    checks_by_kind = {
        kind: [_check(member) for member in members if kind in _kinds(member)] + others for kind in kinds
    }

    def check(value: Any) -> list[str]:
        """Return the errors of the member with the fewest errors."""
        kind = value.get("type") if isinstance(value, dict) else None
        best: list[str] | None = None
        for member in checks_by_kind.get(kind, all_checks) if isinstance(kind, str) else all_checks:
            errors = member(value)
            if not errors:
                return []
            if best is None or len(errors) < len(best):
                best = errors
        return best or []

    return check


@cache
def _kinds(member: Any) -> tuple[Any, ...]:
    hint = _hints(member).get("type") if is_typeddict(member) else None
    inner = get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
    return get_args(inner) if get_origin(inner) is Literal else ()
