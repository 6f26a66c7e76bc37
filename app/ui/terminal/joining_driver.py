"""Has Textual's driver mark the keys that came in one read: `widgets.common.joined_keys` says what for.

Kept apart: the one place that exchanges a part of Textual's, because its driver hands each key on by itself.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from textual.message import Message

from widgets.common.joined_keys import join

if TYPE_CHECKING:
    from textual.driver import Driver


def join_reads(driver: type["Driver"]) -> None:
    """Exchange the parser of a driver's module for one that marks keys; a driver without one reads no terminal."""
    module: Any = sys.modules[driver.__module__]
    parser = getattr(module, "XTermParser", None)
    if parser is None or getattr(parser, "joins", False):
        return

    class JoiningParser(parser):  # type: ignore[misc, valid-type]
        """Textual's parser; it is fed with what one read returned."""

        joins = True

        def feed(self, data: str) -> Iterable[Message]:
            return join(super().feed(data))

    module.XTermParser = JoiningParser
