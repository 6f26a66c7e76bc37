"""Opens the app: workspace, demo if asked for, and the screen."""

import argparse
import asyncio
import tempfile
from pathlib import Path

from app.commands.output import CommandError, Exit
from app.commands.parser import flags_of
from app.runtime import Runtime, open_runtime
from app.storage.sessions import SessionRecord


def open_app(arguments: argparse.Namespace) -> int:
    """Run the app until the user leaves; returns the exit code."""
    if arguments.demo:
        return asyncio.run(_demo(arguments))
    return asyncio.run(_run(Path(arguments.workspace or "."), dict(flags_of(arguments)), arguments))


async def _demo(arguments: argparse.Namespace) -> int:
    """The app on the sample repository (or the given folder) and the demo model."""
    from app.demo.process import DemoServer
    from app.demo.requests import MODEL_ID
    from app.demo.sample import create_sample

    async with DemoServer() as server:
        flags = {
            **flags_of(arguments),
            "base_url": server.base_url,
            "model": MODEL_ID,
            "api_key": "demo",
        }
        if arguments.workspace:
            return await _run(Path(arguments.workspace), flags, arguments)
        with tempfile.TemporaryDirectory(prefix="signoff-demo-", ignore_cleanup_errors=True) as folder:
            root = await asyncio.to_thread(create_sample, Path(folder))
            return await _run(root, flags, arguments)


async def _run(root: Path, flags: dict[str, object], arguments: argparse.Namespace) -> int:
    runtime = open_runtime(root, flags)
    try:
        record = _record(runtime, arguments)
        from app.main import SignoffApp

        app = SignoffApp(runtime, runtime.settings, record=record, demo=arguments.demo)
        await app.run_async()
        return app.return_code or Exit.DONE
    finally:
        runtime.close()


def _record(runtime: Runtime, arguments: argparse.Namespace) -> SessionRecord | None:
    if arguments.session:
        return runtime.sessions.get(arguments.session)
    if not arguments.resume:
        return None
    latest = runtime.sessions.latest()
    if latest is None:
        raise CommandError("There is no session to continue here.", Exit.USAGE)
    return latest
