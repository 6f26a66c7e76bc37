"""Files that a message names: `@shot.png`, `@"two words.png"`, and what a terminal pastes for a dropped file."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_MENTION = re.compile(
    r"""(?:^|(?<=[\s(]))@(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)'|(?P<bare>(?:\\.|[^\s\\"'])+))"""
)
_ESCAPED = re.compile(r"\\(.)")
_PLAIN = re.compile(r"[^\s\\\"'()]*[^\s\\\"'().,;:!?\]}]")
"""A path that needs no quotes, and does not end like a sentence."""
_AFTER = ".,;:!?)]}"
"""What may stand right after a path in a sentence."""
_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_LONGEST = 4_000
"""Characters of a paste that may be a path, or several."""


class Mention(NamedTuple):
    """A file that the user has named with an `@`."""

    path: str
    dropped: bool = False
    """The file was dropped on the terminal or its path pasted by itself, so that no other text can have named it."""


def mentions(text: str, dropped: frozenset[str] = frozenset()) -> tuple[Mention, ...]:
    """The files that a text names, each once; `dropped` are paths that the user has pasted by themselves."""
    paths = dict.fromkeys(path_of(found) for match in _MENTION.finditer(text) if (found := _named(match)))
    return tuple(Mention(path, path in dropped) for path in paths)


def path_of(text: str) -> str:
    """The path that a file:// URL stands for; any other text is one itself."""
    if not text.lower().startswith("file://"):
        return text
    try:
        return unquote(urlsplit(text).path) or text
    except ValueError:
        return text


def written(path: str) -> str:
    """How a path is named in a message."""
    if _PLAIN.fullmatch(path):
        return f"@{path}"
    for quote in "\"'":
        if quote not in path:
            return f"@{quote}{path}{quote}"
    return "@" + re.sub(r"([\s\\\"'().,;:!?\]}])", r"\\\1", path)


def is_named_like_an_image(path: str) -> bool:
    """Whether the name says that it is a picture that can be attached."""
    return PurePosixPath(path).suffix.lower() in _SUFFIXES


def pasted_paths(text: str) -> Iterator[Sequence[str]]:
    """What the whole of a pasted text may mean as paths, the likeliest first; nothing if it can be none.

    Terminals paste a dropped file as it is, with quotes, with backslashes, or as a URL; several of them with spaces
    or line breaks between.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST or any(ord(character) < 32 for character in text.replace("\n", "")):
        return
    if not text.startswith(("/", "~/", "'", '"', "file://")) and not is_named_like_an_image(text):
        return
    import shlex

    lines = [path_of(line.strip()) for line in text.split("\n") if line.strip()]
    yield lines
    try:
        words = [path_of(word) for word in shlex.split(text)]
    except ValueError:
        return
    if words and words != lines:
        yield words


def _named(match: re.Match[str]) -> str:
    quoted = match["double"] or match["single"]
    if quoted:
        return quoted
    bare = match["bare"]
    # A closing bracket or a full stop belongs to the sentence, unless it is escaped.
    while bare and bare[-1] in _AFTER and not bare.endswith("\\" + bare[-1]):
        bare = bare[:-1]
    return _ESCAPED.sub(r"\1", bare)
