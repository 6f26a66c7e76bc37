"""`signoff log`, `signoff trailers` and `signoff notes`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from app.cli.command_output import CommandError, ExitCode, print_error, print_json, print_line
from app.cli.json_documents import (
    ChangedOrMissingEntryJson,
    CommandRecipeJson,
    DecisionCommandCallerJson,
    FileChangedSinceApprovalJson,
    GitNotesDocument,
    LoggedDecisionJson,
    ProposalOriginJson,
    RecordVerificationDocument,
    WrittenIgnoredFilesJson,
)
from app.proposals.decide.proposal_commits import make_trailers
from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.values.decision_facts import DecisionCommandCaller
from app.proposals.values.record_entries import (
    DecisionRecordEntry,
    git_blob_id,
    has_proposal_changes_on_disk_after,
    without_undone_disk_approvals,
)
from app.runtime.commit_records import find_commits_with_review_trailers
from app.runtime.open_workspace import OpenWorkspace
from app.sandbox.captured_changes import describe_written_ignored_paths
from app.storage.record_store import (
    ChainVerification,
    DecisionOrUserEdit,
    DecisionRecordReader,
    TablesAndRecordComparer,
)
from app.text.quantities import format_count, format_time
from app.workspace.git_repository import find_repository

_HASH_DIGITS = 12
"""Digits of a hash that are shown."""
_MAX_LISTED = 20
"""Maximum number of files or commits that are listed."""
_MAX_COMMITS = 3
"""Maximum number of commits in one line."""


def print_or_verify_log(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Print every decision with time, files and feedback; or verify the record."""
    if arguments.verify:
        return _verify_record(runtime, arguments)
    record = DecisionRecordReader(runtime.database, runtime.name)
    decisions = record.decisions()
    if unread := record.count_unreadable():
        what = "An entry" if unread == 1 else f"{unread:,} entries"
        print_error(f"{what} of the record cannot be read; see `signoff log --verify`.")
    if arguments.json:
        print_json([_make_decision_json(decision) for decision in decisions])
        return ExitCode.DONE
    if not decisions and not unread:
        print_line("Nothing has been decided here yet.")
    for decision in decisions:
        feedback = decision.words.feedback
        said = f'  "{" ".join(feedback.split())}"' if feedback.strip() else ""
        said += "  (the stored feedback is missing or was changed)" if decision.words_lost else ""
        verb = decision.decision.replace("_", " ")
        by = f"  {decision.origin.name}" if decision.origin else ""
        called = f"  ({caller.description})" if (caller := _caller_of(decision)) else ""
        words = describe_written_ignored_paths(decision.entry.ignored if decision.entry else ())
        besides = f"  {words}" if words else ""
        besides += f"  ({words})" if decision.entry and (words := decision.entry.recipe_description) else ""
        files = ", ".join(decision.files)
        line = f"{format_time(decision.time)}  {decision.proposal}  {verb}{by}  [{files}]{besides}{called}{said}"
        print_line(line)
    return ExitCode.DONE


def _make_decision_json(one: DecisionOrUserEdit) -> LoggedDecisionJson:
    caller = _caller_of(one)
    return LoggedDecisionJson(
        time=one.time,
        proposal=one.proposal,
        decision=one.decision,
        session=one.session,
        feedback=one.words.feedback,
        words_lost=one.words_lost,
        files=list(one.files),
        origin=ProposalOriginJson.model_validate(one.origin) if one.origin else None,
        caller=DecisionCommandCallerJson.model_validate(caller) if caller else None,
        recipe=CommandRecipeJson.model_validate(one.entry.recipe) if one.entry and one.entry.recipe else None,
        ignored=[WrittenIgnoredFilesJson.model_validate(path) for path in one.entry.ignored] if one.entry else [],
    )


def _caller_of(one: DecisionOrUserEdit) -> DecisionCommandCaller | None:
    return one.entry.circumstances.caller if one.entry else None


def _verify_record(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Verify the chain of the record, and compare it with the other tables and the disk.

    Returns:
        `ExitCode.REFUSED` if the chain is broken, if the tables differ from it, if a signed statement is invalid, or
        if the record is empty although commits name reviews.
    """
    verified = DecisionRecordReader(runtime.database, runtime.name).verify_chain()
    differences = list(TablesAndRecordComparer(runtime.database, runtime.name, verified).find_differences())
    is_empty = not verified.entries and not verified.events and not verified.broken
    unknown = find_commits_with_review_trailers(runtime.workspace.root, _MAX_LISTED) if is_empty else []
    statements, bad, unchecked = _check_statements(runtime.workspace.root)
    signed = _last_approved_versions(without_undone_disk_approvals(verified.entries))
    moved = [
        FileChangedSinceApprovalJson(path=path, proposal=last.proposal)
        for path, last in _files_changed_since_approval(runtime, signed)
    ]
    if arguments.json:
        print_json(
            RecordVerificationDocument(
                entries=len(verified.entries) + len(verified.broken),
                head=verified.head,
                broken=[ChangedOrMissingEntryJson.model_validate(entry) for entry in verified.broken],
                differences=differences,
                unknown=unknown,
                files=len(signed),
                changed_since=moved,
                statements=statements,
                bad_statements=bad,
            )
        )
    else:
        _print_verification(verified, differences, unknown, len(signed), moved)
        for name, reason in sorted(bad.items()):
            print_error(f"Signed statement {name[:_HASH_DIGITS]} is not good: {reason}.")
        if statements:
            print_line(
                f"{format_count(statements, 'signed statement')} in git's notes: good. `signoff verify` follows them."
            )
    if unchecked:
        print_error(unchecked)
    return ExitCode.REFUSED if verified.broken or differences or unknown or bad else ExitCode.DONE


def _check_statements(root: Path) -> tuple[int, dict[str, str], str]:
    """Check the signed statements in git's notes.

    Returns:
        The number of valid ones, the reason for each invalid one by id, and why they could not be checked (empty if
        they were).
    """
    from app.attestation.commit_verification import CommitVerifier
    from app.attestation.review_notes import FETCHED, REVIEWS
    from app.attestation.review_policy import read_committed_policy
    from app.git.borrowed_repository import ObjectBorrowingRepository
    from app.git.run_git import GitFailed

    if find_repository(root) is None:
        return 0, {}, ""
    try:
        with ObjectBorrowingRepository(root) as borrowed:
            if not borrowed.list_references(REVIEWS, FETCHED) or not (head := borrowed.resolve_object_id("HEAD")):
                return 0, {}, ""
            verifier = CommitVerifier(borrowed, read_committed_policy(borrowed, head), head)
            return verifier.count_valid_statements(), verifier.refused, ""
    except GitFailed as error:
        return 0, {}, f"The signed statements in git's notes were not checked. {error}"


def _print_verification(
    verified: ChainVerification,
    differences: Sequence[str],
    unknown: Sequence[str],
    files: int,
    moved: Sequence[FileChangedSinceApprovalJson],
) -> None:
    for entry in verified.broken:
        print_error(f"Entry {entry.number} {entry.why}.")
    for line in differences:
        print_error(line)
    count = format_count(len(verified.entries), "decision")
    if verified.broken:
        print_line(f"{format_count(len(verified.entries), 'other decision')} in the record can be trusted.")
    elif differences:
        places = format_count(len(differences), "place")
        print_line(f"The record of {count} is whole; what is kept beside it differs in {places}.")
    elif verified.entries or verified.events:
        earlier = sum(event.earlier and event.decision != "edited" for event in verified.events)
        more = f", and {earlier} of an earlier version" if earlier else ""
        print_line(f"{count}{more}, each as it was recorded. The chain ends with {verified.head[:_HASH_DIGITS]}.")
    elif unknown:
        commits = ", ".join(name[:_HASH_DIGITS] for name in unknown[:_MAX_COMMITS])
        commits += ", …" * (len(unknown) > _MAX_COMMITS)
        print_error(
            f"The record is empty here, but trailers of commits name reviews ({commits}): they were made on another "
            "machine, or the record is gone. Nothing here confirms them."
        )
    else:
        print_line("The record is empty: nothing has been decided here since signoff keeps it.")
    if files:
        same = files - len(moved)
        verb = "holds" if same == 1 else "hold"
        print_line(f"{same} of {format_count(files, 'file')} on disk {verb} the bytes that were signed last.")
    for file in moved[:_MAX_LISTED]:
        print_line(f"  {file.path} has changed since {file.proposal}")
    if len(moved) > _MAX_LISTED:
        print_line(f"  and {len(moved) - _MAX_LISTED} more")


def _last_approved_versions(entries: Sequence[DecisionRecordEntry]) -> dict[str, tuple[str, DecisionRecordEntry]]:
    """Return the blob id that the last decision on each file left, empty for a removed file, with its entry."""
    return {file.path: (file.result, entry) for entry in entries for file in entry.files if file.base or file.result}


def _files_changed_since_approval(
    runtime: OpenWorkspace, signed: dict[str, tuple[str, DecisionRecordEntry]]
) -> list[tuple[str, DecisionRecordEntry]]:
    """Return the paths that differ from the last approved version, each with that version's record entry."""
    disk = PosixFilesystem(runtime.workspace.root, runtime.workspace.read_limit)
    moved = []
    for path, (wanted, entry) in sorted(signed.items()):
        try:
            found = disk.read(path)
        except OSError:
            moved.append((path, entry))
            continue
        if (git_blob_id(found.data) if found else "") != wanted:
            moved.append((path, entry))
    return moved


def print_or_add_trailers(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Print commit trailers for written proposals, or add them to a commit message."""
    if bool(arguments.ids) == arguments.staged:
        raise CommandError("Name proposals, or give --staged for what is in git's index.", ExitCode.USAGE)
    lines: list[str] = []
    if arguments.staged:
        from app.runtime.commit_records import make_index_trailers

        lines = make_index_trailers(runtime)
    record = DecisionRecordReader(runtime.database, runtime.name)
    for name in arguments.ids:
        entries = record.entries(name.strip().upper()) or record.entries(runtime.service.get(name).id)
        if not has_proposal_changes_on_disk_after(entries):
            name = name.strip().upper()
            if not entries and record.decisions(name):
                raise CommandError(
                    f"{name} was decided before the record was kept; nothing confirms it.", ExitCode.REFUSED
                )
            raise CommandError(f"{name} has written nothing, so there is nothing to say of it.", ExitCode.REFUSED)
        lines += make_trailers(entries[-1])
    lines = list(dict.fromkeys(lines))
    if arguments.into is None:
        for line in lines:
            print_line(line)
    elif lines:
        from app.runtime.commit_records import add_trailers

        add_trailers(Path(arguments.into).resolve(), lines, runtime.workspace.root)
    return ExitCode.DONE


def write_and_sign_git_notes(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Write git notes that say which changes of a commit were reviewed; sign the reviews if a key is set."""
    from app.attestation.review_notes import REVIEWS
    from app.runtime.commit_records import GIT_AI_NOTES, NOTES, write_and_sign_commit_notes

    if arguments.yes and not arguments.install:
        raise CommandError("--yes goes with --install.", ExitCode.USAGE)
    if arguments.install:
        if arguments.json:
            raise CommandError("--install prints a diff, not JSON.", ExitCode.USAGE)
        return _install_notes(runtime, write=arguments.yes)
    noted = write_and_sign_commit_notes(
        runtime, arguments.commit, git_ai_notes=arguments.git_ai, include_denials=arguments.denials
    )
    if noted is None:
        if not arguments.if_reviewed:
            why = f"The record knows nothing of what {arguments.commit} changes; nothing was noted."
            raise CommandError(why, ExitCode.REFUSED)
        if arguments.json:
            print_json(GitNotesDocument(commit="", commits=0, decisions=0, files=0, lines=0, signed=""))
        return ExitCode.DONE
    if arguments.json:
        print_json(GitNotesDocument.model_validate(noted))
        return ExitCode.DONE
    what = f"{format_count(noted.decisions, 'decision')} on {format_count(noted.files, 'file')}"
    where = f"{noted.commits} commits" if noted.commits > 1 else noted.commit[:7]
    print_line(f"Noted on {where}: {what} ({NOTES}).")
    if noted.signed:
        print_line(f"Signed as {noted.signed[:_HASH_DIGITS]}, for `signoff verify` ({REVIEWS}).")
    if arguments.git_ai:
        print_line(f"In git-ai's format {format_count(noted.lines, 'line')} ({GIT_AI_NOTES}).")
    return ExitCode.DONE


def _install_notes(runtime: OpenWorkspace, *, write: bool) -> ExitCode:
    from difflib import unified_diff

    from app.attestation.review_notes import GitNotesSetup
    from app.git.borrowed_repository import ObjectBorrowingRepository
    from app.git.remotes import default_remote, remote_names

    with ObjectBorrowingRepository(runtime.workspace.root) as borrowed:
        setup = GitNotesSetup(borrowed, default_remote(borrowed) if remote_names(borrowed) else "")
    changes = setup.missing_changes()
    if not changes:
        print_line("Git writes and exchanges the notes already; nothing was changed.")
        return ExitCode.DONE
    for change in changes:
        name = str(change.path)
        before, after = change.before.splitlines(), change.after.splitlines()
        for line in unified_diff(before, after, name, name, lineterm=""):
            print_line(line)
    if write:
        setup.write_changes()
    print_line("Written." if write else "Nothing is written yet: `signoff notes --install --yes` writes this.")
    return ExitCode.DONE
