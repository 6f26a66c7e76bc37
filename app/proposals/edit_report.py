"""What an edit did, as it is told."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.proposals.facts import FileStat

_NAMED_FILES = 3
"""Files that one line names as left out."""


@dataclass(frozen=True, slots=True)
class EditReport:
    """What one edit did to the draft."""

    files: tuple[FileStat, ...]
    text: str
    """For the model: the new version of each file, and how a place was found where it was not exact."""
    summary: str
    """One line for the user."""
    left_out: tuple[str, ...] = ()
    """Files whose part of a patch was passed over."""


def without_binary(paths: Sequence[str]) -> str:
    """What to add to a summary for the files that were left out of a patch."""
    if not paths:
        return ""
    more = f" and {len(paths) - _NAMED_FILES} more" if len(paths) > _NAMED_FILES else ""
    return f", without {', '.join(paths[:_NAMED_FILES])}{more} (binary)"
