"""Side questions: what the user asks about a hunk while the gate is shut, answered aside from the conversation.

Nothing here touches turns, gate or ladder. A question goes out by itself, beside whatever a turn does, with the
tools of the session and no leave to call them; what comes back is shown and recorded for the user alone.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from app.agent.interrupt import Interrupted, Interrupter
from app.agent.ports import ModelPort, Ports
from app.agent.prepared import PreparedRequest
from app.agent.side_brief import Subject, briefs
from app.agent.side_request import SideRequest, settled
from app.agent.updates import Failed, SideDiscarded, SideStreamed, Update
from app.conversation.compaction.tokens import TokenMeter
from app.conversation.events import AssistantMessage, Event
from app.conversation.log import EventLog
from app.conversation.payload.projection import Facts
from app.conversation.side_events import Exchange, Place, SideAnswer, SideQuestion, exchanges
from app.llm.capabilities.profile import Profile
from app.llm.failures.errors import FailureKind, RequestError
from app.llm.types import AttemptDiscarded, Completed, Payload, ProfileCorrected, TextDelta, Usage
from app.llm.wires.registry import SentRequest
from app.proposals.errors import ProposalError
from app.tools.contract import ToolError
from app.tools.targets import looks_secret
from app.workspace.paths import Workspace
from app.workspace.secrets import secret_reason

AGAIN = "Ask again to try once more."
_CALLED = "The model called a tool instead of answering; nothing was run. Ask again in other words."
_EMPTY = f"The model answered with nothing. {AGAIN}"
_IGNORED = "It also called a tool, which was not run."


@dataclass(slots=True)
class _Asked:
    """A question that is out."""

    interrupter: Interrupter = field(default_factory=Interrupter)
    text: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    completed: Completed | None = None
    started: float = field(default_factory=time.monotonic)


class SideQuestions:
    """Those of one session; any number may be out at once, one in each thread."""

    def __init__(
        self,
        log: EventLog,
        session_id: str,
        ports: Callable[[], Ports],
        facts: Callable[[], Awaitable[Facts]],
        unfinished: Callable[[], AssistantMessage | None],
        publish: Callable[[Update], None],
        sent: Callable[[SentRequest], None],
        project: Callable[[Sequence[Event], Profile, Facts], Payload],
    ) -> None:
        """None is out.

        Args:
            log: of the session.
            session_id: its id.
            ports: what it works with, as of now.
            facts: what a request of it would depend on, as of now.
            unfinished: the response whose calls still run, if one is.
            publish: tells the subscribers.
            sent: takes each request as it goes out.
            project: makes the payloads of the session's requests.
        """
        self._log = log
        self._session_id = session_id
        self._ports = ports
        self._facts = facts
        self._unfinished = unfinished
        self._publish = publish
        self._sent = sent
        self._project = project
        self._meter = log.attach(TokenMeter())
        self._out: dict[str, _Asked] = {}
        self._places: dict[str, Place] = {}
        """What those that are out are about."""
        self._tasks: set[asyncio.Task[None]] = set()

    def is_out(self, place: Place) -> bool:
        """Whether an answer is awaited there."""
        return place in self._places.values()

    async def ask(self, place: Place, text: str, picked: str = "") -> str:
        """Record a question and send it; returns its id at once. What comes of it is published.

        Raises:
            ProposalError: it cannot be asked; nothing was sent.
        """
        uid = uuid.uuid4().hex[:12]
        if self.is_out(place):
            raise ProposalError("The answer before it is still being written; Escape stops it.")
        self._places[uid] = place
        try:
            subject, thread = await asyncio.to_thread(self._look, place)
            hunk = subject.hunk
            asked = SideQuestion(
                uid=uid,
                **place._asdict(),
                number=hunk.number if hunk is not None else 0,
                picked=picked,
                text=text.strip(),
            )
            await self._log.append(asked)
        except BaseException:
            del self._places[uid]
            raise
        task = asyncio.create_task(self._answer(asked, subject, thread), name="side question")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return uid

    def stop(self, question: str) -> bool:
        """Stop the answer to a question; whether there was something to stop."""
        if question not in self._places:
            return False
        self._out.setdefault(question, _Asked()).interrupter.stop()
        return True

    async def settled(self) -> None:
        """Wait until no question is out."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Stop what is out and wait for its records."""
        for question in tuple(self._places):
            self.stop(question)
        await self.settled()

    # What it is about

    def _look(self, place: Place) -> tuple[Subject, tuple[Exchange, ...]]:
        """The subject as it is now, and what was said in its thread; on a thread."""
        ports = self._ports()
        proposal = ports.service.get(place.proposal)
        diff = next((one for one in ports.service.diffs(place.proposal) if one.change.path == place.path), None)
        if diff is None:
            raise ProposalError(f"{place.path} is not in {place.proposal} any more.")
        if proposal.author(diff.change) != self._session_id:
            # What this session's model has written itself it knows.
            _refuse_secret(ports.workspace, diff.change.old_path, diff.old)
            _refuse_secret(ports.workspace, diff.change.path, (*diff.old, *diff.new))
        hunk = next((one for one in diff.change.hunks if one.id == place.hunk), None)
        before = exchanges([*ports.asked(place.proposal), *self._log.events])
        thread = tuple(one for one in before if one.question.place == place and one.answered)
        return Subject(proposal, diff, hunk), thread

    # The answer

    async def _answer(self, question: SideQuestion, subject: Subject, thread: tuple[Exchange, ...]) -> None:
        asked = self._out.setdefault(question.uid, _Asked())
        try:
            facts = await self._facts()
            told = await asyncio.to_thread(lambda: tuple(briefs(subject, question, thread)))
            request = SideRequest(
                settled(self._log.addressed(), self._unfinished()),
                facts,
                self._project,
                self._meter,
                told,
                question.text,
                tuple((one.question.text, one.answered) for one in thread),
            )
            answer = await self._outcome(question, request, asked)
            await self._log.append(answer)
        except Exception as error:
            self._publish(SideDiscarded(question.uid, over=True))
            self._publish(Failed(f"The answer to your question about {question.subject} could not be kept: {error}"))
        finally:
            del self._out[question.uid], self._places[question.uid]

    async def _outcome(self, question: SideQuestion, request: SideRequest, asked: _Asked) -> SideAnswer:
        """Send it and say what came of it; once more, with less, if the server says that its context is full."""
        model = self._ports().model
        try:
            async with model.apart() as apart:
                try:
                    await asked.interrupter.wait_for(self._receive(question, request, asked, apart))
                except RequestError as error:
                    if error.kind is not FailureKind.CONTEXT_FULL:
                        raise
                    self._void(question, asked)
                    await asked.interrupter.wait_for(self._receive(question, request, asked, apart, tight=True))
        except Interrupted:
            return self._as_answer(question, asked, "interrupted")
        except RequestError as error:
            if error.kind is FailureKind.TOOL_USE_FAILED:
                asked.notes.append(_CALLED)
            else:
                asked.notes.append(f"{error.message.removesuffix(' Try again.')} {AGAIN}")
            usage = error.partial.usage if error.partial is not None else None
            return self._as_answer(question, asked, "failed", usage)
        completed = asked.completed
        assert completed is not None, "a stream ends with Completed or raises"
        if completed.calls:
            asked.notes.append(_IGNORED if completed.text.strip() else _CALLED)
        elif not completed.text.strip():
            asked.notes.append(_EMPTY)
        state = "truncated" if completed.truncated and completed.text.strip() else "complete"
        return self._as_answer(
            question, asked, state if completed.text.strip() else "failed", completed.usage, completed.text
        )

    async def _receive(
        self, question: SideQuestion, request: SideRequest, asked: _Asked, model: ModelPort, *, tight: bool = False
    ) -> None:
        """Pass the stream on. Writes nothing: it may be cancelled at any point."""
        prepared = PreparedRequest(partial(request.payload, tight=tight), request.facts.model, self._sent)
        async for update in model.stream(prepared.build, closing=True):
            match update:
                case TextDelta(text=text):
                    asked.text.append(text)
                    self._publish(SideStreamed(question.uid, text))
                case AttemptDiscarded():
                    self._void(question, asked)
                case ProfileCorrected(notice=notice):
                    asked.notes.append(notice)
                case Completed():
                    asked.completed = update

    def _void(self, question: SideQuestion, asked: _Asked) -> None:
        asked.text.clear()
        self._publish(SideDiscarded(question.uid))

    def _as_answer(
        self, question: SideQuestion, asked: _Asked, state: str, usage: Usage | None = None, text: str | None = None
    ) -> SideAnswer:
        return SideAnswer.model_validate(
            {
                "question": question.uid,
                "proposal": question.proposal,
                "text": "".join(asked.text) if text is None else text,
                "state": state,
                "note": " ".join(asked.notes),
                "usage": usage,
                "model": self._ports().model.endpoint.model,
                "duration": time.monotonic() - asked.started,
            }
        )


def _refuse_secret(workspace: Workspace, path: str, lines: tuple[str, ...]) -> None:
    """Raise ProposalError for a file that looks like a secret: nothing of it is sent unasked."""
    content = "\n".join(lines).encode("utf-8", "surrogateescape")
    try:
        reason = looks_secret(workspace, path, content)
    except ToolError:
        reason = secret_reason(path, content)
    if reason:
        raise ProposalError(f"Nothing of {path} was sent: it looks like a secret ({reason}).")
