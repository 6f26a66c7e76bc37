"""File names in patch headers: git's quoting, its prefixes, timestamps."""

from app.proposals.document import decode, encode

NO_FILE = "/dev/null"

_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_LETTERS = {value: letter for letter, value in _ESCAPES.items()}
_PREFIX_PAIRS = {("a", "b"), ("i", "w"), ("c", "i"), ("c", "w"), ("o", "w"), ("1", "2"), ("old", "new")}


def quoted(path: str) -> str:
    """The path as git writes it: C-style quotes around control characters, quotes, backslashes and undecodable bytes.

    Characters beyond ASCII stay as they are (`core.quotePath=false`); git and patch read both forms. A path with `
    b/` in it is quoted too, its spaces as octal, because readers split a `diff --git` line there.
    """
    splits = " b/" in path
    if not splits and not any(
        character in '"\\\x7f' or character < " " or "\udc80" <= character <= "\udcff" for character in path
    ):
        return path
    pieces = []
    for byte in encode(path):
        if byte in _LETTERS:
            pieces.append(f"\\{_LETTERS[byte]}")
        elif byte < 32 or byte >= 127 or (byte == 32 and splits):
            pieces.append(f"\\{byte:03o}")
        else:
            pieces.append(chr(byte))
    return f'"{"".join(pieces)}"'


def unquoted(text: str) -> tuple[str, str]:
    """The path at the start of `text`, which begins with a quote, and what follows it; raises ValueError."""
    data = bytearray()
    at = 1
    while at < len(text):
        character = text[at]
        if character == '"':
            return decode(bytes(data)), text[at + 1 :]
        if character != "\\":
            data += encode(character)
            at += 1
            continue
        code = text[at + 1 : at + 2]
        if code in _ESCAPES and code:
            data.append(_ESCAPES[code])
            at += 2
        else:
            data.append(int(text[at + 1 : at + 4], 8) & 0xFF)
            at += 4
    raise ValueError("no closing quote")


def header_name(text: str) -> str:
    """The name in a `---` or `+++` line (without the mark): unquoted, and without a timestamp."""
    text = text.rstrip("\r")
    if text.startswith('"'):
        try:
            return unquoted(text)[0]
        except ValueError:
            return text
    return text.split("\t", 1)[0].rstrip(" ")


def git_header_names(text: str) -> tuple[str, str] | None:
    """Both names, prefixes included, of a `diff --git` line (without these words), or None if it can't be split.

    Names may hold spaces, so the split is where both halves name the same file; only the quoted form says it plainly.
    """
    text = text.rstrip("\r")
    try:
        if text.startswith('"'):
            first, rest = unquoted(text)
            second = rest.strip()
            return first, unquoted(second)[0] if second.startswith('"') else second
        if text.endswith('"'):
            at = text.index(' "')
            return text[:at], unquoted(text[at + 1 :])[0]
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


def plain_names(old: str, new: str, git_names: tuple[str, str] | None) -> tuple[str, str]:
    """The names of the `---` and `+++` lines without the prefixes that the diff put before them.

    A `diff --git` line with the same name twice was written without prefixes. Otherwise a prefix is taken off only
    where the two form one of git's pairs, so that a folder called `a` stays.
    """
    if git_names and git_names[0] == git_names[1]:
        return _tidy(old), _tidy(new)
    if _has_prefixes(old, new):
        old = old if old == NO_FILE else _rest(old)
        new = new if new == NO_FILE else _rest(new)
    return _tidy(old), _tidy(new)


def _has_prefixes(old: str, new: str) -> bool:
    pair = (old.partition("/")[0], new.partition("/")[0])
    if old == NO_FILE:
        return pair[1] == "b" and bool(_rest(new))
    if new == NO_FILE:
        return pair[0] == "a" and bool(_rest(old))
    if pair == ("a", "b"):
        return bool(_rest(old)) and bool(_rest(new))
    return pair in _PREFIX_PAIRS and bool(_rest(old)) and _rest(old) == _rest(new)


def _rest(name: str) -> str:
    return name.partition("/")[2]


def _tidy(name: str) -> str:
    while name.startswith("./"):
        name = name[2:]
    return name
