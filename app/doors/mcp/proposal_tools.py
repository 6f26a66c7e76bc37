"""The tools of the server: propose edits, wait for the user, report the decision.

Imported at the first call, which also opens the workspace. An error of either is the answer to that call, and the
next call tries again.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.agent.gate import UnansweredFeedback
from app.agent.interventions import repeated_denials_note
from app.config.settings import ConfigError
from app.doors.agent_decisions import (
    ProposalDecisionStatus,
    read_decision_report,
    read_decision_status,
    wait_for_decision,
    wait_until_lines_are_read,
)
from app.doors.mcp.door_server import MAX_WAIT_SECONDS, McpCaller, RunningToolCall
from app.proposals.locate.matching import TextReplacement
from app.proposals.stack.draft import Draft
from app.proposals.text.diff import diff_lines
from app.proposals.text.document import Document
from app.proposals.text.hunks import split_document_lines
from app.proposals.values.models import EditReport, HunkState, Proposal, ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.pending_paths import abbreviate_proposal_ids
from app.proposals.values.proposal_errors import (
    MAX_PROPOSAL_FILES,
    EditRefused,
    ProposalError,
    TooManyUnreadLinesToStage,
)
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.runtime.unfinished_work import recover_interrupted_work_and_notify
from app.storage import StorageError
from app.storage.captured_edit_store import CapturedAgentTurn
from app.storage.process_coordination import DecisionReportClaim
from app.text.quantities import format_count
from app.tools.base.contract import ToolError, escape_surrogates, repair_and_validate_arguments
from app.tools.base.targets import (
    find_secret_files,
    make_staged_result_json,
    normalize_workspace_path,
    refusals_as_tool_errors,
)
from app.workspace.git_repository import folder_path_in_repository
from app.workspace.path_rules import WorkspaceError
from app.workspace.secrets import secret_reason

_WaitSeconds = Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS)]


class _ToolArguments(BaseModel):
    """Unknown argument names are errors that the model can correct."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ReplacementArguments(_ToolArguments):
    """One text replacement in the arguments of `propose_edit`; its fields are those of `TextReplacement`."""

    old: str
    new: str
    replace_all: bool = False
    inside_words: bool = False
    line: int | None = Field(default=None, ge=1)


class FileChangeArguments(_ToolArguments):
    """The change of one file in the arguments of `propose_edit`: edits, whole content, deletion or new path."""

    path: str
    edits: list[ReplacementArguments] | None = Field(default=None, min_length=1)
    content: str | None = None
    delete: bool = False
    new_path: str | None = None

    @model_validator(mode="after")
    def _require_one_kind_of_change(self) -> "FileChangeArguments":
        asked = [name for name in ("edits", "content") if getattr(self, name) is not None]
        if self.delete and (asked or self.new_path is not None):
            raise ValueError(f"{self.path}: `delete` goes with nothing else")
        if len(asked) == 2:
            raise ValueError(f"{self.path}: give `edits` or `content`, not both")
        if not (asked or self.delete or self.new_path is not None):
            raise ValueError(f"{self.path}: give `edits`, `content`, `delete` or `new_path`")
        return self


class _ProposingArguments(_ToolArguments):
    summary: str | None = None
    wait_seconds: _WaitSeconds | None = None
    on_top_of: str | None = None


class ProposeEditArguments(_ProposingArguments):
    """Arguments of `propose_edit`."""

    files: list[FileChangeArguments] = Field(min_length=1, max_length=MAX_PROPOSAL_FILES)


class ProposePatchArguments(_ProposingArguments):
    """Arguments of `propose_patch`."""

    patch: str


class ProposalStatusArguments(_ToolArguments):
    """Arguments of `proposal_status`."""

    proposal: str | None = None
    wait_seconds: _WaitSeconds | None = None


MAX_QUOTED_CHARACTERS = 24_000
"""Maximum characters of all quoted files together."""


def format_current_texts_of_written_files(runtime: OpenWorkspace, proposal: Proposal) -> str:
    """Return the present text of the files that approved changes were written to; empty if there are none."""
    room = MAX_QUOTED_CHARACTERS
    parts: list[str] = []
    for change in proposal.files:
        states = {change.state, *(hunk.state for hunk in change.hunks)}
        if HunkState.APPLIED not in states or change.result is None:
            continue
        try:
            data = runtime.workspace.read(change.path)
        except (OSError, WorkspaceError):
            continue
        document = Document(data)
        if document.is_binary or secret_reason(change.path, data):
            continue
        texts = document.line_texts
        if sum(len(text) + 1 for text in texts) > room:
            parts.append(f"{change.path} has {format_count(len(texts), 'line')} now; read what you need of it.")
            continue
        room -= sum(len(text) + 1 for text in texts)
        parts.append("\n".join([f"{change.path} reads now:", *texts]))
    return "\n\n".join(parts)


_DENIED_WITHOUT_FEEDBACK = (
    "Refused, and nothing of this call was staged: the user denied {id} without a reason. End your turn now, and ask "
    "what the change should be."
)
EDIT_REFUSED_MESSAGE = (
    "Refused, and nothing of this call was staged: {id}, which you proposed before, awaits the user's decision. "
    "Nothing that awaits it is on disk. End your turn now and say in a few sentences what {id} does and what to look "
    "at. Don't call tools; don't make the change in another way. proposal_status gives the decision once it is made."
)


def staging_refusal_reason(
    last_turn: CapturedAgentTurn, caller: McpCaller, on_top_of: str, status: ProposalDecisionStatus
) -> str:
    """Return why a call may not stage an edit; empty if it may.

    Args:
        last_turn: The turn in which the agent's session staged its last proposal.
        caller: The calling agent. If its turn differs from that of the last proposal, the user has started a new one.
        on_top_of: The proposal on which the new edit builds, for an agent that sends no turn ids.
        status: The status of the last proposal.
    """
    if caller.turn and caller.turn != last_turn.prompt:
        return ""
    if status.is_decided:
        # A denial without feedback ends the turn; an agent that sends no turn ids may be in the next one.
        return (
            _DENIED_WITHOUT_FEEDBACK.format(id=last_turn.proposal)
            if status.is_denial_without_new_feedback and caller.turn
            else ""
        )
    if not caller.turn and on_top_of.strip().upper() == last_turn.proposal:
        return ""
    return EDIT_REFUSED_MESSAGE.format(id=last_turn.proposal)


_MAX_PENDING_LINES = 40
"""Pending lines that one refusal quotes at most."""


def add_file_changes_to_draft(
    runtime: OpenWorkspace, draft: Draft, files: Sequence[FileChangeArguments], own_proposals: Collection[str]
) -> str:
    """Put changes of files into an empty draft; return notes for the agent.

    Args:
        own_proposals: Proposals of the same agent.

    Raises:
        ToolError: One of the changes can't be made; discard the draft.
    """
    named_before: set[str] = set()
    notes: list[str] = []
    for file in files:
        path = normalize_workspace_path(runtime.workspace, file.path)
        if path in named_before:
            raise ToolError(
                f"Nothing was staged: {path} is named twice. Put all that is to become of it in one entry."
            )
        named_before.add(path)
        with _explain_refusals(runtime, draft, path):
            notes += [
                report.text for report in _change_file(runtime, draft, path, file, own_proposals) if report.text
            ]
    return "\n".join(notes)


def add_patch_to_draft(runtime: OpenWorkspace, draft: Draft, text: str) -> str:
    """Put a patch into an empty draft; return notes for the agent. Raises ToolError; then discard the draft."""
    with refusals_as_tool_errors():
        # An agent's patch may be relative to the repository, of which the workspace may be a folder.
        patch = draft.parse_patch(text, folder_path_in_repository(runtime.workspace.root))
        if len(patch.paths) > MAX_PROPOSAL_FILES:
            raise ToolError(
                f"Nothing was staged: the patch names more than {MAX_PROPOSAL_FILES:,} files. Propose fewer at once."
            )
        paths = [runtime.workspace.normalize_path(path) for path in patch.paths]
    with _explain_refusals(runtime, draft, *paths):
        return draft.apply_patch(patch).text


def _change_file(
    runtime: OpenWorkspace, draft: Draft, path: str, file: FileChangeArguments, own: Collection[str]
) -> Iterator[EditReport]:
    if file.delete:
        yield draft.delete(path)
        return
    if file.content is not None:
        pending = [name for name in draft.read(path).pending if name not in own]
        if pending:
            raise ToolError(
                f"Nothing was staged: {path} has pending changes of {abbreviate_proposal_ids(pending)}, "
                "which the whole text would take back. Send `edits`, which build on them, or end your turn until the "
                "user has decided."
            )
    if file.new_path is not None:
        target = normalize_workspace_path(runtime.workspace, file.new_path)
        yield draft.rename(path, target)
        path = target
    if file.edits is not None:
        yield draft.edit(path, [TextReplacement(**dict(edit)) for edit in file.edits])
    elif file.content is not None:
        yield draft.write(path, file.content)


@contextmanager
def _explain_refusals(runtime: OpenWorkspace, draft: Draft, *paths: str) -> Iterator[None]:
    """Turn a refusal into a ToolError that quotes no secret and shows pending text that is not on disk."""
    try:
        with refusals_as_tool_errors():
            yield
    except ToolError as error:
        if not isinstance(error.__cause__, EditRefused):
            raise
        fresh = runtime.service.new_draft("")
        if secrets := find_secret_files(runtime.workspace, fresh, paths):
            path, reason = secrets[0]
            raise ToolError(
                f"Nothing was staged: the change does not fit {path}. It looks like a secret ({reason}), so nothing "
                "of it is quoted here. Read it again by your own means, or give its whole text as `content`."
            ) from error
        with refusals_as_tool_errors():
            notes = [note for path in paths if (note := _pending_file_text(runtime, fresh, path))]
        which = f" {paths[0]}:" if len(paths) == 1 else ""
        raise ToolError("\n".join([f"Nothing was staged.{which} {error}", *notes])) from error


def _pending_file_text(runtime: OpenWorkspace, draft: Draft, path: str) -> str:
    """Return the pending changes of a file as text, because an agent that reads the disk does not see them."""
    file = draft.read(path)
    if not file.pending:
        return ""
    ids = abbreviate_proposal_ids(file.pending)
    note = f"New edits of {path} build on the pending changes of {ids}, which are not on disk yet."
    if file.content is None:
        return f"{note} With them it is gone."
    try:
        disk = runtime.workspace.read(path)
    except FileNotFoundError:
        disk = b""
    after = Document(file.content)
    changes = diff_lines(split_document_lines(disk), split_document_lines(file.content))
    numbers = [number for change in changes for number in range(change.new_start, change.new_end)]
    if after.is_binary or not numbers:
        return note
    lines = [f"{number + 1:>6}|{after.line_texts[number]}" for number in numbers[:_MAX_PENDING_LINES]]
    if len(numbers) > _MAX_PENDING_LINES:
        lines.append(f"and {format_count(len(numbers) - _MAX_PENDING_LINES, 'more line')}")
    return "\n".join([f"{note} With them it reads:", *lines])


MAX_WAITING_PROPOSALS = 100
"""Maximum number of pending proposals of agents in a workspace."""
PROGRESS_SECONDS = 5.0
"""Seconds between two progress messages of a waiting call."""
_STILL_PENDING_MESSAGE = (
    "{id} awaits the user's decision in signoff. {written} End your turn now and say in a few sentences what the "
    "change does and what to look at; don't make it in another way. proposal_status gives the decision, with the "
    "user's words, once there is one."
)
_TOO_MANY_WAITING_MESSAGE = (
    "Refused, and nothing of this call was staged: {count} proposals of agents await the user's decision, the most "
    "that there may be. End your turn now, and ask the user to decide on some of them."
)
_READ_FEEDBACK_FIRST = (
    "Nothing of this call was staged: the user has decided on what you proposed before, in words that you have not "
    "read yet. Read them, and propose again what still makes sense."
)
_NO_REASON = "The user gave no reason. End your turn now, and ask what the change should be."


class _ToolAnswer(NamedTuple):
    """The text that the model reads, and whether the call failed."""

    text: str
    failed: bool = False


class ProposalTools:
    """The tools for one workspace and one agent; `call` may run on many threads at the same time.

    Args:
        wait_seconds: Default wait of a proposing call.
        log: Receives a line for the host's log.
    """

    def __init__(self, root: Path, wait_seconds: int, log: Callable[[str], None]) -> None:
        self._root = root
        self._wait_seconds = wait_seconds
        self._log = log
        self._runtime: OpenWorkspace | None = None
        self._opening_lock = threading.Lock()
        self._staging_lock = threading.Lock()

    def call(
        self, name: str, arguments: dict[str, object], caller: McpCaller, running: RunningToolCall
    ) -> tuple[str, bool]:
        """Run a tool to its end; return the text for the model, and whether the call failed. Never raises."""
        try:
            answer = self._run_tool(name, arguments, caller, running)
        except (ToolError, ProposalError) as error:
            answer = _ToolAnswer(str(error), failed=True)
        except (StorageError, ConfigError, WorkspaceError, OSError) as error:
            answer = _ToolAnswer(f"signoff can't do it, and nothing was staged or written: {error}", failed=True)
        except Exception as error:
            # A defect: report it to the waiting agent, and to the user in the host's server log.
            problem = f"{name} failed: {type(error).__name__}: {error}"
            self._log(problem)
            answer = _ToolAnswer(f"signoff can't do it, and nothing was written. {problem}", failed=True)
        return escape_surrogates(answer.text), answer.failed

    def close(self) -> None:
        """Close the workspace; no call may be running."""
        if self._runtime is not None:
            self._runtime.close()

    def _run_tool(
        self, name: str, given: dict[str, object], caller: McpCaller, running: RunningToolCall
    ) -> _ToolAnswer:
        match name:
            case "propose_edit":
                edit = repair_and_validate_arguments(name, ProposeEditArguments, given)
                return self._propose_within_budget(
                    lambda runtime, draft, own: add_file_changes_to_draft(runtime, draft, edit.files, own),
                    edit,
                    caller,
                    running,
                )
            case "propose_patch":
                patch = repair_and_validate_arguments(name, ProposePatchArguments, given)
                return self._propose_within_budget(
                    lambda runtime, draft, own: add_patch_to_draft(runtime, draft, patch.patch),
                    patch,
                    caller,
                    running,
                )
            case _:
                return self._report_status(
                    repair_and_validate_arguments(name, ProposalStatusArguments, given), caller, running
                )

    def _opened_runtime(self) -> OpenWorkspace:
        with self._opening_lock:
            if self._runtime is None:
                runtime = open_workspace(self._root)
                try:
                    recover_interrupted_work_and_notify(runtime, self._log)
                except BaseException:
                    runtime.close()
                    raise
                self._runtime = runtime
            return self._runtime

    def _propose_within_budget(
        self,
        fill: Callable[[OpenWorkspace, Draft, Collection[str]], str],
        arguments: ProposeEditArguments | ProposePatchArguments,
        caller: McpCaller,
        running: RunningToolCall,
    ) -> _ToolAnswer:
        seconds = self._wait_seconds if arguments.wait_seconds is None else arguments.wait_seconds
        left, until = float(seconds), time.monotonic() + seconds
        while True:
            try:
                return self._propose_once(fill, arguments, caller, running, left)
            except TooManyUnreadLinesToStage as full:
                left = until - time.monotonic()
                if left <= 0 or running.stop.is_set():
                    return _ToolAnswer(f"Refused, and nothing of this call was staged. {full}", failed=True)
            self._wait_for_reader(seconds, left, running)
            left = max(0.0, until - time.monotonic())

    def _wait_for_reader(self, seconds: float, left: float, running: RunningToolCall) -> None:
        """Report progress to the host, and wait a few seconds until the user has read enough for another edit."""
        runtime = self._opened_runtime()
        running.report_progress(
            round(seconds - left, 3), seconds, "waits until the reviewer has read what waits in signoff"
        )
        wait_until_lines_are_read(
            runtime.seen_lines_store,
            runtime.signal,
            runtime.unread_limit(),
            min(PROGRESS_SECONDS, left),
            running.stop,
        )

    def _propose_once(
        self,
        fill: Callable[[OpenWorkspace, Draft, Collection[str]], str],
        arguments: ProposeEditArguments | ProposePatchArguments,
        caller: McpCaller,
        running: RunningToolCall,
        seconds: float,
    ) -> _ToolAnswer:
        """Stage a call and wait for its decision. Raises TooManyUnreadLinesToStage."""
        runtime = self._opened_runtime()
        with self._staging_lock:
            if running.cancelled:
                return _ToolAnswer("Nothing was staged: the call was cancelled.", failed=True)
            turns = runtime.captured_edits.turns_of_session(caller.agent, caller.session)
            if turns:
                if words := self._unread_feedback(runtime, turns, running):
                    return _ToolAnswer(words, failed=True)
                status = read_decision_status(runtime, turns[-1].proposal)
                if no := staging_refusal_reason(turns[-1], caller, arguments.on_top_of or "", status):
                    return _ToolAnswer(no, failed=True)
            count = sum(proposal.origin.kind is OriginKind.AGENT for proposal in runtime.service.pending())
            if count >= MAX_WAITING_PROPOSALS:
                return _ToolAnswer(_TOO_MANY_WAITING_MESSAGE.format(count=count), failed=True)
            own = [turn.proposal for turn in turns]
            proposal, notes = self._stage(runtime, fill, arguments.summary or "", caller, own)
        report = EditReport(tuple(change.stat for change in proposal.files), notes, "")
        staged = f"{make_staged_result_json(proposal.id, report)}\n{_describe_pending(proposal)}"
        return (
            self._wait_and_describe_decision(runtime, proposal.id, seconds, running, staged)
            if seconds
            else _ToolAnswer(staged)
        )

    def _unread_feedback(
        self, runtime: OpenWorkspace, turns: Sequence[CapturedAgentTurn], running: RunningToolCall
    ) -> str:
        """Return the decisions with feedback that the agent has not read; empty if there are none."""

        def has_unread_feedback(turn: CapturedAgentTurn) -> bool:
            return read_decision_status(runtime, turn.proposal, turn.reported).has_feedback

        if not any(map(has_unread_feedback, turns)):
            return ""
        _take_report_claim(runtime, turns[-1], running)
        turns = runtime.captured_edits.turns_of_session(turns[-1].agent, turns[-1].session)
        unread = [turn.proposal for turn in turns if has_unread_feedback(turn)]
        if not unread:
            return ""
        return "\n\n".join(
            (_READ_FEEDBACK_FIRST, *(self._describe_decisions(runtime, name, running) for name in unread))
        )

    def _wait_and_describe_decision(
        self, runtime: OpenWorkspace, name: str, seconds: float, running: RunningToolCall, staged: str
    ) -> _ToolAnswer:
        """Wait for the user's decision on the staged proposal; return `staged` if there is none in time."""
        try:
            status = self._wait_with_progress(runtime, name, 0, seconds, running)
            if not status.is_decided and not status.decisions:
                return _ToolAnswer(staged)
            parts = [self._describe_decisions(runtime, name, running)]
            if not status.is_decided:
                # Decided in part, without feedback.
                parts.append(_describe_pending(runtime.service.get(name)))
            return _ToolAnswer("\n\n".join(parts))
        except (StorageError, OSError) as error:
            return _ToolAnswer(f"{staged}\nThe decision could not be waited for: {error}")

    def _stage(
        self,
        runtime: OpenWorkspace,
        fill: Callable[[OpenWorkspace, Draft, Collection[str]], str],
        summary: str,
        caller: McpCaller,
        own: Sequence[str],
    ) -> tuple[Proposal, str]:
        draft = runtime.service.new_draft("")
        draft.origin = ProposalOrigin(
            kind=OriginKind.AGENT, agent=caller.agent, model=caller.model, session=caller.session, prompt=caller.turn
        )
        notes = fill(runtime, draft, own)
        return runtime.service.stage(
            draft, " ".join(summary.split()), self._denied_with_feedback(runtime, own)
        ), notes

    def _denied_with_feedback(self, runtime: OpenWorkspace, own: Sequence[str]) -> tuple[str, ...]:
        """Return the agent's proposals that were denied with feedback and are not superseded, latest first."""
        feedback = UnansweredFeedback()
        for name in own:
            if not runtime.service.get(name).superseded_by:
                for record in runtime.sessions.decisions(name):
                    feedback.apply(record.decided)
        return feedback.unanswered

    def _wait_with_progress(
        self, runtime: OpenWorkspace, name: str, reported: int, seconds: float, running: RunningToolCall
    ) -> ProposalDecisionStatus:
        """Wait for a decision after the `reported` one, and send the host progress messages meanwhile."""
        began = time.monotonic()
        while True:
            waited = time.monotonic() - began
            running.report_progress(round(waited, 3), seconds, f"{name} waits for the user's decision in signoff")
            step = min(PROGRESS_SECONDS, seconds - waited)
            status = wait_for_decision(runtime, name, seconds=step, reported_count=reported, stop=running.stop)
            if status.is_decided or running.stop.is_set() or time.monotonic() - began >= seconds:
                return status

    def _describe_decisions(
        self, runtime: OpenWorkspace, name: str, running: RunningToolCall, *, with_read_feedback: bool = False
    ) -> str:
        """Return a description of the decisions on a proposal, with the feedback that the agent has not read.

        They are marked as reported once the host has the answer.

        Args:
            with_read_feedback: Also include the feedback that was reported before.
        """
        turn = runtime.captured_edits.turn_of_proposal(name)
        if turn is not None:
            _take_report_claim(runtime, turn, running)
            turn = runtime.captured_edits.turn_of_proposal(name)
        reported = 0 if turn is None or with_read_feedback else turn.reported
        text, number = read_decision_report(runtime, name, reported)
        if turn is not None and number > turn.reported:

            def mark_if_sent(is_sent: bool) -> None:
                # A report that can't be marked is repeated.
                with suppress(StorageError):
                    if is_sent:
                        runtime.captured_edits.mark_reported(name, number)

            running.on_answered.insert(0, mark_if_sent)
        if read_decision_status(runtime, name).is_denial_without_new_feedback:
            text = f"{text}\n\n{_NO_REASON}"
        elif advice := repeated_denials_note(self._count_denials_in_row(runtime, turn), has_ask_user_tool=False):
            text = f"{text}\n\n{advice.text}"
        return text

    def _count_denials_in_row(self, runtime: OpenWorkspace, turn: CapturedAgentTurn | None) -> int:
        turns = runtime.captured_edits.turns_of_session(turn.agent, turn.session) if turn is not None else []
        states = (runtime.service.get(turn.proposal).state for turn in reversed(turns))
        return len([*takewhile(lambda state: state is ProposalState.DENIED, states)])

    def _report_status(
        self, arguments: ProposalStatusArguments, caller: McpCaller, running: RunningToolCall
    ) -> _ToolAnswer:
        runtime = self._opened_runtime()
        wanted = arguments.proposal
        if not wanted:
            # Some agents resume a session under another id.
            captured = runtime.captured_edits
            turns = captured.turns_of_session(caller.agent, caller.session) or captured.turns_of_agent(caller.agent)
            if not turns:
                raise ToolError("You have proposed nothing yet. Give the id of a proposal as `proposal`, such as P7.")
            wanted = turns[-1].proposal
        name = runtime.service.get(wanted).id
        turn = runtime.captured_edits.turn_of_proposal(name)
        reported = turn.reported if turn is not None else 0
        status = read_decision_status(runtime, name, reported)
        if arguments.wait_seconds and not status.is_decided:
            status = self._wait_with_progress(runtime, name, reported, arguments.wait_seconds, running)
        parts = [
            self._describe_decisions(runtime, name, running, with_read_feedback=True),
            format_current_texts_of_written_files(runtime, runtime.service.get(name)),
        ]
        if not status.is_decided:
            parts.append(_describe_pending(runtime.service.get(name)))
        return _ToolAnswer("\n\n".join(filter(None, parts)))


def _take_report_claim(runtime: OpenWorkspace, turn: CapturedAgentTurn, running: RunningToolCall) -> None:
    """Take the claim to report decisions to the session of a turn, until the answer to the call is sent."""
    if not running.on_answered:
        claim = DecisionReportClaim(runtime.dirs.locks, runtime.name, turn.agent, turn.session)
        claim.take()
        running.on_answered.append(lambda is_sent: claim.release())


def _describe_pending(proposal: Proposal) -> str:
    """Return the text for a proposal that is still pending."""
    return _STILL_PENDING_MESSAGE.format(
        id=proposal.id,
        written="What of it is not written yet is nowhere on disk."
        if proposal.is_written_in_part
        else "Nothing is written: files still read as before.",
    )
