"""Runs hooks, each on its own thread, one event after the other; no turn waits for them."""

import asyncio
import json
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from app.config.config_tables import EventHookTable, HookEventName
from app.conversation.events import Event, ProposalDecided, Question, TurnEnded
from app.proposals.values.decision_facts import FileDiffStat
from app.proposals.values.models import Proposal
from app.sandbox.environment import configured_program_environment, without_search_paths_into
from app.sandbox.process import MARKER_VARIABLE, describe_exit, end_process_tree, run_process
from app.text.safe_text import escape_unsafe

_MAX_TEXT_CHARACTERS = 20_000
"""Characters of feedback or a question."""


class HookEventFile(BaseModel):
    """A file of a proposal with the numbers of added and removed lines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    op: str
    """create, edit, delete, rename or mode."""
    added: int
    removed: int


class HookEventDocument(BaseModel):
    """The JSON document of one event; fields that do not apply are empty."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    event: HookEventName
    workspace: str
    """The path of the workspace, in which the hook runs."""
    session: str = ""
    """The session's id; empty for proposals of other agents."""
    time: float
    """Unix time in seconds."""
    proposal: str = ""
    """For `staged` and `decided`: the proposal's id, for example P7."""
    summary: str = ""
    """For `staged`: the summary of the proposal."""
    origin: str = ""
    """For `staged`: who proposed the edits: `signoff`, `claude`, `patch`, `command` …"""
    files: list[HookEventFile] = []
    """For `staged` and `decided`: all files, or those of the decision."""
    decision: str = ""
    """For `decided`: approved, partly_approved, denied, undone, redone, reopened or edited."""
    feedback: str = ""
    """For `decided`: the user's feedback."""
    still_pending: bool = False
    """For `decided`: whether hunks of the proposal are still pending."""
    stopped: str = ""
    """For `turn_ended`: answer, staged, question, refused, aborted or failed."""
    message: str = ""
    """For `turn_ended`: the error if it failed. For `question`: the question."""
    options: list[str] = []
    """For `question`: the answers to choose from."""


def proposal_document(proposal: Proposal, workspace: str) -> HookEventDocument:
    """Return the document of a staged proposal."""
    return HookEventDocument(
        event="staged",
        workspace=workspace,
        session=proposal.session,
        time=proposal.created,
        proposal=proposal.id,
        summary=proposal.summary,
        origin=proposal.origin.label,
        files=_make_event_files([change.stat for change in proposal.files]),
    )


def event_document(event: Event, session: str, workspace: str, now: float) -> HookEventDocument | None:
    """Return the document for an event of a session's log; None for events without hooks."""
    told = partial(HookEventDocument, workspace=workspace, session=session, time=event.time or now)
    match event:
        case ProposalDecided():
            return told(
                event="decided",
                proposal=event.proposal,
                decision=event.decision,
                feedback=event.feedback[:_MAX_TEXT_CHARACTERS],
                still_pending=event.still_pending,
                files=_make_event_files(event.files),
            )
        case TurnEnded():
            return told(event="turn_ended", stopped=event.stopped, message=event.message)
        case Question():
            return told(event="question", message=event.text[:_MAX_TEXT_CHARACTERS], options=list(event.options))
    return None


def _make_event_files(stats: Sequence[FileDiffStat]) -> list[HookEventFile]:
    return [HookEventFile(path=file.path, op=file.op, added=file.added, removed=file.removed) for file in stats]


_IN_HOOK_VARIABLE = "SIGNOFF_IN_HOOK"
"""Variable that a hook's processes inherit; a signoff that finds it set runs no hooks."""
MAX_QUEUED_EVENTS = 100
"""Events that wait for one hook; beyond it, the oldest are dropped."""
_KEPT_OUTPUT_BYTES = 2_000
"""Bytes of the end of a hook's output; its last line is reported if the hook fails."""
_MAX_LINE_CHARACTERS = 160
_KEPT_VARIABLES = ("SIGNOFF_HOME",)
"""Variables that commands don't get, but a `signoff` in a hook needs."""


class HookRunner:
    """Runs the hooks of a workspace. `queue_event` may be called on any thread and returns at once.

    Args:
        root: The workspace, in which hooks run.
        environment: signoff's own environment.
    """

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self._root = root
        kept = {name: environment[name] for name in _KEPT_VARIABLES if name in environment}
        # Hooks run without a layer, and commands write to `.venv/bin`.
        own = without_search_paths_into(configured_program_environment(environment, ""), root)
        self._environment = {**own, **kept, _IN_HOOK_VARIABLE: "1"}
        self._queues: dict[EventHookTable, _HookQueue] = {}
        self._queues_lock = threading.Lock()
        self._closed = False
        self.report: Callable[[str], None] = lambda line: None
        """Receives a line for the user, on any thread."""
        self.patience: float | None = None
        """Seconds that `close` waits for running and queued hooks; None waits until all have ended."""

    def queue_event(self, hooks: Sequence[EventHookTable], document: HookEventDocument) -> None:
        """Queue an event for the hooks that are configured for it."""
        # As ASCII with escapes: pydantic's own JSON writer rejects paths that are not valid UTF-8.
        text = json.dumps(document.model_dump()).encode("ascii") + b"\n"
        for hook in hooks:
            if hook.on == document.event and (line := self._queue(hook)) is not None:
                line.put(text)

    def _queue(self, hook: EventHookTable) -> "_HookQueue | None":
        """Return the queue of a hook; None once all are closed."""
        with self._queues_lock:
            if hook not in self._queues and not self._closed:
                self._queues[hook] = _HookQueue(hook, self._root, self._environment, lambda line: self.report(line))
            return self._queues.get(hook)

    def close(self) -> None:
        """Wait up to `patience` seconds for running and queued hooks, then kill the others and their children."""
        end = None if self.patience is None else time.monotonic() + self.patience
        with self._queues_lock:
            self._closed = True
            lines = list(self._queues.values())
        try:
            for line in lines:
                line.wait(end)
        finally:
            for line in lines:
                line.end()


class _HookQueue:
    """One hook and the events that wait for it."""

    def __init__(
        self, hook: EventHookTable, root: Path, environment: Mapping[str, str], tell: Callable[[str], None]
    ) -> None:
        self._hook = hook
        self._root = root
        self._environment = environment
        self._tell = tell
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._thread: threading.Thread | None = None
        self._cancel: Callable[[], object] = lambda: None
        """Ends the running command."""
        self._ended = False
        self._last_problem = ""

    def put(self, document: bytes) -> None:
        """Add an event, and start the thread if it is not running."""
        with self._lock:
            if self._ended:
                return
            self._waiting.append(document)
            too_many = len(self._waiting) > MAX_QUEUED_EVENTS
            if too_many:
                self._waiting.popleft()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run_queued_events, name=f"hook on {self._hook.on}", daemon=True
                )
                self._thread.start()
        if too_many:
            self._report(
                f"is slower than what happens: of more than {MAX_QUEUED_EVENTS} events the oldest are left out"
            )

    def wait(self, until: float | None) -> None:
        """Wait until all events are done, or until a monotonic time."""
        if (thread := self._thread) is not None:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))

    def end(self) -> None:
        """Stop the running hook, and accept no more events."""
        with self._lock:
            self._ended = True
            self._waiting.clear()
            thread, cancel = self._thread, self._cancel
        cancel()
        if thread is not None:
            thread.join()

    def _run_queued_events(self) -> None:
        while (document := self._next_document()) is not None:
            try:
                problem = asyncio.run(self._run_hook(document))
            except asyncio.CancelledError:
                continue
            except Exception as error:
                # Continue with the next event after any error, for example a NUL in the command.
                problem = f"cannot run: {getattr(error, 'strerror', None) or error}"
            if problem:
                self._report(problem)
            else:
                self._last_problem = ""

    def _next_document(self) -> bytes | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
            return None

    async def _run_hook(self, document: bytes) -> str:
        """Run the command once; return the problem, empty if there is none."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with self._lock:
            if self._ended:
                return ""
            self._cancel = lambda: loop.is_closed() or loop.call_soon_threadsafe(task.cancel)
        marker = uuid.uuid4().hex
        output = bytearray()
        # A file, not a pipe: writing can't block if the command does not read it.
        with tempfile.TemporaryFile() as given:
            given.write(document)
            given.seek(0)
            try:
                ended = await run_process(
                    ["/bin/sh", "-c", self._hook.run],
                    folder=self._root,
                    environment={**self._environment, MARKER_VARIABLE: marker},
                    seconds=self._hook.seconds,
                    output=partial(_keep_end, output),
                    end_process=lambda process: end_process_tree(process, marker),
                    stdin=given.fileno(),
                )
            finally:
                with self._lock:
                    self._cancel = lambda: None
        if ended.timed_out:
            return f"was ended after {self._hook.seconds:g} s, its time limit"
        if ended.code:
            last = next((line for line in reversed(output.decode(errors="replace").splitlines()) if line.strip()), "")
            how = f"failed ({describe_exit(ended.code)})"
            return f"{how}: {last.strip()}" if last else how
        return ""

    def _report(self, problem: str) -> None:
        """Report a problem to the user, only once if it repeats."""
        if problem != self._last_problem:
            self._last_problem = problem
            line = " ".join(
                escape_unsafe(f"The hook on {self._hook.on} ({self._hook.run}) {problem}", keep="\n").split()
            )
            self._tell(line if len(line) <= _MAX_LINE_CHARACTERS else f"{line[: _MAX_LINE_CHARACTERS - 1]}…")


def _keep_end(output: bytearray, data: bytes) -> None:
    output += data
    del output[:-_KEPT_OUTPUT_BYTES]
