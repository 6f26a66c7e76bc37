"""`signoff mcp`: the MCP server on standard input and output; `signoff demo-server`: the demo model on loopback.

Hosts start the MCP server with every session, so this module imports little.
"""

import argparse
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.command_output import CommandError, ExitCode, print_error, print_part

if TYPE_CHECKING:
    from app.doors.mcp.proposal_tools import ProposalTools


def serve_mcp(arguments: argparse.Namespace) -> int:
    """Run the MCP server on standard input and output until the host ends it; always return 0."""
    from app.doors.mcp.door_server import McpDoorServer, MessageWriter, read_lines_until_stopped

    _require_pipes()
    if sys.stdin.isatty():
        sys.stderr.write(
            "signoff: An agent starts this command and speaks MCP with it; see docs/other-agents.md. Ctrl-D ends.\n"
        )
    # Send other output to standard error: the host would read it as a message.
    ending = _open_stop_descriptor()
    outlet = MessageWriter(os.dup(1), ending)
    os.dup2(2, 1)
    server = McpDoorServer(lambda: _load_tools(Path(arguments.workspace), arguments.wait), outlet.send)
    for line in read_lines_until_stopped(0, ending):
        server.handle_line(line)
    server.shut_down()
    return 0


def _require_pipes() -> None:
    """Raise CommandError if the host gave no pipes; if standard error is closed, open the null device for it."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError as error:
            if number < 2:
                raise CommandError("An MCP server needs standard input and output.", ExitCode.USAGE) from error
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            sys.stderr = os.fdopen(2, "w")


def _load_tools(workspace: Path, wait_seconds: int) -> "ProposalTools":
    from app.doors.mcp.proposal_tools import ProposalTools

    return ProposalTools(workspace, wait_seconds, print_error)


def _open_stop_descriptor() -> int:
    """Return a descriptor that is readable after a signal to end."""
    wanted, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: None)
    return wanted


def serve_demo(arguments: argparse.Namespace) -> ExitCode:
    """Serve the demo model until interrupted; print its base URL when it is ready."""
    import asyncio

    with suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(_serve_until_interrupted(arguments.port, arguments.tokens_per_second))
    return ExitCode.DONE


@asynccontextmanager
async def serve_demo_endpoint(
    tokens_per_second: float = 60.0, port: int = 0, sample_workspace: Path | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Serve the demo model for the `with` block; yield the settings that select it. Raises CommandError."""
    from app.demo.demo_server import DemoServerCannotListen, demo_server

    try:
        async with demo_server(tokens_per_second, port, sample_workspace) as settings:
            yield settings
    except DemoServerCannotListen as error:
        raise CommandError(str(error)) from error


async def _serve_until_interrupted(port: int, tokens_per_second: float) -> None:
    import asyncio

    async with serve_demo_endpoint(tokens_per_second, port) as settings:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        print_part(settings["base_url"] + "\n")
        await stopped.wait()
