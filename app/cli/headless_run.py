"""`signoff run`: one turn without the screen; `signoff ask`: a side question about a hunk.

Neither writes to the workspace; a turn may stage proposals.
"""

import argparse
import asyncio
import contextlib
import math
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from app.agent.limits import NO_PRICE
from app.agent.session import Session, SessionUsageTotals
from app.agent.updates import (
    EventRecorded,
    PermissionRequested,
    PhaseChanged,
    SessionFailed,
    SessionPhase,
    StreamDiscarded,
    TextStreamed,
    Update,
)
from app.cli.app_arguments import settings_from_flags
from app.cli.command_output import (
    CUT_ANSWER,
    CommandError,
    ExitCode,
    open_debug_file,
    print_error,
    print_json,
    print_line,
    read_stdin_text,
    require_workspace_folder,
    session_from_arguments,
)
from app.cli.json_documents import HeadlessRunDocument, SideAnswerDocument, TokenUsageJson, UnavailableServerJson
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    Event,
    Intervention,
    InterventionKind,
    ProposalLocation,
    ProposalStaged,
    Question,
    RequestFailed,
    SideAnswer,
    SideExchange,
    ToolCall,
    ToolResult,
    TurnEnded,
    UserMessage,
    UserNotice,
    collect_side_exchanges,
)
from app.conversation.token_totals import TokenTotals
from app.images.image import Image
from app.images.image_files import ImageNotAttached, MentionedImage, load_and_store_images
from app.images.mentions import find_mentioned_files
from app.keys.actions import parse_slash_command
from app.proposals.values.models import Proposal, describe_state
from app.runtime.mcp_manager import McpManager
from app.runtime.model_connection import (
    ModelNotConfigured,
    connect_model,
    create_or_resume_session,
    fill_in_picked_model,
)
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.runtime.shutdown import force_exit_soon
from app.runtime.unfinished_work import recover_interrupted_work_and_notify, settle_unrecorded_decisions
from app.sandbox.confinement import CommandWriteMode
from app.storage.session_store import SessionRecord
from app.text.safe_text import escape_unsafe
from app.tools.base.contract import PermissionAnswer, PermissionRequest
from app.tools.tool_registry import UnavailableMcpServer


async def load_and_store_named_images(
    runtime: OpenWorkspace, text: str, wire: str, consequence: str, hint: str = ""
) -> tuple[Image, ...]:
    """Load and store the images that a text names; print a line for each image that cannot be sent.

    The text may contain text of other authors, so an ambiguous name is only reported, and no file outside the
    workspace is sent.

    Args:
        text: The prompt, or feedback of the user.
        wire: The protocol of the endpoint; empty if unknown.
        consequence: A sentence after the error if an image cannot be sent.
        hint: The end of the line about an image that is only named: how to send it.
    """

    async def is_meant(candidate: MentionedImage) -> bool:
        print_error(f"{candidate.path} is only named, since {candidate.confirmation_reason}{hint}.")
        return False

    try:
        return await load_and_store_images(
            runtime.workspace, runtime.proposals.put_blobs, find_mentioned_files(text), wire, is_meant
        )
    except ImageNotAttached as error:
        print_error(f"{error} {consequence}")
        return ()


def run_headless_turn(arguments: argparse.Namespace) -> int:
    """Run one turn; print the answer on standard output and the progress on standard error."""
    require_workspace_folder(arguments.workspace, refuse_broad=not arguments.demo)
    prompt = read_stdin_text("what you have to say") if arguments.prompt == "-" else arguments.prompt
    if not prompt.strip():
        raise CommandError('There is nothing to say: signoff run "fix the failing tests".', ExitCode.USAGE)
    if arguments.max_steps is not None and not 1 <= arguments.max_steps <= 1_000:
        raise CommandError("--max-steps takes a number from 1 to 1000.", ExitCode.USAGE)
    return asyncio.run(_open_and_run_turn(prompt, arguments))


async def _open_and_run_turn(prompt: str, arguments: argparse.Namespace) -> int:
    async with _endpoint_flags(arguments) as flags:
        runtime = open_workspace(Path(arguments.workspace), flags)
        runtime.hook_dispatcher.notify = print_error
        try:
            recover_interrupted_work_and_notify(runtime, print_error)
            await settle_unrecorded_decisions(runtime, print_error)
            runtime.check_unread_limit()
            with open_debug_file(arguments.debug) as runtime.trace_file:
                return await _run_turn(runtime, prompt, arguments)
        finally:
            runtime.close()


@contextlib.asynccontextmanager
async def _endpoint_flags(arguments: argparse.Namespace) -> AsyncIterator[dict[str, object]]:
    """Yield the settings of the flags; with `--demo`, run a demo model for the `with` block and add its settings."""
    flags = dict(settings_from_flags(arguments))
    if not arguments.demo:
        yield flags
        return
    from app.cli.mcp_and_demo_servers import serve_demo_endpoint

    async with serve_demo_endpoint() as settings:
        yield flags | settings


async def _run_turn(runtime: OpenWorkspace, prompt: str, arguments: argparse.Namespace) -> int:
    if arguments.commands == "allow":
        await _require_confined_commands(runtime, in_place=arguments.in_place)
    settings = fill_in_picked_model(runtime)
    try:
        model = connect_model(runtime, settings)
    except ModelNotConfigured as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(model.aclose)
        if settings.max_cost is not None and await model.find_price() is None:
            raise CommandError(NO_PRICE.format(model=settings.model), ExitCode.USAGE)
        message = await asyncio.to_thread(make_message_from_prompt_or_command, runtime, prompt)
        try:
            images = await _load_images(runtime, message.text, arguments.image, model.profile.wire)
        except ImageNotAttached as error:
            raise CommandError(str(error), ExitCode.USAGE) from error
        served = McpManager(runtime, print_error)
        stack.push_async_callback(served.close)
        session = create_or_resume_session(
            runtime, model, session_from_arguments(runtime, arguments), settings, source=served, notify=print_error
        )
        stack.push_async_callback(session.close)
        if session.is_follower:
            raise CommandError(
                f"Session {session.id} is open in another window: go on there, or close it first.", ExitCode.REFUSED
            )
        before = session.log.last_id
        allowed = arguments.commands == "allow"
        printer = TurnProgressPrinter(session, quiet=arguments.quiet, commands=allowed, in_place=arguments.in_place)
        session.subscribe(printer)
        stop = _SignalStop(session)
        await served.refresh(runtime.settings)
        await session.send(message.text, message.command, images)
        stop.repeat()
        await session.wait_until_idle()
        unavailable = served.unavailable_servers
    printer.end_line()
    outcome = _make_run_document(
        session, [event for event in session.log.events if event.id > before], printer.failure, unavailable
    )
    if arguments.json:
        print_json(outcome)
    else:
        # On a terminal the user has already read the streamed answer.
        _print_run(runtime, outcome, text=not (sys.stdout.isatty() and sys.stderr.isatty() and not arguments.quiet))
    if outcome.stopped == "aborted":
        return 128 + (stop.received or signal.SIGINT)
    if outcome.limit is not None:
        return ExitCode.LIMIT
    return ExitCode.FAILED if outcome.stopped == "failed" else ExitCode.DONE


def make_message_from_prompt_or_command(runtime: OpenWorkspace, prompt: str) -> UserMessage:
    """Return the message to send: the prompt, or the text of a custom command."""
    if (called := parse_slash_command(prompt.strip())) is None or not prompt.startswith("/"):
        return UserMessage(text=prompt)
    from app.keys.actions import ACTIONS
    from app.prompts.custom_commands import CommandUnusable
    from app.runtime.prompt_sources import load_custom_commands, make_command_message

    name, argument = called
    if name in (built_in := {action.command for action in ACTIONS if action.command}):
        raise CommandError(f"/{name} is for the app; here a message or a command of your own does.", ExitCode.USAGE)
    known = load_custom_commands(runtime, built_in)
    try:
        message = make_command_message(known, name, argument)
    except CommandUnusable as unusable:
        missing = not unusable.untrusted and name not in known.commands
        hint = " A space before it sends it as a message." if missing else ""
        raise CommandError(
            f"{unusable}{hint}", ExitCode.REFUSED if unusable.untrusted else ExitCode.USAGE
        ) from unusable
    if message.notice:
        print_error(message.notice)
    return UserMessage(text=message.text, command=message.command)


async def _load_images(runtime: OpenWorkspace, prompt: str, given: Sequence[str], wire: str) -> tuple[Image, ...]:
    """Load and store the given images and those that the prompt names. Raises ImageNotAttached for a given one."""

    async def given_is_meant(candidate: MentionedImage) -> bool:
        return True

    images = await load_and_store_images(
        runtime.workspace, runtime.proposals.put_blobs, (), wire, given_is_meant, given
    )
    without, hint = "The prompt is sent without images that it names.", ": give it with --image to send it"
    images += await load_and_store_named_images(runtime, prompt, wire, without, hint)
    return tuple({image.sha256: image for image in images}.values())


async def _require_confined_commands(runtime: OpenWorkspace, *, in_place: bool) -> None:
    """Raise CommandError if commands would run directly on the user's files, unless `--in-place` allows them."""
    probe = await runtime.sandbox.probe()
    if probe.mode is CommandWriteMode.IN_PLACE and not in_place:
        raise CommandError(
            f"Commands would run directly on your files here, since {probe.why_not}: give --in-place to allow that.",
            ExitCode.REFUSED,
        )


def _make_run_document(
    session: Session, events: Sequence[Event], failure: str, unavailable: Sequence[UnavailableMcpServer]
) -> HeadlessRunDocument:
    ended = next((event for event in reversed(events) if isinstance(event, TurnEnded)), None)
    failed = next((event for event in reversed(events) if isinstance(event, RequestFailed)), None)
    spending = SessionUsageTotals()
    for event in events:
        spending.apply(event)
    question = session.question
    stopped = ended.stopped if ended else "failed"
    error = failure
    if stopped == "failed" and not error:
        error = (ended.message if ended else "") or (failed.message if failed else "The turn did not finish.")
    if ended is not None and not error:
        # The model's closing words are missing, or its answer was cut off.
        error = ended.message
    return HeadlessRunDocument(
        session=session.id,
        text=_last_answer(events),
        stopped=stopped,
        limit=ended.limit if ended else None,
        question=question.text if question else None,
        options=list(question.options) if question else [],
        proposals=[event.proposal for event in events if isinstance(event, ProposalStaged)],
        error=error or None,
        spent=TokenUsageJson.model_validate(spending.total),
        servers=[UnavailableServerJson.model_validate(server) for server in unavailable],
    )


def _last_answer(events: Sequence[Event]) -> str:
    """Return the model's last answer, joined with the truncated one that it continues."""
    answer, is_cut, goes_on = "", False, False
    for event in events:
        if isinstance(event, Intervention) and event.kind is InterventionKind.TRUNCATED:
            goes_on = is_cut
        elif isinstance(event, AssistantMessage) and event.state != "discarded":
            if event.text.strip():
                answer = answer + event.text if goes_on else event.text
            is_cut, goes_on = event.state == "truncated" and not event.calls, False
    return answer


def _print_run(runtime: OpenWorkspace, outcome: HeadlessRunDocument, *, text: bool) -> None:
    if text and outcome.text:
        for line in outcome.text.splitlines():
            print_line(line)
    if outcome.question:
        if text:
            print_line(f"Question: {outcome.question}")
        for number, option in enumerate(outcome.options, 1):
            print_line(f"  {number}. {option}")
        print_line(f'Answer with: signoff run --session {outcome.session} "…"')
    for name in outcome.proposals:
        state = runtime.service.get(name).state
        print_line(
            f"{name} awaits you: signoff show {name}, signoff approve {name}, signoff deny {name}"
            if state.is_pending
            else f"{name} is {describe_state(state)}."
        )
    if not outcome.proposals and not outcome.question:
        print_line("Nothing staged.")
    if outcome.error:
        print_error(outcome.error)


_DESCRIBING_ARGUMENTS = ("path", "pattern", "command", "question")
"""The arguments of tools that describe a call best."""


def _describe_result(result: ToolResult) -> str:
    if result.outcome in (CallOutcome.OK, CallOutcome.REJECTED):
        return result.summary
    return f"{result.outcome}: {result.summary}" if result.summary else result.outcome


class _SignalStop:
    """Handles Ctrl-C and SIGTERM: the first stops the model and lets the session be stored, the second quits.

    After SIGTERM the process exits soon even if work is left, because its sender does not wait long.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.received = 0
        """Number of the signal; 0 before one was received."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._handle_signal, number)

    def repeat(self) -> None:
        """Stop work that began after the signal."""
        if self.received:
            self._session.interrupt()

    def _handle_signal(self, number: int) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = number
        if number == signal.SIGTERM:
            force_exit_soon(128 + number)
        self._session.interrupt()


_QUIET_SECONDS = 5.0
"""Seconds without output of the model before a line says that the command waits for it."""


class TurnProgressPrinter:
    """Prints the progress of a turn to standard error."""

    def __init__(self, session: Session, *, quiet: bool, commands: bool, in_place: bool) -> None:
        self._session = session
        self._in_place = in_place
        self._commands = commands
        self._quiet = quiet
        self._column = 0
        self._waiting_timer: asyncio.Handle = asyncio.get_running_loop().call_soon(lambda: None)
        """Timer of the next line about waiting."""
        self._calls: dict[str, ToolCall] = {}
        self.failure = ""

    def __call__(self, update: Update) -> None:
        match update:
            case TextStreamed(text=text):
                self._write_streamed_text(text)
            case StreamDiscarded():
                # The next update about the wait tells the reason and the duration.
                self._write_line("… what came so far is void")
            case PhaseChanged():
                self._print_phase(update)
            case PermissionRequested():
                self._answer_permission(update)
            case SessionFailed(message=message):
                self.failure = message
            case EventRecorded(event=event):
                self._print_event(event)
            case _:
                pass

    def end_line(self) -> None:
        """End the current line, and stop the lines about waiting."""
        self._waiting_timer.cancel()
        self._write_line("")

    def _answer_permission(self, request: PermissionRequested) -> None:
        """Answer a permission request by the options of the command line."""
        asked = request.permission_request
        unattended = self._missing_permission(asked)
        subject = asked.title if asked.kind in ("changes", "ignored") else asked.detail
        self._write_line(f"{'! not allowed without the screen:' if unattended else '$'} {subject}")
        self._session.answer_permission_request(
            request.key, PermissionAnswer(allowed=not unattended, unattended=unattended)
        )

    def _missing_permission(self, asked: PermissionRequest) -> str:
        """Return how the user can allow the request of a tool, as a clause; empty if it is allowed."""
        if asked.kind in ("command", "server"):
            if not self._commands:
                return "`--commands allow` lets it run"
            return "`--in-place` lets it run" if asked.direct and not self._in_place else ""
        return f"`signoff --session {self._session.id}` can ask"

    def _print_phase(self, changed: PhaseChanged) -> None:
        self._waiting_timer.cancel()
        match changed.phase:
            case SessionPhase.WAITING:
                self._write_line(f"… waiting for {changed.detail}")
            case SessionPhase.REQUESTING:
                self._announce_waiting(time.monotonic(), _QUIET_SECONDS)
            case SessionPhase.RETRYING:
                left = changed.until - time.monotonic()
                self._write_line(f"… trying again in {math.ceil(left)} s: {changed.detail}")
                self._announce_waiting(changed.until, left + _QUIET_SECONDS)
            case SessionPhase.COMPACTING:
                self._write_line("… making room in the context")

    def _announce_waiting(self, since: float, patience: float) -> None:
        """Print what the command waits for after `patience` seconds without output, then at doubled intervals."""
        self._waiting_timer = asyncio.get_running_loop().call_later(patience, self._print_waiting, since, patience)

    def _print_waiting(self, since: float, patience: float) -> None:
        endpoint = self._session.ports.model.endpoint
        waited = time.monotonic() - since
        self._write_line(f"… waiting for {endpoint.model} at {endpoint.base_url}, {waited:.0f} s so far")
        self._announce_waiting(since, 2 * waited)

    def _print_event(self, event: Event) -> None:
        match event:
            case AssistantMessage():
                self._calls.update({call.uid: call for call in event.calls})
                if event.state != "truncated":
                    self._write_line("")
            case Intervention(kind=kind) if kind is not InterventionKind.TRUNCATED:
                self._write_line("")
            case ToolResult():
                self._write_line(f"· {self._describe_call(event.call)}: {_describe_result(event)}")
            case ProposalStaged():
                self._write_line(f"+ staged {event.proposal}: {event.summary}")
            case Question():
                self._write_line(f"? {event.text}")
            case UserNotice():
                self._write_line(f"! {event.text}")
            case _:
                pass

    def _describe_call(self, uid: str) -> str:
        """Return the tool of a call, and its file or command."""
        call = self._calls[uid]
        given = call.arguments or {}
        subject = next((given[key] for key in _DESCRIBING_ARGUMENTS if isinstance(given.get(key), str)), "")
        return f"{call.name} {subject}".strip().partition("\n")[0]

    def _write(self, text: str) -> None:
        if self._quiet:
            return
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            # The reader of standard error has closed it; continue without output.
            self._quiet = True

    def _write_streamed_text(self, text: str) -> None:
        shown = escape_unsafe(text)
        self._write(shown)
        self._column = 0 if shown.endswith("\n") else 1

    def _write_line(self, text: str) -> None:
        if self._column:
            self._write("\n")
            self._column = 0
        if text:
            self._write(escape_unsafe(text) + "\n")


def ask_about_hunk(arguments: argparse.Namespace) -> int:
    """Ask the model about a hunk and print the answer; neither becomes part of the conversation."""
    require_workspace_folder(arguments.workspace)
    if not arguments.question.strip():
        raise CommandError('There is nothing to ask: signoff ask P1 "what calls this?"', ExitCode.USAGE)
    return asyncio.run(_ask_and_print(arguments))


async def _ask_and_print(arguments: argparse.Namespace) -> int:
    runtime = open_workspace(Path(arguments.workspace), settings_from_flags(arguments))
    try:
        recover_interrupted_work_and_notify(runtime, print_error)
        proposal = runtime.service.get(arguments.id)
        place = _find_hunk_anchor(proposal, arguments.hunk)
        exchange = await ask_side_question_in_proposing_session(runtime, proposal, place, arguments.question)
        return _print_answer(exchange, json=arguments.json)
    finally:
        runtime.close()


async def ask_side_question_in_proposing_session(
    runtime: OpenWorkspace, proposal: Proposal, anchor: ProposalLocation, question: str
) -> SideExchange:
    """Ask a side question in the session that made the proposal, or the latest; return it with the answer.

    Raises CommandError.
    """
    settings = fill_in_picked_model(runtime)
    try:
        model = connect_model(runtime, settings)
    except ModelNotConfigured as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    session = create_or_resume_session(runtime, model, _find_asking_session(runtime, proposal), settings)
    try:
        return await ask_side_question_in_session(session, anchor, question)
    finally:
        await session.close()
        await model.aclose()


def _find_hunk_anchor(proposal: Proposal, number: int | None) -> ProposalLocation:
    """Return the place of the hunk with this number, of the only one, or of a file. Raises CommandError."""
    hunks = {hunk.number: (change.path, hunk.id) for change in proposal.files for hunk in change.hunks}
    if number is None and len(hunks) > 1:
        which = f"name one with --hunk N; `signoff show {proposal.id} --hunks` lists them"
        raise CommandError(f"{proposal.id} has {len(hunks)} hunks: {which}.", ExitCode.USAGE)
    if not hunks and number is None:
        return ProposalLocation(proposal.id, proposal.files[0].path)
    found = hunks.get(number) if number is not None else next(iter(hunks.values()))
    if found is None:
        raise CommandError(f"{proposal.id} has no hunk {number}.", ExitCode.USAGE)
    return ProposalLocation(proposal.id, *found)


def _find_asking_session(runtime: OpenWorkspace, proposal: Proposal) -> SessionRecord | None:
    """Return the session that made the proposal, or the latest one."""
    sessions = runtime.sessions
    return sessions.get(proposal.session) if sessions.exists(proposal.session) else sessions.latest()


async def ask_side_question_in_session(session: Session, anchor: ProposalLocation, question: str) -> SideExchange:
    """Ask a side question in a session; return it with its answer. Raises CommandError."""
    uid = await session.side_questions.ask(anchor, question)
    await session.side_questions.wait_until_idle()
    exchange = next(
        exchange for exchange in collect_side_exchanges(session.log.events) if exchange.question.uid == uid
    )
    if exchange.answer is None:
        raise CommandError("The answer could not be kept.")
    return exchange


def _print_answer(exchange: SideExchange, *, json: bool) -> int:
    """Print the answer on standard output and its note on standard error; return the exit code."""
    question, answer = exchange.question, exchange.answer or SideAnswer(question="", proposal="")
    spent = TokenTotals().add(answer.usage)
    if json:
        print_json(
            SideAnswerDocument(
                proposal=question.proposal,
                path=question.path,
                hunk=question.number or None,
                question=question.text,
                text=answer.text,
                state=answer.state,
                note=answer.note,
                spent=TokenUsageJson.model_validate(spent),
            )
        )
    elif answer.text.strip():
        print_line(answer.text.rstrip("\n"))
    if answer.state == "truncated":
        print_error(CUT_ANSWER)
    if answer.note:
        print_error(answer.note)
    return ExitCode.FAILED if answer.state == "failed" else ExitCode.DONE
