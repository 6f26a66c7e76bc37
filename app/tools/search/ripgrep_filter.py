"""ripgrep as a first filter: which of many files can contain a match. Python code does the final matching.

ripgrep gets exact file paths, so it does not handle ignore rules, secrets or links, and its output has no text of
files. It gets literal texts that a match requires, not the expression, because its regex dialect differs.
"""

import os
import re
import subprocess
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from app.sandbox.environment import find_program_outside_workspace

RequiredTexts = frozenset[str]

_PRINTABLE_ASCII = re.compile(r"[ -~]+")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(?P<least>\d+)(?:,\d*)?\}|\{,\d*\})[?+]?")
_FLAGS = re.compile(r"\?(?P<flags>[aiLmsux-]+)(?P<end>[:)])")
_NAMED_BACKREFERENCE = re.compile(r"\?P=\w+\)")
_GROUP_START = re.compile(r"\?(?:[:>]|P<\w+>|(?P<aside>=|!|<=|<!|\(\w+\)))")
_CHARACTER_CLASS = re.compile(r"\^?\]?(?:\\.|[^\]\\])*\]")
_ESCAPED_CHARACTER = re.compile(r"x..|u.{4}|U.{8}|N\{[^}]*\}|[0-9]{1,3}|.")


def find_required_texts(pattern: str, *, regex: bool, ignore_case: bool) -> tuple[RequiredTexts, bool]:
    """Return texts of which each matching line contains at least one, and whether to ignore their case.

    Args:
        pattern: A text, or a regular expression that Python compiles.

    Returns:
        The texts in printable ASCII; empty if they can't be determined.
    """
    if not regex:
        longest = max(_PRINTABLE_ASCII.findall(pattern), key=len, default="")
        return frozenset((longest,) if longest else ()), ignore_case
    reader = _PatternReader(pattern)
    try:
        texts = reader.alternatives()
    except (_UnknownSyntax, RecursionError):
        return frozenset(), ignore_case
    return texts, ignore_case or reader.ignores_case


class _UnknownSyntax(Exception):
    """The expression has an element that the parser does not support."""


class _PatternReader:
    """Parses an expression from left to right; an element without required literals counts as matching anything."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self.ignores_case = False

    def alternatives(self) -> RequiredTexts:
        """Return literals of which each alternative requires one, up to a `)` or the end; empty if one has none."""
        found = [self._read_sequence()]
        while self._skip_letter("|"):
            found.append(self._read_sequence())
        return frozenset().union(*found) if all(found) else frozenset()

    def _read_sequence(self) -> RequiredTexts:
        """Return the most selective literals that a concatenation requires."""
        needed: list[RequiredTexts] = []
        text = ""
        while self._position < len(self._pattern) and self._pattern[self._position] not in "|)":
            atom = self._read_atom()
            repeated = self._match_next(_QUANTIFIER)
            min_repeats = 1 if repeated is None else self._min_repeats(repeated)
            if isinstance(atom, str) and min_repeats:
                text += atom
            if not isinstance(atom, str) or repeated is not None:
                needed.append(frozenset((text,)) if text else frozenset())
                text = ""
            if not isinstance(atom, str) and min_repeats:
                needed.append(atom)
        needed.append(frozenset((text,)) if text else frozenset())
        return max(needed, key=lambda texts: min(map(len, texts), default=0))

    @staticmethod
    def _min_repeats(repeated: re.Match[str]) -> int:
        return int(repeated["least"]) if repeated["least"] else int(repeated[0][0] == "+")

    def _read_atom(self) -> str | RequiredTexts:
        """Return a literal character, or the literals that an atom requires."""
        letter = self._pattern[self._position]
        self._position += 1
        if letter == "\\":
            escaped = self._match_next(_ESCAPED_CHARACTER)
            if escaped is None:
                raise _UnknownSyntax
            letter = escaped[0]
            return (
                letter
                if len(letter) == 1 and _PRINTABLE_ASCII.fullmatch(letter) and not letter.isalnum()
                else frozenset()
            )
        if letter == "[":
            if self._match_next(_CHARACTER_CLASS) is None:
                raise _UnknownSyntax
            return frozenset()
        if letter == "(":
            return self._read_group()
        return letter if _PRINTABLE_ASCII.fullmatch(letter) and letter not in ".^$" else frozenset()

    def _read_group(self) -> RequiredTexts:
        if self._match_next(_NAMED_BACKREFERENCE):
            return frozenset()
        is_optional_text = False
        if flags := self._match_next(_FLAGS):
            if "x" in flags["flags"]:
                raise _UnknownSyntax
            self.ignores_case |= "i" in flags["flags"]
            if flags["end"] == ")":
                return frozenset()
        elif group_start := self._match_next(_GROUP_START):
            is_optional_text = group_start["aside"] is not None
        elif self._skip_letter("?"):
            # A comment (a following `*` would apply to the atom before it), or an unknown extension.
            raise _UnknownSyntax
        texts = self.alternatives()
        if not self._skip_letter(")"):
            raise _UnknownSyntax
        return frozenset() if is_optional_text else texts

    def _match_next(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        match = expression.match(self._pattern, self._position)
        if match is not None:
            self._position = match.end()
        return match

    def _skip_letter(self, letter: str) -> bool:
        is_next = self._pattern.startswith(letter, self._position)
        self._position += is_next
        return is_next


_MAX_ARGUMENT_BYTES = 96 * 1024
"""Maximum number of bytes of paths in one call; far below the limit of any system."""
_OPTIONS = (
    "--no-config",
    "--no-ignore",
    "--hidden",
    "--no-messages",
    "--no-search-zip",
    "--no-pre",
    "--crlf",
    "--color=never",
    "--files-with-matches",
    "--null",
)

_VARIANTS_OF_I = r"[iI\x{130}\x{131}]"
"""Characters that Python's re.IGNORECASE equates; ripgrep treats the last two (Turkish) differently."""


class RipgrepFileFilter:
    """Filters files with ripgrep by texts that they must contain; `stop` may be called from another thread.

    Args:
        root: Paths are relative to this folder.
        texts: Printable ASCII; a file passes if it contains one of them.
        ignore_case: Whether to ignore case in the same way as Python.
    """

    def __init__(self, program: str, root: Path, texts: Collection[str], *, ignore_case: bool) -> None:
        self._root = root
        self._command = [program, *_OPTIONS, "--ignore-case" if ignore_case else "--case-sensitive"]
        for text in sorted(texts):
            self._command += ["--regexp", "".join(_letter_expression(letter, ignore_case) for letter in text)]
        self._command.append("--")
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()

    def filter_paths(self, paths: Sequence[str]) -> list[str]:
        """Return the paths of files that may match, in the same order; the whole batch if ripgrep fails."""
        matching: list[str] = []
        for batch in _batches(paths):
            if self._stopped.is_set():
                break
            matching += self._filter_batch(batch)
        return matching

    def stop(self) -> None:
        """Stop the search and kill ripgrep."""
        self._stopped.set()
        if self._process is not None:
            self._process.kill()

    def _filter_batch(self, batch: Sequence[str]) -> Sequence[str]:
        try:
            with subprocess.Popen(
                [*self._command, *batch],
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            ) as process:
                self._process = process
                if self._stopped.is_set():
                    # `stop` was called before this process was known to it.
                    process.kill()
                output, _ = process.communicate()
        except OSError:
            return batch
        if process.returncode not in (0, 1):
            return batch
        # For a file named `-`, ripgrep reads its standard input: let the file pass.
        matching = {"-", *os.fsdecode(output).split("\0")}
        return [path for path in batch if path in matching]


def _letter_expression(letter: str, ignore_case: bool) -> str:
    """Return an expression for one character that every version of ripgrep reads in the same way."""
    if ignore_case and letter in "iI":
        return _VARIANTS_OF_I
    return letter if letter.isalnum() else f"\\x{ord(letter):02x}"


def find_ripgrep(root: Path) -> str | None:
    """Return the path of ripgrep if it is installed outside the workspace; else None."""
    return find_program_outside_workspace("rg", root)


def _batches(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    start = size = 0
    for end, path in enumerate(paths):
        size += len(os.fsencode(path)) + 1
        if size > _MAX_ARGUMENT_BYTES and end > start:
            yield paths[start:end]
            start, size = end, len(os.fsencode(path)) + 1
    if start < len(paths):
        yield paths[start:]
