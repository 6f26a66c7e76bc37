"""The JSON that commands print; these models are its schema and its documentation."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from app.proposals.risk.change_summary import format_attention_reason
from app.proposals.text.file_warnings import describe_file_cautions, describe_file_facts
from app.proposals.values.models import FileChange, FileDiff, Hunk, Proposal


def _printable(line: str) -> str:
    """Replace lone surrogates, which stand for undecodable bytes and can't be encoded as JSON."""
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


EncodableText = Annotated[str, BeforeValidator(_printable)]
"""Text from git, which may contain any bytes."""


class JsonDocument(BaseModel):
    """Base model of the JSON documents that commands print on standard output, and of their parts.

    `model_validate` makes one from an object whose attributes have the names of the fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, from_attributes=True)


class ErrorDocument(JsonDocument):
    """The document that any command prints with `--json` when it fails."""

    error: str
    """The line that is also printed on standard error."""
    code: int
    """The exit code: 1 failed, 2 wrong usage, 3 refused."""
    done: list[str] = []
    """Ids of the proposals that were decided before the error, if several were named."""


class FileJson(JsonDocument):
    """A file of a proposal with the numbers of added and removed lines."""

    path: str
    op: str
    """create, edit, delete, rename or mode."""
    added: int
    removed: int


class InexactMatchJson(JsonDocument):
    """A place in a file at which the text did not match exactly."""

    line: int
    """Counted from 1."""
    how: str
    """indentation, spacing, aligned or line_hint."""
    note: str


class FileWithWarningsJson(FileJson):
    """A file, with all facts that the user must know before a decision."""

    old_path: str
    """The path before a rename; empty for other changes."""
    old_mode: str | None
    """Permission bits on disk, in octal: `644`, `4755`; null for a new file."""
    mode: str | None
    """Permission bits that an approval writes; null for a deletion."""
    binary: bool
    inexact: list[InexactMatchJson]
    rebased: bool
    """Whether the file changed on disk after the edit was made, and the edit was merged."""
    edited: bool
    """Whether the user changed the proposed text."""
    stacked_on: list[str]
    """Ids of pending proposals that it builds on."""
    warnings: list[str]
    """Warnings to read before an approval: deceptive characters, modes, inexact matches and re-bases, for example."""
    notes: list[str]
    """Sentences with less important facts."""

    @model_validator(mode="before")
    @classmethod
    def _read_change(cls, change: object) -> object:
        return _file_warning_fields(change) if isinstance(change, FileChange) else change


class ProposalOriginJson(JsonDocument):
    """The origin of a proposal; unknown fields are empty."""

    kind: str
    """model, command, program, patch, agent, disk or ref."""
    agent: str
    """claude, codex, gemini, …"""
    model: str
    host: str
    """Host and port of the endpoint of signoff's own model."""
    session: str
    """The agent's own id of the session."""
    prompt: str
    """The agent's own id of the prompt or turn."""
    ref: str
    """The commit, range or pull request."""


class WrittenIgnoredFilesJson(JsonDocument):
    """Git-ignored files that a command has written, without review."""

    path: str
    """A file, or a folder with a slash at the end; for an ignored folder only the folder itself."""
    written: int
    """Number of files."""
    removed: int


class CommandRecipeJson(JsonDocument):
    """A command whose output is the whole proposal, with all facts that are needed to repeat it."""

    command: str
    folder: str
    """Its working directory, relative to the workspace."""
    seconds: float
    """Its time limit."""
    environment: str
    """SHA-256 of its environment variables and of the system."""
    tree: str
    """The files before the command: the id of a git tree, or a SHA-256; empty if unknown."""
    reproduced: int
    """The revision that a second run reproduced byte for byte; in a decision, 0 for another revision."""


class HunksNotStagedJson(JsonDocument):
    """Hunks of a proposal's source that it leaves out: approved before, pending elsewhere, or there already."""

    hunks: int
    why: Literal["signed", "waiting", "there"]
    """They were approved before; they are pending in another proposal; the workspace has them already."""
    proposals: list[str]
    """The proposals in which they were approved, or are pending."""


class CommonProposalFieldsJson(JsonDocument):
    """The fields of a proposal that both its list entry and its details contain."""

    id: str
    state: str
    """pending, partly_approved, applied, denied, stale, superseded, undone or failed."""
    summary: str
    origin: ProposalOriginJson
    on_disk: bool
    """Whether its changes are on disk already: an approval keeps them, a denial reverts them."""
    created: float
    """Unix time in seconds."""
    revision: int
    """Grows whenever the content changes that an approval would write."""


class ProposalJson(CommonProposalFieldsJson):
    """A proposal in the list of `signoff proposals --json`."""

    files: list[FileWithWarningsJson]
    ignored: list[WrittenIgnoredFilesJson]
    """Ignored files that its commands have written already."""
    left_out: list[HunksNotStagedJson]
    """Hunks of its source that are left out."""


class FinishedCheckJson(JsonDocument):
    """A check that has ended."""

    name: str
    state: str
    """passed, failed, timed_out or broken."""
    words: str
    """`3 failed, 0 before`."""


class ProposalWatchJson(JsonDocument):
    """A line of `signoff proposals --json --watch`; fields with default values are left out."""

    change: Literal["waiting", "staged", "changed", "decided", "checks", "question", "answered"]
    """`waiting` for the proposals at the start; then the kind of each change."""
    waiting: int
    """Number of pending proposals."""
    proposal: ProposalJson | None = None
    decision: str = ""
    """approved, partly_approved, denied, edited, undone, redone or reopened."""
    id: str = ""
    """Id of the proposal that was checked."""
    checks: list[FinishedCheckJson] = []
    session: str = ""
    """Id of the session in which the model has asked."""
    text: str = ""
    """The question."""
    options: list[str] = []


class HunkJson(JsonDocument):
    """A hunk of a proposal."""

    number: int
    """Its number for `--hunks`."""
    id: str
    state: str
    """pending, applied or denied."""
    header: str
    """`@@ -3,2 +3,4 @@`, without context lines."""
    removed: list[str]
    added: list[str]


class ConflictJson(JsonDocument):
    """A place that the proposal and the disk, or an older proposal, change differently; at most 60 lines."""

    line: int
    """The line in the current file, from 1."""
    base: list[str]
    disk: list[str]
    proposed: list[str]


class FileWithHunksJson(FileWithWarningsJson):
    """A file with its hunks."""

    reasons: list[str]
    """Reasons to read it first or last, as sentences: removed tests, new calls that run code, a lock file."""
    hunks: list[HunkJson]
    conflicts: list[ConflictJson]
    """For a stale proposal: the places that both the file on disk and the proposal have changed."""


class ProposalWithHunksJson(CommonProposalFieldsJson):
    """A proposal with the hunks of its files: `signoff show ID --json`."""

    reason: str
    """Why it is stale, failed or superseded."""
    session: str
    order: list[str]
    """The paths in the order of the review; empty, for the order by path, if an earlier version staged it."""
    files: list[FileWithHunksJson]
    ignored: list[WrittenIgnoredFilesJson]
    """Ignored files that its commands have written already."""

    @classmethod
    def from_proposal(cls, proposal: Proposal, diffs: list[FileDiff]) -> "ProposalWithHunksJson":
        """Return the details of a proposal and its diffs."""
        facts = {name: getattr(proposal, name) for name in cls.model_fields if name != "files"}
        return cls(**facts, files=[_file_with_hunks(diff) for diff in diffs])


class DecisionDocument(JsonDocument):
    """The result of `signoff approve`, `deny`, `undo` or `redo` with `--json`; a list for several ids."""

    id: str
    state: str
    files: list[FileJson]
    changed: list[str]
    """Ids of other proposals that were re-based or turned stale."""
    warning: str = ""
    """Why the decision, which is in force, could not be recorded or committed; empty if it was. Also on standard
    error.
    """


class ProposalPushDocument(JsonDocument):
    """Where `signoff push ID --json` has pushed a proposal: remote, reference and commit."""

    id: str
    remote: str
    ref: str
    """`refs/signoff/P7`."""
    commit: str
    signed: bool
    """Whether the user's signed review was pushed with it."""


class TokenUsageJson(JsonDocument):
    """Tokens of all requests of a turn, as the server counted them."""

    input: int
    """Includes cached tokens."""
    cached: int
    output: int
    cost: float | None
    """US dollars; null if no price is known."""


class SideAnswerDocument(JsonDocument):
    """A side question and the model's answer: `signoff ask --json`."""

    proposal: str
    path: str
    hunk: int | None
    """The hunk's number; null if the question was about the file."""
    question: str
    text: str
    """The model's answer, as Markdown."""
    state: str
    """complete, interrupted, truncated or failed."""
    note: str
    """The error, or what was ignored, as one line; empty if there is none."""
    spent: TokenUsageJson


class UnavailableServerJson(JsonDocument):
    """An MCP server whose tools the model could not use."""

    name: str
    state: str
    """`starting`, `failed` or `sign in`."""
    reason: str


class HeadlessRunDocument(JsonDocument):
    """The answer and the end of a turn, with the proposals it staged: `signoff run --json`."""

    session: str
    text: str
    """The model's answer."""
    stopped: Literal["answer", "staged", "question", "refused", "aborted", "failed"]
    limit: Literal["cost", "time", "steps"] | None
    """The limit that ended the turn."""
    question: str | None
    options: list[str]
    """The options of the question."""
    proposals: list[str]
    """Ids of the proposals that this turn staged."""
    error: str | None
    """The error; with `staged`, why the model's closing words are missing."""
    spent: TokenUsageJson
    servers: list[UnavailableServerJson]
    """MCP servers that failed or were still starting at the end."""


class ListedSessionJson(JsonDocument):
    """A session in the list of `signoff sessions --json`."""

    id: str
    title: str
    model: str
    created: float
    updated: float
    pinned: bool


class SessionImportRepairJson(JsonDocument):
    """A kind of repair or omission in an imported session, and how often it was needed."""

    what: str
    count: int


class SessionImportDocument(JsonDocument):
    """The imported session and the repairs that were made: `signoff import FILE --json`."""

    session: str
    """The id for `signoff --session`."""
    title: str
    program: str
    """Claude Code, Codex, OpenAI messages or Anthropic messages."""
    messages: int
    """Messages of the user."""
    responses: int
    """Responses of the model."""
    results: int
    """Results of tool calls."""
    repairs: list[SessionImportRepairJson]


class SearchHitJson(JsonDocument):
    """A place where `signoff search` found the text: an entry of its JSON list, the newest first."""

    session: str
    title: str
    event: int
    """The event's id in `signoff export SESSION --format json`."""
    time: float
    kind: Literal["you", "model", "question", "proposal", "decision", "file", "asked", "answered"]
    """`asked` and `answered` are side questions and their answers."""
    text: str


class DecisionCommandCallerJson(JsonDocument):
    """The caller of a command that decided: terminal, parent process and agent, as far as they are known."""

    stdin_is_terminal: bool
    stdout_is_terminal: bool
    parent: str
    """The name of the parent process; empty if the system does not provide it."""
    agent_variables: list[str]
    """The names of the set variables by which agents mark their shells."""


class LoggedDecisionJson(JsonDocument):
    """A recorded decision of the user: in the list of `signoff log --json`."""

    time: float
    """Unix time in seconds."""
    proposal: str
    """The proposal's id: `P7`."""
    decision: str
    """approved, partly_approved, denied, undone, redone, reopened or edited."""
    session: str
    """The session that made the proposal; empty if none did."""
    feedback: str
    """The user's feedback."""
    words_lost: bool
    """Whether feedback was recorded, but the stored text differs; `signoff log --verify` shows the difference."""
    files: list[str]
    """The paths of the decision."""
    origin: ProposalOriginJson | None
    """null for decisions of earlier versions."""
    caller: DecisionCommandCallerJson | None
    """How the deciding command was called; null for the app, and for decisions of earlier versions."""
    recipe: CommandRecipeJson | None
    """The command that made the whole proposal; null if no single command did, and for earlier versions."""
    ignored: list[WrittenIgnoredFilesJson]
    """Ignored files that the proposal's commands had written; empty for decisions of earlier versions."""


class AgentHookStateJson(JsonDocument):
    """An external agent and the state of signoff's hook in it: in the list of `signoff doors --json`."""

    agent: str
    program: str | None
    """Path of the installed program; null if it is not installed."""
    version: str
    """Its release; empty if it prints none."""
    hooked: dict[str, str]
    """The settings files that contain signoff's hook, each with the command."""
    unreadable: dict[str, str]
    """Settings files that can't be read, each with the reason."""
    open: list[str]
    """If it is hooked in: releases and settings that let calls bypass the hook, a line each."""
    incomplete: list[str]
    """Settings that lack events which this release uses, a line each."""
    waiting: str
    """Id of a pending proposal that would change the agent's settings in the project; empty if there is none."""


class HookTrialJson(JsonDocument):
    """Whether a hook held an agent's trial edit: in the list of `signoff doors --try --json`."""

    agent: str
    program: str | None
    """Path of the installed program; null if it is not installed."""
    edit: str
    """`an edit`, or the special way of editing."""
    verdict: Literal["held", "not held", "not tried"]
    why: str
    """The observation, as one line."""


class ChangedOrMissingEntryJson(JsonDocument):
    """An entry of the record that was changed or is missing."""

    number: int
    why: str


class FileChangedSinceApprovalJson(JsonDocument):
    """A file that differs from the content that was last approved."""

    path: str
    proposal: str
    """The last proposal that wrote it."""


class RecordVerificationDocument(JsonDocument):
    """The verification of the decision record: `signoff log --verify --json`; exit code 3 if it failed."""

    entries: int
    """Number of decisions in the record, broken ones included."""
    head: str
    """SHA-256 of the last entry; a copy kept elsewhere reveals a record that was rewritten."""
    broken: list[ChangedOrMissingEntryJson]
    differences: list[str]
    """Differences between the record and the data of the app, doors or exports: a sentence each."""
    unknown: list[str]
    """If the record is empty: commits whose trailers name a review; ids, the newest first, at most 20."""
    files: int
    """Number of files that decisions have written."""
    changed_since: list[FileChangedSinceApprovalJson]
    statements: int
    """Number of valid signed statements in git's notes."""
    bad_statements: dict[str, str]
    """Invalid signed statements, by id, with the reason."""


class GitNotesDocument(JsonDocument):
    """What a written git note covers: commits, decisions and files: `signoff notes --json`."""

    commit: str
    """The last commit that got a note; empty if none got one (`--if-reviewed`)."""
    commits: int
    decisions: int
    files: int
    lines: int
    """Number of lines that the note in git-ai's format attributes; 0 without `--git-ai`."""
    signed: str
    """The id of the signed statement; empty if git has no signing key."""


class SignedOriginJson(JsonDocument):
    """The origin of a signed change: its kind, the agent and the model."""

    kind: str
    agent: str
    model: str


class SignedCheckJson(JsonDocument):
    """The result of a check when the user decided."""

    name: str
    state: str


class SignedHunkTestEvidenceJson(JsonDocument):
    """The evidence of a hunk at the time of the decision."""

    path: str
    hunk: int
    verdict: str
    """As in `signoff evidence --json`."""
    tests: list[str]
    check: str


class SignedApprovalJson(JsonDocument):
    """A person's approval of a proposal, as a signed statement contains it."""

    reviewer: str
    time: int
    """Unix time in seconds."""
    proposal: str
    origin: SignedOriginJson
    unseen_lines: int | None
    """Number of changed lines that were never on the screen; null if this was not recorded."""
    checks: list[SignedCheckJson]
    evidence: list[SignedHunkTestEvidenceJson]


class CoveringReviewJson(JsonDocument):
    """A signed review that covers a change."""

    signer: str
    """The signer, as the allowed signers name the owner of the key."""
    key: str
    """The key's fingerprint."""
    review: SignedApprovalJson


class VerifiedHunkJson(JsonDocument):
    """A hunk of a file, if the file's hunks were verified one by one."""

    line: int
    """Its first line after the commit, from 1."""
    covered: bool
    reviews: list[CoveringReviewJson]


class FileReviewCoverageJson(JsonDocument):
    """A file that a commit changes, and whether reviews cover the change."""

    path: EncodableText
    covered: bool
    rebased: bool
    """Whether its hunks were reviewed on another base."""
    problem: str
    """The part that is not covered; empty if all is."""
    lines: list[int]
    """First lines of the hunks that are not covered."""
    reviews: list[CoveringReviewJson]
    """Reviews that cover the whole file."""
    hunks: list[VerifiedHunkJson]
    """Empty if reviews cover the whole change of the file, or if there are none."""


class CommitReviewCoverageJson(JsonDocument):
    """A commit of the range, and whether reviews cover its changes."""

    commit: str
    subject: EncodableText
    author: EncodableText
    covered: bool
    exempt: str
    """Why the policy requires no review of it; empty if it does."""
    files: list[FileReviewCoverageJson]


class CommitVerificationDocument(JsonDocument):
    """Whether reviews cover the commits of a range: `signoff verify --json`."""

    base: str
    """The commit before the range; empty if the range starts with the first commit."""
    tip: str
    policy: str
    """The file or commit that contains the policy; empty for the default one."""
    covered: bool
    commits: list[CommitReviewCoverageJson]
    refused: dict[str, str]
    """Signed statements that do not count, with the reason."""


class ActionKeysJson(JsonDocument):
    """An action with its keys: in the list of `signoff keys --json`."""

    id: str
    """Its id in the keymap of the configuration."""
    title: str
    keys: list[str]
    scope: str
    help: str


class ConfiguredServerJson(JsonDocument):
    """A configured MCP server: in the list of `signoff servers --json`."""

    name: str
    on: bool
    """Whether it is enabled."""
    origin: str
    """Its program with arguments, or its address."""
    source: str
    """The file that configures it."""


class CheckFindingJson(JsonDocument):
    """A problem that a check reports at a line of a file."""

    path: str
    line: int
    """From 1, in the file with the proposal applied."""
    text: str
    new: bool
    """False if the check also reports it without the proposal."""


class UnexecutedLineJson(JsonDocument):
    """A changed line that a check did not run."""

    path: str
    line: int
    """From 1, in the file with the proposal applied."""


class CheckCoverageJson(JsonDocument):
    """The coverage of the changed lines, from the report that a check wrote."""

    report: str
    """The report's path."""
    ran: int
    """Number of changed lines in the report that were run."""
    missed: list[UnexecutedLineJson]
    problem: str
    """Why the report can't be used, or not completely."""


class CheckResultJson(JsonDocument):
    """One check of `signoff check --json`."""

    name: str
    state: str
    """passed, failed, timed_out, or broken if it could not be run."""
    ok: bool
    worse: bool
    """Whether it is a reason against the proposal: it failed, and not equally without the proposal."""
    words: str
    """The text of the review: `3 failed, 0 before`."""
    seconds: float
    code: int
    failures: int | None
    """Number of failures; null if unknown."""
    before: str | None
    """The state without the proposal; null if it was not run without it."""
    failures_before: int | None
    tree: str
    """The content that was checked: the id of a git tree, or outside a repository a SHA-256 over all files."""
    stale: str
    """Why an approval would leave other content now; empty if it would not."""
    findings: list[CheckFindingJson]
    coverage: CheckCoverageJson | None
    """null if the check wrote no report."""
    output: str


class CheckDocument(JsonDocument):
    """The results of a proposal's checks: `signoff check ID --json`."""

    id: str
    revision: int
    ok: bool
    checks: list[CheckResultJson]


class ReproductionDocument(JsonDocument):
    """The result of running a proposal's command again: `signoff reproduce ID --json`."""

    id: str
    revision: int
    """The proposal's revision after the run."""
    command: str
    outcome: Literal["same", "differs", "replaced"]
    """`replaced`: the files had changed since the first run, so the new result has replaced the proposal."""
    files: int
    """Number of files that the run changed."""
    differing: list[str]
    """The paths at which the result differs from the proposal."""
    tree: str
    """The files before the run: the id of a git tree, or a SHA-256."""
    same_environment: bool
    """Whether environment variables and system are those of the first run."""


class HunkTestEvidenceJson(JsonDocument):
    """Whether tests notice one hunk's removal: in `signoff evidence --json`, and reviews of `log` and `verify`."""

    path: str
    hunk: int
    """The hunk's number."""
    verdict: str
    """held, load, unnoticed, red, green, flaky, or not_run."""
    words: str
    """The text of the review: `held by tests/test_x.py::test_y`."""
    tests: list[str]
    """Some of the tests that hold it, or are red."""
    count: int
    """Number of all such tests."""
    together: list[int]
    """Other hunks that were removed together with it."""
    reason: str
    """Why it was not tested."""


class EvidenceDocument(JsonDocument):
    """Which hunks of a proposal tests notice when they are left out: `signoff evidence ID --json`."""

    id: str
    revision: int
    check: str
    selection: str
    """Which tests ran, in words."""
    tests: int
    """Number of tests that ran with the whole proposal, as far as the runner names them."""
    tree: str
    """The content with the whole proposal: the id of a git tree, or a SHA-256 over all files."""
    seconds: float
    unheld: list[int]
    """The numbers of the hunks whose removal no test notices."""
    complete: bool
    """Whether all hunks that tests could notice were tested."""
    hunks: list[HunkTestEvidenceJson]


class DoctorCheckJson(JsonDocument):
    """One check of `signoff doctor --json`."""

    name: str
    ok: bool | None
    """null if unknown."""
    detail: str


class DoctorDocument(JsonDocument):
    """The checks of endpoint and installation: `signoff doctor --json`."""

    endpoint: str
    """Empty if no endpoint was checked."""
    model: str
    ok: bool
    """Whether the endpoint can be used."""
    error: str | None = None
    """Why the endpoint was not checked, and how to configure one."""
    checks: list[DoctorCheckJson]


def _file_warning_fields(change: FileChange) -> dict[str, Any]:
    computed = {
        "old_mode": None if change.base is None else f"{change.base.mode:o}",
        "mode": None if change.result is None else f"{change.result.mode:o}",
        "inexact": [
            InexactMatchJson(line=match.line, how=match.rung, note=match.note)
            for match in change.matches
            if not match.rung.is_exact
        ],
        "warnings": [*change.warnings, *describe_file_cautions(change)],
        "notes": describe_file_facts(change),
    }
    return {
        name: getattr(change, name) for name in FileWithWarningsJson.model_fields if name not in computed
    } | computed


def _file_with_hunks(diff: FileDiff) -> FileWithHunksJson:
    return FileWithHunksJson(
        **_file_warning_fields(diff.change),
        reasons=[format_attention_reason(reason, diff.change) for reason in diff.reasons],
        hunks=[_hunk_json(hunk, diff) for hunk in diff.change.hunks],
        conflicts=[
            ConflictJson(
                line=conflict.line,
                base=[_printable(line) for line in conflict.base],
                disk=[_printable(line) for line in conflict.disk],
                proposed=[_printable(line) for line in conflict.proposed],
            )
            for conflict in diff.change.conflicts
        ],
    )


def _hunk_json(hunk: Hunk, diff: FileDiff) -> HunkJson:
    old = diff.old[hunk.old_start : hunk.old_start + hunk.old_count]
    new = diff.new[hunk.new_start : hunk.new_start + hunk.new_count]
    return HunkJson(
        number=hunk.number,
        id=hunk.id,
        state=hunk.state,
        header=f"@@ -{_range(hunk.old_start, hunk.old_count)} +{_range(hunk.new_start, hunk.new_count)} @@",
        removed=[_printable(line) for line in old],
        added=[_printable(line) for line in new],
    )


def _range(start: int, count: int) -> str:
    """Return a range of lines as in a unified diff without context: an empty side names the line before it."""
    return f"{start + 1 if count else start},{count}"
