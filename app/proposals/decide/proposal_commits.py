"""Trailers and line attribution of a commit, from the decisions that led to its contents."""

import os
import subprocess
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from app.proposals.text.diff import diff_lines
from app.proposals.values.models import Proposal
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import GitCommitFailed
from app.proposals.values.record_entries import DecisionRecordEntry, RecordedFile
from app.sandbox.environment import find_program_outside_workspace, is_secret_variable

_LINE_WIDTH = 72
"""Maximum characters of a line of a commit message."""
_MAX_ERROR_CHARACTERS = 240
"""Maximum characters of git's error in a message."""
_GIT_TIMEOUT_SECONDS = 60.0
"""Timeout of git, including the hooks of the repository."""


def written_or_removed_paths(proposal: Proposal) -> list[str]:
    """Return the paths that a proposal has written or removed."""
    return sorted({path for change in proposal.files if change.has_applied_part for path in change.paths})


def format_summary_as_commit_message(proposal: Proposal) -> str:
    """Return the summary as a commit message: a subject; if it had to be shortened, the whole summary below it."""
    summary = " ".join(proposal.summary.split())
    if len(summary) <= _LINE_WIDTH:
        return summary
    return "\n".join(
        (textwrap.shorten(summary, _LINE_WIDTH, placeholder="…"), "", *textwrap.wrap(summary, _LINE_WIDTH))
    )


def commit_proposal(root: Path, proposal: Proposal, trailers: Sequence[str] = ()) -> str:
    """Commit what a proposal wrote, as it is on disk; other staged changes stay staged and are not committed.

    The hooks of the repository run.

    Args:
        root: The workspace, in a git work tree.
        proposal: Its summary becomes the message.
        trailers: Lines for the end of the message: who assisted and what was reviewed.

    Returns:
        The commit's id.

    Raises:
        GitCommitFailed: git refused or there is nothing to commit; the files stay as they are.
    """
    names = written_or_removed_paths(proposal)
    if not names:
        raise GitCommitFailed(f"{proposal.id} wrote no files, so there is nothing to commit.")
    message = "\n".join((format_summary_as_commit_message(proposal), "", *trailers, ""))
    git = partial(_git, root)
    untracked = set(git("ls-files", "--others", "--exclude-standard", "-z", "--", *names).split("\0"))
    new = [name for name in names if name in untracked]
    if new:
        git("add", "--intent-to-add", "--", *new)
    tracked_names = set(git("ls-files", "-z", "--", *names).split("\0"))
    tracked = [name for name in names if name in tracked_names]
    if not tracked:
        raise GitCommitFailed(f"Git does not track any file of {proposal.id}, so there is nothing to commit.")
    try:
        git(*_signing_options(root), "commit", "--quiet", "--only", "--message", message, "--", *tracked)
    except GitCommitFailed:
        if new:
            # Otherwise `git merge --abort` could fail.
            with suppress(GitCommitFailed):
                git("update-index", "--force-remove", "--", *new)
        raise
    return git("rev-parse", "HEAD").strip()


_SIGNING_PROGRAMS = (("gpg", "gpg.program", "gpg.openpgp.program"), ("ssh-keygen", "gpg.ssh.program"))
"""Programs with which git signs commits, each with the settings that name another one."""


def _signing_options(root: Path) -> Iterator[str]:
    """Yield options with which git signs with programs outside the workspace, if none are configured."""
    configured = ""
    with suppress(GitCommitFailed):
        configured = _git(root, "config", "--name-only", "--get-regexp", r"^gpg\.(.*\.)?program$")
    for name, *settings in _SIGNING_PROGRAMS:
        program = find_program_outside_workspace(name, root)
        if program and not set(settings) & set(configured.split()):
            yield from ("-c", f"{settings[0]}={program}")


_HOOK_VARIABLES = ("SIGNOFF_HOME", "SSH_AUTH_SOCK")
"""Variables that hooks need to find this record and the signing agent; their values only look like secrets."""


def _git(root: Path, *arguments: str) -> str:
    """Return git's output, with paths taken literally; raise GitCommitFailed if git fails."""
    # The repository's hooks run, as the user wants, but they do not get API keys.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _HOOK_VARIABLES or not is_secret_variable(name, value)
    }
    settings = {"GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    # Not from `.venv/bin` of the workspace, which commands write to; only the hooks find programs there.
    program = find_program_outside_workspace("git", root)
    if program is None:
        raise GitCommitFailed("Git is not installed, so nothing was committed; the files are written.")
    try:
        result = subprocess.run(
            # Do not run the file system monitor that the repository configures.
            [program, "-C", str(root), "-c", "core.fsmonitor=false", *arguments],
            env={**environment, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        # For example, there are too many names for one command line.
        raise GitCommitFailed(
            f"Git can't be run ({error.strerror}), so nothing was committed; the files are written."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise GitCommitFailed(
            f"Git took longer than {_GIT_TIMEOUT_SECONDS:.0f} s; the files are written, commit them yourself."
        ) from error
    output = result.stdout.decode("utf-8", "surrogateescape")
    if result.returncode:
        message = result.stderr.decode("utf-8", "replace").strip() or output.strip()
        # Git continues some sentences on the next line; advice follows in the next paragraph or after `hint:`.
        sentence = message.partition("\n\n")[0].partition("\nhint:")[0]
        why = textwrap.shorten(sentence, _MAX_ERROR_CHARACTERS, placeholder=" …")
        why = why or f"exit code {result.returncode}"
        raise GitCommitFailed(f"Git did not commit ({why}); the files are written, commit them yourself.")
    return output


_AGENT_IDS = {
    "claude": "claude-code",
    "copilot": "copilot-cli",
    "gemini": "gemini-cli",
    "kimi": "kimi-code",
    "qwen": "qwen-code",
}


def make_trailers(entry: DecisionRecordEntry) -> list[str]:
    """Return the trailers for the last decision on a proposal that wrote something, `Assisted-by` first."""
    hunks, assisted = entry.hunks, agent_and_model(entry.origin)
    facts = [f"{len(hunks.approved)}/{hunks.count} hunks"] if hunks.count else []
    facts += [f"{len(entry.edited)} edited"] if entry.edited else []
    counts = f" ({', '.join(facts)})" if facts else ""
    assisted_line = [f"Assisted-by: {':'.join(filter(None, assisted))}"] if assisted else []
    return [*assisted_line, f"Reviewed-in: signoff {entry.proposal}{counts}"]


def agent_and_model(origin: ProposalOrigin) -> tuple[str, str] | None:
    """Return the agent and the model of an origin; None for a person."""
    match origin.kind:
        case OriginKind.MODEL | OriginKind.COMMAND:
            agent = "signoff"
        case OriginKind.AGENT:
            agent = _AGENT_IDS.get(origin.agent, origin.agent) or "agent"
        case _:
            return None
    return _to_single_word(agent), _to_single_word(origin.model)


def _to_single_word(text: str) -> str:
    """Return the text as one word: a name from a server must not add a line or a trailer."""
    return "-".join("".join(character if character.isprintable() else " " for character in text).split())


class FileWriteDecision(Struct, frozen=True):
    """A recorded decision that wrote a file, with the versions of that file before and after it."""

    entry: DecisionRecordEntry
    file: RecordedFile


def decisions_leading_to(entries: Sequence[DecisionRecordEntry], path: str, blob_id: str) -> list[FileWriteDecision]:
    """Return the decisions that led to a content of a file, oldest first, as far as they form a chain.

    Args:
        blob_id: Id of the git blob of the present content.
    """
    decisions: list[FileWriteDecision] = []
    wanted_blob = blob_id
    for entry in reversed(entries):
        recorded = next((file for file in entry.files if file.path == path), None)
        if entry.has_written and recorded is not None and recorded.result == wanted_blob != recorded.base:
            decisions.insert(0, FileWriteDecision(entry, recorded))
            wanted_blob = recorded.base
    return decisions


def blame_lines(
    decisions: Sequence[FileWriteDecision], load_content: Callable[[str], bytes]
) -> list[DecisionRecordEntry | None]:
    """Return for each line of the last content the decision that added it; None for an older line.

    Args:
        decisions: From `decisions_leading_to`; at least one.
        load_content: Returns a content by its SHA-256; raises KeyError if it is not stored any more.
    """
    lines = _lines(decisions[0].file.base_sha256, load_content)
    authors: list[DecisionRecordEntry | None] = [None] * len(lines)
    for step in decisions:
        new_lines = _lines(step.file.result_sha256, load_content)
        new_authors: list[DecisionRecordEntry | None] = []
        at = 0
        for change in diff_lines(lines, new_lines):
            new_authors += authors[at : change.old_start]
            new_authors += [step.entry] * change.added
            at = change.old_end
        lines, authors = new_lines, new_authors + authors[at:]
    return authors


def format_ranges(numbers: Iterable[int]) -> str:
    """Return sorted numbers as ranges: `1-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _lines(sha256: str, contents: Callable[[str], bytes]) -> list[bytes]:
    return contents(sha256).splitlines(keepends=True) if sha256 else []
