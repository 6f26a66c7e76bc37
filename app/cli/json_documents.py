"""The JSON that commands print; these models are its schema and its documentation."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from app.proposals.risk.change_summary import format_reason
from app.proposals.text.file_warnings import describe_facts, file_cautions
from app.proposals.values.models import FileChange, FileDiff, Hunk, Proposal


def _printable(line: str) -> str:
    """Replace lone surrogates, which stand for undecodable bytes and which JSON cannot hold."""
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


EncodableText = Annotated[str, BeforeValidator(_printable)]
"""Text that git may have as any bytes."""


class JsonDocument(BaseModel):
    """One JSON document on standard output.

    `model_validate` makes one from an object whose attributes have the names of the fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, from_attributes=True)


class ErrorDocument(JsonDocument):
    """The document that any command prints with `--json` when it fails."""

    error: str
    """The line that is on standard error too."""
    code: int
    """The exit code: 1 failed, 2 wrong usage, 3 refused."""
    done: list[str] = []
    """Ids of the proposals that had been decided before, where several were named."""


class FileLine(JsonDocument):
    """A file of a proposal, in numbers."""

    path: str
    op: str
    """create, edit, delete, rename or mode."""
    added: int
    removed: int


class InexactMatchLine(JsonDocument):
    """A place in a file that was not found exactly."""

    line: int
    """From 1."""
    how: str
    """indentation, spacing, aligned or line_hint."""
    note: str


class FileFactsLine(FileLine):
    """A file, with everything that must be known about it before a decision."""

    old_path: str
    """For a rename."""
    old_mode: str | None
    """Permission bits on disk, in octal: `644`, `4755`; null for a new file."""
    mode: str | None
    """Those that an approval writes; null for a deletion."""
    binary: bool
    inexact: list[InexactMatchLine]
    rebased: bool
    """Whether the file changed after the edit was made, so that it was merged."""
    edited: bool
    """Whether the user changed the proposed text."""
    stacked_on: list[str]
    """Ids of waiting proposals that it builds on."""
    warnings: list[str]
    """Sentences to read before saying yes: characters that deceive, modes, inexact places and re-bases among them."""
    notes: list[str]
    """Sentences that are worth knowing."""

    @model_validator(mode="before")
    @classmethod
    def _read_change(cls, change: object) -> object:
        return _file_remarks(change) if isinstance(change, FileChange) else change


class OriginLine(JsonDocument):
    """The origin of a proposal; unknown fields are empty."""

    kind: str
    """model, command, program, patch, agent, disk or ref."""
    agent: str
    """claude, codex, gemini, …"""
    model: str
    host: str
    """Where signoff's own model answered: host and port."""
    session: str
    """The agent's own."""
    prompt: str
    """The agent's own id of the prompt or turn."""
    ref: str
    """The commit, range or pull request."""


class IgnoredLine(JsonDocument):
    """Git-ignored files that a command has written, without review."""

    path: str
    """A file, or a folder with a slash at the end: the uppermost that git ignores."""
    written: int
    """How many files."""
    removed: int


class RecipeLine(JsonDocument):
    """A command that made all of a proposal, with what it takes to run it again."""

    command: str
    folder: str
    """Where it ran, relative to the workspace."""
    seconds: float
    """Its time limit."""
    environment: str
    """SHA-256 of the variables that it got and of the system."""
    tree: str
    """The files that it saw: the id of a git tree, or a SHA-256; empty if unknown."""
    reproduced: int
    """The revision that a second run gave again, byte for byte; in a decision 0 unless it is the decided one."""


class ExcludedHunksLine(JsonDocument):
    """Hunks that a proposal does not ask for."""

    hunks: int
    why: Literal["signed", "waiting", "there"]
    """They were approved before; they wait in another proposal; the workspace has them already."""
    proposals: list[str]
    """In which they were approved, or wait."""


class ProposalFacts(JsonDocument):
    """The facts of a proposal in lists and details."""

    id: str
    state: str
    """pending, partly_approved, applied, denied, stale, superseded, undone or failed."""
    summary: str
    origin: OriginLine
    on_disk: bool
    """Whether it is on disk already: an approval keeps it, a denial takes it back off the disk."""
    created: float
    """Unix time in seconds."""
    revision: int
    """Grows whenever what an approval would write has changed."""


class ProposalLine(ProposalFacts):
    """`signoff proposals --json`: a list of these."""

    files: list[FileFactsLine]
    ignored: list[IgnoredLine]
    """What its commands have written already, besides."""
    left_out: list[ExcludedHunksLine]
    """Hunks of what it was made of that it does not ask for."""


class CheckFactLine(JsonDocument):
    """A check that has come to its end."""

    name: str
    state: str
    """passed, failed, timed_out or broken."""
    words: str
    """`3 failed, 0 before`."""


class WatchLine(JsonDocument):
    """A line of `signoff proposals --json --watch`; fields that say nothing are left out."""

    change: Literal["waiting", "staged", "changed", "decided", "checks", "question", "answered"]
    """`waiting` is what waited when the watch began; then each change as it comes."""
    waiting: int
    """How many proposals wait now."""
    proposal: ProposalLine | None = None
    decision: str = ""
    """approved, partly_approved, denied, edited, undone, redone or reopened."""
    id: str = ""
    """Of the proposal that checks are about."""
    checks: list[CheckFactLine] = []
    session: str = ""
    """In which the model has asked."""
    text: str = ""
    """Of the question."""
    options: list[str] = []


class HunkLine(JsonDocument):
    """A hunk of a proposal."""

    number: int
    """What `--hunks` takes."""
    id: str
    state: str
    """pending, applied or denied."""
    header: str
    """`@@ -3,2 +3,4 @@`, without context lines."""
    removed: list[str]
    added: list[str]


class ConflictLine(JsonDocument):
    """A place that the proposal changes, and that is another on disk or in an older proposal; 60 lines at most."""

    line: int
    """In the file as it is there now, from 1."""
    base: list[str]
    disk: list[str]
    proposed: list[str]


class FileDetail(FileFactsLine):
    """A file with its hunks."""

    reasons: list[str]
    """Why it deserves eyes, or is shown last, as sentences: removed tests, new calls that run code, a lock file."""
    hunks: list[HunkLine]
    conflicts: list[ConflictLine]
    """Of a stale proposal: the places where the file has changed, and the proposal changes it too."""


class ProposalDetail(ProposalFacts):
    """`signoff show ID --json`."""

    reason: str
    """Why it is stale, failed or superseded."""
    session: str
    order: list[str]
    """The paths in the order in which the review shows them; empty, for by path, if an earlier version staged it."""
    files: list[FileDetail]
    ignored: list[IgnoredLine]
    """What its commands have written already, besides."""

    @classmethod
    def from_proposal(cls, proposal: Proposal, diffs: list[FileDiff]) -> "ProposalDetail":
        """Return the details of a proposal and its diffs."""
        facts = {name: getattr(proposal, name) for name in cls.model_fields if name != "files"}
        return cls(**facts, files=[_file_detail(diff) for diff in diffs])


class DecisionDocument(JsonDocument):
    """`signoff approve`, `deny`, `undo` and `redo` with `--json`; a list of these where several ids are given."""

    id: str
    state: str
    files: list[FileLine]
    changed: list[str]
    """Ids of other proposals that were re-based or turned stale."""
    warning: str = ""
    """What did not work although the decision stands: it could not be recorded. It is on standard error too."""


class PushDocument(JsonDocument):
    """`signoff push ID --json`."""

    id: str
    remote: str
    ref: str
    """`refs/signoff/P7`."""
    commit: str
    signed: bool
    """Whether the user's signed review went with it."""


class UsageLine(JsonDocument):
    """Tokens of all requests of a turn, as the server counted them."""

    input: int
    """Those that came from a cache among them."""
    cached: int
    output: int
    cost: float | None
    """US dollars; null where no price is known."""


class AnswerDocument(JsonDocument):
    """`signoff ask --json`."""

    proposal: str
    path: str
    hunk: int | None
    """Its number; null where the question was about the file."""
    question: str
    text: str
    """The model's answer, Markdown."""
    state: str
    """complete, interrupted, truncated or failed."""
    note: str
    """What went wrong, or what was ignored, in a line; empty if nothing."""
    spent: UsageLine


class ServerStateLine(JsonDocument):
    """An MCP server whose tools the model could not use."""

    name: str
    state: str
    """`starting`, `failed` or `sign in`."""
    reason: str


class RunDocument(JsonDocument):
    """`signoff run --json`."""

    session: str
    text: str
    """The model's answer."""
    stopped: Literal["answer", "staged", "question", "refused", "aborted", "failed"]
    limit: Literal["cost", "time", "steps"] | None
    """The limit that ended the turn."""
    question: str | None
    options: list[str]
    """Of the question."""
    proposals: list[str]
    """Ids of what this turn staged."""
    error: str | None
    """What failed; beside `staged`, why the model's closing words are missing."""
    spent: UsageLine
    servers: list[ServerStateLine]
    """Those that failed or were still starting at the end."""


class SessionLine(JsonDocument):
    """`signoff sessions --json`: a list of these."""

    id: str
    title: str
    model: str
    created: float
    updated: float
    pinned: bool


class RepairLine(JsonDocument):
    """A kind of repair of an imported history, or of omitted content."""

    what: str
    count: int


class ImportDocument(JsonDocument):
    """`signoff import FILE --json`."""

    session: str
    """What `signoff --session` takes."""
    title: str
    program: str
    """Claude Code, Codex, OpenAI messages or Anthropic messages."""
    messages: int
    """The user's."""
    responses: int
    """The model's."""
    results: int
    """Of tool calls."""
    repairs: list[RepairLine]


class SearchHitLine(JsonDocument):
    """`signoff search --json`: a list of these, the newest first."""

    session: str
    title: str
    event: int
    """Its id in `signoff export SESSION --format json`."""
    time: float
    kind: Literal["you", "model", "question", "proposal", "decision", "file", "asked", "answered"]
    """`asked` and `answered` are said aside from the conversation."""
    text: str


class CallerLine(JsonDocument):
    """How a command was called, as its process could find out."""

    stdin_is_terminal: bool
    stdout_is_terminal: bool
    parent: str
    """The name of the process that called it; empty where the system does not tell."""
    agent_variables: list[str]
    """The names of variables by which agents mark their shells, of those that were set."""


class DecisionLine(JsonDocument):
    """`signoff log --json`: a list of these."""

    time: float
    """Unix time in seconds."""
    proposal: str
    """Its id: `P7`."""
    decision: str
    """approved, partly_approved, denied, undone, redone, reopened or edited."""
    session: str
    """The session that proposed it; empty where none did."""
    feedback: str
    """The user's words."""
    words_lost: bool
    """Words were said, and those that are kept are not the same: `signoff log --verify` names the difference."""
    files: list[str]
    """The paths that it was about."""
    origin: OriginLine | None
    """null for what earlier versions recorded."""
    caller: CallerLine | None
    """How the command was called that decided; null for the app, and for what earlier versions recorded."""
    recipe: RecipeLine | None
    """The command that made all of it; null if there was no single one, and for what earlier versions recorded."""
    ignored: list[IgnoredLine]
    """What the commands that proposed it had written, besides; empty for what earlier versions recorded."""


class DoorLine(JsonDocument):
    """`signoff doors --json`: a list of these."""

    agent: str
    program: str | None
    """Where it is installed; null where it is not."""
    version: str
    """Its release; empty if it does not say."""
    hooked: dict[str, str]
    """The settings files that have signoff's hook, each with the command."""
    unreadable: dict[str, str]
    """Those that can't be read, each with the reason."""
    open: list[str]
    """Where it is hooked in: releases and settings with which calls pass it by, each in a line."""
    incomplete: list[str]
    """Settings that lack events which this release uses, each in a line."""
    waiting: str
    """Id of a proposal that would change the project's settings of it; empty for none."""


class DoorTrialLine(JsonDocument):
    """`signoff doors --try --json`: a list of these."""

    agent: str
    program: str | None
    """Where it is installed; null where it is not."""
    edit: str
    """`an edit`, or how else it was made."""
    verdict: Literal["held", "not held", "not tried"]
    why: str
    """What was seen, in a line."""


class BrokenEntryLine(JsonDocument):
    """An entry of the record that is not as it was written."""

    number: int
    why: str


class ChangedFileLine(JsonDocument):
    """A file that no longer contains the bytes that were signed last."""

    path: str
    proposal: str
    """The last one that wrote it."""


class VerifyDocument(JsonDocument):
    """`signoff log --verify --json`; with anything in `broken`, `differences` or `unknown` the exit code is 3."""

    entries: int
    """Decisions in the record, broken ones included."""
    head: str
    """SHA-256 of the last entry: noted elsewhere, it shows a record that was written anew."""
    broken: list[BrokenEntryLine]
    differences: list[str]
    """What the app, doors or exports say of decisions otherwise than the record: a sentence each."""
    unknown: list[str]
    """Commits whose trailers name a review, where the record is empty: ids, the newest first, 20 at most."""
    files: int
    """Files that decisions have written."""
    changed_since: list[ChangedFileLine]
    statements: int
    """Signed statements in git's notes that are good."""
    bad_statements: dict[str, str]
    """Those that are not, by id, with the reason."""


class NotesDocument(JsonDocument):
    """`signoff notes --json`."""

    commit: str
    """The last that was noted."""
    commits: int
    decisions: int
    files: int
    lines: int
    """Lines that the note in git-ai's format attributes; 0 without `--git-ai`."""
    signed: str
    """The id of the signed statement; empty if git has no signing key."""


class SignedOriginLine(JsonDocument):
    """The author of a change."""

    kind: str
    agent: str
    model: str


class SignedCheckLine(JsonDocument):
    """The result of a check when the user decided."""

    name: str
    state: str


class SignedEvidenceLine(JsonDocument):
    """The evidence of a hunk at the time of the decision."""

    path: str
    hunk: int
    verdict: str
    """As in `signoff evidence --json`."""
    tests: list[str]
    check: str


class SignedReviewLine(JsonDocument):
    """A decision of a signed statement."""

    reviewer: str
    time: int
    """Unix time in seconds."""
    proposal: str
    origin: SignedOriginLine
    unseen_lines: int | None
    """Changed lines that were never on the screen; null where no screen was watched."""
    checks: list[SignedCheckLine]
    evidence: list[SignedEvidenceLine]


class ReviewerLine(JsonDocument):
    """A signed review that covers a change."""

    signer: str
    """Whose key signed it, as the allowed signers name it."""
    key: str
    """The key's fingerprint."""
    review: SignedReviewLine


class VerifiedHunkLine(JsonDocument):
    """A hunk of a file, where its hunks were looked for one by one."""

    line: int
    """Its first line, after the commit, from 1."""
    covered: bool
    reviews: list[ReviewerLine]


class VerifiedFileLine(JsonDocument):
    """A file that a commit changes."""

    path: EncodableText
    covered: bool
    rebased: bool
    """Its hunks were reviewed on another base."""
    problem: str
    """What is not covered; empty if all is."""
    lines: list[int]
    """First lines of the hunks that are not covered."""
    reviews: list[ReviewerLine]
    """By which the whole file is covered."""
    hunks: list[VerifiedHunkLine]
    """Empty where reviews lead from the whole file before to the whole file after, and where there are none."""


class VerifiedCommitLine(JsonDocument):
    """A commit of the range."""

    commit: str
    subject: EncodableText
    author: EncodableText
    covered: bool
    exempt: str
    """Why the policy asks for no review of it; empty if it does."""
    files: list[VerifiedFileLine]


class CommitVerificationDocument(JsonDocument):
    """`signoff verify --json`."""

    base: str
    """The commit before the range; empty if the range begins with the first."""
    tip: str
    policy: str
    """Where the policy was read; empty for the default one."""
    covered: bool
    commits: list[VerifiedCommitLine]
    refused: dict[str, str]
    """Signed statements that were looked at and don't count, with the reason."""


class ActionKeysLine(JsonDocument):
    """`signoff keys --json`: a list of these."""

    id: str
    """What the keymap in the configuration names."""
    title: str
    keys: list[str]
    scope: str
    help: str


class ServerLine(JsonDocument):
    """`signoff servers --json`: a list of these."""

    name: str
    on: bool
    """Whether it is to run."""
    origin: str
    """Its program with arguments, or its address."""
    source: str
    """Where it is written down."""


class FindingLine(JsonDocument):
    """A place that a check names."""

    path: str
    line: int
    """From 1, in the file as the proposal has it."""
    text: str
    new: bool
    """False if it is said of the workspace without the proposal, too."""


class UncoveredLine(JsonDocument):
    """A changed line that the run of a check did not reach."""

    path: str
    line: int
    """From 1, in the file as the proposal has it."""


class CoverageLine(JsonDocument):
    """The coverage of the changed lines, from the report that a check wrote."""

    report: str
    """Its path."""
    ran: int
    """How many of the changed lines that it names were run."""
    missed: list[UncoveredLine]
    problem: str
    """Why it says nothing, or not all."""


class CheckResultLine(JsonDocument):
    """One check of `signoff check --json`."""

    name: str
    state: str
    """passed, failed, timed_out, or broken where it could not be run."""
    ok: bool
    worse: bool
    """Whether it speaks against the proposal: it failed, and not just so without it."""
    words: str
    """As the review shows it: `3 failed, 0 before`."""
    seconds: float
    code: int
    failures: int | None
    """How much is wrong, where it can be told."""
    before: str | None
    """The state without the proposal; null where it was not run on that."""
    failures_before: int | None
    tree: str
    """What it ran on: the id of a git tree, or in no repository a SHA-256 over all files."""
    stale: str
    """Why that is not what an approval would leave now; empty if it is."""
    findings: list[FindingLine]
    coverage: CoverageLine | None
    """null where its run wrote no report."""
    output: str


class CheckDocument(JsonDocument):
    """`signoff check ID --json`."""

    id: str
    revision: int
    ok: bool
    checks: list[CheckResultLine]


class ReproductionDocument(JsonDocument):
    """`signoff reproduce ID --json`."""

    id: str
    revision: int
    """Of the proposal, after the run."""
    command: str
    outcome: Literal["same", "differs", "replaced"]
    """`replaced`: the files have moved since the command ran, so that its new result is the proposal now."""
    files: int
    """How many files the run changed."""
    differing: list[str]
    """The paths at which the run gave something else than the proposal."""
    tree: str
    """The files on which it ran: the id of a git tree, or a SHA-256."""
    same_environment: bool
    """Whether variables and system are those of the first run."""


class EvidenceLine(JsonDocument):
    """One hunk of `signoff evidence --json`, and of a review in `signoff log` and `verify`."""

    path: str
    hunk: int
    """Its number."""
    verdict: str
    """held, load, unnoticed, red, green, flaky, or not_run."""
    words: str
    """As the review shows it: `held by tests/test_x.py::test_y`."""
    tests: list[str]
    """A few of the tests that hold it, or are red."""
    count: int
    """How many there are of them."""
    together: list[int]
    """Other hunks that were taken out with it."""
    reason: str
    """Why it was not run."""


class EvidenceDocument(JsonDocument):
    """`signoff evidence ID --json`."""

    id: str
    revision: int
    check: str
    selection: str
    """Which tests ran, in words."""
    tests: int
    """How many ran with the whole proposal, as far as the runner names them."""
    tree: str
    """What the tests ran on, with nothing taken out: the id of a git tree, or a SHA-256 over all files."""
    seconds: float
    unheld: list[int]
    """The numbers of the hunks that nothing would miss."""
    complete: bool
    """Whether every hunk that tests could notice was tried."""
    hunks: list[EvidenceLine]


class DoctorCheckLine(JsonDocument):
    """One check of `signoff doctor --json`."""

    name: str
    ok: bool | None
    """null where it could not be told."""
    detail: str


class DoctorDocument(JsonDocument):
    """`signoff doctor --json`."""

    endpoint: str
    """Empty where none was checked."""
    model: str
    ok: bool
    """Whether the endpoint can be used."""
    error: str | None = None
    """Why the endpoint was not checked, and how to name one."""
    checks: list[DoctorCheckLine]


def _file_remarks(change: FileChange) -> dict[str, Any]:
    computed = {
        "old_mode": None if change.base is None else f"{change.base.mode:o}",
        "mode": None if change.result is None else f"{change.result.mode:o}",
        "inexact": [
            InexactMatchLine(line=match.line, how=match.rung, note=match.note)
            for match in change.matches
            if not match.rung.is_exact
        ],
        "warnings": [*change.warnings, *file_cautions(change)],
        "notes": describe_facts(change),
    }
    return {name: getattr(change, name) for name in FileFactsLine.model_fields if name not in computed} | computed


def _file_detail(diff: FileDiff) -> FileDetail:
    return FileDetail(
        **_file_remarks(diff.change),
        reasons=[format_reason(reason, diff.change) for reason in diff.reasons],
        hunks=[_hunk_line(hunk, diff) for hunk in diff.change.hunks],
        conflicts=[
            ConflictLine(
                line=conflict.line,
                base=[_printable(line) for line in conflict.base],
                disk=[_printable(line) for line in conflict.disk],
                proposed=[_printable(line) for line in conflict.proposed],
            )
            for conflict in diff.change.conflicts
        ],
    )


def _hunk_line(hunk: Hunk, diff: FileDiff) -> HunkLine:
    old = diff.old[hunk.old_start : hunk.old_start + hunk.old_count]
    new = diff.new[hunk.new_start : hunk.new_start + hunk.new_count]
    return HunkLine(
        number=hunk.number,
        id=hunk.id,
        state=hunk.state,
        header=f"@@ -{_span(hunk.old_start, hunk.old_count)} +{_span(hunk.new_start, hunk.new_count)} @@",
        removed=[_printable(line) for line in old],
        added=[_printable(line) for line in new],
    )


def _span(start: int, count: int) -> str:
    """Return a range of lines as in a unified diff without context: an empty side names the line before it."""
    return f"{start + 1 if count else start},{count}"
