"""`signoff import`: a session of what another program has kept of a conversation."""

import argparse
from pathlib import Path

from app.cli.documents import ImportDocument, RepairLine
from app.cli.output import CommandError, Exit, print_json, print_line
from app.conversation.events import AssistantMessage, Intervention, InterventionKind, Notice, ToolResult, UserMessage
from app.conversation.transcript_file import TranscriptError, read_transcript
from app.runtime.workspace import Runtime
from app.text.plural import plural

_FROM_ELSEWHERE = (
    "The conversation above was held in another program ({program}), with other tools. From here on, call only the "
    "tools that you are given now. Files may have changed since: read them before you rely on them."
)


def import_session(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Read a transcript as the events of a new session, and say what was repaired."""
    try:
        found = read_transcript(Path(arguments.file))
    except TranscriptError as error:
        raise CommandError(str(error), Exit.REFUSED) from error
    repaired = ", ".join(f"{what} ({count:,})" for what, count in found.repairs.items())
    told = f"Imported from {found.program}." + (f" Repaired or left out: {repaired}." if repaired else "")
    session = runtime.sessions.create()
    note = Intervention(kind=InterventionKind.FACT, text=_FROM_ELSEWHERE.format(program=found.program))
    runtime.sessions.append(session.id, [*found.events, note, Notice(text=told)])
    session = runtime.sessions.get(session.id)
    counts = {kind: found.count(kind) for kind in (UserMessage, AssistantMessage, ToolResult)}
    if arguments.json:
        print_json(
            ImportDocument(
                session=session.id,
                title=session.title,
                program=found.program,
                messages=counts[UserMessage],
                responses=counts[AssistantMessage],
                results=counts[ToolResult],
                repairs=[RepairLine(what=what, count=count) for what, count in found.repairs.items()],
            )
        )
        return Exit.DONE
    print_line(
        f"Session {session.id} from {found.program}: {plural(counts[UserMessage], 'message')} of yours, "
        f"{plural(counts[AssistantMessage], 'response')}, {plural(counts[ToolResult], 'tool result')}."
    )
    if repaired:
        print_line(f"Repaired or left out: {repaired}.")
    print_line(f"Go on with `signoff --session {session.id}`.")
    return Exit.DONE
