"""`signoff sessions`, `search`, `export` and `import`."""

import argparse
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.command_output import CommandError, ExitCode, print_json, print_line, print_text
from app.cli.json_documents import ListedSessionJson, SearchHitJson, SessionImportDocument, SessionImportRepairJson
from app.conversation.events import (
    AssistantMessage,
    Event,
    Intervention,
    InterventionKind,
    ToolResult,
    UserMessage,
    UserNotice,
    event_images,
)
from app.conversation.imports.transcript_import import TranscriptError, read_transcript
from app.runtime.open_workspace import OpenWorkspace
from app.sandbox.run_folders import versions_kept_for_workspace
from app.storage import SessionNotFoundOrAmbiguous
from app.storage.process_coordination import is_session_open
from app.storage.pruning import prune_workspace
from app.storage.session_store import SessionRecord
from app.text.quantities import format_count, format_time

if TYPE_CHECKING:
    from app.runtime.review_report import ProposalReviewReport

_FOREIGN_SESSION_NOTE = (
    "The conversation above was held in another program ({program}), with other tools. From here on, call only the "
    "tools that you are given now. Files may have changed since: read them before you rely on them."
)
_DAY_SECONDS = 86_400.0
_MAX_HIT_CHARACTERS = 200
"""Characters of a search hit that are printed."""


def import_session(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Create a session from a transcript; print which repairs were made."""
    try:
        found = read_transcript(Path(arguments.file))
    except TranscriptError as error:
        unreadable = isinstance(error.__cause__, OSError)
        raise CommandError(str(error), ExitCode.USAGE if unreadable else ExitCode.REFUSED) from error
    repaired = ", ".join(f"{what} ({count:,})" for what, count in found.repairs.items())
    told = f"Imported from {found.program}." + (f" Repaired or left out: {repaired}." if repaired else "")
    session = runtime.sessions.create()
    note = Intervention(kind=InterventionKind.FACT, text=_FOREIGN_SESSION_NOTE.format(program=found.program))
    runtime.sessions.append_events(session.id, [*found.events, note, UserNotice(text=told)])
    session = runtime.sessions.get(session.id)
    counts = {kind: found.count_events(kind) for kind in (UserMessage, AssistantMessage, ToolResult)}
    if arguments.json:
        print_json(
            SessionImportDocument(
                session=session.id,
                title=session.title,
                program=found.program,
                messages=counts[UserMessage],
                responses=counts[AssistantMessage],
                results=counts[ToolResult],
                repairs=[SessionImportRepairJson(what=what, count=count) for what, count in found.repairs.items()],
            )
        )
        return ExitCode.DONE
    print_line(
        f"Session {session.id} from {found.program}: {format_count(counts[UserMessage], 'message')} of yours, "
        f"{format_count(counts[AssistantMessage], 'response')}, {format_count(counts[ToolResult], 'tool result')}."
    )
    if repaired:
        print_line(f"Repaired or left out: {repaired}.")
    print_line(f"Go on with `signoff --session {session.id}`.")
    return ExitCode.DONE


def print_or_prune_sessions(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Print the sessions of the workspace; with `--prune`, delete old ones first."""
    if arguments.prune is not None:
        removed = _prune_sessions(runtime, arguments.prune)
        if not arguments.json:
            print_line(removed)
    records = runtime.sessions.all()
    if arguments.json:
        print_json([ListedSessionJson.model_validate(record) for record in records])
        return ExitCode.DONE
    if not records:
        print_line("There are no sessions here yet.")
    kept = versions_kept_for_workspace(runtime.workspace.root, runtime.dirs.kept_versions)
    for made, size, place in kept.list_folders():
        print_line(f"{format_time(made)}  {size:,} bytes of ignored files that a command could not write: {place}")
    for record in records:
        print_line(f"{record.id}  {format_time(record.updated)}  {record.title}")
    return ExitCode.DONE


def print_search_hits(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Print the places where a text occurs in messages, proposals and reads, newest first."""
    found = runtime.session_search.find(" ".join(arguments.words))
    if arguments.json:
        print_json([SearchHitJson.model_validate(hit) for hit in found])
        return ExitCode.DONE
    for hit in found:
        text = " ".join(hit.text.split())
        print_line(f"{hit.session}  {format_time(hit.time)}  {hit.kind:8}  {text[:_MAX_HIT_CHARACTERS]}")
    if not found:
        print_line("Nowhere.")
    return ExitCode.DONE


def export_session_or_review(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Write a session as Markdown or as a JSON list of events, or the review of one proposal."""
    if arguments.review:
        return _export_review(runtime, arguments)
    if arguments.format not in ("md", "json"):
        raise CommandError(f"--format {arguments.format} goes with --review.", ExitCode.USAGE)
    if arguments.session == "latest":
        latest = runtime.sessions.latest()
        if latest is None:
            raise CommandError("There are no sessions here yet.", ExitCode.USAGE)
        record = latest
    else:
        record = _require_session(runtime, arguments.session)
    events = runtime.sessions.events(record.id)
    if arguments.images:
        _write_images(runtime, events, Path(arguments.images))
    if arguments.format == "json":
        print_json(events)
        return ExitCode.DONE
    from app.runtime.review_report import export_session_as_markdown

    print_text(export_session_as_markdown(runtime, record.id))
    return ExitCode.DONE


def _require_session(runtime: OpenWorkspace, name: str) -> SessionRecord:
    try:
        return runtime.sessions.get(name)
    except SessionNotFoundOrAmbiguous as error:
        proposal = runtime.proposals.proposal(name.upper())
        if proposal is None:
            raise
        raise CommandError(
            f"{proposal.id} is a proposal: `signoff export {proposal.id} --review` writes what came of it.",
            ExitCode.USAGE,
        ) from error


def _write_images(runtime: OpenWorkspace, events: Sequence[Event], folder: Path) -> None:
    """Write the images of the user and of tools, named by their hashes: their file names may contain any text."""
    images = [image for event in events for image in event_images(event)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for image in images:
            with contextlib.suppress(KeyError):
                path = folder / f"{image.sha256}.{image.media_type.removeprefix('image/')}"
                path.write_bytes(runtime.proposals.read_blob(image.sha256))
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror or error}.", ExitCode.USAGE) from error


def _export_review(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    from app.runtime.review_report import make_proposal_review_report, render_review_report_as_markdown

    name, form = arguments.session, arguments.format
    if form == "json":
        raise CommandError(
            f"`signoff show {name} --json` and `signoff log --json` have what a program needs.", ExitCode.USAGE
        )
    try:
        found = make_proposal_review_report(runtime, name)
        if form in ("github", "gitlab"):
            print_text(_forge_review(runtime, found, arguments))
            return ExitCode.DONE
    except KeyError as error:
        raise CommandError(
            f"The contents of {name} were pruned; there is nothing left to show.", ExitCode.REFUSED
        ) from error
    if form == "html":
        from app.ui.review_page import render_report_html

        print_text(render_report_html(found))
    else:
        print_text(render_review_report_as_markdown(found))
    return ExitCode.DONE


def _forge_review(runtime: OpenWorkspace, report: "ProposalReviewReport", arguments: argparse.Namespace) -> str:
    """Return the review of a proposal as JSON for the API of GitHub or GitLab."""
    import json

    from app.runtime.review_report import make_forge_review

    review = make_forge_review(runtime, report, arguments.base, arguments.head)
    made = review.github_review if arguments.format == "github" else review.gitlab_discussions
    return json.dumps(made, ensure_ascii=False, indent=2) + "\n"


def _prune_sessions(runtime: OpenWorkspace, days: int) -> str:
    """Remove sessions older than `days`; return a sentence about the removed data."""
    from app.sandbox.run_folders import CACHE_FOLDER, prune_kept_cache_overlays
    from app.sandbox.workspace_backup import prune_workspace_backups

    if days < 0:
        raise CommandError("--prune takes a number of days, 0 or more.", ExitCode.USAGE)
    before = time.time() - days * _DAY_SECONDS
    done = prune_workspace(
        runtime.database,
        runtime.sessions.workspace,
        before,
        lambda session_id: is_session_open(runtime.dirs.session_lock(session_id)),
    )
    kept = versions_kept_for_workspace(runtime.workspace.root, runtime.dirs.kept_versions).prune(before)
    runtime.signal.send()
    caches = prune_kept_cache_overlays(runtime.dirs.runs / CACHE_FOLDER, everything=True)
    backups = prune_workspace_backups(runtime.dirs.runs, time.time())
    return (
        f"Removed {format_count(done.sessions, 'session')}, {format_count(done.proposals, 'decided proposal')}, "
        f"{format_count(done.contents, 'file content')} that nothing needs ({done.freed:,} bytes), the kept ignored "
        f"files of {format_count(kept, 'command')}, the caches of commands ({caches:,} bytes) and the copies for "
        f"commands in place ({backups:,} bytes). The log keeps every decision."
    )
