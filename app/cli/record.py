"""`signoff log --verify` and `signoff trailers`: what the record is worth, and what a commit says of it."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from app.cli.documents import BrokenLine, MovedLine, NotedDocument, VerifiedDocument
from app.cli.output import CommandError, Exit, print_error, print_json, print_line
from app.proposals.disk.filesystem import PosixFilesystem
from app.proposals.models import HunkState
from app.proposals.record import Entry, blob_id
from app.proposals.trailers import trailers
from app.runtime.workspace import Runtime
from app.storage.record import RecordStore, Verified
from app.text.plural import plural

_SHOWN = 12
"""Digits of a hash that a person compares by eye."""
_LISTED = 20
"""Files that are named one by one."""


def verify(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Walk the chain of the record, and compare what it says was written with the disk; 3 if the chain is broken."""
    verified = RecordStore(runtime.database, runtime.name).verify()
    signed = _signed(verified.entries)
    moved = [MovedLine(path=path, proposal=last.proposal) for path, last in _moved(runtime, signed)]
    if arguments.json:
        print_json(
            VerifiedDocument(
                entries=len(verified.entries) + len(verified.broken),
                head=verified.head,
                broken=[BrokenLine(number=one.number, why=one.why) for one in verified.broken],
                files=len(signed),
                changed_since=moved,
            )
        )
    else:
        _tell(verified, len(signed), moved)
    return Exit.REFUSED if verified.broken else Exit.DONE


def _tell(verified: Verified, files: int, moved: Sequence[MovedLine]) -> None:
    for one in verified.broken:
        print_error(f"Entry {one.number} {one.why}.")
    if verified.broken:
        print_line(f"{plural(len(verified.entries), 'other decision')} in the record can be trusted.")
    elif verified.entries:
        count = plural(len(verified.entries), "decision")
        print_line(f"{count}, each as it was recorded. The chain ends with {verified.head[:_SHOWN]}.")
    else:
        print_line("The record is empty: nothing has been decided here since signoff keeps it.")
    if files:
        same = files - len(moved)
        print_line(f"{same} of {plural(files, 'file')} on disk hold the bytes that were signed last.")
    for line in moved[:_LISTED]:
        print_line(f"  {line.path} has changed since {line.proposal}")
    if len(moved) > _LISTED:
        print_line(f"  and {len(moved) - _LISTED} more")


def _signed(entries: Sequence[Entry]) -> dict[str, tuple[str, Entry]]:
    """The blob that the last decision on each file left, empty for no file, with its entry."""
    return {file.path: (file.result, entry) for entry in entries for file in entry.files if file.base or file.result}


def _moved(runtime: Runtime, signed: dict[str, tuple[str, Entry]]) -> list[tuple[str, Entry]]:
    """The files that no longer hold what was signed last, with the entry that says so."""
    disk = PosixFilesystem(runtime.workspace.root, runtime.workspace.read_limit)
    moved = []
    for path, (wanted, entry) in sorted(signed.items()):
        try:
            found = disk.read(path)
        except OSError:
            moved.append((path, entry))
            continue
        if (blob_id(found.data) if found else "") != wanted:
            moved.append((path, entry))
    return moved


def print_trailers(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Print the trailers for a commit of what proposals have written, or put them into its message."""
    if bool(arguments.ids) == arguments.staged:
        raise CommandError("Name proposals, or give --staged for what is in git's index.", Exit.USAGE)
    lines: list[str] = []
    if arguments.staged:
        from app.runtime.in_commits import staged_trailers

        lines = staged_trailers(runtime)
    for name in arguments.ids:
        proposal = runtime.service.get(name)
        if not any(change.state is HunkState.APPLIED for change in proposal.files) and not any(
            hunk.state is HunkState.APPLIED for hunk in proposal.hunks
        ):
            raise CommandError(f"{proposal.id} has written nothing, so there is nothing to say of it.", Exit.REFUSED)
        lines += trailers(proposal)
    lines = list(dict.fromkeys(lines))
    if arguments.into is None:
        for line in lines:
            print_line(line)
    elif lines:
        from app.runtime.in_commits import add_trailers

        add_trailers(Path(arguments.into).resolve(), lines, runtime.workspace.root)
    return Exit.DONE


def notes(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Note on a commit what was reviewed of it."""
    from app.runtime.in_commits import GIT_AI_NOTES, NOTES, note_commit

    noted = note_commit(runtime, arguments.commit, git_ai=arguments.git_ai, denials=arguments.denials)
    if arguments.json:
        print_json(
            NotedDocument(commit=noted.commit, decisions=noted.decisions, files=noted.files, lines=noted.lines)
        )
        return Exit.DONE
    what = f"{plural(noted.decisions, 'decision')} on {plural(noted.files, 'file')}"
    print_line(f"Noted on {noted.commit[:7]}: {what} ({NOTES}).")
    if arguments.git_ai:
        print_line(f"In git-ai's format {plural(noted.lines, 'line')} ({GIT_AI_NOTES}).")
    return Exit.DONE
