"""Regular expressions whose matches begin with one of a few literals, so that long lines are searched quickly.

Python tries an expression that begins with a word boundary or a look-behind at every character, which takes up to
0.3 s for a megabyte, and a minified file is one line. `str.find` takes a hundredth of that.
"""

import re
from collections.abc import Iterator, Sequence


class LiteralPattern:
    """A regular expression that is tried only where one of its literals occurs.

    The matches are those of `re`: the whole text is looked at, however long it is.

    Args:
        pattern: The expression.
        starts: Literals; every match begins with one of them.
        line_starts: Literals; every other match begins at the start of a line and holds one of them.
        ignore_case: `starts` are in lower case and stand for every case of ASCII letters; the expression itself says
            by `(?ai:…)` where case is ignored.
    """

    def __init__(
        self, pattern: str, starts: Sequence[str], line_starts: Sequence[str] = (), *, ignore_case: bool = False
    ) -> None:
        self.expression = re.compile(pattern, re.MULTILINE)
        self.starts = tuple(starts)
        self._line_starts = tuple(line_starts)
        self._ignore_case = ignore_case

    def search(self, text: str) -> re.Match[str] | None:
        """The first match in a text."""
        return next(self.finditer(text), None)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """All matches that do not overlap, from left to right, as `re.finditer` finds them."""
        end = 0
        for at in self._places(text):
            if at >= end and (found := self.expression.match(text, at)):
                yield found
                end = found.end()

    def _places(self, text: str) -> Sequence[int]:
        """Where a match can begin, in order."""
        looked_in = text
        if self._ignore_case:
            looked_in = text.lower()
            if len(looked_in) != len(text):
                # A letter that is two in lower case moves all that follow.
                return range(len(text))
        places = [at for start in self.starts for at in _all_places(looked_in, start)]
        if any(start in looked_in for start in self._line_starts):
            places += [0, *(at + 1 for at in _all_places(looked_in, "\n"))]
        places.sort()
        return places


def _all_places(text: str, literal: str) -> Iterator[int]:
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + 1)
