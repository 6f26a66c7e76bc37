"""Large pastes: the whole text is kept, and the composer shows a marker in its place."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Self

from app.images.mentions import Mention, find_mentions, format_mention, pasted_paths

_LOOKING = 2.0
"""Seconds in which it is found out whether a path is that of an image; a folder may be far away."""


class DroppedImages:
    """Remembers dropped images, so that no pasted text can pass for one."""

    def __init__(self) -> None:
        self.find: Callable[[str], Awaitable[Sequence[Mention]]] | None = None
        """Gives the images that a pasted text consists of."""
        self._paths: set[str] = set()

    async def mention_text(self, pasted: str) -> str:
        """Return the text to insert for a paste: mentions if it consists of image paths, else the paste itself."""
        if self.find is None or not any(pasted_paths(pasted)):
            return pasted
        found: Sequence[Mention] = ()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOKING):
                found = await self.find(pasted)
        self._paths.update(mention.path for mention in found)
        return "".join(f"{format_mention(mention.path)} " for mention in found) or pasted

    def mentions(self, text: str) -> tuple[Mention, ...]:
        """The files that a text names."""
        return find_mentions(text, frozenset(self._paths))


Folds = tuple[tuple[int, int], ...]
"""Where the folded parts of a text are, in order: first character, and the one after the last."""

_FOLDED_LINES = 12
_FOLDED_CHARACTERS = 2_000
_MOST_SHOWN_LINES = 200
_MOST_SHOWN_CHARACTERS = 20_000
_EDGE_LINES = 3
_EDGE_CHARACTERS = 400
_REMEMBERED_PASTES = 20
_REMEMBERED_CHARACTERS = 20_000_000

_KEPT = re.compile(r"folds((?: \d+-\d+)*)\n")


def is_big(text: str) -> bool:
    """Whether a paste is folded: more than 12 lines or 2,000 characters."""
    return len(text) > _FOLDED_CHARACTERS or text.count("\n") >= _FOLDED_LINES


class ComposerDraft(NamedTuple):
    """Content of the composer: the whole text, and which parts are folded."""

    text: str
    folds: Folds = ()

    def dump(self) -> str:
        """Return it as one string for a store: the text, after a line with the folds if there are any."""
        if not self.folds and not _KEPT.match(self.text):
            return self.text
        return "folds" + "".join(f" {start}-{end}" for start, end in self.folds) + "\n" + self.text

    @classmethod
    def load(cls, kept: str) -> Self:
        """Return the draft from `dump`; any other string is a text without folds."""
        head = _KEPT.match(kept)
        if head is None:
            return cls(kept)
        text = kept[head.end() :]
        spans = [span.partition("-") for span in head[1].split()]
        folds = tuple((int(start), int(end)) for start, _, end in spans)
        bounds = [0, *(bound for fold in folds for bound in fold), len(text)]
        return cls(text, folds if bounds == sorted(bounds) else ())


class FoldedPastes:
    """The folded parts of the text in the composer.

    Pastes are remembered when the message is sent: one that comes back, from the queue, the history or the user's
    editor, is folded again.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        """Marker to text, for the present message."""
        self._pattern: re.Pattern[str] | None = None
        self._remembered: list[str] = []
        """The latest last."""

    def fold(self, text: str, beside: str = "", word: str = "pasted ") -> str:
        """Keep a text; return the marker that stands for it in the present message.

        Args:
            text: what is folded.
            beside: what the marker is inserted into; it will be a marker that does not occur there.
            word: what comes before the number of lines in the marker.
        """
        lines = len(text.splitlines())
        label = f"{word}{lines:,} lines" if lines > 1 else f"{word}{len(text):,} characters"
        marker = f"[{label}]"
        number = 2
        while marker in self._texts or marker in beside:
            marker = f"[{label} #{number}]"
            number += 1
        self._texts[marker] = text
        self._pattern = re.compile("|".join(re.escape(known) for known in self._texts))
        self._remember(text)
        return marker

    def _remember(self, text: str) -> None:
        others = [known for known in self._remembered if known != text]
        while len(others) >= _REMEMBERED_PASTES or sum(map(len, others)) > _REMEMBERED_CHARACTERS:
            del others[0]
        self._remembered = [*others, text]

    def draft(self, shown: str) -> ComposerDraft:
        """The text with every marker replaced, and where the markers were."""
        if self._pattern is None:
            return ComposerDraft(shown)
        parts: list[str] = []
        folds: list[tuple[int, int]] = []
        position = length = 0
        for match in self._pattern.finditer(shown):
            whole = self._texts[match[0]]
            start = length + match.start() - position
            parts += shown[position : match.start()], whole
            position, length = match.end(), start + len(whole)
            folds.append((start, length))
        return ComposerDraft("".join([*parts, shown[position:]]), tuple(folds))

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Return the first and last columns of the markers in a line."""
        if self._pattern is None or "[" not in line:
            return []
        return [match.span() for match in self._pattern.finditer(line)]

    def begin(self, draft: ComposerDraft) -> str:
        """Begin another message; return the shown text, with markers for folded pastes.

        Besides its own folds, pastes of earlier messages are folded again. Of a text that is very long all the same,
        the ends are shown.
        """
        self._texts.clear()
        self._pattern = None
        parts: list[str] = []
        position = 0
        for start, end in draft.folds:
            parts += self._folded_again(draft.text[position:start]), self._marker(draft.text[start:end], draft.text)
            position = end
        return "".join([*parts, self._folded_again(draft.text[position:])])

    def _marker(self, text: str, beside: str) -> str:
        known = next((marker for marker, whole in self._texts.items() if whole == text), None)
        return known or self.fold(text, beside)

    def _folded_again(self, text: str) -> str:
        if not is_big(text):
            return text
        for paste in sorted(self._remembered, key=len, reverse=True):
            before, found, after = text.partition(paste)
            if found:
                return self._folded_again(before) + self._marker(paste, text) + self._folded_again(after)
        if len(text) <= _MOST_SHOWN_CHARACTERS and text.count("\n") < _MOST_SHOWN_LINES:
            return text
        start = _edge(text)
        end = len(text) - _edge(text[: start - 1 : -1])
        return text[:start] + self.fold(text[start:end], text, word="") + text[end:]


def _edge(text: str) -> int:
    """Return how much of a long text is shown at its beginning: some short lines, or else some characters."""
    position = 0
    for _ in range(_EDGE_LINES):
        end = text.find("\n", position, _EDGE_CHARACTERS)
        if end < 0:
            break
        position = end + 1
    return position or _EDGE_CHARACTERS
