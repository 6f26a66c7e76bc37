"""A class of `app.dataclass` behaves like one of the standard library."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import pytest

from app import dataclass as ours

Decorator = Callable[..., Any]


@ours.dataclass(frozen=True, slots=True)
class _Point:
    x: int
    y: int = 0


def make(decorator: Decorator) -> dict[str, Any]:
    """A class of each kind, by this decorator."""

    @decorator
    class Open:
        a: int
        b: list[int] = field(default_factory=list)

    @decorator(frozen=True, slots=True)
    class Value:
        a: int
        hidden: str = field(default="h", repr=False)
        other: str = field(default="o", compare=False)

    @decorator(frozen=True, slots=True)
    class Derived(Value):
        more: tuple[int, ...] = ()

    @decorator(frozen=True, slots=True)
    class Empty:
        pass

    @decorator(frozen=True, slots=True)
    class One:
        a: Any = None

    @decorator(slots=True, eq=False)
    class Identity:
        a: int = 0

    @decorator(frozen=True)
    class Own:
        a: int = 0

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    return {one.__name__: one for one in (Open, Value, Derived, Empty, One, Identity, Own)}


def results(decorator: Decorator) -> list[object]:
    """What can be seen of such classes and their instances."""
    kinds = make(decorator)
    found: list[object] = []
    for name, kind in kinds.items():
        first, same = (kind(1), kind(1)) if name != "Empty" else (kind(), kind())
        found += [name, [one.name for one in dataclasses.fields(kind)], kind.__match_args__, repr(first)]
        found += [hasattr(first, "__dict__"), first == same, first != same, first == object(), first == (1,)]
        found += [None if kind.__hash__ is None else (hash(first) == hash(same), len({first, same}))]
    value, derived = kinds["Value"], kinds["Derived"]
    found += [value(1) == value(2), value(1, "x") == value(1, "y"), value(1, other="x") == value(1, other="y")]
    found += [value(1) == derived(1), derived(1, more=(1,)) == derived(1, more=(2,)), repr(derived(1, more=(2,)))]
    found += [replace(value(1), a=2) == value(2), replace(derived(1), more=(3,)).more]
    found += [dataclasses.asdict(derived(1, more=(2,))), copy.copy(value(1, "x")) == value(1, "x")]
    looped = kinds["Open"](1)
    looped.b.append(looped)
    found += [repr(looped)]
    match derived(5, "x"):
        case value(a=a, hidden=hidden):
            found += [a, hidden]
    return found


def test_its_classes_behave_like_those_of_the_standard_library() -> None:
    assert results(ours.dataclass) == results(dataclasses.dataclass)


def test_a_list_in_a_value_is_not_hashed() -> None:
    value = make(ours.dataclass)["One"]
    with pytest.raises(TypeError, match="unhashable"):
        hash(value([1]))


def test_an_instance_with_slots_can_be_copied_and_pickled() -> None:
    assert copy.deepcopy(_Point(1, 2)) == pickle.loads(pickle.dumps(_Point(1, 2))) == _Point(1, 2)
