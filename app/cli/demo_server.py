"""`signoff demo-server`: the demo model by itself."""

import argparse
from collections.abc import Sequence


def demo_server(arguments: argparse.Namespace) -> int:
    """Serve until interrupted; prints the base URL when it is ready."""
    from app.demo.server import main

    words: Sequence[str] = ["--port", str(arguments.port)]
    if arguments.tokens_per_second is not None:
        words = [*words, "--tokens-per-second", str(arguments.tokens_per_second)]
    if arguments.until_stdin_closes:
        words = [*words, "--until-stdin-closes"]
    return main(words)
