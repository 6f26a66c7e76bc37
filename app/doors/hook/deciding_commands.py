"""Recognises commands of a shell that decide in signoff in the user's place: `signoff approve P1`.

Only words are compared: through quotes, paths, wrappers (`env`, `sh -c`, `python -m signoff`, `uvx`) and lists of
commands, but not through variables, encodings or scripts. That keeps an agent from deciding by mistake; one that
wants to decide finds a way around it.
"""

import shlex
from itertools import pairwise

DECIDING = frozenset({"approve", "deny", "redo", "review", "stage", "undo"})
"""Commands of signoff that decide, or that stage what the hook would have seen."""
_OPERATORS = "();<>|&`{}$"
_NOT_WORDS = str.maketrans("", "", "\\'\"")
_DEEPEST = 5


def decides(line: str, depth: int = 0) -> bool:
    """Whether a command line, or one that stands in it in quotes, has `signoff` before a word that decides."""
    if "signoff" not in line.translate(_NOT_WORDS):
        return False
    words = _words(line)
    if any(_is_signoff(word) and following in DECIDING for word, following in pairwise(words)):
        return True
    return depth < _DEEPEST and any(decides(word, depth + 1) for word in words if any(map(str.isspace, word)))


def _words(line: str) -> list[str]:
    reader = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=_OPERATORS)
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        return list(reader)
    except ValueError:
        # A quote that is not closed: what a shell would make of it is not known.
        return line.translate(_NOT_WORDS).split()


def _is_signoff(word: str) -> bool:
    """Also `/usr/bin/signoff`, `-msignoff`, `signoff@latest` and `signoff==0.2`."""
    name = word.rpartition("/")[2].removeprefix("-m")
    return name == "signoff" or name.startswith(("signoff@", "signoff=="))
