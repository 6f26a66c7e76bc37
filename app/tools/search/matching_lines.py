"""Find matching lines: literally in this process, or by a regular expression in one that can be killed."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from app.proposals.text.document import WIDE_MARKS, Document
from app.tools.base.contract import ToolError
from app.tools.search.ripgrep_filter import required_texts

Hit = tuple[int, int, str]
"""The number of a matching line, from 0, the column of its first match, and its text without ending."""
Search = Callable[[str, int], re.Match[str] | None]
"""Finds the first match in a text from an index on."""

_SAME_IN_ANY_CASE = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}
"""Letters outside of ASCII that match one of ASCII where case does not count (documentation of re.IGNORECASE)."""

WORKER = Path(__file__).with_name("regex_worker.py")
LIFE = 60
"""Seconds after which the worker ends by itself, far more than a search may take."""


class MatcherStopped(Exception):
    """The matcher was stopped while it was at work."""


class Matcher(Protocol):
    """Finds matching lines; `prepare` and `hits` block, so they run on a thread, and `stop` may come from another."""

    most_files: int
    """How many files `hits` is best given at once."""

    def prepare(self) -> None:
        """Get ready; raises ToolError for a pattern that is none, and MatcherStopped."""
        ...

    def may_match(self, content: bytes) -> bool:
        """Whether a line of a file can match at all, by a quick look at its bytes."""
        ...

    def hits(self, documents: Sequence[Document]) -> list[list[Hit]]:
        """Return the matching lines of each file; raises MatcherStopped."""
        ...

    def stop(self) -> None:
        """Give up; whoever waits gets MatcherStopped."""
        ...

    def close(self) -> None:
        """Let go of everything; after this, nothing else is called."""
        ...


class LiteralMatcher:
    """Looks for a string."""

    most_files = 1

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self.may_match = _filter(pattern, regex=False, ignore_case=ignore_case)
        self._search = re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else 0).search

    def prepare(self) -> None:
        """Do nothing: a literal needs no preparation."""

    def hits(self, documents: Sequence[Document]) -> list[list[Hit]]:
        """Return the matching lines of each file."""
        return [lines_with(document.text, self._search) for document in documents]

    def stop(self) -> None:
        """Do nothing: matching a literal is quick."""

    def close(self) -> None:
        """Do nothing."""


class RegexMatcher:
    """Looks for a regular expression in Python's dialect."""

    most_files = 64
    """An exchange with the worker costs as much as the search of a small file."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        """Start the worker."""
        self._pattern = pattern
        self._ignore_case = ignore_case
        self.may_match: Callable[[bytes], bool] = lambda content: True
        self._required: Search | None = None
        """Finds what each line has that can match, if that is known."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WORKER), str(LIFE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            start_new_session=True,
        )

    def prepare(self) -> None:
        """Compile; raises ToolError for an expression that is none, and MatcherStopped."""
        error = self._ask({"pattern": self._pattern, "ignore_case": self._ignore_case})
        if error is not None:
            raise ToolError(f"{self._pattern!r} is not a regular expression in Python's dialect: {error}.")
        self.may_match = _filter(self._pattern, regex=True, ignore_case=self._ignore_case)
        texts, ignore_case = required_texts(self._pattern, regex=True, ignore_case=self._ignore_case)
        if texts:
            flags = re.IGNORECASE if ignore_case else 0
            self._required = re.compile("|".join(map(re.escape, sorted(texts))), flags).search

    def hits(self, documents: Sequence[Document]) -> list[list[Hit]]:
        """Return the matching lines of each file; raises MatcherStopped."""
        tried = [self._lines_that_may_match(document) for document in documents]
        answer = self._ask([[line for _, _, line in lines] for lines in tried]) if any(tried) else []
        assert isinstance(answer, list)
        found: list[list[Hit]] = [[] for _ in documents]
        for file, index, column in answer:
            number, _, line = tried[file][index]
            found[file].append((number, column, line))
        return found

    def _lines_that_may_match(self, document: Document) -> list[Hit]:
        if self._required is None:
            return [(number, 0, line) for number, line in enumerate(document.texts)]
        return lines_with(document.text, self._required)

    def stop(self) -> None:
        """Kill the worker."""
        self._process.kill()

    def close(self) -> None:
        """End the worker and collect it."""
        self._process.kill()
        with suppress(OSError):
            self._process.communicate()

    def _ask(self, question: object) -> object:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError as error:
            raise MatcherStopped from error
        if not answer:
            raise MatcherStopped
        return json.loads(answer)


def lines_with(text: str, search: Search) -> list[Hit]:
    """The lines in which an expression matches that no line feed can be part of, and that is never empty."""
    found: list[Hit] = []
    at = number = 0
    while match := search(text, at):
        start = text.rfind("\n", at, match.start()) + 1 or at
        end = text.find("\n", match.end())
        number += text.count("\n", at, start)
        found.append((number, match.start() - start, text[start:end] if end >= 0 else text[start:]))
        if end < 0:
            break
        at = end + 1
        number += 1
    return found


def _filter(pattern: str, *, regex: bool, ignore_case: bool) -> Callable[[bytes], bool]:
    """A test of a file's bytes that only those fail in which no line matches."""
    texts, ignore_case = required_texts(pattern, regex=regex, ignore_case=ignore_case)
    if not texts:
        return lambda content: True
    if not ignore_case and len(texts) == 1:
        (needed,) = (text.encode() for text in texts)
        return lambda content: needed in content or content.startswith(WIDE_MARKS)
    pieces = [b"".join(_letter(letter, ignore_case) for letter in text) for text in sorted(texts)]
    search = re.compile(b"|".join(pieces)).search
    return lambda content: search(content) is not None or content.startswith(WIDE_MARKS)


def _letter(letter: str, ignore_case: bool) -> bytes:
    """An expression for the UTF-8 of a letter of ASCII, and for all that `re.IGNORECASE` takes for the same."""
    if not ignore_case or not letter.isalpha():
        return re.escape(letter).encode()
    lower, upper = letter.lower().encode(), letter.upper().encode()
    others = "".join(_SAME_IN_ANY_CASE.get(letter.lower(), ()))
    return b"(?:" + b"|".join([b"[" + lower + upper + b"]", *(other.encode() for other in others)]) + b")"
