"""What is said of the way in which commands run here, by the permission question and the doctor."""

import errno
import os
import re

from app.sandbox.mode import CommandPermissions, ProbeResult, SandboxMode

IN_PLACE_TOLD = "[ran directly on the files; staged edits were written there for it; all of that was put back]"
"""For the model."""
GIT_TOLD = "[.git can't be written by commands: commits, and all else that git keeps there, are the user's]"
"""For the model."""

FOLDER_TOLD = "[rename(2) can't move a folder that was there before: mv, which copies, can]"
"""For the model: the kernel gives layers of a user's own no other way."""

_GIT_REFUSED = re.compile(r"\.git(?:/[^\n]{0,200})?'?: (?:Read-only file system|Permission denied)")
_FOLDER_REFUSED = os.strerror(errno.EXDEV)
_IGNORED = "What git ignores is written at its end; Escape throws that away, too."
_NOTHING_OUTSIDE = "Outside the workspace it writes nothing."
_ABSTRACT_SOCKETS = (
    "This kernel (before Linux 6.12) does not keep it from sockets without a path: it can reach an X11 display."
)
_PLAN = "Plan mode: what it changes in the workspace is thrown away."


def permission_notes(probe: ProbeResult, permissions: CommandPermissions, *, planning: bool) -> tuple[str, ...]:
    """What the user has to know before a yes, the most important first, of which there may be room for a few words.

    Args:
        probe: How commands run here; in plan mode never in place.
        permissions: What the user's configuration opens to them.
        planning: Nothing that it changes is kept.
    """
    places = ", ".join(permissions.writable)
    outside = f"Outside the workspace it writes {places}, and nothing else." if places else _NOTHING_OUTSIDE
    kept = "what it changes will wait as a proposal."
    at_its_end = "" if planning else f" {_IGNORED}"
    no_layer = f"There is no layer over your files, since {probe.why_not}."
    match probe.mode:
        case SandboxMode.OVERLAY:
            notes = [
                "What it changes in your files will wait as a proposal.",
                f"{outside}{at_its_end}",
            ]
        case SandboxMode.IN_PLACE:
            notes = [
                f"This runs directly on your files; they are put back, and {kept}",
                f"{no_layer} While it runs they hold what is staged, and "
                "nothing can be approved. Change nothing then: that would count as the command's.",
                outside
                if probe.confined
                else "Nothing keeps it from writing outside the workspace, nor from reading signoff's own folders.",
                f"It can read all else that you can, and it uses your network.{_open_in_place(probe)}",
            ]
    if permissions.sockets:
        notes.append(f"By your configuration it reaches {', '.join(permissions.sockets)}.")
    if not probe.blocks_abstract_sockets:
        notes.append(_ABSTRACT_SOCKETS)
    return (_PLAN, *notes[1:]) if planning else tuple(notes)


def _open_in_place(probe: ProbeResult) -> str:
    """What a kernel without the newest means does not keep a command in place from."""
    sockets = "" if probe.filtered else " Nothing keeps it from programs that act for you, or from ending signoff."
    modes = "" if probe.filtered and probe.confined else " It can change permissions of your files."
    signals = "" if probe.landlock > 5 else " It can end your other programs."
    root = "" if os.geteuid() else " As root it can start processes without bound."
    return sockets + modes + signals + root


def failure_notes(printed: str) -> list[str]:
    """What the model has to know of a command that says it could not do what it can elsewhere."""
    notes = [GIT_TOLD] if _GIT_REFUSED.search(printed) else []
    return [*notes, FOLDER_TOLD] if _FOLDER_REFUSED in printed else notes


def doctor_words(probe: ProbeResult) -> str:
    """How commands run here, in a line."""
    match probe.mode:
        case SandboxMode.OVERLAY:
            return "run on a layer over the workspace; what they change waits as a proposal"
        case SandboxMode.IN_PLACE:
            return f"run directly on your files, and what they change is put back, since {probe.why_not}"
