"""Check the text of a path, not the disk: relative, POSIX, not upwards, not into a version control folder."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence

MAX_NAME_BYTES = 255
"""Maximum bytes of one component, as on ext4, APFS and most others."""
MAX_PATH_CHARACTERS = 4000
"""Maximum characters of a path. Walks by descriptors could exceed PATH_MAX, but no ordinary path is longer."""
MAX_PATH_DEPTH = 200
"""Maximum names in a path: each access opens every folder on the way, and a program can nest them without limit."""
_MAX_FOLDER_PATH_CHARACTERS = 3_000
"""Maximum characters of a folder's path whose contents count as reachable."""

_BLANKS = "\u115f\u1160\u2800"
"""Letters and symbols that are invisible although their Unicode category is not."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_VERSION_CONTROL_FOLDERS = {
    ".git": "git",
    ".hg": "Mercurial",
    ".svn": "Subversion",
    ".jj": "Jujutsu",
    ".bzr": "Bazaar",
    ".sl": "Sapling",
}
"""Folders of version control systems, whose commands may run programs that the files there name."""
_WINDOWS_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE
)
_WINDOWS_FORBIDDEN = re.compile(r'[<>"|?*]')
_SHORT_NAME = re.compile(r"(\.?(?:git|hg|svn|jj|bzr|sl))~[0-9]+")


class WorkspaceError(Exception):
    """The workspace cannot do the operation or refuses it; the message is one clear line."""


class UnsafePath(WorkspaceError, ValueError):
    """The path leaves the workspace, or no tool may touch it."""


class FileTooLarge(WorkspaceError):
    """The file is larger than the limit for reading."""


class WorkspaceClosedDuringWalk(WorkspaceError):
    """The workspace was closed while its files were being walked: the walk ends early."""


def split_and_check_path(text: str) -> list[str]:
    """Split a relative path into names, each checked, without `.` and with `..` resolved; empty for the root itself.

    Raises:
        UnsafePath: The path is empty, absolute or too long, climbs above its start, or has a name that
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
    if len(names) > MAX_PATH_DEPTH:
        raise UnsafePath(f"the path has more than {MAX_PATH_DEPTH} folders")
    if names and (names[0] == "~" or _DRIVE.fullmatch(names[0])):
        raise UnsafePath(f"{text!r} is outside the workspace; write paths relative to the workspace root")
    return names


def check_path_component(name: str) -> None:
    """Raise UnsafePath for a component that no tool may name: control characters, text that is not UTF-8, a
    repository's folder.

    Raises:
        UnsafePath: The message says what is wrong.
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
    """Return the version control system whose folder a file system may find under this name; empty if none.

    File systems ignore case, invisible characters (HFS+), and trailing dots, spaces and stream names (NTFS), and NTFS
    knows the folder by its short name `git~1`. Git refuses the same spellings in trees.
    """
    folded = normalize_file_name(name).partition(":")[0].rstrip(" .")
    if short_name := _SHORT_NAME.fullmatch(folded):
        folded = f".{short_name[1].removeprefix('.')}"
    return _VERSION_CONTROL_FOLDERS.get(folded, "")


def normalize_file_name(name: str) -> str:
    """Return a path component as people read it: case folded, normalised (NFKC), without invisible characters."""
    if name.isascii():
        return name.casefold()
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(one for one in plain if one not in _BLANKS and unicodedata.category(one) not in ("Cf", "Mn", "Cc"))


def is_folder_path_too_deep_or_long(path: str) -> bool:
    """Return whether a folder's path is so deep or long that its contents count as unreachable."""
    return path.count("/") >= MAX_PATH_DEPTH or len(path) > _MAX_FOLDER_PATH_CHARACTERS


def has_path_at_or_below(paths: Sequence[str], path: str) -> bool:
    """Return whether the sorted `paths` contain `path`, anything below it, or a folder above it that ends with `/`.

    Such folders stand for all files below them in a sparse index of git.
    """
    above = bisect_left(paths, path) - 1
    if above >= 0 and paths[above].endswith("/") and path.startswith(paths[above]):
        return True
    # Other paths may be between the two: `a-b` comes after `a` and before `a/b`.
    for first in (path, f"{path}/"):
        at = bisect_left(paths, first)
        if at < len(paths) and (paths[at] == path or paths[at].startswith(f"{path}/")):
            return True
    return False


def windows_path_problem(path: str) -> str:
    """Return a sentence about how Windows treats this path; empty if it is ordinary there.

    The rules are those of "Naming Files, Paths, and Namespaces" and of NTFS streams. A review shows the sentence.
    """
    for name in path.split("/"):
        if _WINDOWS_DEVICE.fullmatch(re.split(r"[.:]", name)[0].rstrip(" ")):
            return f"On Windows {name!r} is a device, not a file."
        if ":" in name:
            return f"On Windows {name!r} is a hidden stream of the file {name.partition(':')[0]!r}."
        if name != name.rstrip(" ."):
            return f"On Windows {name!r} is the same file as {name.rstrip(' .')!r}."
        if forbidden := _WINDOWS_FORBIDDEN.search(name):
            return f"On Windows no name can have {forbidden[0]}, so {name!r} cannot be checked out."
    return ""
