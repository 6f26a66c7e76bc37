"""Rules for the text of a path, whatever is on disk: relative, POSIX, not upwards, not into a repository's folder."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence

MAX_NAME_BYTES = 255
"""Bytes of one component, as on ext4, APFS and most others."""
MAX_PATH_CHARACTERS = 4000
"""Characters of a whole path; the walk by folders needs no PATH_MAX, but no honest path is longer."""
DEEPEST = 200
"""Names in a path: each look at a file opens every folder on its way, and a program can nest them without end."""
_LONGEST_BELOW = 3_000
"""Characters of a path that others stand before."""

_BLANK = "\u115f\u1160\u2800"
"""Letters and symbols that show nothing, and whose category does not say so."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_REPOSITORIES = {
    ".git": "git",
    ".hg": "Mercurial",
    ".svn": "Subversion",
    ".jj": "Jujutsu",
    ".bzr": "Bazaar",
    ".sl": "Sapling",
}
"""Folders in which a version control system keeps its own: what is written there runs with its next command."""
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE)
_NEVER = re.compile(r'[<>"|?*]')
_SHORT_NAME = re.compile(r"(\.?(?:git|hg|svn|jj|bzr|sl))~[0-9]+")


class WorkspaceError(Exception):
    """The workspace can't or won't do it; the message is one clear line."""


class UnsafePath(WorkspaceError, ValueError):
    """The path leaves the workspace, or names something in it that no tool may touch."""


class FileTooLarge(WorkspaceError):
    """The file is larger than what is read into memory."""


class WorkspaceClosed(WorkspaceError):
    """The caller is closing the workspace: the work ended early."""


def split_path(text: str) -> list[str]:
    """Split a relative path into checked names, `.` dropped and `..` folded in; empty for the root itself.

    Raises:
        UnsafePath: The path is empty or absolute, climbs above its start, or has a name that
            `check_path_component` refuses.
    """
    if not text:
        raise UnsafePath("the path is empty; write it relative to the workspace root")
    if len(text) > MAX_PATH_CHARACTERS:
        raise UnsafePath("the path is too long")
    if text.startswith("/"):
        raise UnsafePath(f"{text!r} is outside the workspace; write paths relative to the workspace root")
    names: list[str] = []
    for name in text.split("/"):
        match name:
            case "" | ".":
                continue
            case "..":
                if not names:
                    raise UnsafePath(f"{text!r} leads out of the workspace")
                names.pop()
            case _:
                check_path_component(name)
                names.append(name)
    if len(names) > DEEPEST:
        raise UnsafePath(f"the path has more than {DEEPEST} folders")
    if names and (names[0] == "~" or _DRIVE.fullmatch(names[0])):
        raise UnsafePath(f"{text!r} is outside the workspace; write paths relative to the workspace root")
    return names


def check_path_component(name: str) -> None:
    """Refuse a component that no tool may name: control characters, text that is not UTF-8, a repository's folder.

    Raises:
        UnsafePath: With what is wrong.
    """
    if "\\" in name:
        raise UnsafePath(f"{name!r} has a backslash; write / between folders")
    if _CONTROL.search(name):
        raise UnsafePath(f"{name!r} has control characters")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise UnsafePath(f"{name!r} is not a UTF-8 name; tools can't reach it") from None
    if length > MAX_NAME_BYTES:
        raise UnsafePath(f"a name in the path is longer than {MAX_NAME_BYTES} bytes")
    if owner := version_control_of_folder(name):
        raise UnsafePath(f"{name!r} belongs to {owner}; tools don't touch it")


def version_control_of_folder(name: str) -> str:
    """Return the version control system whose own folder a file system may take this component for; empty if none.

    Besides case, file systems ignore invisible characters (HFS+), trailing dots, spaces and stream names (NTFS),
    and know the folder by its short name `git~1` (NTFS); these are the spellings that git itself refuses in trees.
    """
    folded = fold_name(name).partition(":")[0].rstrip(" .")
    if short := _SHORT_NAME.fullmatch(folded):
        folded = f".{short[1].removeprefix('.')}"
    return _REPOSITORIES.get(folded, "")


def fold_name(name: str) -> str:
    """Return a path component as people read it: folded case and form, without invisible characters."""
    if name.isascii():
        return name.casefold()
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(one for one in plain if one not in _BLANK and unicodedata.category(one) not in ("Cf", "Mn", "Cc"))


def is_nested_too_deep(path: str) -> bool:
    """Return whether the contents of a folder are unreachable because the whole path is longer than the system
    allows."""
    return path.count("/") >= DEEPEST or len(path) > _LONGEST_BELOW


def has_path_at_or_below(paths: Sequence[str], path: str) -> bool:
    """Whether sorted paths have this one, or anything below it, among them."""
    # Between the two there may be others: `a-b` comes after `a`, and before `a/b`.
    for first in (path, f"{path}/"):
        at = bisect_left(paths, first)
        if at < len(paths) and (paths[at] == path or paths[at].startswith(f"{path}/")):
            return True
    return False


def windows_path_problem(path: str) -> str:
    """Return a sentence about how Windows treats this path; empty if it is ordinary there.

    By "Naming Files, Paths, and Namespaces", and by streams on NTFS: a review should tell of such a name.
    """
    for name in path.split("/"):
        if _DEVICE.fullmatch(re.split(r"[.:]", name)[0].rstrip(" ")):
            return f"On Windows {name!r} is a device, not a file."
        if ":" in name:
            return f"On Windows {name!r} is a hidden stream of the file {name.partition(':')[0]!r}."
        if name != name.rstrip(" ."):
            return f"On Windows {name!r} is the same file as {name.rstrip(' .')!r}."
        if found := _NEVER.search(name):
            return f"On Windows no name can have {found[0]}, so {name!r} cannot be checked out."
    return ""
