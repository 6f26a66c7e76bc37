"""`signoff demo-server`: the demo model by itself.

Kept apart: of all commands just the one that runs is loaded.
"""

import argparse
import asyncio
import signal
from contextlib import suppress

from app.cli.output import CommandError, Exit


def serve_demo(arguments: argparse.Namespace) -> Exit:
    """Serve until interrupted; prints the base URL when it is ready."""
    with suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(_serve(arguments.port, arguments.tokens_per_second))
    return Exit.DONE


async def _serve(port: int, tokens_per_second: float) -> None:
    from app.demo.server import DemoServerFailed, demo_server

    try:
        async with demo_server(tokens_per_second, port) as settings:
            stopped = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
            print(settings["base_url"], flush=True)
            await stopped.wait()
    except DemoServerFailed as error:
        raise CommandError(str(error)) from error
