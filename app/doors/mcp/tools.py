"""The tools of the server: propose edits, wait for the user, report the decision.

Nothing of this is loaded before the first call, and the workspace is not opened: what is wrong with either is the
answer to that call, and the next one tries again.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from app.agent.feedback import Feedback
from app.agent.interventions import repeated_denials
from app.config.settings import ConfigError
from app.doors import waiting
from app.doors.decision_words import proposal_report
from app.doors.mcp.arguments import EditArguments, PatchArguments, StatusArguments
from app.doors.mcp.caller import McpCaller
from app.doors.mcp.drafting import draft_files, draft_patch
from app.doors.mcp.gate import refusal
from app.doors.mcp.resulting import resulting_text
from app.doors.mcp.server import Running
from app.proposals.draft import Draft
from app.proposals.errors import ProposalError
from app.proposals.models import Proposal, ProposalState
from app.proposals.origin import Origin, OriginKind
from app.proposals.reports import EditReport
from app.runtime.recovery import put_right
from app.runtime.workspace import Runtime, open_runtime
from app.storage.captured import Turn
from app.storage.errors import StorageError
from app.tools.contract import ToolError, escape_surrogates
from app.tools.schemas import parse_arguments
from app.tools.staging import staged_text
from app.workspace.path_rules import WorkspaceError

MOST_WAITING = 100
"""Proposals of agents that may await the user's decision at once in a workspace."""
PROGRESS_SECONDS = 5.0
"""Seconds between two progress messages of a waiting call."""
_NOT_YET = (
    "{id} awaits the user's decision in signoff. {written} End your turn now and say in a few sentences what the "
    "change does and what to look at; don't make it in another way. proposal_status gives the decision, with the "
    "user's words, once there is one."
)
_TOO_MANY = (
    "Refused, and nothing of this call was staged: {count} proposals of agents await the user's decision, the most "
    "that there may be. End your turn now, and ask the user to decide on some of them."
)
_FIRST_READ = (
    "Nothing of this call was staged: the user has decided on what you proposed before, in words that you have not "
    "read yet. Read them, and propose again what still makes sense."
)
_NO_REASON = "The user gave no reason. End your turn now, and ask what the change should be."


class _Answer(NamedTuple):
    """What the model reads."""

    text: str
    failed: bool = False


class ProposalTools:
    """The tools over one workspace, for one agent; `call` may run on many threads at once."""

    def __init__(self, root: Path, wait_seconds: int, say: Callable[[str], None]) -> None:
        """Nothing is opened yet.

        Args:
            root: The workspace.
            wait_seconds: How long a proposing call waits unless it says how long.
            say: Takes a line for the user.
        """
        self._root = root
        self._wait_seconds = wait_seconds
        self._say = say
        self._runtime: Runtime | None = None
        self._opening = threading.Lock()
        self._staging = threading.Lock()

    def call(self, name: str, arguments: dict[str, object], caller: McpCaller, running: Running) -> tuple[str, bool]:
        """Run a tool to its end; the text for the model, and whether the call failed. Raises nothing."""
        try:
            answer = self._call(name, arguments, caller, running)
        except (ToolError, ProposalError) as error:
            answer = _Answer(str(error), failed=True)
        except (StorageError, ConfigError, WorkspaceError, OSError) as error:
            answer = _Answer(f"signoff can't do it, and nothing was staged or written: {error}", failed=True)
        except Exception as error:
            # A defect. The agent is told, since it waits; the user finds it where the host keeps what servers say.
            problem = f"{name} failed: {type(error).__name__}: {error}"
            self._say(problem)
            answer = _Answer(f"signoff can't do it, and nothing was written. {problem}", failed=True)
        return escape_surrogates(answer.text), answer.failed

    def close(self) -> None:
        """Close the workspace, once no call runs."""
        if self._runtime is not None:
            self._runtime.close()

    def _call(self, name: str, given: dict[str, object], caller: McpCaller, running: Running) -> _Answer:
        match name:
            case "propose_edit":
                edit = parse_arguments(name, EditArguments, given)
                return self._propose(
                    lambda runtime, draft, own: draft_files(runtime, draft, edit.files, own), edit, caller, running
                )
            case "propose_patch":
                patch = parse_arguments(name, PatchArguments, given)
                return self._propose(
                    lambda runtime, draft, own: draft_patch(runtime, draft, patch.patch), patch, caller, running
                )
            case _:
                return self._status(parse_arguments(name, StatusArguments, given), caller, running)

    def _open(self) -> Runtime:
        with self._opening:
            if self._runtime is None:
                runtime = open_runtime(self._root)
                try:
                    put_right(runtime, self._say)
                except BaseException:
                    runtime.close()
                    raise
                self._runtime = runtime
            return self._runtime

    def _propose(
        self,
        fill: Callable[[Runtime, Draft, Collection[str]], str],
        arguments: EditArguments | PatchArguments,
        caller: McpCaller,
        running: Running,
    ) -> _Answer:
        runtime = self._open()
        with self._staging:
            if running.cancelled:
                return _Answer("Nothing was staged: the call was cancelled.", failed=True)
            turns = runtime.captured.of_session(caller.agent, caller.session)
            if turns:
                if words := self._unread_words(runtime, turns, running):
                    return _Answer(words, failed=True)
                status = waiting.decision_status(runtime.database, runtime.name, turns[-1].proposal)
                if no := refusal(turns[-1], caller, arguments.on_top_of or "", status):
                    return _Answer(no, failed=True)
            count = sum(each.origin.kind is OriginKind.AGENT for each in runtime.service.waiting())
            if count >= MOST_WAITING:
                return _Answer(_TOO_MANY.format(count=count), failed=True)
            own = [turn.proposal for turn in turns]
            proposal, notes = self._stage(runtime, fill, arguments.summary or "", caller, own)
            runtime.captured.add(
                Turn(caller.agent, caller.session, caller.turn, model=caller.model, proposal=proposal.id)
            )
        seconds = self._wait_seconds if arguments.wait_seconds is None else arguments.wait_seconds
        report = EditReport(tuple(change.stat for change in proposal.files), notes, "")
        staged = f"{staged_text(proposal.id, report)}\n{_not_yet(runtime, proposal.id)}"
        return self._decision(runtime, proposal.id, seconds, running, staged) if seconds else _Answer(staged)

    def _unread_words(self, runtime: Runtime, turns: Sequence[Turn], running: Running) -> str:
        """Report the decisions with words of the user that the agent has not read; empty if there are none."""
        unread = [
            turn.proposal
            for turn in turns
            if waiting.decision_status(runtime.database, runtime.name, turn.proposal, turn.told).has_feedback
        ]
        if not unread:
            return ""
        return "\n\n".join((_FIRST_READ, *(self._tell(runtime, name, running) for name in unread)))

    def _decision(self, runtime: Runtime, name: str, seconds: float, running: Running, staged: str) -> _Answer:
        """Wait for the user's decision on the staged proposal; `staged` if there is none in time."""
        try:
            status = self._await(runtime, name, 0, seconds, running)
        except (StorageError, OSError) as error:
            return _Answer(f"{staged}\nThe decision could not be waited for: {error}")
        if status.decided:
            return _Answer(self._tell(runtime, name, running))
        # In part, and without a word: what of it is written has to be known.
        return _Answer(
            f"{self._tell(runtime, name, running)}\n\n{_not_yet(runtime, name)}" if status.decisions else staged
        )

    def _stage(
        self,
        runtime: Runtime,
        fill: Callable[[Runtime, Draft, Collection[str]], str],
        summary: str,
        caller: McpCaller,
        own: Sequence[str],
    ) -> tuple[Proposal, str]:
        draft = runtime.service.draft("")
        draft.origin = Origin(
            kind=OriginKind.AGENT,
            agent=caller.agent,
            model=caller.model,
            session=caller.session,
            prompt=caller.turn,
        )
        notes = fill(runtime, draft, own)
        return runtime.service.stage(draft, " ".join(summary.split()), self._unanswered(runtime, own)), notes

    def _unanswered(self, runtime: Runtime, own: Sequence[str]) -> tuple[str, ...]:
        """The agent's proposals that were denied with feedback that a new proposal may answer, latest first."""
        feedback = Feedback()
        for name in own:
            if not runtime.service.get(name).superseded_by:
                for record in runtime.sessions.decisions(name):
                    feedback.apply(record.decided)
        return feedback.unanswered

    def _await(
        self, runtime: Runtime, name: str, reported: int, seconds: float, running: Running
    ) -> waiting.DecisionStatus:
        """Wait for a decision after the `reported` one, and send the host progress messages meanwhile."""
        began = time.monotonic()
        while True:
            waited = time.monotonic() - began
            running.progress(round(waited, 3), seconds, f"{name} waits for the user's decision in signoff")
            step = min(PROGRESS_SECONDS, seconds - waited)
            status = waiting.wait(
                runtime.database,
                runtime.name,
                runtime.signal,
                name,
                reported=reported,
                seconds=step,
                stop=running.stop,
            )
            if status.decided or running.stop.is_set() or time.monotonic() - began >= seconds:
                return status

    def _tell(self, runtime: Runtime, name: str, running: Running) -> str:
        """Describe the decisions on a proposal, with all of the user's words."""
        text, number = proposal_report(runtime, name)
        turn = runtime.captured.of_proposal(name)
        if turn is not None and number > turn.told and not running.cancelled:
            runtime.captured.tell(name, number)
        if waiting.decision_status(runtime.database, runtime.name, name).denied_without_feedback:
            text = f"{text}\n\n{_NO_REASON}"
        elif advice := repeated_denials(self._denials_in_row(runtime, turn), asks_by_tool=False):
            text = f"{text}\n\n{advice.text}"
        return text

    def _denials_in_row(self, runtime: Runtime, turn: Turn | None) -> int:
        turns = runtime.captured.of_session(turn.agent, turn.session) if turn is not None else []
        states = (runtime.service.get(each.proposal).state for each in reversed(turns))
        return len([*takewhile(lambda state: state is ProposalState.DENIED, states)])

    def _status(self, arguments: StatusArguments, caller: McpCaller, running: Running) -> _Answer:
        runtime = self._open()
        wanted = arguments.proposal
        if not wanted:
            # Some agents take a session up again under another id.
            captured = runtime.captured
            turns = captured.of_session(caller.agent, caller.session) or captured.of_agent(caller.agent)
            if not turns:
                raise ToolError("You have proposed nothing yet. Give the id of a proposal as `proposal`, such as P7.")
            wanted = turns[-1].proposal
        name = runtime.service.get(wanted).id
        turn = runtime.captured.of_proposal(name)
        reported = turn.told if turn is not None else 0
        status = waiting.decision_status(runtime.database, runtime.name, name, reported)
        if arguments.wait_seconds and not status.decided:
            status = self._await(runtime, name, reported, arguments.wait_seconds, running)
        parts = [self._tell(runtime, name, running), resulting_text(runtime, runtime.service.get(name))]
        if not status.decided:
            parts.append(_not_yet(runtime, name))
        return _Answer("\n\n".join(filter(None, parts)))


def _not_yet(runtime: Runtime, name: str) -> str:
    """The text for a proposal that is still pending."""
    if runtime.service.get(name).written_in_part:
        return _NOT_YET.format(id=name, written="What of it is not written yet is nowhere on disk.")
    return _NOT_YET.format(id=name, written="Nothing is written: files still read as before.")
