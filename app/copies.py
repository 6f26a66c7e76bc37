"""Copies of immutable values: with some fields changed, or in less memory."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

if TYPE_CHECKING:
    from dataclasses import replace as replace  # its arguments are checked, also for structs
else:
    import dataclasses

    import msgspec

    def replace(value: Any, /, **changes: Any) -> Any:
        """Return a copy of a struct or dataclass with the fields `changes`, like `copy.replace` of Python 3.13."""
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **changes)
        return dataclasses.replace(value, **changes)


_Model = TypeVar("_Model", bound=BaseModel)


def make_memory_saving_copy(record: _Model, changes: Mapping[str, object] | None = None) -> _Model:
    """Return an equal record that takes less memory, with the values of `changes` replaced.

    Pydantic gives each record a separate dict and a separate set of field names, which are larger than the values of
    a short event. Attributes that are set one by one share their names with all records of the class (key-sharing
    dicts, https://peps.python.org/pep-0412/), and all copies share one set of field names. The copy does not know
    which fields were given explicitly: `exclude_unset` has no effect on it.
    """
    kind = type(record)
    copied = kind.__new__(kind)
    for name, value in (record.__dict__ if changes is None else {**record.__dict__, **changes}).items():
        # The records are frozen: bypass their `__setattr__`.
        object.__setattr__(copied, name, _compact_value(value))
    object.__setattr__(copied, "__pydantic_fields_set__", _field_names(kind))
    object.__setattr__(copied, "__pydantic_extra__", None)
    object.__setattr__(copied, "__pydantic_private__", None)
    return copied


def _compact_value(value: object) -> object:
    """Return the value with compact records in it; a named tuple stays unchanged, to keep its class."""
    if isinstance(value, BaseModel):
        return make_memory_saving_copy(value)
    if type(value) is tuple and value:
        return tuple(map(_compact_value, value))
    return value


@cache
def _field_names(kind: type[BaseModel]) -> set[str]:
    """Return the field names of a class; always the same set object."""
    return set(kind.model_fields)
