"""What the permission question says of the way in which a command would run: the difference, before all else."""

from typing import Any

import pytest

from app.sandbox.confinement import CommandWriteMode, ConfiguredCommandAccess, SandboxCapabilities
from app.sandbox.process import ProcessExit
from app.tools.command import command_result
from app.tools.command.command_result import (
    SOCKETS_NOTE,
    TERMINALS_NOTE,
    describe_how_commands_run,
    notes_before_allowing_command,
    sandbox_failure_notes,
)

DIFFERENCE = {
    CommandWriteMode.OVERLAY: "What it changes in your files will wait",
    CommandWriteMode.IN_PLACE: "This runs directly on your files",
}


def notes_of(probe: SandboxCapabilities, *resources: str, hold: bool = False, **more: Any) -> list[str]:
    planning, sockets = more.get("planning", False), more.get("sockets", ())
    allowed = ConfiguredCommandAccess(resources, sockets=sockets)
    return list(notes_before_allowing_command(probe, allowed, plan_mode=planning, hold_ignored=hold))


@pytest.mark.parametrize("way", list(CommandWriteMode))
def test_the_notes_name_how_a_command_runs_and_why(way: CommandWriteMode) -> None:
    probe = SandboxCapabilities(
        way, "" if way is CommandWriteMode.OVERLAY else "the reason", landlock=6, filters_syscalls=True
    )
    notes = notes_of(probe, "~/.foo")
    assert notes[0].startswith(DIFFERENCE[way]) and "proposal" in notes[0]
    assert "~/.foo" in " ".join(notes)
    for said in (" ".join(notes), describe_how_commands_run(probe)):
        assert ("the reason" in said) is (way is not CommandWriteMode.OVERLAY)


@pytest.mark.parametrize("hold", [True, False])
def test_the_notes_say_whether_ignored_files_are_held(hold: bool) -> None:
    notes = " ".join(notes_of(SandboxCapabilities(CommandWriteMode.OVERLAY, landlock=6), hold=hold))
    assert ("You are asked before it writes what git ignores." in notes) is hold
    assert ("What git ignores is written at its end" in notes) is not hold


@pytest.mark.parametrize("way", [way for way in CommandWriteMode if way is not CommandWriteMode.IN_PLACE])
def test_in_plan_mode_the_notes_name_place_and_outside_writes(way: CommandWriteMode) -> None:
    notes = notes_of(SandboxCapabilities(way, "the reason", landlock=6), "~/.foo", planning=True)
    assert "thrown away" in notes[0] and "it writes ~/.foo, and nothing else" in notes[-1]
    assert "git ignores" not in " ".join(notes)


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("fatal: Unable to create '/w/.git/index.lock': Read-only file system", True),
        ("fatal: cannot lock ref 'HEAD': Unable to create '/w/.git/HEAD.lock': Permission denied", True),
        ("error: could not lock config file .git/config: Read-only file system", True),
        ("cat: /w/.gitignore: Permission denied", False),
        ("sh: /etc/x: Read-only file system", False),
    ],
)
def test_the_model_is_told_why_git_cannot_write(printed: str, told: bool) -> None:
    assert ("commits" in " ".join(sandbox_failure_notes(printed, ProcessExit(1, 0.0), in_place=False))) is told


OPEN = {
    "writes": "Nothing keeps it from writing outside the workspace, nor from reading signoff's own folders.",
    "acts": "Nothing keeps it from programs that act for you, or from ending them and signoff.",
    "changes": "It can change permissions, owners and times of your files.",
    "cuts": "It can cut off your files everywhere (this kernel is before Linux 6.2).",
    "names": "it can reach an X11 display",
}


@pytest.mark.parametrize(
    ("landlock", "filtered", "is_open"),
    [
        (6, True, ""),
        (5, True, ""),
        (2, True, "cuts"),
        (0, True, "writes changes"),
        (6, False, "acts changes"),
        (5, False, "acts changes names"),
        (2, False, "acts changes cuts names"),
        (0, False, "writes acts changes names"),
    ],
)
def test_the_in_place_question_names_what_a_command_can_do(landlock: int, filtered: bool, is_open: str) -> None:
    probe = SandboxCapabilities(CommandWriteMode.IN_PLACE, "the reason", landlock, filtered)
    text = " ".join(notes_of(probe))
    found = [name for name, words in OPEN.items() if words in text]
    assert found == [name for name in OPEN if name in is_open.split()]
    assert "limit" not in text


def test_the_in_place_question_says_what_ignored_files_and_allowed_sockets_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for mode in CommandWriteMode:
        probe, is_in_place = (
            SandboxCapabilities(mode, "", 6, filters_syscalls=True),
            mode is CommandWriteMode.IN_PLACE,
        )
        text = " ".join(notes_of(probe, sockets=("ssh-agent",)))
        assert "it reaches ssh-agent" in text and ("every program" in text) is is_in_place
        for hold in (False, True) if is_in_place else ():
            text = notes_of(probe, hold=hold)[-1]
            assert text.startswith("What git ignores it writes at once, and that is not put back")
            assert ("can't hold it" in text) is hold
    monkeypatch.setattr(command_result, "PLATFORM", "darwin")
    text = " ".join(notes_of(SandboxCapabilities(CommandWriteMode.IN_PLACE, "x")))
    assert "have no limit, and what it starts may go on" in text


@pytest.mark.parametrize(
    ("printed", "code", "refused", "note"),
    [
        ("PermissionError: [Errno 13] Permission denied", 1, True, SOCKETS_NOTE),
        ("Error: listen EACCES: permission denied /tmp/tsx-0/1.pipe", 1, True, SOCKETS_NOTE),
        ("PermissionError: [Errno 13] Permission denied", 0, True, ""),
        ("PermissionError: [Errno 13] Permission denied", 1, False, ""),
        ("1 test failed", 1, True, ""),
        ("OSError: out of pty devices", 1, False, TERMINALS_NOTE),
        ("script: failed to create pseudo-terminal: Permission denied", 1, False, TERMINALS_NOTE),
        ("pty.py", 1, False, ""),
    ],
)
def test_failures_name_missing_sockets_and_terminals(printed: str, code: int, refused: bool, note: str) -> None:
    ended = ProcessExit(code, 0.0, refused_socket=refused)
    assert sandbox_failure_notes(printed, ended, in_place=True) == ([note] if note else [])


def test_the_doctor_reports_that_commands_are_refused() -> None:
    probe = SandboxCapabilities(CommandWriteMode.IN_PLACE, "the reason", refusal="as root")
    assert describe_how_commands_run(probe) == "do not run: as root"
