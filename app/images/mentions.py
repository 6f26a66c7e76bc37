"""Files that a message mentions: `@shot.png`, `@"two words.png"`, and pasted paths of dropped files."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_MENTION = re.compile(
    r"""(?:^|(?<=[\s(]))@(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)'|(?P<bare>(?:\\.|[^\s\\"'])+))"""
)
_ESCAPED = re.compile(r"\\(.)")
_PLAIN_PATH = re.compile(r"[^\s\\\"'()]*[^\s\\\"'().,;:!?\]}]")
"""A path that needs no quotes and does not end with punctuation."""
_TRAILING_PUNCTUATION = ".,;:!?)]}"
"""Punctuation that may directly follow a path in a sentence."""
_IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_MAX_PASTED_CHARACTERS = 4_000
"""Maximum number of characters of a paste that may consist of paths."""


class Mention(NamedTuple):
    """A file that a message mentions with `@`."""

    path: str
    dropped: bool = False
    """The file was dropped on the terminal, or its path was pasted alone, so the user chose the file."""


def find_mentioned_files(text: str, dropped_paths: frozenset[str] = frozenset()) -> tuple[Mention, ...]:
    """Return the files that a text mentions outside quoted lines, without duplicates.

    Args:
        dropped_paths: Paths that were pasted alone.
    """
    own_text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(">"))
    paths = dict.fromkeys(
        file_url_to_path(found) for match in _MENTION.finditer(own_text) if (found := _mentioned_path(match))
    )
    return tuple(Mention(path, path in dropped_paths) for path in paths)


def file_url_to_path(text: str) -> str:
    """Return the path of a file:// URL; any other text unchanged."""
    if not text.lower().startswith("file://"):
        return text
    try:
        return unquote(urlsplit(text).path) or text
    except ValueError:
        return text


def format_mention(path: str) -> str:
    """Return the mention of a path, with quotes or escapes if necessary."""
    if _PLAIN_PATH.fullmatch(path):
        return f"@{path}"
    for quote in "\"'":
        if quote not in path:
            return f"@{quote}{path}{quote}"
    return "@" + re.sub(r"([\s\\\"'().,;:!?\]}])", r"\\\1", path)


def has_image_name(path: str) -> bool:
    """Return whether a file name has the suffix of an image format."""
    return PurePosixPath(path).suffix.lower() in _IMAGE_SUFFIXES


def possible_pasted_paths(text: str) -> Iterator[Sequence[str]]:
    """Yield the possible path lists of a pasted text, the likeliest first; nothing if it cannot be paths.

    Terminals paste a dropped file unchanged, in quotes, with backslashes, or as a URL; several files are separated by
    spaces or line breaks.
    """
    text = text.strip()
    if (
        not text
        or len(text) > _MAX_PASTED_CHARACTERS
        or any(ord(character) < 32 for character in text.replace("\n", ""))
    ):
        return
    if not text.startswith(("/", "~/", "'", '"', "file://")) and not has_image_name(text):
        return
    import shlex

    lines = [file_url_to_path(line.strip()) for line in text.split("\n") if line.strip()]
    yield lines
    try:
        words = [file_url_to_path(word) for word in shlex.split(text)]
    except ValueError:
        return
    if words and words != lines:
        yield words


def _mentioned_path(match: re.Match[str]) -> str:
    quoted = match["double"] or match["single"]
    if quoted:
        return quoted
    bare = match["bare"]
    # A closing bracket or a full stop is part of the sentence, unless it is escaped.
    while bare and bare[-1] in _TRAILING_PUNCTUATION and not bare.endswith("\\" + bare[-1]):
        bare = bare[:-1]
    return _ESCAPED.sub(r"\1", bare)
