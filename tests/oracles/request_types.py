"""Whether a request is what a vendor's SDK types say it may be: every field known, none missing, each of its type.

The types are `TypedDict`s, and what a type checker would say of a literal is said here of the request that a test
really sent. A type checker lets unknown fields of a union's other members pass; this does not.
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

_ONE_AT_A_TIME = threading.Lock()


@cache
def request_type(module: str, name: str) -> Any:
    """A type of a vendor's SDK, loaded when the first request is looked at, without the rest of the SDK.

    That would be imported by the packages that the type is in, and takes seconds.
    """
    parts = module.split(".")
    packages = [".".join(parts[:end]) for end in range(1, len(parts))]
    # A test and its server look at requests on threads of their own.
    with _ONE_AT_A_TIME:
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
    """What is wrong with a value, one line each; empty if it is of the expected type."""
    return [where + fault for fault in _check(expected)(value)]


_Check = Callable[[Any], list[str]]
"""What is wrong with a value, each with where in it."""
_LISTS = frozenset({"list", "Iterable", "Sequence", "SequenceNotStr"})


@cache
def _check(expected: Any) -> _Check:
    """The check of a type, made once: to look through the types takes much longer than to look through a request."""
    origin = get_origin(expected)
    if expected is Any or expected is object:
        return lambda value: []
    if is_typeddict(expected):
        return _of_fields(expected)
    if origin in (Union, types.UnionType):
        return _of_union(get_args(expected))
    if origin is Literal:
        allowed = get_args(expected)
        return lambda value: [] if value in allowed else [f": {value!r} is none of {allowed}"]
    if getattr(origin or expected, "__name__", "") in _LISTS:
        return _of_elements(_check(get_args(expected)[0]))
    if expected is None:
        expected = type(None)
    plain = (int, float) if expected is float else (dict if origin is Mapping else origin or expected)

    def check(value: Any) -> list[str]:
        fits = isinstance(value, plain) and (expected is bool or not isinstance(value, bool))
        return [] if fits else [f": {type(value).__name__} instead of {expected}"]

    return check


def _of_elements(inner: _Check) -> _Check:
    def check(value: Any) -> list[str]:
        if not isinstance(value, list):
            return [": no list"]
        return [f"[{at}]{fault}" for at, one in enumerate(value) for fault in inner(one)]

    return check


@cache
def _hints(expected: Any) -> Mapping[str, Any]:
    return get_type_hints(expected, include_extras=True)


def _of_fields(expected: Any) -> _Check:
    @cache
    def fields() -> tuple[dict[str, _Check], list[str]]:
        """The check of each field, and which have to be there; not before a value is: types are within themselves.

        Whole or not at all: a test and its server look through requests on threads of their own.
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
        found = [f": unknown field {name!r} for {expected.__name__}" for name in value if name not in checks]
        found += [f".{name}{fault}" for name in checks if name in value for fault in checks[name](value[name])]
        return found + [f": {expected.__name__} without {name!r}" for name in required if name not in value]

    return check


def _of_union(members: Sequence[Any]) -> _Check:
    """Members whose `type` is that of the value are looked at, beside those that have none; else all of them."""
    everything = [_check(member) for member in members]
    others = [_check(member) for member in members if not is_typeddict(member)]
    kinds = {kind for member in members for kind in _kinds(member)}
    named = {kind: [_check(member) for member in members if kind in _kinds(member)] + others for kind in kinds}

    def check(value: Any) -> list[str]:
        """The complaints of the member that has the fewest."""
        kind = value.get("type") if isinstance(value, dict) else None
        best: list[str] | None = None
        for member in named.get(kind, everything) if isinstance(kind, str) else everything:
            found = member(value)
            if not found:
                return []
            if best is None or len(found) < len(best):
                best = found
        return best or []

    return check


@cache
def _kinds(member: Any) -> tuple[Any, ...]:
    hint = _hints(member).get("type") if is_typeddict(member) else None
    inner = get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
    return get_args(inner) if get_origin(inner) is Literal else ()
