"""Words of the permission question and the doctor about how commands run on this system."""

import errno
import os
import re
import sys
from typing import TYPE_CHECKING

from app.sandbox.confinement import CommandPermissions, ProbeResult, SandboxMode

if TYPE_CHECKING:
    from app.sandbox.process import ProcessResult

PLATFORM: str = sys.platform

IN_PLACE_NOTE = "[ran directly on the files; staged edits were written there for it; all of that was put back]"
"""For the model."""
GIT_NOTE = "[.git can't be written by commands: commits, and all else that git keeps there, are the user's]"
"""For the model."""

FOLDER_RENAME_NOTE = "[rename(2) can't move a folder that was there before: mv, which copies, can]"
"""For the model: the kernel gives layers of a user's own no other way."""

SOCKETS_NOTE = "[Unix sockets are out of reach for commands here; command_sockets in config.toml opens them]"
"""For the model."""
TERMINALS_NOTE = "[there are no pseudo-terminals for commands here]"
"""For the model."""

_GIT_REFUSED = re.compile(r"\.git(?:/[^\n]{0,200})?'?: (?:Read-only file system|Permission denied)")
_DENIED = re.compile(r"[Pp]ermission denied|EACCES")
_TERMINAL_REFUSED = re.compile(
    r"out of pty devices|(?:pty|ptmx|pseudo-?terminal)\b(?:.|\n){0,300}[Pp]ermission denied"
)
_FOLDER_REFUSED = os.strerror(errno.EXDEV)
_IGNORED = "What git ignores is written at its end; Escape throws that away, too."
_IGNORED_IN_PLACE = "What git ignores it writes at once, and that is not put back"
_HOLDS_NOT = 'your setting ignored = "hold" can\'t hold it here'
_NOTHING_OUTSIDE = "Outside the workspace it writes nothing."
_ABSTRACT_SOCKETS = (
    "This kernel (before Linux 6.12) does not keep it from sockets without a path: it can reach an X11 display."
)
_NO_TRUNCATE = 2
"""The version of Landlock that does not restrict truncate(2)."""
_PLAN = "Plan mode: what it changes in the workspace is thrown away."


def permission_notes(
    probe: ProbeResult, permissions: CommandPermissions, *, planning: bool, hold_ignored: bool = False
) -> tuple[str, ...]:
    """Return what the user should know before a permission, most important first.

    Args:
        probe: How commands run here; in plan mode never in place.
        permissions: Resources that the user's configuration opens to commands.
        planning: Nothing that it changes is kept.
        hold_ignored: The user wants to be asked before a file is written that git ignores.
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
                if probe.is_confined
                else "Nothing keeps it from writing outside the workspace, nor from reading signoff's own folders.",
                f"It can read all else that you can, and it uses your network.{_open_in_place(probe)}",
                f"{_IGNORED_IN_PLACE}{f': {_HOLDS_NOT}' if hold_ignored else ''}.",
            ]
    if permissions.sockets:
        notes.append(f"By your configuration it reaches {', '.join(permissions.sockets)}.")
        if probe.mode is SandboxMode.IN_PLACE:
            notes.append("In place that opens all Unix sockets: it reaches every program that acts for you.")
    if not probe.can_block_abstract_sockets:
        notes.append(_ABSTRACT_SOCKETS)
    return (_PLAN, *notes[1:]) if planning else tuple(notes)


def _open_in_place(probe: ProbeResult) -> str:
    """Return sentences about protections that this kernel lacks for a command in place, each after a space."""
    sentences = (
        (
            not probe.filters_syscalls,
            "Nothing keeps it from programs that act for you, or from ending them and signoff.",
        ),
        (
            not (probe.filters_syscalls and probe.is_confined),
            "It can change permissions, owners and times of your files.",
        ),
        (probe.landlock == _NO_TRUNCATE, "It can cut off your files everywhere (this kernel is before Linux 6.2)."),
        (PLATFORM != "linux", "Its memory and processes have no limit, and what it starts may go on after it."),
    )
    return "".join(f" {sentence}" for holds, sentence in sentences if holds)


def failure_notes(output: str, result: "ProcessResult", *, in_place: bool) -> list[str]:
    """Return lines for the model about what a command could not do here, though it can elsewhere.

    Args:
        in_place: The command ran on the user's own files.
    """
    found = (
        (_GIT_REFUSED.search(output), GIT_NOTE),
        (_FOLDER_REFUSED in output, FOLDER_RENAME_NOTE),
        (result.code and result.refused_socket and _DENIED.search(output), SOCKETS_NOTE),
        (result.code and in_place and _TERMINAL_REFUSED.search(output), TERMINALS_NOTE),
    )
    return [note for holds, note in found if holds]


def describe_sandbox(probe: ProbeResult) -> str:
    """Return in a line how commands run here."""
    if probe.refusal:
        return f"do not run: {probe.refusal}"
    match probe.mode:
        case SandboxMode.OVERLAY:
            return "run on a layer over the workspace; what they change waits as a proposal"
        case SandboxMode.IN_PLACE:
            return f"run directly on your files, and what they change is put back, since {probe.why_not}"
