"""Which lines of a text match: literally, in this process, or by a regular expression, in one that can be killed."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from app.tools.contract import ToolError

Hit = tuple[int, int]
"""A matching line, from 0, and the column of its first match."""


WORKER = Path(__file__).with_name("regex_worker.py")
LIFE = 60
"""Seconds after which the worker ends by itself, far more than a search may take."""


class MatcherStopped(Exception):
    """The matcher was stopped while it was at work."""


class Matcher(Protocol):
    """Finds matching lines; `prepare` and `hits` block, so they run on a thread, and `stop` may come from another."""

    def prepare(self) -> None:
        """Get ready; raises ToolError for a pattern that is none, and MatcherStopped."""
        ...

    def hits(self, lines: Sequence[str]) -> list[Hit]:
        """The matching lines of a text; raises MatcherStopped."""
        ...

    def stop(self) -> None:
        """Give up; whoever waits gets MatcherStopped."""
        ...

    def close(self) -> None:
        """Let go of everything; after this, nothing else is called."""
        ...


class LiteralMatcher:
    """Looks for a string."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self._expression = re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else 0)

    def prepare(self) -> None:
        """Nothing to do."""

    def hits(self, lines: Sequence[str]) -> list[Hit]:
        """The matching lines."""
        search = self._expression.search
        return [(number, found.start()) for number, line in enumerate(lines) if (found := search(line))]

    def stop(self) -> None:
        """Nothing to do: one text takes no time."""

    def close(self) -> None:
        """Nothing to do."""


class RegexMatcher:
    """Looks for a regular expression in Python's dialect."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        """Start the worker."""
        self._pattern = pattern
        self._ignore_case = ignore_case
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

    def hits(self, lines: Sequence[str]) -> list[Hit]:
        """The matching lines."""
        answer = self._ask(list(lines))
        return [(number, column) for number, column in answer] if isinstance(answer, list) else []

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
