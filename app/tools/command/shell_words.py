"""Reads a command line that is nothing but one simple command: its words, exactly as a POSIX shell would pass them.

Whatever could start a second program or depends on the shell's state is not read at all: lists, pipes, redirections,
substitutions, parameters, assignments, braces, comments, reserved words. What is left needs no more than the quoting
rules of the POSIX shell (XCU 2.2 and 2.3), which bash and dash agree on.
"""

from dataclasses import dataclass

_OPERATORS = frozenset(";&|<>()")
_RESERVED_WORDS = "! { } [[ ]] if then else elif fi do done case esac while until for select in function time coproc"
_RESERVED = frozenset(_RESERVED_WORDS.split())
_PATTERN = frozenset("*?[]~")
"""What a shell may replace by the names of files or folders."""
_ESCAPED_IN_QUOTES = frozenset('$`"\\')
_WHY = {
    "$": "a $",
    "`": "a backquote",
    "{": "a brace",
    "}": "a brace",
    "#": "a #",
    "\n": "a second line",
}


class NotSimple(Exception):
    """The text is more than one simple command; the message names what makes it so."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command."""

    text: str
    """With quotes taken off."""
    literal: bool = True
    """Whether the shell passes it as it is; False if it may become the names of files."""


def simple_command(text: str) -> tuple[Word, ...]:
    """The words of a simple command.

    Args:
        text: a command line.

    Raises:
        NotSimple: it is empty, more than one command, or not to be told without running a shell.
    """
    words = tuple(_Reader(text.strip(" \t\n")).words())
    if not words:
        raise NotSimple("nothing")
    first = words[0]
    if "=" in first.text:
        raise NotSimple("a variable set before the command")
    if first.text in _RESERVED or not first.literal or first.text.startswith("%"):
        raise NotSimple(f"{first.text} where a program should be named")
    return words


class _Reader:
    """Goes through a command line once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def words(self) -> list[Word]:
        found = []
        while self._at < len(self._text):
            if self._text[self._at] in " \t":
                self._at += 1
            else:
                found.append(self._word())
        return found

    def _word(self) -> Word:
        parts: list[str] = []
        literal = True
        start = self._at
        while self._at < len(self._text) and (char := self._text[self._at]) not in " \t":
            self._at += 1
            match char:
                case "'":
                    parts.append(self._single_quoted())
                case '"':
                    parts.append(self._double_quoted())
                case "\\":
                    parts.append(self._escaped())
                case _:
                    self._check(char, begins=self._at - 1 == start)
                    literal = literal and char not in _PATTERN
                    parts.append(char)
        return Word("".join(parts), literal)

    def _check(self, char: str, *, begins: bool) -> None:
        if char in _OPERATORS:
            raise NotSimple(f"a {char}")
        if char in "$`{}\n" or (char == "#" and begins):
            raise NotSimple(_WHY[char])
        if char.isspace() or not char.isprintable():
            raise NotSimple("an unusual blank or a control character")

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            raise NotSimple("a quote that is not closed")
        quoted = self._text[self._at : end]
        self._at = end + 1
        return self._checked(quoted)

    def _double_quoted(self) -> str:
        parts: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == '"':
                return self._checked("".join(parts))
            if char in "$`":
                raise NotSimple(_WHY[char])
            following = self._text[self._at : self._at + 1]
            if char == "\\" and following == "\n":
                raise NotSimple(_WHY["\n"])
            if char == "\\" and following in _ESCAPED_IN_QUOTES and following:
                char = following
                self._at += 1
            parts.append(char)
        raise NotSimple("a quote that is not closed")

    def _escaped(self) -> str:
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if char in ("", "\n"):
            raise NotSimple(_WHY["\n"])
        return self._checked(char)

    @staticmethod
    def _checked(quoted: str) -> str:
        if any(not char.isprintable() and char not in "\n\t" for char in quoted):
            raise NotSimple("a control character")
        return quoted
