"""`signoff keys`: every action with its keys, as the keymap has them.

Kept apart: of all commands just the one that runs is loaded.
"""

import argparse

from app.actions import ACTIONS
from app.cli.documents import KeyLine
from app.cli.output import Exit, print_json, print_line
from app.keymap import keys_of, spelled
from app.runtime.workspace import Runtime


def keys(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """List them in the order of the help screen."""
    keymap = runtime.settings.keys
    lines = [
        KeyLine(
            id=action.id, title=action.title, keys=list(keys_of(action, keymap)), scope=action.scope, help=action.help
        )
        for action in ACTIONS
    ]
    if arguments.json:
        print_json(lines)
        return Exit.DONE
    for line in lines:
        print_line(f"{line.id:<26} {'  '.join(map(spelled, line.keys)):<22} {line.help or line.title}")
    return Exit.DONE
