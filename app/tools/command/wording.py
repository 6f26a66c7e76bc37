"""What is said of the way in which commands run here, by the permission question and the doctor."""

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

from app.sandbox.ways import Means, Way

IN_PLACE_TOLD = "[ran directly on the files; staged edits were written there for it; all of that was put back]"
"""For the model."""
CLONE_APART_TOLD = (
    "[ran in a clone of the workspace elsewhere; use relative paths: by absolute ones nothing can be written]"
)
"""For the model."""
GIT_TOLD = "[.git can't be written by commands: commits, and all else that git keeps there, are the user's]"
"""For the model."""

FOLDER_TOLD = "[rename(2) can't move a folder that was there before: mv, which copies, can]"
"""For the model: the kernel gives layers of a user's own no other way."""

_GIT_REFUSED = re.compile(r"\.git(?:/[^\n]{0,200})?'?: (?:Read-only file system|Permission denied)")
_FOLDER_REFUSED = os.strerror(errno.EXDEV)
_IGNORED = "What git ignores is written at its end; Escape throws that away, too."
_PLAN = "Plan mode: what it changes in the workspace is thrown away."


def permission_notes(means: Means, writable: Sequence[Path], *, planning: bool) -> tuple[str, ...]:
    """What the user has to know before a yes, the most important first, of which there may be room for a few words.

    Args:
        means: How commands run here; in plan mode never in place.
        writable: What they may write outside the workspace.
        planning: Nothing that it changes is kept.
    """
    places = ", ".join(map(short, writable))
    kept = "what it changes will wait as a proposal."
    at_its_end = "" if planning else f" {_IGNORED}"
    no_layer = f"There is no layer over your files, since {means.why_not}."
    match means.way:
        case Way.OVERLAY:
            notes = [
                "What it changes in your files will wait as a proposal.",
                f"Written at once: {places}; nothing else outside the workspace.{at_its_end}",
            ]
        case Way.CLONE:
            notes = [
                f"This runs on a clone of your files; {kept}",
                f"{no_layer} It takes longer, the more files there are.",
                f"Written at once: {places}; nothing else outside the workspace.{at_its_end}",
            ]
        case Way.CLONE_APART:
            notes = [
                f"This runs on a clone of your files at another path; {kept}",
                f"{no_layer} By an absolute path it can read them, but not write them.",
                f"Written at once: {places or 'nothing'}.{at_its_end} It sees your processes.",
            ]
        case Way.IN_PLACE:
            notes = [
                f"This runs directly on your files; they are put back, and {kept}",
                f"{no_layer} While it runs they hold what is staged, and "
                "nothing can be approved. Change nothing then: that would count as the command's.",
                f"Outside the workspace it can write {places}, and nothing else."
                if means.confined
                else "Nothing keeps it from writing outside the workspace.",
            ]
    return (_PLAN, *notes[1:]) if planning else tuple(notes)


def failure_notes(printed: str) -> list[str]:
    """What the model has to know of a command that says it could not do what it can elsewhere."""
    notes = [GIT_TOLD] if _GIT_REFUSED.search(printed) else []
    return [*notes, FOLDER_TOLD] if _FOLDER_REFUSED in printed else notes


def doctor_words(means: Means) -> str:
    """How commands run here, in a line."""
    match means.way:
        case Way.OVERLAY:
            return "run on a layer over the workspace; what they change waits as a proposal"
        case Way.CLONE:
            return f"run on a clone of the workspace, and what they change waits as a proposal, since {means.why_not}"
        case Way.CLONE_APART:
            return (
                "run in a clone of the workspace at another path, and what they change waits as a proposal, since "
                f"{means.why_not}"
            )
        case Way.IN_PLACE:
            return f"run directly on your files, and what they change is put back, since {means.why_not}"


def short(path: Path) -> str:
    """A path with `~` for the home."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) and path != home else str(path)
