"""`signoff demo-server`: serves the demo model, alone or beside another command."""

import argparse
import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from app.cli.command_output import CommandError, ExitCode


def serve_demo(arguments: argparse.Namespace) -> ExitCode:
    """Serve the demo model until interrupted; print its base URL when it is ready."""
    with suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(_serve(arguments.port, arguments.tokens_per_second))
    return ExitCode.DONE


@asynccontextmanager
async def demo_endpoint(tokens_per_second: float = 60.0, port: int = 0) -> AsyncIterator[dict[str, Any]]:
    """Serve the demo model for the time of the context; yield the settings that select it. Raise `CommandError`."""
    from app.demo.demo_server import DemoServerFailed, demo_server

    try:
        async with demo_server(tokens_per_second, port) as settings:
            yield settings
    except DemoServerFailed as error:
        raise CommandError(str(error)) from error


async def _serve(port: int, tokens_per_second: float) -> None:
    async with demo_endpoint(tokens_per_second, port) as settings:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        print(settings["base_url"], flush=True)
        await stopped.wait()
