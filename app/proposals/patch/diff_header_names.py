"""File names in patch headers: git's quoting, prefixes, timestamps."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from app.proposals.text.document import decode_surrogateescape, encode_surrogateescape

NO_FILE = "/dev/null"

_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_LETTERS = {value: letter for letter, value in _ESCAPES.items()}
_OCTAL = re.compile(r"[0-3][0-7]{2}")
_STAMP = re.compile(
    r"(?<![ \t])[ \t]+(?P<date>\d{2,4}-\d\d-\d\d)[ \t]+"
    r"(?P<hours>\d\d):(?P<minutes>\d\d)(?P<rest>(?::\d\d(?:\.\d+)?)?)"
    r"(?: ?(?P<sign>[-+])(?P<zone_hours>\d\d):?(?P<zone_minutes>\d\d))?$"
)
_EPOCH_DAYS = {"1970-01-01": 0, "1969-12-31": -24 * 60}
"""Local dates of the Unix epoch, in minutes from it."""

PrefixPair = tuple[str, str]
"""Prefixes of the names of the old and the new side, such as `a/` and `b/`."""


class DiffHeaderName(NamedTuple):
    """The path in a `---` or `+++` line of a diff, and whether the file is said to be missing."""

    path: str
    missing: bool
    """Whether the line says that the file does not exist: by the epoch as timestamp (`diff -N`), or in words
    (Subversion).
    """


def quote_git_path(path: str) -> str:
    """Return the path as git writes it: C-style quotes around control characters, quotes, backslashes and undecodable
    bytes.

    Characters beyond ASCII stay as they are (`core.quotePath=false`); git and patch read both forms. A path that
    contains a space and `b/` is quoted too, its spaces as octal, because readers split a `diff --git` line there.
    """
    splits = " b/" in path
    if not splits and not any(
        character in '"\\\x7f' or character < " " or "\udc80" <= character <= "\udcff" for character in path
    ):
        return path
    pieces = []
    for byte in encode_surrogateescape(path):
        if byte in _LETTERS:
            pieces.append(f"\\{_LETTERS[byte]}")
        elif byte < 32 or byte >= 127 or (byte == 32 and splits):
            pieces.append(f"\\{byte:03o}")
        else:
            pieces.append(chr(byte))
    return f'"{"".join(pieces)}"'


def unquote_git_path(text: str) -> tuple[str, str]:
    """Return the path at the start of `text`, which begins with a quote, and the rest; raise ValueError if it is
    malformed.
    """
    data = bytearray()
    at = 1
    while at < len(text):
        character = text[at]
        if character == '"':
            return decode_surrogateescape(bytes(data)), text[at + 1 :]
        if character != "\\":
            data += encode_surrogateescape(character)
            at += 1
            continue
        code = text[at + 1 : at + 2]
        if code in _ESCAPES and code:
            data.append(_ESCAPES[code])
            at += 2
        elif octal := _OCTAL.match(text, at + 1):
            data.append(int(octal[0], 8))
            at += 4
        else:
            raise ValueError("no such escape")
    raise ValueError("no closing quote")


def parse_rename_path(text: str) -> str:
    """Return the name after `rename from` or `rename to`; it ends with the line, so a space or tab is part of it."""
    text = text.rstrip("\r")
    return parse_header_name(text).path if text.startswith('"') else text


def parse_header_name(text: str) -> DiffHeaderName:
    """Parse the text of a `---` or `+++` line after its mark: a path, perhaps quoted, and perhaps a timestamp."""
    text = text.rstrip("\r")
    if text.startswith('"'):
        try:
            path, rest = unquote_git_path(text)
        except ValueError:
            return DiffHeaderName(text, False)
        return DiffHeaderName(path, _is_epoch(_STAMP.search(rest)))
    stamp = _STAMP.search(text)
    if stamp and stamp.start():
        # A tab before the timestamp ends the name; other tabs, and spaces before that tab, are part of it.
        name, tab, _ = text[: stamp.start("date")].rpartition("\t")
        return DiffHeaderName(name if tab else text[: stamp.start()], _is_epoch(stamp))
    path, tab, said = text.partition("\t")
    return DiffHeaderName(path if tab else path.rstrip(" "), said == "(nonexistent)")


def _is_epoch(stamp: re.Match[str] | None) -> bool:
    if stamp is None or stamp["date"] not in _EPOCH_DAYS or not stamp["sign"] or stamp["rest"].strip(":.0"):
        return False
    zone = int(stamp["zone_hours"]) * 60 + int(stamp["zone_minutes"])
    local = _EPOCH_DAYS[stamp["date"]] + int(stamp["hours"]) * 60 + int(stamp["minutes"])
    return local == (zone if stamp["sign"] == "+" else -zone)


def split_git_header_names(text: str) -> tuple[str, str] | None:
    """Return both names, with prefixes, of a `diff --git` line (without these words); None if it cannot be split.

    Names may contain spaces, so an unquoted line is split where both halves name the same file.
    """
    text = text.rstrip("\r")
    try:
        if text.startswith('"'):
            first, rest = unquote_git_path(text)
            second = rest.removeprefix(" ")
            return first, unquote_git_path(second)[0] if second.startswith('"') else second
        if text.endswith('"'):
            at = text.index(' "')
            return text[:at], unquote_git_path(text[at + 1 :])[0]
    except ValueError:
        return None
    at = text.find(" ")
    while at >= 0:
        first, second = text[:at], text[at + 1 :]
        if first == second or (_rest(first) and _rest(first) == _rest(second)):
            return first, second
        at = text.find(" ", at + 1)
    halves = text.split(" ")
    return (halves[0], halves[1]) if len(halves) == 2 else None


def strip_path_prefixes(
    old: str, new: str, git_names: tuple[str, str] | None, known: Iterable[PrefixPair] = ()
) -> tuple[str, str]:
    """Return both names of a file without the prefixes (`a/` and `b/`) that the diff put before them.

    A `diff --git` line with the same name twice was written without prefixes. Otherwise a prefix is removed only if
    the two names differ in nothing but their first folder: a folder called `a` stays. Beside `/dev/null`, it is
    removed if it is git's own or one of the `known`, which other files of the patch have.
    """
    old, new = _tidy(old), _tidy(new)
    prefixes = find_path_prefixes(old, new, git_names)
    if NO_FILE in (old, new) and not (git_names and git_names[0] == git_names[1]):
        # The prefix may also be that of the other side: if all other names have prefixes, it is not a folder.
        name = new if old == NO_FILE else old
        fitting = [prefix for pair in known for prefix in pair if name.startswith(prefix)]
        longest = max(fitting, key=len, default="")
        prefixes = (longest, longest) if longest else prefixes
    if prefixes:
        old = old if old == NO_FILE else old.removeprefix(prefixes[0])
        new = new if new == NO_FILE else new.removeprefix(prefixes[1])
    return _tidy(old), _tidy(new)


def find_path_prefixes(old: str, new: str, git_names: tuple[str, str] | None) -> PrefixPair | None:
    """Return the prefixes of both names that are not part of the paths; None if there are none."""
    old, new = _tidy(old), _tidy(new)
    (old_first, _, old_rest), (new_first, _, new_rest) = old.partition("/"), new.partition("/")
    if old == NO_FILE or new == NO_FILE:
        if git_names and NO_FILE not in git_names:
            return find_path_prefixes(*git_names, None)
        named_first, rest, usual = (new_first, new_rest, "b") if old == NO_FILE else (old_first, old_rest, "a")
        return ("a/", "b/") if named_first == usual and rest else None
    if not old_rest or not new_rest or not old_first or not new_first:
        return None
    if (old_first, new_first) == ("a", "b"):
        inner = find_path_prefixes(old_rest, new_rest, None) if git_names and old_rest != new_rest else None
        return ("a/", "b/") if inner is None else (f"a/{inner[0]}", f"b/{inner[1]}")
    return (f"{old_first}/", f"{new_first}/") if old_first != new_first and old_rest == new_rest else None


def _rest(name: str) -> str:
    return name.partition("/")[2]


def _tidy(name: str) -> str:
    while name.startswith("./"):
        name = name[2:]
    return name
