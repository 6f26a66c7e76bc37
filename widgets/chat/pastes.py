"""Big pastes: the text is kept whole, the composer shows a marker in its place."""

import re

_FOLDED_LINES = 12
_FOLDED_CHARACTERS = 2_000


def is_big(text: str) -> bool:
    """Whether a paste is folded: more than 12 lines or 2,000 characters."""
    return len(text) > _FOLDED_CHARACTERS or text.count("\n") >= _FOLDED_LINES


class Pastes:
    """The folded pastes of one message: marker to text."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def fold(self, text: str) -> str:
        """Keep `text`; returns the marker that stands for it, unique in this message."""
        lines = len(text.splitlines())
        label = f"pasted {lines:,} lines" if lines > 1 else f"pasted {len(text):,} characters"
        marker = f"[{label}]"
        number = 2
        while marker in self._texts:
            marker = f"[{label} #{number}]"
            number += 1
        self._texts[marker] = text
        self._pattern = re.compile("|".join(re.escape(known) for known in self._texts))
        return marker

    def expand(self, text: str) -> str:
        """The text with every marker replaced by what was pasted."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._texts[match[0]], text)

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where the markers are in a line: first and last column."""
        if self._pattern is None or "[" not in line:
            return []
        return [match.span() for match in self._pattern.finditer(line)]

    def clear(self) -> None:
        """Forget all pastes; the message was sent."""
        self._texts.clear()
        self._pattern = None
