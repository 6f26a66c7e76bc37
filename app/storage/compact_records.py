"""Copies of pydantic records that take less memory."""

from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from pydantic import BaseModel

_Model = TypeVar("_Model", bound=BaseModel)


def make_compact_copy(record: _Model, changes: Mapping[str, object] | None = None) -> _Model:
    """Return an equal record that takes less memory, with other values for the fields in `changes`.

    Pydantic gives each record its own dict and its own set of field names, which are larger than the values of a
    short event. Attributes that are set one by one share their names with all records of the class (key-sharing
    dicts, https://peps.python.org/pep-0412/), and one set of names serves the class. Which fields were given
    explicitly is lost: `exclude_unset` has no effect on the copy.
    """
    kind = type(record)
    copied = kind.__new__(kind)
    for name, value in (record.__dict__ if changes is None else {**record.__dict__, **changes}).items():
        # The records are frozen, and this one is not finished yet.
        object.__setattr__(copied, name, _compact_value(value))
    object.__setattr__(copied, "__pydantic_fields_set__", _fields_of(kind))
    object.__setattr__(copied, "__pydantic_extra__", None)
    object.__setattr__(copied, "__pydantic_private__", None)
    return copied


def _compact_value(value: object) -> object:
    """Return the value with compact records in it. A named tuple stays as it is: it must keep its class."""
    if isinstance(value, BaseModel):
        return make_compact_copy(value)
    if type(value) is tuple and value:
        return tuple(map(_compact_value, value))
    return value


@cache
def _fields_of(kind: type[BaseModel]) -> set[str]:
    """Return the names of all fields of a class of records: always the same set."""
    return set(kind.model_fields)
