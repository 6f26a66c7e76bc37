"""What lies over the disk, as a command is to find it there.

Kept apart: a draft and the trees of a check are both made of it, and neither is what the other is made of.
"""

from collections.abc import Mapping

from app.proposals.overlay import Contents
from app.proposals.pending_paths import Pending
from app.sandbox.changes import Leaf


def leaves(contents: Contents, pending: Mapping[str, Pending]) -> dict[str, Leaf | None]:
    """The files of pending changes with their bytes, None for what is gone. Raises MissingContent."""
    found: dict[str, Leaf | None] = {}
    for path, entry in pending.items():
        version = entry.version
        found[path] = None if version is None else Leaf(contents.get(version), version.mode, entry.since)
    return found
