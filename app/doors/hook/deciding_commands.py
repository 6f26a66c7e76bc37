"""Recognises commands of a shell that decide in signoff in the user's place: `signoff approve P1`.

Only words are compared: through quotes, paths, wrappers (`env`, `sh -c`, `python -m signoff`, `uvx`) and lists of
commands, but not through variables, encodings or scripts. That keeps an agent from deciding by mistake; an agent that
means to decide can avoid it.
"""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

DECIDING = frozenset({"approve", "deny", "redo", "review", "stage", "undo"})
"""Commands of signoff that decide, or that stage what the hook would have seen."""
_SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "pwsh", "sh", "tcsh", "zsh"})
_WRAPPERS = frozenset({"busybox", "command", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "sudo", "time"})
_OPERATORS = "();<>|&`{}$"
_QUOTES = str.maketrans("", "", "\\'\"")
_MAX_DEPTH = 5


def decides(line: str, depth: int = 0) -> bool:
    """Whether a command line, or one quoted in it, has `signoff` before a word that decides."""
    if "signoff" not in line.translate(_QUOTES):
        return False
    words = _words(line)
    if any(_is_signoff(word) and following in DECIDING for word, following in pairwise(words)):
        return True
    return depth < _MAX_DEPTH and any(decides(word, depth + 1) for word in words if any(map(str.isspace, word)))


def opens_shell(line: str, depth: int = 0) -> bool:
    """Whether a command line starts a shell without a script: `bash`, `env sh -i`, `sh -c "exec zsh"`.

    Codex writes to the input of a running command by a tool for which it does not call the hook.
    """
    for words in _simple_commands(_words(line)):
        at = next((at for at, word in enumerate(words) if not _is_prefix(word)), len(words))
        name, options = "".join(words[at : at + 1]).rpartition("/")[2], words[at + 1 :]
        if name not in _SHELLS:
            continue
        if all(option.startswith("-") for option in options) and not any(map(_has_no_session, options)):
            return True
        if depth < _MAX_DEPTH and any(_runs_text(option) for option in options):
            return any(opens_shell(option, depth + 1) for option in options if not option.startswith("-"))
    return False


def _simple_commands(words: list[str]) -> Iterator[list[str]]:
    """The commands of a list whose input is that of the whole: after no `|`, and without `<`."""
    command: list[str] = []
    has_input = False
    for word in [*words, ";"]:
        if word and not word.strip(_OPERATORS):
            if "<" in word or ">" in word:
                has_input |= "<" in word
                continue
            if command and not has_input:
                yield command
            command, has_input = [], word in ("|", "|&")
        else:
            command.append(word)


def _is_prefix(word: str) -> bool:
    """Whether a shell may follow: a wrapper, an option of one, or `NAME=value`."""
    return word.rpartition("/")[2] in _WRAPPERS or word.startswith("-") or re.match(r"\w+=", word) is not None


def _has_no_session(option: str) -> bool:
    return option in ("--version", "--help", "--command") or _runs_text(option)


def _runs_text(option: str) -> bool:
    """`-c`, `-lc`."""
    return re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", option) is not None


def _words(line: str) -> list[str]:
    reader = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=_OPERATORS)
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        return list(reader)
    except ValueError:
        # An unclosed quote: how a shell would read the rest is unknown.
        return line.translate(_QUOTES).split()


def _is_signoff(word: str) -> bool:
    """Also `/usr/bin/signoff`, `-msignoff`, `signoff@latest` and `signoff==0.2`."""
    name = word.rpartition("/")[2].removeprefix("-m")
    return name == "signoff" or name.startswith(("signoff@", "signoff=="))
