"""The steps of `enter.py` by which the workspace's own path shows something else, and little else can be written."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from app.sandbox.keeping import Keeping
from app.sandbox.places import Access

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mount_steps(root: Path, own: Path, access: Access, keeping: Keeping, over: Sequence[str]) -> list[str]:
    """All steps, in a mount namespace.

    Args:
        root: The workspace.
        own: The run's folder, with an empty folder `empty` and an empty file `nothing` in it.
        access: What else may be written, and what is hidden.
        keeping: Judges what is mounted in the workspace.
        over: The step that lays something over it.
    """
    writable = [*map(str, access.writable), str(own)]
    steps = ["namespaces"]
    for path in writable:
        steps += ["bind", path]
    steps.append("read-only")
    for path in writable:
        steps += ["writable", path]
    steps += over
    for mounted in mounts_below(root):
        ignored = keeping.ignores(mounted, is_folder=(root / mounted).is_dir())
        steps += ["through", mounted, f"{root}/{mounted}", "writable" if ignored else "read-only"]
    for place in access.writable:
        # A home that is the workspace has its caches in it.
        if place != root and place.is_relative_to(root):
            steps += ["through", str(place.relative_to(root)), str(place), "writable"]
    repository = root / ".git"
    if os.path.lexists(repository) and not repository.is_symlink():
        steps += ["through", ".git", f"{root}/.git", "read-only"]
    # What the empty ones lie in comes last.
    for hidden in sorted(access.hidden, key=own.is_relative_to):
        steps += ["hide", str(hidden), str(own / "empty" if hidden.is_dir() else own / "nothing")]
    return [*steps, "terminals"]


def mounts_below(root: Path) -> list[str]:
    """Paths in a folder at which something else is mounted, the outer ones first."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return []
    found = set()
    for line in lines:
        point = Path(os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), line.split(b" ")[4])))
        if point != root and point.is_relative_to(root):
            found.add(point.relative_to(root).as_posix())
    # What is mounted inside of another one comes with it.
    return sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found))
