"""What the permission question says of the way in which a command would run: the difference, before all else."""

import pytest

from app.sandbox.mode import CommandPermissions, ProbeResult, SandboxMode
from app.tools.command.wording import doctor_words, failure_notes, permission_notes

DIFFERENCE = {
    SandboxMode.OVERLAY: "What it changes in your files will wait",
    SandboxMode.IN_PLACE: "This runs directly on your files",
}


@pytest.mark.parametrize("way", list(SandboxMode))
def test_the_first_words_tell_the_ways_apart_and_every_one_says_why_it_is_no_better(way: SandboxMode) -> None:
    probe = ProbeResult(way, "" if way is SandboxMode.OVERLAY else "the reason", landlock=6, filtered=True)
    notes = permission_notes(probe, CommandPermissions(("~/.foo",)), planning=False)
    assert notes[0].startswith(DIFFERENCE[way]) and "proposal" in notes[0]
    assert "~/.foo" in " ".join(notes)
    for said in (" ".join(notes), doctor_words(probe)):
        assert ("the reason" in said) is (way is not SandboxMode.OVERLAY)


@pytest.mark.parametrize("way", [way for way in SandboxMode if way is not SandboxMode.IN_PLACE])
def test_in_plan_mode_it_still_says_where_it_runs_and_what_is_written_elsewhere(way: SandboxMode) -> None:
    notes = permission_notes(
        ProbeResult(way, "the reason", landlock=6), CommandPermissions(("~/.foo",)), planning=True
    )
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
def test_where_git_cannot_write_the_model_is_told_why(printed: str, told: bool) -> None:
    assert ("commits" in " ".join(failure_notes(printed))) is told
