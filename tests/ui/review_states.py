"""The states of the review that are looked at: by the snapshot tests, and by people."""

from collections.abc import Sequence

from textual.widgets import Footer

from app.automation.evidence.proposal_evidence import NO_TIME_LEFT, ProposalTestEvidence
from app.proposals.values.decision_facts import HunkTestEvidence, HunkTestVerdict, LineComment
from app.proposals.values.models import (
    ConflictingLines,
    FileDiff,
    FileOperation,
    MatchLevel,
    Proposal,
    ProposalState,
)
from app.tools.base.contract import PermissionRequest
from tests.ui.review_app import ReviewApp
from tests.ui.sample_diffs import AFTER, BEFORE, file_diff, proposal, retry_proposal, stale

Item = tuple[Proposal, Sequence[FileDiff]]

HELPER = "def helper(value):\n    scaled = value * 2\n    return scaled + OFFSET\n"
HOSTILE = (
    "def check(user):\n\tif user.is_admin:  # \u202e } \u2066if begin admins only\n\t\treturn True\n"
    "    p\u0430ssword = 'x\u200by'  \n    title = '日本語 👩\u200d👧 e\u0301'\n    esc = '\x1b[2J'\n    return False"
)


def many() -> list[Item]:
    """A queue with something of everything."""
    loose = [file_diff("app/links.py", "a = 1\nb = 2\n", "a = 1\nb = 3\n", rung=MatchLevel.INDENTATION, rebased=True)]
    gone = [file_diff("app/legacy.py", "OLD = 1\n", None)]
    done = [file_diff("README.md", "# Old\n", "# New\n")]
    return [
        retry_proposal("P4"),
        (proposal("P5", loose, "Give b the value that the protocol wants"), loose),
        (proposal("P6", gone, "Delete the module that nothing imports"), gone),
        (proposal("P3", done, "Say what the program does", state=ProposalState.APPLIED), done),
        (proposal("P2", done, "Rename everything", state=ProposalState.DENIED, feedback="Not now."), done),
    ]


def kinds() -> Item:
    """Every kind of file change, moved lines and whitespace."""
    body = "A = 1\nB = 2\nC = 3\nD = 4\nE = 5\n"
    diffs = [
        file_diff("app/helper.py", HELPER + "\n\n" + body, body + "\n\n" + HELPER, first=1),
        file_diff("app/space.py", "if a:\n  b = 1\n", "if a:\n    b = 1\n", first=5),
        file_diff("app/renamed.py", "same\n", "same\n", old_path="app/old_name.py"),
        file_diff("logo.png", None, None, hunks=(), binary=True),
        file_diff("run.sh", "#!/bin/sh\n", "#!/bin/sh\n", op=FileOperation.MODE, mode=0o755),
        file_diff("app/gone.py", "a = 1\nb = 2\n", None, first=6),
        file_diff("no_newline.txt", "a\nb\n", "a\nb", first=7, notes=("CRLF line endings kept",)),
    ]
    return proposal("P7", diffs, "One of everything"), diffs


def hostile() -> Item:
    """Characters that deceive, and ones that are wide."""
    diffs = [file_diff("app/check.py", "def check(user):\n    return False", HOSTILE)]
    return proposal("P8", diffs, "Check the user \x1b[31mred\x1b[0m [bold]not bold[/bold] [/]"), diffs


def conflicted() -> Item:
    """Stale, with the place where the disk and the proposal disagree."""
    conflict = ConflictingLines(line=7, base=("RETRIES = 2",), disk=("RETRIES = 5",), proposed=("RETRIES = 3",))
    diffs = [file_diff("app/fetch.py", BEFORE, AFTER, conflicts=(conflict,))]
    value = proposal("P9", diffs, "Retry with back-off")
    return stale(value, "app/fetch.py changed on disk where this edit is"), diffs


def revised() -> Item:
    """The second version of a proposal whose first got comments."""
    return retry_proposal("P5", supersedes="P4", version=2)


def tried() -> ProposalTestEvidence:
    """What was found out of the hunks of a proposal."""
    value, _ = retry_proposal()
    held = {"tests": ("tests/test_fetch.py::test_gives_up_after_three_tries",), "count": 3}
    verdicts: tuple[dict[str, object], ...] = (
        {"verdict": HunkTestVerdict.LOAD},
        {"verdict": HunkTestVerdict.UNNOTICED},
        {"verdict": HunkTestVerdict.HELD, **held},
        {"verdict": HunkTestVerdict.NOT_RUN, "reason": NO_TIME_LEFT},
    )
    marks = {
        hunk.id: HunkTestEvidence.model_validate({"path": change.path, "hunk": hunk.number, **verdict})
        for change in value.files
        for hunk, verdict in zip(change.hunks, verdicts, strict=False)
    }
    return ProposalTestEvidence(
        value.id, value.revision, check="tests", selection="12 of 40 test files, by imports", tests=87, marks=marks
    )


COMMENTS = (
    LineComment(path="app/fetch.py", line=8, side="new", quote="", text="Name it LOG, it is a constant."),
    LineComment(path="app/fetch.py", line=19, side="new", quote="", text="Keep the message of the last error."),
)
COMMAND = PermissionRequest("command", "Run a command", "uv run pytest -q tests/test_fetch.py --maxfail=1", ".")

STATES: dict[str, tuple[list[Item], tuple[str, ...]]] = {
    "waiting": ([retry_proposal()], ()),
    "queue": (many(), ()),
    "tried": ([retry_proposal()], ()),
    "kinds": ([kinds()], ()),
    "hostile": ([hostile()], ()),
    "stale": ([conflicted()], ()),
    "approve_all": (many(), ("Y",)),
    "revised": ([revised()], ()),
    "wrapped": ([hostile()], ("w",)),
    "command": ([], ()),
}
"""Name of each state: what is in the queue, and the keys that lead there."""


def app_in(state: str, theme: str = "textual-dark") -> ReviewApp:
    """An app that will be in a state after its keys."""
    items, _ = STATES[state]
    app = ReviewApp(*items, theme=theme)
    app.below = Footer()
    app.first_comments = COMMENTS if state == "revised" else ()
    app.first_evidence = tried() if state == "tried" else None
    app.first_confirmation = COMMAND if state == "command" else None
    return app
