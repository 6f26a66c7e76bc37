"""`signoff --plain`: the chat as lines, for screen readers, plain terminals and logs."""

import asyncio
import signal
from collections import deque
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

from app.agent.session import Session
from app.agent.updates import PermissionRequested, PermissionResolved, SessionFailed, Update
from app.cli.app_arguments import AppArguments
from app.cli.command_output import CommandError, ExitCode, print_part
from app.cli.headless_run import (
    TurnProgressPrinter,
    ask_side_question_in_session,
    load_and_store_named_images,
    make_message_from_prompt_or_command,
)
from app.cli.open_app import open_workspace_for_app
from app.cli.plain_review import PlainReview
from app.cli.plain_terminal import LineInterrupted, PlainTerminal
from app.conversation.events import Event, ProposalLocation, SideExchange, TurnEnded
from app.keys.actions import parse_slash_command
from app.proposals.values.models import Proposal
from app.proposals.values.proposal_errors import ProposalError
from app.review.review_state import find_lasting_permission_forms
from app.runtime.model_connection import ModelNotConfigured, fill_in_picked_model
from app.runtime.session_host import SessionHost
from app.runtime.shutdown import exit_on_signals_even_if_stuck
from app.storage import StorageError
from app.tools.base.contract import PERMISSION_PURPOSES, PermissionAnswer, PermissionDuration, PermissionRequest
from app.ui.startup import WorkspaceWithOptions

_COMMAND_HELP = {
    "/review": "review what waits; /review P7 for that alone",
    "/continue": "let the model go on",
    "/help": "this help",
    "/quit": "leave, as Ctrl-D does",
}
_PERMISSION_ANSWERS = {
    "y": "yes, this once",
    "a": "yes, all of that form in this session",
    "n": "no",
    "r": "no, and say why",
    "?": "this help",
}


def open_plain_chat(arguments: AppArguments) -> int:
    """Run the chat until the user leaves; return the exit code."""
    return asyncio.run(_run_chat(arguments))


async def _run_chat(arguments: AppArguments) -> int:
    terminal = PlainTerminal()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, terminal.interrupt)
    async with AsyncExitStack() as stack:
        opened = await open_workspace_for_app(arguments, stack)
        chat = PlainChat(terminal, opened)
        left = asyncio.ensure_future(chat.run_conversation())
        codes: list[int] = []

        def leave(code: int) -> None:
            codes.append(code)
            left.cancel()

        with exit_on_signals_even_if_stuck(leave, lambda: False):
            try:
                await left
            except asyncio.CancelledError:
                if not codes:
                    raise
            finally:
                await chat.close()
        if not codes and not (arguments.demo and not arguments.workspace):
            terminal.print_lines(f"To go on with this session: signoff --plain --session {chat.session.id}")
        return codes[0] if codes else ExitCode.DONE


class _ChatPrinter(TurnProgressPrinter):
    """Prints the progress of turns in the chat, and queues permission requests for the user."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, quiet=False, commands=False, in_place=False)
        self._held_back_updates: list[Update] | None = None
        self.requests: deque[PermissionRequested] = deque()
        self.asked = asyncio.Event()
        """Set while a permission request is open."""

    def __call__(self, update: Update) -> None:
        match update:
            case PermissionResolved(key=key):
                self.forget(key)
            case _ if self._held_back_updates is not None:
                self._held_back_updates.append(update)
            case SessionFailed(message=message):
                self._write_line(f"! {message}")
            case _:
                super().__call__(update)

    def hold(self) -> None:
        """Hold the output back while the user reviews."""
        self.end_line()
        self._held_back_updates = []

    def release(self) -> None:
        """Print the output that was held back."""
        held, self._held_back_updates = self._held_back_updates or [], None
        for update in held:
            self(update)

    def forget(self, key: str) -> None:
        """Remove a permission request that was answered or withdrawn."""
        self.requests = deque(request for request in self.requests if request.key != key)
        if not self.requests:
            self.asked.clear()

    def _print_event(self, event: Event) -> None:
        super()._print_event(event)
        if isinstance(event, TurnEnded) and event.message:
            self._write_line(f"! {event.message}")

    def _answer_permission(self, request: PermissionRequested) -> None:
        self.requests.append(request)
        self.asked.set()

    def _write(self, text: str) -> None:
        print_part(text)


class PlainChat:
    """A conversation in lines: messages, the model's answers, its questions, permissions, and the review.

    Args:
        opened: The workspace with the options of the command line.
    """

    session: Session
    """The open session; set by `run_conversation`."""
    _printer: _ChatPrinter

    def __init__(self, terminal: PlainTerminal, opened: WorkspaceWithOptions) -> None:
        self._terminal = terminal
        self._record = opened.record
        self._runtime = opened.runtime
        self._host = SessionHost(opened.runtime, opened.settings, self._receive_update)
        self._review = PlainReview(terminal, opened.runtime, lambda: self._host.decisions, self._ask_aside)
        self._offered_revisions: set[tuple[str, int]] = set()
        """The pending proposals whose review was offered, by id and revision."""

    def _receive_update(self, update: Update) -> None:
        if hasattr(self, "_printer"):
            self._printer(update)
        elif isinstance(update, SessionFailed):
            self._terminal.print_lines(f"! {update.message}")

    async def _ask_aside(self, proposal: Proposal, place: ProposalLocation, question: str) -> SideExchange:
        return await ask_side_question_in_session(self.session, place, question)

    async def run_conversation(self) -> None:
        """Run the conversation until the user leaves. Raises CommandError if no model is connected."""
        try:
            await self._host.connect(fill_in_picked_model(self._runtime))
        except ModelNotConfigured as error:
            raise CommandError(str(error), ExitCode.USAGE) from error
        for line in await self._host.start():
            self._terminal.print_lines(f"! {line}")
        self.session = await self._host.open(self._record)
        if self.session.is_follower:
            raise CommandError(
                f"Session {self.session.id} is open in another window: go on there, or close it first.",
                ExitCode.REFUSED,
            )
        self._printer = _ChatPrinter(self.session)
        model = self.session.ports.model.endpoint.model
        self._terminal.print_lines(f"signoff in {self._runtime.workspace.root}, with {model}.")
        self._terminal.print_lines(
            "What the model edits waits for your yes. /help lists the commands, Ctrl-D leaves."
        )
        try:
            while await self._run_exchange():
                pass
        except EOFError:
            pass

    async def close(self) -> None:
        """End the turn and close the session."""
        await self._review.close()
        await self._host.close()

    async def _run_exchange(self) -> bool:
        """Wait for the model, offer a review, and take the user's next message; return False to leave."""
        try:
            await self._finish_turn()
            if await self._offer_review():
                return True
            return await self._read_and_send()
        except LineInterrupted:
            self._terminal.print_lines("Ctrl-D leaves.")
        except (ProposalError, StorageError, CommandError) as error:
            self._terminal.print_lines(str(error))
        return True

    # The model's turn

    async def _finish_turn(self) -> None:
        """Print the turn until its end; Ctrl-C stops it."""
        session, printer = self.session, self._printer
        self._terminal.on_interrupt = session.interrupt
        try:
            while session.is_busy:
                await _wait_for_first(session.wait_until_idle(), printer.asked.wait())
                while printer.requests:
                    await self._answer_permission(printer.requests[0])
        finally:
            self._terminal.on_interrupt = lambda: None
        printer.end_line()

    async def _answer_permission(self, request: PermissionRequested) -> None:
        """Ask the user for a permission."""
        self._printer.end_line()
        asked = request.permission_request
        forms = find_lasting_permission_forms(asked).forms
        self._print_permission_request(asked)
        if forms:
            self._terminal.print_lines(f"a allows for this session: {forms[0]}")
        try:
            key = await self._terminal.ask_for_decision(f"Allow it? [{','.join(_PERMISSION_ANSWERS)}]")
            if key == "r":
                lines = [line async for line in self._terminal.read_lines("Why not?", "only refuses")]
                answer = PermissionAnswer(allowed=False, feedback="\n".join(lines).strip("\n"))
            elif key in ("y", "n"):
                answer = PermissionAnswer(allowed=key == "y")
            elif key == "a":
                form = forms[0] if forms else None
                answer = PermissionAnswer(allowed=True, duration=PermissionDuration.SESSION, form=form)
            else:
                for one, words in _PERMISSION_ANSWERS.items():
                    self._terminal.print_lines(f"{one}  {words}")
                return
        except LineInterrupted:
            self.session.interrupt()
            self._printer.forget(request.key)
            return
        self._printer.forget(request.key)
        self.session.answer_permission_request(request.key, answer)

    def _print_permission_request(self, asked: PermissionRequest) -> None:
        where = "the workspace" if asked.folder in ("", ".") else asked.folder
        self._terminal.print_lines(
            f"{PERMISSION_PURPOSES[asked.kind]}{'' if asked.kind == 'server' else f' {where}'}:"
        )
        for line in asked.detail.split("\n"):
            self._terminal.print_lines(f"  {line}")
        for note in asked.notes:
            self._terminal.print_lines(note)

    # The user's turn

    async def _offer_review(self) -> bool:
        """Offer a review of proposals that were not offered before; return whether it took place."""
        waiting = await asyncio.to_thread(self._runtime.service.pending)
        new = [proposal for proposal in waiting if (proposal.id, proposal.revision) not in self._offered_revisions]
        self._offered_revisions |= {(proposal.id, proposal.revision) for proposal in new}
        if not new:
            return False
        names = ", ".join(proposal.id for proposal in waiting)
        verb = "waits" if len(waiting) == 1 else "wait"
        if not await self._terminal.confirm(f"{names} {verb}: review now?"):
            self._terminal.print_lines(f"{names} {verb} on; /review shows what waits.")
            return False
        await self._run_review([])
        return True

    async def _run_review(self, ids: list[str]) -> None:
        """Run the review, and print the model's held-back output afterwards."""
        self._printer.hold()
        try:
            await self._review.review(ids)
        finally:
            self._printer.release()
            waiting = await asyncio.to_thread(self._runtime.service.pending)
            self._offered_revisions |= {(proposal.id, proposal.revision) for proposal in waiting}
        wanted, self._review.goes_on = self._review.goes_on, False
        if wanted:
            await self._continue()
        elif self._review.approved and self._host.settings.continue_after_approval and not waiting:
            await self.session.resume()

    async def _continue(self) -> None:
        if not await self.session.resume():
            self._terminal.print_lines("There is nothing to continue yet; write a message.")

    async def _read_and_send(self) -> bool:
        """Read the user's next line and send it or run its command; return False to leave."""
        question = self.session.question
        for number, option in enumerate(question.options if question else (), 1):
            self._terminal.print_lines(f"  {number}. {option}")
        text = await self._read_message("Your answer: " if question else "> ")
        if text is None:
            return False
        if question is not None and text.isdecimal() and 1 <= int(text) <= len(question.options):
            text = question.options[int(text) - 1]
        name, argument = parse_slash_command(text.strip()) or ("", "")
        match f"/{name}":
            case _ if not text.strip():
                pass
            case "/quit":
                return False
            case "/help":
                for command, words in _COMMAND_HELP.items():
                    self._terminal.print_lines(f"{command}  {words}")
                self._terminal.print_lines("A line that ends with a backslash goes on with the next one.")
            case "/continue":
                await self._continue()
            case "/review":
                await self._run_review([self._runtime.service.get(name).id for name in argument.split()])
            case _:
                message = await asyncio.to_thread(make_message_from_prompt_or_command, self._runtime, text)
                wire = self.session.ports.model.profile.wire
                images = await load_and_store_named_images(
                    self._runtime, message.text, wire, "It is sent without them."
                )
                await self.session.send(message.text, message.command, images)
        return True

    async def _read_message(self, prompt: str) -> str | None:
        lines: list[str] = []
        while (line := await self._terminal.read_line("| " if lines else prompt)) is not None:
            lines.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                break
        return "\n".join(lines) if lines else None


async def _wait_for_first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return as soon as one of them has ended; cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
