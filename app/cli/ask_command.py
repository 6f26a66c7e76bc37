"""`signoff ask`: a side question about a hunk, answered on standard output."""

import argparse
import asyncio
from pathlib import Path

from app.agent.session import Session
from app.cli.app_arguments import settings_of_flags
from app.cli.command_output import CommandError, ExitCode, check_folder, print_error, print_json, print_line
from app.cli.json_documents import AnswerDocument, UsageLine
from app.conversation.events import SideAnswer, SideExchange, ThreadAnchor, side_exchanges
from app.conversation.token_totals import TokenTotals
from app.proposals.values.models import Proposal
from app.runtime.model_connection import NotConnected, connect, open_session, with_picked_model
from app.runtime.open_workspace import OpenWorkspace, open_runtime
from app.runtime.workspace_recovery import recover_and_report
from app.storage.session_store import SessionRecord


def ask(arguments: argparse.Namespace) -> int:
    """Ask the model about a hunk and print the answer; the conversation does not contain either."""
    check_folder(arguments.workspace)
    if not arguments.question.strip():
        raise CommandError('There is nothing to ask: signoff ask P1 "what calls this?"', ExitCode.USAGE)
    return asyncio.run(_ask(arguments))


async def _ask(arguments: argparse.Namespace) -> int:
    runtime = open_runtime(Path(arguments.workspace), settings_of_flags(arguments))
    try:
        recover_and_report(runtime, print_error)
        proposal = runtime.service.get(arguments.id)
        place = _place(proposal, arguments.hunk)
        settings = with_picked_model(runtime)
        try:
            model = connect(runtime, settings)
        except NotConnected as error:
            raise CommandError(str(error), ExitCode.USAGE) from error
        session = open_session(runtime, model, _record(runtime, proposal), settings)
        try:
            exchange = await _answered(session, place, arguments.question)
        finally:
            await session.close()
            await model.aclose()
        return _print(exchange, json=arguments.json)
    finally:
        runtime.close()


def _place(proposal: Proposal, number: int | None) -> ThreadAnchor:
    """The hunk of this number, the only one, or a file that has none."""
    hunks = {hunk.number: (change.path, hunk.id) for change in proposal.files for hunk in change.hunks}
    if number is None and len(hunks) > 1:
        which = f"name one with --hunk N; `signoff show {proposal.id} --hunks` lists them"
        raise CommandError(f"{proposal.id} has {len(hunks)} hunks: {which}.", ExitCode.USAGE)
    if not hunks and number is None:
        return ThreadAnchor(proposal.id, proposal.files[0].path)
    found = hunks.get(number) if number is not None else next(iter(hunks.values()))
    if found is None:
        raise CommandError(f"{proposal.id} has no hunk {number}.", ExitCode.USAGE)
    return ThreadAnchor(proposal.id, *found)


def _record(runtime: OpenWorkspace, proposal: Proposal) -> SessionRecord | None:
    """The session that proposed it, or else the latest."""
    sessions = runtime.sessions
    return sessions.get(proposal.session) if sessions.exists(proposal.session) else sessions.latest()


async def _answered(session: Session, place: ThreadAnchor, question: str) -> SideExchange:
    uid = await session.aside.ask(place, question)
    await session.aside.wait_until_idle()
    exchange = next(one for one in side_exchanges(session.log.events) if one.question.uid == uid)
    if exchange.answer is None:
        raise CommandError("The answer could not be kept.")
    return exchange


def _print(exchange: SideExchange, *, json: bool) -> int:
    """Print the answer on standard output, and remarks and usage on standard error."""
    question, answer = exchange.question, exchange.answer or SideAnswer(question="", proposal="")
    spent = TokenTotals().add(answer.usage)
    if json:
        print_json(
            AnswerDocument(
                proposal=question.proposal,
                path=question.path,
                hunk=question.number or None,
                question=question.text,
                text=answer.text,
                state=answer.state,
                note=answer.note,
                spent=UsageLine.model_validate(spent),
            )
        )
    elif answer.text.strip():
        print_line(answer.text.rstrip("\n"))
    if answer.note:
        print_error(answer.note)
    return ExitCode.FAILED if answer.state == "failed" else ExitCode.DONE
