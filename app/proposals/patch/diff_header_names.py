"""File names in patch headers: git's quoting, prefixes, timestamps."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from app.proposals.text.document import decode_surrogateescape, encode_surrogateescape

NO_FILE = "/dev/null"

_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_ESCAPE_LETTERS = {value: letter for letter, value in _ESCAPES.items()}
_OCTAL_ESCAPE = re.compile(r"[0-3][0-7]{2}")
_TIMESTAMP = re.compile(
    r"(?<![ \t])[ \t]+(?P<date>\d{2,4}-\d\d-\d\d)[ \t]+"
    r"(?P<hours>\d\d):(?P<minutes>\d\d)(?P<rest>(?::\d\d(?:\.\d+)?)?)"
    r"(?: ?(?P<sign>[-+])(?P<zone_hours>\d\d):?(?P<zone_minutes>\d\d))?$"
)
_EPOCH_MINUTES_BY_DATE = {"1970-01-01": 0, "1969-12-31": -24 * 60}
"""Local dates of the Unix epoch, in minutes from it."""

PrefixPair = tuple[str, str]
"""Prefixes of the names of the old and the new side, such as `a/` and `b/`."""


class DiffHeaderName(NamedTuple):
    """The path in a `---` or `+++` line of a diff, and whether the line says that there is no such file."""

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
    has_separator = " b/" in path
    if not has_separator and not any(
        character in '"\\\x7f' or character < " " or "\udc80" <= character <= "\udcff" for character in path
    ):
        return path
    quoted = []
    for byte in encode_surrogateescape(path):
        if byte in _ESCAPE_LETTERS:
            quoted.append(f"\\{_ESCAPE_LETTERS[byte]}")
        elif byte < 32 or byte >= 127 or (byte == 32 and has_separator):
            quoted.append(f"\\{byte:03o}")
        else:
            quoted.append(chr(byte))
    return f'"{"".join(quoted)}"'


def unquote_git_path(text: str) -> tuple[str, str]:
    """Return the path at the start of `text`, which begins with a quote, and the rest; raise ValueError if it is
    malformed.
    """
    data = bytearray()
    index = 1
    while index < len(text):
        character = text[index]
        if character == '"':
            return decode_surrogateescape(bytes(data)), text[index + 1 :]
        if character != "\\":
            data += encode_surrogateescape(character)
            index += 1
            continue
        escape = text[index + 1 : index + 2]
        if escape in _ESCAPES and escape:
            data.append(_ESCAPES[escape])
            index += 2
        elif octal := _OCTAL_ESCAPE.match(text, index + 1):
            data.append(int(octal[0], 8))
            index += 4
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
        return DiffHeaderName(path, _is_epoch_time(_TIMESTAMP.search(rest)))
    timestamp = _TIMESTAMP.search(text)
    if timestamp and timestamp.start():
        # A tab before the timestamp ends the name; other tabs, and spaces before that tab, are part of it.
        name, tab, _ = text[: timestamp.start("date")].rpartition("\t")
        return DiffHeaderName(name if tab else text[: timestamp.start()], _is_epoch_time(timestamp))
    path, tab, suffix = text.partition("\t")
    return DiffHeaderName(path if tab else path.rstrip(" "), suffix == "(nonexistent)")


def _is_epoch_time(timestamp: re.Match[str] | None) -> bool:
    if (
        timestamp is None
        or timestamp["date"] not in _EPOCH_MINUTES_BY_DATE
        or not timestamp["sign"]
        or timestamp["rest"].strip(":.0")
    ):
        return False
    zone_minutes = int(timestamp["zone_hours"]) * 60 + int(timestamp["zone_minutes"])
    local_minutes = (
        _EPOCH_MINUTES_BY_DATE[timestamp["date"]] + int(timestamp["hours"]) * 60 + int(timestamp["minutes"])
    )
    return local_minutes == (zone_minutes if timestamp["sign"] == "+" else -zone_minutes)


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
            index = text.index(' "')
            return text[:index], unquote_git_path(text[index + 1 :])[0]
    except ValueError:
        return None
    index = text.find(" ")
    while index >= 0:
        first, second = text[:index], text[index + 1 :]
        if first == second or (
            _path_below_first_folder(first) and _path_below_first_folder(first) == _path_below_first_folder(second)
        ):
            return first, second
        index = text.find(" ", index + 1)
    halves = text.split(" ")
    return (halves[0], halves[1]) if len(halves) == 2 else None


def strip_path_prefixes(
    old: str, new: str, git_names: tuple[str, str] | None, known_prefixes: Iterable[PrefixPair] = ()
) -> tuple[str, str]:
    """Return both names of a file without the prefixes (`a/` and `b/`) that the diff put before them.

    A `diff --git` line with the same name twice was written without prefixes. Otherwise a prefix is removed only if
    the two names differ in nothing but their first folder: a folder called `a` stays. Beside `/dev/null`, it is
    removed if it is git's own or one of `known_prefixes`, which other files of the patch have.
    """
    old, new = _strip_current_folder(old), _strip_current_folder(new)
    prefixes = find_path_prefixes(old, new, git_names)
    if NO_FILE in (old, new) and not (git_names and git_names[0] == git_names[1]):
        # The prefix may also be that of the other side: if all other names have prefixes, it is not a folder.
        name = new if old == NO_FILE else old
        matching_prefixes = [prefix for pair in known_prefixes for prefix in pair if name.startswith(prefix)]
        longest = max(matching_prefixes, key=len, default="")
        prefixes = (longest, longest) if longest else prefixes
    if prefixes:
        old = old if old == NO_FILE else old.removeprefix(prefixes[0])
        new = new if new == NO_FILE else new.removeprefix(prefixes[1])
    return _strip_current_folder(old), _strip_current_folder(new)


def find_path_prefixes(old: str, new: str, git_names: tuple[str, str] | None) -> PrefixPair | None:
    """Return the prefixes of both names that are not part of the paths; None if there are none."""
    old, new = _strip_current_folder(old), _strip_current_folder(new)
    (old_first, _, old_rest), (new_first, _, new_rest) = old.partition("/"), new.partition("/")
    if old == NO_FILE or new == NO_FILE:
        if git_names and NO_FILE not in git_names:
            return find_path_prefixes(*git_names, None)
        first_folder, rest, usual_folder = (
            (new_first, new_rest, "b") if old == NO_FILE else (old_first, old_rest, "a")
        )
        return ("a/", "b/") if first_folder == usual_folder and rest else None
    if not old_rest or not new_rest or not old_first or not new_first:
        return None
    if (old_first, new_first) == ("a", "b"):
        inner_prefixes = find_path_prefixes(old_rest, new_rest, None) if git_names and old_rest != new_rest else None
        return ("a/", "b/") if inner_prefixes is None else (f"a/{inner_prefixes[0]}", f"b/{inner_prefixes[1]}")
    return (f"{old_first}/", f"{new_first}/") if old_first != new_first and old_rest == new_rest else None


def _path_below_first_folder(name: str) -> str:
    return name.partition("/")[2]


def _strip_current_folder(name: str) -> str:
    while name.startswith("./"):
        name = name[2:]
    return name
