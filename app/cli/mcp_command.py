"""`signoff mcp`: serves the MCP server on standard input and output.

It has the standard streams for itself, and loads little, since hosts start it with every session.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from app.cli.command_output import print_error
from app.doors.mcp.door_server import DoorServer, MessageWriter, Tools, read_lines


def serve_mcp(arguments: argparse.Namespace) -> int:
    """Serve until the host closes standard input or sends a signal; always return 0."""
    _check_streams()
    if sys.stdin.isatty():
        sys.stderr.write(
            "signoff: An agent starts this command and speaks MCP with it; see docs/other-agents.md. Ctrl-D ends.\n"
        )
    # Whatever else prints goes to standard error: the host would take it for a message.
    ending = _ending()
    outlet = MessageWriter(os.dup(1), ending)
    os.dup2(2, 1)
    server = DoorServer(lambda: _tools(Path(arguments.workspace), arguments.wait), outlet.send)
    for line in read_lines(0, ending):
        server.receive(line)
    server.end()
    return 0


def _check_streams() -> None:
    """Raise CommandError if the host gave no pipes; put standard error where nobody minds, if there is none."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError as error:
            if number < 2:
                from app.cli.command_output import CommandError, ExitCode

                raise CommandError("An MCP server needs standard input and output.", ExitCode.USAGE) from error
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            sys.stderr = os.fdopen(2, "w")


def _tools(workspace: Path, wait_seconds: int) -> Tools:
    from app.doors.mcp.proposal_tools import ProposalTools

    return ProposalTools(workspace, wait_seconds, print_error)


def _ending() -> int:
    """A descriptor that has something to read once the host wants an end."""
    wanted, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: None)
    return wanted
