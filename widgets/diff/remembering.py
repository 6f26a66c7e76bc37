"""A cache for what is worked out from lines of source, which may be half a megabyte long."""

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar

_LONG = 2_000
"""From this many characters on, a string is told from others by identity."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _Same:
    """A long string as a key that is equal only to the very same one."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __hash__(self) -> int:
        return id(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.text is other.text


def remembered(most: int) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Keep the `most` results of a function that were used last.

    A file that was read again has equal lines that are other objects. `functools.lru_cache` would compare a long one
    with its twin at every look-up, which costs more than drawing it; here it is worked out again, once.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        def unwrapped(*arguments: object) -> Result:
            plain = (value.text if isinstance(value, _Same) else value for value in arguments)
            return function(*plain)  # type: ignore[arg-type, call-arg]

        kept = lru_cache(maxsize=most)(unwrapped)

        def call(*arguments: Parameters.args, **_: Parameters.kwargs) -> Result:
            for value in arguments:
                if isinstance(value, str) and len(value) >= _LONG:
                    return kept(*(_Same(value) if isinstance(value, str) else value for value in arguments))
            return kept(*arguments)

        return call

    return decorate
