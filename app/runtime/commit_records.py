"""Entries of the decision record for a commit or for the index: as trailers, notes and signed statements."""

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from app.attestation.commit_verification import find_root_commits, parse_commit_range
from app.attestation.review_notes import merge_fetched_notes, merge_notes_and_add_envelope
from app.attestation.review_policy import read_committed_policy
from app.attestation.signed_statement import (
    ReviewCheckResult,
    ReviewedFile,
    ReviewedProposalOrigin,
    ReviewHunkTestEvidence,
    SignedApproval,
    find_signing_key,
    make_base_independent_hunk_digests,
    make_envelope,
    make_statement,
    pre_authentication_encoding,
    sign,
)
from app.git.blobs import (
    TreeDiffEntry,
    convert_to_git_blob_id_and_bytes,
    parse_raw_diff,
    read_checkout_contents,
    to_git_mode,
)
from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.run_git import GitFailed, read_git_author_identity
from app.proposals.decide.proposal_commits import (
    FileWriteDecision,
    agent_and_model,
    blame_lines,
    commit_proposal,
    decisions_leading_to,
    format_ranges,
    make_trailers,
)
from app.proposals.values.decision_facts import RecordedCheckResult, RecordedTestEvidence
from app.proposals.values.models import Proposal
from app.proposals.values.origin import ProposalOrigin
from app.proposals.values.record_entries import (
    DecisionRecordEntry,
    RecordedFile,
    git_blob_id,
    without_undone_disk_approvals,
)
from app.review.hunk_lines import SeenLines
from app.runtime.open_workspace import OpenWorkspace
from app.sandbox.captured_changes import FileOrLink
from app.storage.record_store import DecisionRecordReader

NOTES = "refs/notes/signoff"
GIT_AI_NOTES = "refs/notes/ai"
_DIFF_TREE_ARGUMENTS = ("diff-tree", "-m", "-r", "--root", "--raw", "-z", "--no-renames", "--no-commit-id")
"""Arguments that list the files that a commit changes against its parents."""
_GIT_AI_VERSION = "authorship/3.0.0"


class WrittenCommitNotes(Struct, frozen=True):
    """Summary of the git notes that were written on one or more commits."""

    commit: str
    """The last of the commits."""
    commits: int
    decisions: int
    files: int
    lines: int
    """Lines that git-ai's notes attribute; 0 without them."""
    signed: str
    """Id of the signed statement below `refs/notes/signoff-reviews`; empty if git has no signing key."""


def make_index_trailers(runtime: OpenWorkspace) -> list[str]:
    """Return the trailers for the index, from each decision that led to a file's content in it.

    Raises:
        GitFailed: there is no repository.
    """
    with ObjectBorrowingRepository(runtime.workspace.root) as borrowed:
        # For a commit of single files, git makes a temporary index and names it to its hooks.
        index_name = os.environ.get("GIT_INDEX_FILE")
        index = (borrowed.top / index_name) if index_name else None
        against = (
            borrowed.resolve_object_id("HEAD")
            or borrowed.run_query("hash-object", "-t", "tree", "/dev/null").decode().strip()
        )
        raw = borrowed.run_query("diff-index", "--cached", "--raw", "-z", "--no-renames", against, index=index)
        decisions_by_path = _find_decisions(runtime, borrowed, parse_raw_diff(raw))
    latest = {step.entry.proposal: step.entry for steps in decisions_by_path.values() for step in steps}
    lines = [
        line
        for _, entry in sorted(latest.items(), key=lambda item: int(item[0][1:]))
        for line in make_trailers(entry)
    ]
    # Assisted-by lines come first; each line only once.
    return list(dict.fromkeys(sorted(lines, key=lambda line: not line.startswith("Assisted-by"))))


def commit_with_trailers(runtime: OpenWorkspace, proposal: Proposal) -> str:
    """Commit the files that a proposal wrote, with the record's trailers; return the commit's id. Raises
    GitCommitFailed."""
    entries = DecisionRecordReader(runtime.database, runtime.name).entries(proposal.id)
    return commit_proposal(runtime.workspace.root, proposal, trailers=make_trailers(entries[-1]) if entries else ())


def find_commits_with_review_trailers(root: Path, limit: int) -> list[str]:
    """Return the latest commits with a trailer that names a review, newest first; [] outside a repository."""
    arguments = ["log", f"--max-count={limit}", "--format=%H%x09%(trailers:key=Reviewed-in,valueonly,separator=%x20)"]
    try:
        with ObjectBorrowingRepository(root) as borrowed:
            if not (head := borrowed.resolve_object_id("HEAD")):
                return []
            lines = borrowed.run_query(*arguments, "--grep=^Reviewed-in: signoff ", head).decode("utf-8", "replace")
    except GitFailed:
        return []
    commits_and_reviews = (line.partition("\t") for line in lines.splitlines())
    return [commit for commit, _, review in commits_and_reviews if review.startswith("signoff ")]


def write_and_sign_commit_notes(
    runtime: OpenWorkspace, commit_or_range: str, *, git_ai_notes: bool, include_denials: bool
) -> WrittenCommitNotes | None:
    """Write the record's entries into notes on commits, and sign each entry once.

    Args:
        commit_or_range: A commit, or a range as for `git log`; commits without entries in the record get no note.
        git_ai_notes: Whether to write notes in the format of git-ai, too.
        include_denials: Whether to include the numbers of denied hunks.

    Returns:
        A summary; None if the record has no entry for any of the commits.

    Raises:
        GitFailed: there is no such commit, or the key cannot sign.
    """
    signed: dict[int, DecisionRecordEntry] = {}
    commits_with_note, files, lines = [], 0, 0
    with ObjectBorrowingRepository(runtime.workspace.root) as borrowed:
        for commit in resolve_commits(borrowed, commit_or_range):
            changed = parse_raw_diff(borrowed.run_query(*_DIFF_TREE_ARGUMENTS, commit))
            if not (decisions_by_path := _find_decisions(runtime, borrowed, changed)):
                continue
            entries = {step.entry.number: step.entry for steps in decisions_by_path.values() for step in steps}
            document = {
                "version": 1,
                "decisions": [_decision_document(entries[number], include_denials) for number in sorted(entries)],
            }
            borrowed.write_note(NOTES, commit, json.dumps(document, indent=2, ensure_ascii=False))
            if git_ai_notes:
                text, attributed = _make_git_ai_note(runtime, commit, decisions_by_path)
                borrowed.write_note(GIT_AI_NOTES, commit, text)
                lines += attributed
            commits_with_note.append(commit)
            files += len(decisions_by_path)
            signed |= {entry.number: entry for entry in _entries_since_parents(changed, decisions_by_path)}
        if not commits_with_note:
            merge_fetched_notes(borrowed)
            return None
        reviews = [to_signed_review(runtime, borrowed, signed[number]) for number in sorted(signed)]
        statement = sign_reviews_into_git_notes(borrowed, reviews)
    return WrittenCommitNotes(commits_with_note[-1], len(commits_with_note), len(signed), files, lines, statement)


def resolve_commits(borrowed: ObjectBorrowingRepository, commit_or_range: str) -> list[str]:
    """Return the commits of a name or a range, oldest first. Raises GitFailed if it cannot be resolved."""
    base, tip = parse_commit_range(borrowed, commit_or_range)
    if ".." not in commit_or_range:
        return [tip]
    return borrowed.run_query("rev-list", "--reverse", tip, f"^{base}").decode().split()


def sign_reviews_into_git_notes(borrowed: ObjectBorrowingRepository, reviews: Sequence[SignedApproval]) -> str:
    """Sign decisions with git's key, add them to git notes, and return the statement's id; empty without a key.

    The statement identifies the repository by the policy in HEAD and by root commits.

    Raises:
        GitFailed: the key cannot sign, or the notes cannot be written.
    """
    if (key := find_signing_key(borrowed)) is None:
        return ""
    head = borrowed.resolve_object_id("HEAD")
    name = read_committed_policy(borrowed, head).repository
    repository = [name] if name else []
    if not (name and borrowed.shallow_commits):
        repository += find_root_commits(borrowed, head)
    payload = make_statement(repository, reviews)
    return merge_notes_and_add_envelope(
        borrowed, make_envelope(payload, sign(pre_authentication_encoding(payload), key, borrowed.environment))
    )


def to_signed_review(
    runtime: OpenWorkspace, borrowed: ObjectBorrowingRepository, entry: DecisionRecordEntry
) -> SignedApproval:
    """Return a decision in the signed form: without feedback, with paths from the top of the repository."""
    return SignedApproval(
        reviewer=entry.who,
        time=round(entry.time),
        result=entry.decision,
        proposal=entry.proposal,
        origin=_signed_origin(entry.origin),
        files=tuple(_to_signed_file(runtime, borrowed, file) for file in entry.files),
        approved=entry.hunks.approved,
        hunks=entry.hunks.count,
        edited=entry.edited,
        unseen_lines=entry.circumstances.unseen_lines,
        checks=_signed_checks(entry.circumstances.checks),
        evidence=_signed_evidence(entry.circumstances.evidence),
        entry=entry.number,
        previous=entry.before,
    )


def _signed_evidence(fact: RecordedTestEvidence | None) -> tuple[ReviewHunkTestEvidence, ...]:
    """Return the evidence in the signed form."""
    if fact is None:
        return ()
    return tuple(
        ReviewHunkTestEvidence(
            path=hunk.path, hunk=hunk.hunk, verdict=hunk.verdict, tests=hunk.tests, check=fact.check
        )
        for hunk in fact.hunks
    )


def make_signed_approval(
    runtime: OpenWorkspace,
    borrowed: ObjectBorrowingRepository,
    proposal: Proposal,
    checks: Sequence[RecordedCheckResult],
) -> SignedApproval:
    """Return an approval of a whole waiting proposal in the signed form; it is not recorded here.

    Args:
        borrowed: The repository.
        checks: Results of the checks on the approved state.
    """
    prefix = borrowed.path_prefix
    changes = runtime.service.path_changes(proposal.id)
    files = [_make_signed_file(borrowed, f"{prefix}{change.path}", change.before, change.after) for change in changes]
    count = sum(len(change.hunks) for change in proposal.files)
    return SignedApproval(
        reviewer=read_git_author_identity(runtime.workspace.root),
        time=round(time.time()),
        result="approved",
        proposal=proposal.id,
        origin=_signed_origin(proposal.origin),
        files=tuple(files),
        approved=tuple(range(1, count + 1)),
        hunks=count,
        unseen_lines=_count_unseen_lines(runtime, proposal),
        checks=_signed_checks(checks),
        entry=0,
        previous="",
    )


def _count_unseen_lines(runtime: OpenWorkspace, proposal: Proposal) -> int | None:
    """Return how many lines of a waiting proposal the user has not seen; None if no seen lines are stored."""
    stored = runtime.seen_lines_store.seen_lines().get(proposal.id)
    if stored is None:
        return None
    seen = SeenLines()
    seen.restore(stored, proposal.files)
    return seen.count_unseen_of_hunks(proposal.hunks, ())[0]


def _signed_checks(checks: Iterable[RecordedCheckResult]) -> tuple[ReviewCheckResult, ...]:
    return tuple(
        ReviewCheckResult(name=check.name, state=check.state, words=check.words, stale=check.stale)
        for check in checks
    )


def _signed_origin(origin: ProposalOrigin) -> ReviewedProposalOrigin:
    return ReviewedProposalOrigin(kind=origin.kind.value, agent=origin.label, model=origin.model)


def _to_signed_file(runtime: OpenWorkspace, borrowed: ObjectBorrowingRepository, file: RecordedFile) -> ReviewedFile:
    """Return a file of the record in the signed form."""
    path = f"{borrowed.path_prefix}{file.path}"
    base_mode, result_mode = _git_mode(file.base_mode), _git_mode(file.result_mode)
    sides = ((file.base_sha256, file.base_mode), (file.result_sha256, file.result_mode))
    try:
        before, after = (
            FileOrLink(runtime.proposals.read_blob(sha), int(mode or "644", 8)) if sha else None
            for sha, mode in sides
        )
    except KeyError:
        # The contents were pruned: the hunks are unknown.
        return ReviewedFile(
            path=path, base=file.base, result=file.result, base_mode=base_mode, result_mode=result_mode
        )
    reviewed = _make_signed_file(borrowed, path, before, after)
    return reviewed.model_copy(update={"base_mode": base_mode, "result_mode": result_mode})


def _make_signed_file(
    borrowed: ObjectBorrowingRepository, path: str, before: FileOrLink | None, after: FileOrLink | None
) -> ReviewedFile:
    """Return a file in the signed form; `before` or `after` is None if the file does not exist then."""
    sides = [
        (*convert_to_git_blob_id_and_bytes(borrowed, path, leaf), to_git_mode(leaf.mode, link=leaf.is_link))
        if leaf
        else ("", b"", "")
        for leaf in (before, after)
    ]
    (base, old, base_mode), (result, new, result_mode) = sides
    hunks = make_base_independent_hunk_digests(path, old, new, borrowed.object_format) if base and result else []
    return ReviewedFile(
        path=path,
        base=base,
        result=result,
        base_mode=base_mode,
        result_mode=result_mode,
        hunks=tuple(digests for _, digests in hunks),
    )


def _git_mode(recorded: str) -> str:
    """Return git's mode for the octal mode of a record; empty if the record has none."""
    if not recorded:
        return ""
    mode = int(recorded, 8)
    return to_git_mode(mode, link=stat.S_ISLNK(mode))


def _find_decisions(
    runtime: OpenWorkspace, borrowed: ObjectBorrowingRepository, changed: Sequence[TreeDiffEntry]
) -> dict[str, list[FileWriteDecision]]:
    """Return the decisions behind each changed file, by its path from the top of the repository."""
    entries = without_undone_disk_approvals(DecisionRecordReader(runtime.database, runtime.name).entries())
    recorded_paths = {file.path for entry in entries for file in entry.files}
    prefix = borrowed.path_prefix
    decisions_by_path: dict[str, list[FileWriteDecision]] = {}
    for pair in changed:
        if pair.path.startswith(prefix):
            blob = pair.after.blob if pair.after else ""
            path = pair.path.removeprefix(prefix)
            steps = decisions_leading_to(entries, path, blob)
            if not steps and pair.after and path in recorded_paths:
                # Git may have converted the content that the record knows: compare the checkout, too.
                for content in read_checkout_contents(borrowed, [pair.after], runtime.workspace.read_limit).values():
                    steps = decisions_leading_to(entries, path, git_blob_id(content.data))
            if steps:
                decisions_by_path[pair.path] = steps
    return decisions_by_path


def _decision_document(entry: DecisionRecordEntry, denials: bool) -> dict[str, Any]:
    """Return a decision as a JSON document for others: without feedback; with denied hunks only if `denials`."""
    origin, hunks, caller = entry.origin, entry.hunks, entry.circumstances.caller
    checks = {check.name: check.words or check.state for check in entry.circumstances.checks}
    return {
        "proposal": entry.proposal,
        "time": round(entry.time),
        "who": entry.who,
        "decision": entry.decision,
        "origin": {"kind": origin.kind.value, "agent": origin.label, "model": origin.model},
        "content": entry.content,
        "hunks": {"approved": hunks.approved, "of": hunks.count, **({"denied": hunks.denied} if denials else {})},
        "edited": entry.edited,
        "unseen_lines": entry.circumstances.unseen_lines,
        "checks": checks,
        "caller": caller.model_dump(mode="json") if caller else None,
        "files": [{"path": file.path, "base": file.base, "result": file.result} for file in entry.files],
        "entry": entry.number,
    }


def _entries_since_parents(
    changed: Sequence[TreeDiffEntry], decisions_by_path: Mapping[str, Sequence[FileWriteDecision]]
) -> Iterator[DecisionRecordEntry]:
    """Yield the decisions between a commit's parents and the commit; older ones were signed with earlier commits."""
    for path, steps in decisions_by_path.items():
        starts = {pair.before.blob if pair.before else "" for pair in changed if pair.path == path}
        for step in reversed(steps):
            yield step.entry
            starts.discard(step.file.base)
            if not starts:
                break


def _make_git_ai_note(
    runtime: OpenWorkspace, commit: str, decisions_by_path: dict[str, list[FileWriteDecision]]
) -> tuple[str, int]:
    """Return the note in git-ai's format, and how many lines it attributes.

    The note has for each file its `path` and lines `  PROMPT RANGES`, then a line `---`, and JSON about each prompt
    (github.com/git-ai-project/git-ai, version 3.0.0 of its standard).
    """
    note_lines: list[str] = []
    prompts: dict[str, dict[str, Any]] = {}
    total = 0
    for path, steps in sorted(decisions_by_path.items()):
        try:
            entry_of_line = blame_lines(steps, runtime.proposals.read_blob)
        except KeyError:
            # The contents were pruned: attribute no line of this file.
            continue
        by_prompt: dict[str, list[int]] = {}
        for number, entry in enumerate(entry_of_line, 1):
            if entry is not None and (prompt := _add_prompt(entry, prompts)):
                by_prompt.setdefault(prompt, []).append(number)
        if by_prompt:
            note_lines.append(f'"{path}"' if any(character.isspace() for character in path) else path)
        for prompt, numbers in by_prompt.items():
            note_lines.append(f"  {prompt} {format_ranges(numbers)}")
            prompts[prompt]["accepted_lines"] += len(numbers)
            prompts[prompt]["total_additions"] += len(numbers)
            total += len(numbers)
    metadata = {"schema_version": _GIT_AI_VERSION, "base_commit_sha": commit, "prompts": prompts}
    return "\n".join((*note_lines, "---", json.dumps(metadata, indent=2, ensure_ascii=False))), total


def _add_prompt(entry: DecisionRecordEntry, prompts: dict[str, dict[str, Any]]) -> str:
    """Return the key of the prompt behind an approved decision, and add it to `prompts`; empty for a person's
    work."""
    assisted = agent_and_model(entry.origin)
    if assisted is None:
        return ""
    agent, model = assisted
    conversation = entry.origin.session or entry.proposal
    key = hashlib.sha256(f"{agent}:{conversation}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
    agent_id = {"tool": agent, "id": conversation, "model": model}
    prompts.setdefault(
        key,
        {
            "agent_id": agent_id,
            "human_author": entry.who,
            "messages": [],
            "total_additions": 0,
            "total_deletions": 0,
            "accepted_lines": 0,
            "overriden_lines": 0,
        },
    )
    return key


def add_trailers(message_file: Path, trailers: Sequence[str], root: Path) -> None:
    """Add the trailers that are missing to a commit message in `message_file`. Raises GitFailed."""
    from app.git.run_git import run_git
    from app.sandbox.environment import environment_without_workspace

    options = [part for line in trailers for part in ("--trailer", line)]
    arguments = ["interpret-trailers", "--in-place", "--if-exists", "addIfDifferent", *options, str(message_file)]
    # Outside the repository, whose settings `trailer.*.command` would run programs.
    run_git(Path("/"), arguments, {**environment_without_workspace(root), "GIT_DIR": os.devnull, "LC_ALL": "C"})
